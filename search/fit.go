package search

// What fits is decided by bytes alone. Stage fit places slices of columns in HBM, and stage fill tables in all
// forms that they may take, if there is still no placement:
//
//	forced splits   a slice larger than a device's budget is cut in halves, and those
//	                again, until each fits; then first fit (firstfit.go)
//	the bound       whatever the variants of the tables, they take more bytes than there are (variants.go)
//	the pour        tables cut to the room that is left (pack.go)
//	all placements  of a small problem (room.go)
//	settling        changes that remove the overflow of the pour (pack.go)
//
// More memory never makes a problem infeasible. So a search that finds a placement with
// some memory should find one with more memory, too. That is certain if all
// placements were tried. If a problem is too large for that, the search may find a placement with some
// memory and none with a little more. It fails for certain if the bound is above the memory.

// fit is the stage that places slices of columns in HBM. It fails with *Infeasible if a
// table cannot be cut into slices that fit a device.
type fit struct{}

func (fit) apply(r *run, s state) (state, error) {
	pieces, err := r.forced()
	if err != nil {
		return s, err
	}
	c, columns := r.catalog, onlyColumns(r.catalog)
	s.forced = pieces
	if devices, failed := firstFit(c, pieces); failed == none {
		s.best = r.offer(s.best, pair(s.forced, devices))
	} else if parts, none := fitting(c, &columns, r.ended); parts != nil {
		s.best = r.offer(s.best, parts)
	} else {
		s.proven = none
	}
	for _, m := range Baselines() {
		if devices, failed := placeByKey(c, m, pieces, r.opt.Seed); failed == none {
			s.best = r.offer(s.best, pair(s.forced, devices))
		}
	}
	return s, nil
}

// fill is the stage that makes tables fit in other forms. It fails with *Infeasible or
// *NoShardingType if it finds no placement.
type fill struct{}

func (fill) apply(r *run, s state) (state, error) {
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
	variants := variantsOf(c, f)
	if _, _, ok := balanced(c, variants, 1); !ok {
		return nil, true
	}
	p := newPacker(c, variants)
	if p.overflow() == 0 {
		return partsOf(c, p.packing()), false
	}
	if found, known := roomFor(c, variants, ended); known {
		return partsOf(c, found), len(found) == 0
	}
	p.settle(ended)
	return partsOf(c, p.packing()), false
}
