package search

// Stage fit decides by bytes alone what fits, and offers the placements of simple
// methods.
//
//	forced splits   a slice larger than a device's budget is cut in halves, and those
//	                again, until each fits
//	first fit       if a piece finds no room, again on finer pieces (firstfit.go)
//	the packing     if first fit fails, slices of any width that fill the gaps
//	                (pack.go)
//	baselines       on the pieces after forced splits (baseline.go)

// fit is the stage that decides what fits. It fails with *Infeasible if all devices
// together lack room.
type fit struct{}

func (fit) apply(r *run, s state) (state, error) {
	pieces, err := r.forced()
	if err != nil {
		return s, err
	}
	s.forced = r.catalog.divide(pieces)
	return knownPlacements(r, s)
}

// knownPlacements offers the placements of first fit and of the baselines. If first fit
// finds none, it offers that of the packing instead.
func knownPlacements(r *run, s state) (state, error) {
	c, pieces := r.catalog, s.forced.pieces()
	devices, failed := firstFit(c, pieces)
	var packables []packable
	if failed != none {
		packables = packablesOf(c, pieces)
		if bytes, _ := fewest(c, packables); bytes > c.room() {
			return s, infeasible(c, r.opt.Method, pieces, devices, failed)
		}
	}
	finest := pieces
	fits := ladder(c, pieces, func(finer []int32) bool {
		finest = finer
		devices, failed = firstFit(c, finer)
		return failed == none
	})
	if !fits {
		if packed, on, ok := packing(c, pieces, packables, r.ended); ok {
			finest, devices, fits = packed, on, true
		}
	}
	if fits {
		s.best = r.offer(s.best, c.divide(finest), devices)
	}
	for _, m := range Baselines() {
		if devices, failed := placeByKey(c, m, pieces, r.opt.Seed); failed == none {
			s.best = r.offer(s.best, s.forced, devices)
		}
	}
	return s, nil
}
