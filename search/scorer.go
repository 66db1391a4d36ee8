package search

import "github.com/neuroshard/neuroshard/problem"

// Scorer estimates the cost of a placement under one cost model, step by step: the
// search adds a slice, asks for the time of a device, and tries the next slice.
//
// A Scorer serves one goroutine. Scorers made by the same Factory share their
// items. Times are milliseconds, finite, and do not depend on the order in
// which items were added (package searchtest checks an implementation).
type Scorer interface {
	// Item registers a slice of the table that is width columns wide and held in the form,
	// and returns the number that stands for the slice. The zero form is a slice in one
	// device's HBM. Where in the table the slice starts does not matter. The same
	// arguments give the same number. Item is only called while no other Scorer of the
	// factory is in use.
	//
	// Every Scorer estimates the zero form, and its documentation lists the other forms
	// that it estimates. Item panics if it is called with any other form: see
	// Options.ColumnsOnly.
	Item(table, width int, form problem.Form) int
	// Reset empties all devices.
	Reset()
	// Add puts an item on a device; the same item may be added again. An item with
	// sharding type table_row_wise goes to all devices of that device's host. An item with
	// sharding type row_wise or data_parallel goes to all devices, so any device may be
	// named.
	Add(device, item int)
	// Remove takes an item off a device, the exact inverse of Add.
	Remove(device, item int)
	// Compute returns the predicted time, in ms, of the fused forward and backward of what
	// the device holds, without the time that Shared counts. It contains the device's fixed
	// time (hardware.Topology.FixedTime), which is all that an empty device has.
	Compute(device int) float64
	// ComputeWith sets out[i] to what Compute(devices[i]) would return if item were added.
	// It does not change the placement.
	ComputeWith(item int, devices []int32, out []float64)
	// Cost returns the predicted cost of the whole placement in ms: compute and
	// communication, the maximum over devices. It contains Shared.
	Cost() float64
	// Shared returns the predicted time, in ms, that every device spends alike: on slices
	// that all devices hold, and on all exchanges except the all-to-alls of slices on
	// single devices. It is counted once, so that changing a slice that all devices hold
	// costs no more work than changing any other slice. It is 0 if nothing is shared.
	// A Scorer that hides a part of the exchanges (Hiding) leaves that part out.
	Shared() float64
}

// Factory makes Scorers that give the same estimates.
type Factory func() Scorer

// Joint is an optional interface of Scorers. Where Joint returns true, Cost depends on more than the longest Compute, the most
// columns of a device or host, and Shared, so that soft maxima of these tell less about it. Then the cold runs of the
// search go by Cost itself.
type Joint interface{ Joint() bool }

// Numbered is an optional interface of Scorers. Where Numbered returns true, Item takes forms
// of every Operator, and slices of a device in operators of different numbers do not fuse.
// The search asks other Scorers for operator 0 only.
type Numbered interface{ Numbered() bool }

// Hiding is an optional interface of Scorers. Where Hides returns true, the engine hides a part
// of the exchanges behind other work, and Cost is the longest Compute, plus Shared, plus what
// is left of both all-to-alls:
//
//	max(0, times[0]-free[0]) + max(0, times[1]-free[1])
//
// The search then does not balance columns for an all-to-all that is hidden anyway.
type Hiding interface {
	Hides() bool
	// AllToAlls returns, in ms, the times of the forward and of the backward all-to-all of the
	// slices on single devices in full, and free, what is hidden of each at most.
	AllToAlls() (times, free [2]float64)
}

// hidingOf returns the scorer as one that hides a part of the exchanges; nil if it hides none.
func hidingOf(s Scorer) Hiding {
	if h, ok := s.(Hiding); ok && h.Hides() {
		return h
	}
	return nil
}

// Hierarchical is an optional interface of Scorers. Where HostSize returns more than 0, the
// exchange is hierarchical (problem.Hierarchy): it takes the place of both all-to-alls of Hiding,
// whose Hides then returns true, and each of its directions takes
//
//	column x the most Columns of a device + hostColumn x the most HostColumns of a host + fixed
//
// The search then balances the columns of hosts, too.
type Hierarchical interface {
	// HostSize returns the number of devices that count as one host; 0 if exchanges are flat.
	HostSize() int
	// Columns and HostColumns return the pooled columns that a device sends inside its host,
	// and a host to others, without those of tables that all devices hold together: their
	// exchange is in Shared.
	Columns(device int) int64
	HostColumns(host int) int64
	// Rates returns the three times of a direction, in ms.
	Rates() (column, hostColumn, fixed float64)
}

// hierarchyOf returns the scorer as one with a hierarchical exchange; nil if exchanges are flat.
func hierarchyOf(s Scorer) Hierarchical {
	if h, ok := s.(Hierarchical); ok && h.HostSize() > 0 {
		return h
	}
	return nil
}
