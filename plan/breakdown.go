package plan

import (
	"math"

	"github.com/neuroshard/neuroshard/unit"
)

// StepTimes holds the times of one device in one training step, in the order in
// which they happen.
type StepTimes struct {
	// Forward is the time of the fused lookups. ForwardComm is the time of the exchange of
	// their results; it contains the wait for the slowest device.
	Forward, ForwardComm unit.Millis
	// BackwardComm is the time of the exchange of gradients, and Backward the time of
	// the fused gradients and weight updates.
	BackwardComm, Backward unit.Millis
}

// Total returns the sum of the four times.
func (t StepTimes) Total() unit.Millis {
	return t.Forward + t.ForwardComm + t.BackwardComm + t.Backward
}

// Breakdown is the cost of a whole placement, device by device.
type Breakdown struct {
	Devices []StepTimes
	// Cost is the largest Total of the devices. Critical is the device with that Total:
	// the first one, if several have it.
	Cost     unit.Millis
	Critical int
}

// NewBreakdown returns the breakdown of the given devices, which it keeps. Without
// devices, the cost is minus infinity.
func NewBreakdown(devices []StepTimes) Breakdown {
	b := Breakdown{Devices: devices, Cost: unit.Millis(math.Inf(-1))}
	for i, d := range devices {
		if d.Total() > b.Cost {
			b.Cost, b.Critical = d.Total(), i
		}
	}
	return b
}
