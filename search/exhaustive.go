package search

import (
	"math"
	"slices"
)

// The search tries all placements of a tiny problem, with undivided operators: every form of each table, and every way to distribute
// its columns over the places of the form (walk.go). Where these are too many, it tries those in slices of columns. A device may
// hold several slices of a table, as narrow slices of a wide table leave the lanes to the narrow tables beside them. Of empty devices
// that are alike only the first one is tried, unless it matters which devices share a host.
//
// The number of placements is counted before any cost is estimated. If there are too many, but few with at most one slice of a table
// on each device, the search tries those, and goes on from the cheapest of them.

const (
	// exhaustivePlacements is the largest number of placements for which the search tries them all.
	exhaustivePlacements = 40_000
	// exhaustiveSteps is the most slices that it places for them on few devices (stepsOn).
	exhaustiveSteps = 100 * exhaustivePlacements
)

// tryAll tries all placements in some forms if their number is small enough, and then sets complete in the state: no such placement
// with undivided operators is cheaper under the scorer than the best one. Otherwise, if partly, it tries the placements with at most
// one slice of a table on each device, if their number is small enough. Equal slices on a device are counted as one.
func tryAll(r *run, s *state, f *forms, partly bool) {
	c := r.catalog
	variants := variantsOf(c, f, true)
	w, few := countedWalk(r, variants, false)
	if !few {
		return
	}
	all := c.rules.EqualSlices
	if several, few := countedWalk(r, variants, true); few && !all {
		w, all = several, true
	}
	if !all && !partly {
		return
	}
	scorer, least, best := r.scorer(), math.Inf(1), []placed(nil)
	if s.best.parts != nil {
		least = s.best.cost
	}
	scorer.Reset()
	w.put = func(s placedSlice, sign int) {
		for _, p := range partsOf(c, []placedSlice{s}) {
			c.put(scorer, p, sign)
		}
	}
	w.visit = func() bool {
		r.stats.Evaluations += int64(len(c.all))
		if cost := scorer.Cost(); cost < least {
			if parts := partsOf(c, w.slices); !breaks(c, parts) {
				least, best = cost, parts
			}
		}
		return true
	}
	tried := w.table(0)
	if best != nil {
		s.best = r.offer(s.best, best)
	}
	scorer.Reset()
	if !tried {
		r.cutShort()
	}
	s.complete = all && tried && !c.rules.NoIdle
}

// countedWalk returns a walk through all placements that fit, and whether all placements are few, whatever bytes they take.
func countedWalk(r *run, variants [][]variant, several bool) (w *walk, few bool) {
	c, h := r.catalog, hierarchyOf(r.scorer())
	steps := stepsOn(len(c.all), exhaustiveSteps)
	if steps == 0 || uncutPlacements(variants, len(c.all)) > exhaustivePlacements {
		return nil, false // counting to the limit takes longer than most searches of few tables
	}
	alike := alikeIn(c, variants, h)
	roomy, n := *c, 0
	for f := range roomy.budget {
		roomy.budget[f] = 1 << 50
	}
	count, w := newWalk(&roomy, variants, steps, r.ended, alike), newWalk(c, variants, steps, r.ended, alike)
	count.several, w.several = several, several
	count.visit = func() bool { n++; return n <= exhaustivePlacements }
	return w, count.table(0)
}

// alikeIn reports whether two devices may change places. They may not if it matters which of them share a host, or if the first or the
// last block of a table's rows differs from the others.
func alikeIn(c *catalog, variants [][]variant, h Hierarchical) func(a, b int32) bool {
	apart, hosts, ends := c.onHost != nil || h != nil && h.HostSize() < len(c.all), false, false
	for _, v := range slices.Concat(variants...) {
		hosts = hosts || v.span == oneHost
		ends = ends || v.span != oneDevice && v.uneven(c)
	}
	return func(a, b int32) bool {
		first, last := c.endsOf(oneHost, a)
		end := a == first || a == last || b == first || b == last
		return !apart && c.base[a] == c.base[b] && !(hosts && hostOf(c, a) != hostOf(c, b)) && !(ends && end)
	}
}

// uneven reports whether the first or the last block of rows may differ from the others.
func (v *variant) uneven(c *catalog) bool {
	return v.first != v.own || v.last != v.own || c.problem.Tables[c.pieces[v.piece].members[0].table].Access.Sorted
}

// uncutPlacements returns the number of ways to divide the tables that may lie whole on any device into sets, one for each device
// at most, or a number above exhaustivePlacements if they are more than that. No problem has fewer placements than these.
func uncutPlacements(variants [][]variant, devices int) (all float64) {
	into := make([]float64, devices+1) // ways to divide the tables so far into a number of sets
	into[0], all = 1, 1
	for i := 0; i < len(variants) && all <= exhaustivePlacements; i++ {
		if !slices.ContainsFunc(variants[i], func(v variant) bool { return v.span == oneDevice && v.devices == nil && v.width <= v.widest }) {
			continue
		}
		all = 0
		for sets := devices; sets > 0; sets-- {
			into[sets] = float64(sets)*into[sets] + into[sets-1]
			all += into[sets]
		}
		into[0] = 0
	}
	return all
}
