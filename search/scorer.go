package search

import "github.com/neuroshard/neuroshard/problem"

// Scorer prices shards on devices under one cost model, step by step: the
// search adds a shard, asks what a device costs now, and tries the next.
//
// A Scorer serves one goroutine. Scorers made by the same Factory share their
// items. Times are milliseconds, finite, and do not depend on the order in
// which items were added (package searchtest checks an implementation).
type Scorer interface {
	// Item registers a slice of the table that is width columns wide, and
	// returns the number that stands for it. Where in the table the slice lies
	// does not matter. The same arguments give the same number. It is only
	// called while no other Scorer of the factory is in use.
	Item(table, width int) int
	// Reset empties all devices.
	Reset()
	// Add puts an item on a device; the same item may be added again.
	Add(device, item int)
	// Remove takes an item off a device, the exact inverse of Add.
	Remove(device, item int)
	// Compute returns the predicted time of the fused forward and backward of
	// what the device holds, 0 when it is empty.
	Compute(device int) float64
	// ComputeWith sets out[i] to what Compute(devices[i]) would return with item
	// added. It changes nothing.
	ComputeWith(item int, devices []int32, out []float64)
	// Cost returns the predicted cost of the whole placement: compute and
	// communication, the maximum over devices.
	Cost() float64
}

// Factory makes Scorers that price alike.
type Factory func() Scorer

// Form is how a slice of a table is held: see problem.Form.
type Form = problem.Form

// Spreader is a Scorer that also prices slices in other forms than the zero one, which
// Item stands for. Those that are alike on all devices count once, in Shared, so that
// a change of one costs no more than that of any other.
type Spreader interface {
	Scorer
	// ItemOf registers a slice of the table, width columns wide, in a form. The same
	// arguments give the same number, and with the zero Form that of Item. Add and
	// Remove take these numbers with any device: an item by rows of a host goes to all
	// devices of that device's host; one by rows of all devices, or replicated, to all.
	// ComputeWith and, for what is not Shared, Compute count all forms.
	ItemOf(table, width int, form Form) int
	// Shared returns the predicted time, in ms, that every device spends alike: on
	// slices that all of them hold, and on all exchanges but those of the all-to-alls
	// of slices on single devices. Cost contains it.
	Shared() float64
}

// Additive is what Scorers are besides, or say they are not, in which the price of a
// device is the sum of its items'. The search then leaves out what serves the fusing of
// slices only.
type Additive interface{ Additive() bool }

func addsUp(s Scorer) bool {
	a, ok := s.(Additive)
	return ok && a.Additive()
}
