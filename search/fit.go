package search

import (
	"errors"
	"slices"
)

// What fits is decided by bytes alone: first slices of columns in HBM, and then tables in all forms that they may take, if
// there is still no placement:
//
//	forced splits   a slice larger than a device's budget is cut in halves, and those
//	                again, until each fits; then first fit (firstfit.go)
//	the bound       whatever the variants of the tables, they take more bytes than there are (variants.go)
//	the pour        tables cut to the room that is left (pack.go)
//	all placements  of a small problem (walk.go)
//	settling        annealing of the pour until nothing overflows (pack.go)
//
// More memory never makes a problem infeasible, so a search that finds a placement with some memory should find one with more. That is
// certain if all placements were tried, as it is that none fits if the bound is above the memory.

// fitted returns a placement that fits, the cheapest one found on the way. If exhaustively, it tries all placements in slices
// of columns if these are few. It fails with *Infeasible or *NoShardingType if it finds none.
func fitted(r *run, exhaustively bool) (s state, err error) {
	f := &r.forms
	if err := f.possible(r.catalog, nil); err != nil {
		return s, err
	}
	if f.columns && (!f.any() || !slices.Contains(f.barred, true)) {
		s, err = inColumns(r, exhaustively)
		err = r.placed(s, err)
	}
	if !f.any() {
		return s, err
	}
	s.complete = false
	if err != nil && !errors.As(err, &s.infeasible) {
		return s, err
	}
	r.event.Phase = "forms"
	timeChoices(r)
	s, err = fill(r, s)
	r.scorer().Reset()
	return s, err
}

// timeChoices estimates the time of each whole table that may take other forms.
func timeChoices(r *run) {
	r.scorer().Reset()
	for t, choices := range r.forms.choices {
		if len(choices) > 0 {
			r.catalog.time(r.forms.whole[t])
		}
	}
}

// inColumns places slices of columns in HBM. It fails with *Infeasible if a table cannot be cut into slices that fit a
// device.
func inColumns(r *run, exhaustively bool) (s state, err error) {
	pieces, err := r.forced()
	if err != nil {
		return s, err
	}
	c, columns := r.catalog, onlyColumns(r.catalog)
	s.forced = pieces
	if devices, failed := firstFit(c, pieces); failed == none {
		s.best = r.offer(s.best, pair(s.forced, devices))
	}
	if s.best.parts == nil {
		var parts []placed
		if parts, s.proven = fitting(c, &columns, r.ended); parts != nil {
			s.best = r.offer(s.best, parts)
		}
	}
	for _, m := range Baselines() {
		if devices, failed := placeByKey(c, m, pieces, r.opt.Seed); failed == none {
			s.best = r.offer(s.best, pair(s.forced, devices))
		}
	}
	if exhaustively && r.most == 0 {
		tryAll(r, &s, &columns, true)
	}
	return s, nil
}

// fill makes tables fit in other forms, if there is no placement yet.
func fill(r *run, s state) (state, error) {
	if s.best.parts != nil {
		return s, nil
	}
	none := false
	for _, f := range r.forms.nested() { // so that the races among fewer forms have starts, if there are some
		var parts []placed
		if f.count() > 0 && s.best.parts == nil {
			parts, none = fitting(r.catalog, &f, r.ended)
		}
		if len(parts) > 0 {
			s.best = r.offer(s.best, parts)
		}
	}
	if s.best.parts == nil {
		return s, r.unfilled(s, none)
	}
	return s, nil
}

// unfilled returns the error of a search that found no placement in any form. none says
// that there is no placement.
func (r *run) unfilled(s state, none bool) error {
	if r.ended() && !none {
		return r.unfinished()
	}
	if s.infeasible == nil {
		return r.forms.noRoom(r.catalog, none)
	}
	s.infeasible.Tried, s.infeasible.Proven = r.forms.tried(), none
	return s.infeasible
}

// fitting returns a placement that fits, with a variant of each table. none is true
// if there is no placement: the tables take more bytes than all devices have, whatever
// their forms, or all placements were tried.
func fitting(c *catalog, f *forms, ended func() bool) (parts []placed, none bool) {
	variants := variantsOf(c, f, false)
	if _, _, ok := balanced(c, variants, 1); !ok {
		return nil, true
	}
	p := newPacker(c, variants)
	if p.overflow() == 0 {
		return p.packing(), false
	}
	if found, known := roomFor(c, variants, ended); known {
		return partsOf(c, found), len(found) == 0
	}
	return p.settled(f, ended), false
}
