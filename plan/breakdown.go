package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/unit"
)

// StepTimes holds the times of one device in one training step, in the order in
// which they happen.
type StepTimes struct {
	// Forward is the time of the fused lookups. ForwardComm is the time of the exchange of
	// their results; it contains the wait for the slowest device.
	Forward     unit.Millis `json:"forward_ms"`
	ForwardComm unit.Millis `json:"forward_comm_ms"`
	// BackwardComm is the time of the exchange of gradients, and Backward the time of
	// the fused gradients and weight updates.
	BackwardComm unit.Millis `json:"backward_comm_ms"`
	Backward     unit.Millis `json:"backward_ms"`
	// ForwardHidden and BackwardHidden are the parts of both exchanges that the engine hides
	// (Hidden). They are not in ForwardComm, BackwardComm or Total.
	ForwardHidden  unit.Millis `json:"forward_hidden_ms,omitempty"`
	BackwardHidden unit.Millis `json:"backward_hidden_ms,omitempty"`
}

// Total returns the sum of the four times that are not hidden.
func (t StepTimes) Total() unit.Millis {
	return t.Forward + t.ForwardComm + t.BackwardComm + t.Backward
}

// Full returns the breakdown with nothing hidden: the times of a step without a dense part.
func (b Breakdown) Full() Breakdown {
	devices := slices.Clone(b.Devices)
	for i := range devices {
		d := &devices[i]
		d.ForwardComm += d.ForwardHidden
		d.BackwardComm += d.BackwardHidden
		d.ForwardHidden, d.BackwardHidden = 0, 0
	}
	return NewBreakdown(devices)
}

// Hidden says how much of the exchanges an engine hides: while a device works on the dense
// part, or on a part of it, its exchange costs nothing until that work ends. The zero value
// hides nothing.
type Hidden struct {
	// Forward and Backward are the most that is hidden of all forward exchanges of a step and
	// of all backward exchanges, at least 0 and finite. The wait for the slowest device is
	// never hidden.
	Forward  unit.Millis `json:"forward_ms"`
	Backward unit.Millis `json:"backward_ms"`
	// Replicas is true if the forward lookups of data_parallel tables hide the forward
	// exchanges, too: they need no exchange, so the engine runs them beside it.
	Replicas bool `json:"replicas"`
}

// Check returns an error if a time is negative or not finite.
func (h Hidden) Check() error {
	for _, of := range []struct {
		exchange string
		most     unit.Millis
	}{{"forward", h.Forward}, {"backward", h.Backward}} {
		if !valid(of.most) {
			return fmt.Errorf("%v ms are hidden of the %s exchanges: state a finite number of at least 0", float64(of.most), of.exchange)
		}
	}
	return nil
}

// Hide moves what is hidden of the exchanges of t from ForwardComm and BackwardComm to
// ForwardHidden and BackwardHidden. ForwardComm must not contain a wait yet. replicas is the
// forward time of the device's data_parallel tables.
func (h Hidden) Hide(t *StepTimes, replicas unit.Millis) {
	if h.Replicas {
		h.Forward += replicas
	}
	t.ForwardHidden, t.BackwardHidden = min(t.ForwardComm, h.Forward), min(t.BackwardComm, h.Backward)
	t.ForwardComm -= t.ForwardHidden
	t.BackwardComm -= t.BackwardHidden
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
