//go:build !linux

package worker

import "time"

var started = time.Now()

// now returns the time of a clock that is never set.
func now() time.Duration { return time.Since(started) }

// hasProcessorTime says whether this system tells processor time, which package time does not know.
const hasProcessorTime = false

func processorTime() time.Duration { return 0 }

func threadTime() time.Duration { return 0 }

// sleepUntil returns when now has reached at.
func sleepUntil(at time.Duration) {
	if left := at - now() - time.Millisecond; left > 0 { // timers may be a millisecond late
		time.Sleep(left)
	}
	for now() < at {
		continue
	}
}
