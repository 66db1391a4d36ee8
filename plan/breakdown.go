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

// Breakdown returns the predicted times that the plan carries. The times of a plan that is
// not Priced are 0.
func (pl *Plan) Breakdown() Breakdown {
	devices := make([]StepTimes, len(pl.Devices))
	for i := range pl.Devices {
		devices[i] = pl.Devices[i].StepTimes
	}
	return NewBreakdown(devices)
}

// SetBreakdown writes predicted times into the plan: its cost, and the times of its devices.
// It panics where b has another number of devices than the plan.
func (pl *Plan) SetBreakdown(b Breakdown) {
	if len(b.Devices) != len(pl.Devices) {
		panic("plan: the breakdown has another number of devices than the plan")
	}
	pl.Predicted = b.Cost
	for i, d := range b.Devices {
		pl.Devices[i].StepTimes = d
	}
}
