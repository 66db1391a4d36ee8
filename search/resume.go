package search

// The inner searches of a grid differ only in their limit on dim sums. A lower
// limit forbids devices and allows no others; so it makes the choices that the
// higher one made, until one of those passes it:
//
//	limit 1.5   1 0 2 2 0 1 1 2 0 2
//	limit 1.3   = = = = = = = 0 1 2     resumed at the eighth piece
//	limit 1.2   = = = = = 2 0 1 0 1     resumed at the sixth
//
// Caps bind late, so most of a run need not be run again: on the paper's tasks,
// a third of the steps is left. The work is counted as if it were, because
// budgets are counted in it and must not depend on what a worker did before.

// run is the inner search that a worker is in the middle of, or that it has
// ended: one step for each piece so far, and their totals.
type run struct {
	steps []step
	// reached lists, of the devices that were priced for a piece, what their dim
	// sums would have been with it; each step knows where its list ends.
	reached []int64
	// peak is the highest dim sum of a device.
	peak int64
	// evaluations and scanned are the work of the run from its start.
	evaluations, scanned int64
}

// step is a choice and what it takes to undo it.
type step struct {
	// stands, dims and before are the choice's lowest limit, the device's dim sum
	// with the piece, and what the device held without.
	stands, dims    int64
	before          holding
	device, scanned int32
	reached         int32
}

func (r *run) reset() {
	*r = run{steps: r.steps[:0], reached: r.reached[:0]}
}

// record appends a choice for piece p to the run, before it is carried out.
func (w *worker) record(p *piece, c choice) {
	r := &w.run
	from := int32(0)
	if n := len(r.steps); n > 0 {
		from = r.steps[n-1].reached
	}
	r.steps = append(r.steps, step{stands: c.stands, device: c.device, scanned: c.scanned, reached: int32(len(r.reached))})
	s := &r.steps[len(r.steps)-1]
	if c.device != none {
		s.before = w.devices[c.device]
		s.dims = s.before.dims + p.dims
	}
	r.count(s, int64(s.reached-from))
}

// count adds a step to the totals; priced is how many devices had room.
func (r *run) count(s *step, priced int64) {
	r.scanned += int64(s.scanned)
	if s.device != none {
		r.peak = max(r.peak, s.dims)
		r.evaluations += priced + 1
	}
}

// rewind takes back the steps of the run over pieces, from the first that an
// inner search with a lower limit would not take on.
func (w *worker) rewind(pieces []piece, limit int64) {
	r := &w.run
	kept := 0
	for kept < len(r.steps) && r.steps[kept].device != none && r.steps[kept].stands <= limit {
		kept++
	}
	for i := len(r.steps) - 1; i >= kept; i-- {
		s, p := &r.steps[i], &pieces[i]
		if s.device == none {
			continue
		}
		w.unload(s.device, p)
		w.devices[s.device] = s.before
		w.assigned[p.index] = none
	}
	if w.ranks != nil && kept < len(r.steps) {
		w.ranks.fill(w.devices)
	}
	r.steps = r.steps[:kept]
	r.peak, r.evaluations, r.scanned = 0, 0, 0
	from := int32(0)
	for i := range r.steps {
		s := &r.steps[i]
		priced := int64(0)
		for _, dims := range r.reached[from:s.reached] {
			if dims <= limit {
				priced++
			}
		}
		r.count(s, priced)
		from = s.reached
	}
	r.reached = r.reached[:from]
}
