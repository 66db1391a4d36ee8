package worker

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// now returns the time in nanoseconds of a clock that all processes of the machine
// share and that is never set.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // every Linux has that clock
	}
	return t.Nano()
}

// processorTime returns the time in nanoseconds for which threads of this process have been on a
// processor. known is false on a system that does not tell.
func processorTime() (ns int64, known bool) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return t.Nano(), err == nil
}

// spin is the time before its end at which a sleep becomes a loop that reads the
// clock: about the time that the system needs to wake a thread.
const spin = 20_000

// sleepUntil returns when now has reached at. It is late by some microseconds if a
// processor is free, and by a time slice if none is.
func sleepUntil(at int64) {
	if now() < at-spin {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		// By default, threads sleep up to 50 us longer, so that the system may wake
		// several together. If that cannot be changed, the starts differ more.
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		t := unix.NsecToTimespec(at - spin)
		for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &t, nil), unix.EINTR) {
			continue // the runtime's own signals wake the thread early
		}
	}
	for now() < at {
		continue
	}
}
