package worker

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// now is the time in nanoseconds of a clock that all processes of the machine
// share and that is never set.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // every Linux has that clock
	}
	return t.Nano()
}

// spin is how long before its end a sleep is left for a loop that watches the
// clock: about what the system needs to wake a thread.
const spin = 20_000

// sleepUntil returns when now has reached at. It is off by some microseconds
// where a processor is free, and by a time slice where none is.
func sleepUntil(at int64) {
	if now() < at-spin {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		// Threads sleep up to 50 us longer by default, so that the system may wake
		// several at once. Where that cannot be changed, the starts scatter more.
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
