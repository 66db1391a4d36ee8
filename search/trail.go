package search

import (
	"math"
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
	// reached lists, for each device whose time with a piece was estimated, the dim sum
	// with that piece. Each step stores the index where its part of the list ends.
	reached []int64
}

// choice is the device chosen for a piece.
type choice struct {
	// device is none if no device has room.
	device int32
	// scanned is the number of devices looked at.
	scanned int32
	// after is the device's predicted compute with the piece, if the rule computes it.
	after float64
	// stands is the lowest limit under which the same choice would be made.
	stands int64
}

// step is a choice with the data to undo it, and the run's totals up to it.
type step struct {
	// before is what the device held; it is not set if device is none.
	before  holding
	device  int32
	reached int32
	totals
}

// totals sum up a run.
type totals struct {
	// stands is the lowest limit under which the same choices would be made. widely is the
	// lowest limit under which, in addition, the same number of devices would be estimated
	// for them.
	stands, widely int64
	// peak is the highest dim sum of a device.
	peak int64
	// evaluations and scanned are the work.
	evaluations, scanned int64
}

func (r *trail) reset() {
	*r = trail{steps: r.steps[:0], reached: r.reached[:0]}
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
	s, from := &r.steps[n], int32(0)
	s.totals = totals{}
	if n > 0 {
		last := &r.steps[n-1]
		s.totals, from = last.totals, last.reached
	}
	s.device, s.reached = c.device, int32(len(r.reached))
	s.scanned += int64(c.scanned)
	if c.device == none {
		s.stands = math.MaxInt64
		return
	}
	s.before = *before
	s.stands = max(s.stands, c.stands)
	s.peak = max(s.peak, s.before.dims+p.dims)
	s.evaluations += int64(s.reached-from) + 1
	for _, dims := range r.reached[from:] {
		s.widely = max(s.widely, dims)
	}
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

// recount sets evaluations to the number that the steps take under a lower limit, under
// which fewer devices are estimated.
func (r *trail) recount(limit int64) {
	same := len(r.steps)
	for same > 0 && r.steps[same-1].widely > limit {
		same--
	}
	from, evaluations := int32(0), int64(0)
	if same > 0 {
		from, evaluations = r.steps[same-1].reached, r.steps[same-1].evaluations
	}
	for i := same; i < len(r.steps); i++ {
		s := &r.steps[i]
		evaluations++
		for _, dims := range r.reached[from:s.reached] {
			if dims <= limit {
				evaluations++
			}
		}
		s.evaluations = evaluations
		from = s.reached
	}
	r.reached = r.reached[:from]
}
