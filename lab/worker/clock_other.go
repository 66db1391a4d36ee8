//go:build !linux

package worker

import "time"

// now is the time in nanoseconds of a clock that all processes of the machine
// share. It may be set while ranks run, which then fail to agree on a start; this
// system offers no other that package time knows.
func now() int64 { return time.Now().UnixNano() }

// spin is how long before its end a sleep is left for a loop that watches the
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
