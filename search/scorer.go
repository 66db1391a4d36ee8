package search

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
