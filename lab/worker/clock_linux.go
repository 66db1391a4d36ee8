package worker

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// now returns the time of a clock that is never set.
func now() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

// processorTime returns the time for which threads of this process have been on a processor, and
// threadTime that of the calling thread.
func processorTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// hasProcessorTime says whether this system tells processor time.
const hasProcessorTime = true

func clock(id int32) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(id, &t) // every Linux has these clocks
	return time.Duration(t.Nano())
}

// spin is the time before its end at which a sleep becomes a loop that reads the
// clock: about the time that the system needs to wake a thread.
const spin = 20 * time.Microsecond

// sleepUntil returns when now has reached at. It is late by some microseconds if a
// processor is free, and by a time slice if none is.
func sleepUntil(at time.Duration) {
	if now() < at-spin {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		// By default, threads sleep up to 50 us longer, so that the system may wake
		// several together. If that cannot be changed, the starts differ more.
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		t := unix.NsecToTimespec((at - spin).Nanoseconds())
		for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &t, nil), unix.EINTR) {
			continue // the runtime's own signals wake the thread early
		}
	}
	for now() < at {
		continue
	}
}
