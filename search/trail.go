package search

import (
	"slices"
)

// The inner searches of a grid differ only in their limit on dim sums. A lower limit
// forbids devices and allows no others. So the search with the lower limit makes the
// choices of the one with the higher limit, up to the first choice beyond its limit:
//
//	limit 1.5   1 0 2 2 0 1 1 2 0 2
//	limit 1.3   = = = = = = = 0 1 2     resumed at the eighth piece
//	limit 1.2   = = = = = 2 0 1 0 1     resumed at the sixth
//
// Caps forbid devices only late in a run, so most choices are copied: on the paper's
// tasks, a third to half of the steps remain to be made. The work is counted as if all
// steps were made, because budgets are counted in work and must not depend on what a
// worker did before.

// trail is the run of an inner search that a worker is making or has ended: one step
// for each piece so far.
type trail struct {
	steps []step
}

// choice is the device chosen for a piece.
type choice struct {
	// device is none if no device has room.
	device int32
	// scanned is the number of devices looked at.
	scanned int32
	// stands is the lowest limit under which the same choice would be made.
	stands int64
}

// step is a choice with the data to undo it, and the run's totals up to it.
type step struct {
	// before is what the device held.
	before holding
	device int32
	totals
}

// totals sum up a run.
type totals struct {
	// stands is the lowest limit under which the same choices would be made.
	stands int64
	// peak is the highest dim sum of a device.
	peak int64
	// evaluations and scanned are the work.
	evaluations, scanned int64
}

func (r *trail) reset() {
	r.steps = r.steps[:0]
}

// totals returns the totals of the run so far.
func (r *trail) totals() totals {
	if n := len(r.steps); n > 0 {
		return r.steps[n-1].totals
	}
	return totals{}
}

// record appends a choice for piece p to the run, before the piece is placed. before is
// what the chosen device holds.
func (r *trail) record(p *entry, c *choice, before *holding) {
	n := len(r.steps)
	if n == cap(r.steps) {
		r.steps = slices.Grow(r.steps, n+1)
	}
	r.steps = r.steps[:n+1]
	s := &r.steps[n]
	s.totals = totals{}
	if n > 0 {
		s.totals = r.steps[n-1].totals
	}
	s.device, s.before = c.device, *before
	s.scanned += int64(c.scanned)
	s.stands = max(s.stands, c.stands)
	s.peak = max(s.peak, s.before.dims+p.dims)
	s.evaluations++
}

// standing returns the number of steps, from the start, that an inner search with a
// lower limit would take as well.
func (r *trail) standing(limit int64) int {
	kept := len(r.steps)
	for kept > 0 && r.steps[kept-1].stands > limit {
		kept--
	}
	return kept
}
