//go:build !linux

package worker

import "time"

// now returns the time in nanoseconds of a clock that all processes of the machine
// share. If the clock is set while ranks run, they do not agree on a start; package
// time has no other clock for this system.
func now() int64 { return time.Now().UnixNano() }

// processorTime returns the time for which threads of this process have been on a processor, which
// package time does not know.
func processorTime() (ns int64, known bool) { return 0, false }

// spin is the time before its end at which a sleep becomes a loop that reads the
// clock: timers may be a millisecond late.
const spin = 1_000_000

// sleepUntil returns when now has reached at.
func sleepUntil(at int64) {
	if left := at - now() - spin; left > 0 {
		time.Sleep(time.Duration(left))
	}
	for now() < at {
		continue
	}
}
