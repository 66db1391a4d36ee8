package search

import "slices"

// Stage greedy runs the inner search on starting divisions. Three facts make more than
// one start useful:
//
//   - A fused kernel runs as wide as its widest shard. So in some starts everything
//     wider than 64, 32 or 16 columns is split. On paper-like tasks of dims up to
//     128 on 8 devices they lowered the simulated cost by 18 % (a100-80, 12 tasks,
//     scored by the simulated device itself).
//   - Where memory is tight, small pieces leave small gaps.
//   - The beam makes ten splits, and ten splits change little among thousands of
//     tables. So in further starts, made from the best of these, everything is split
//     that takes longer than tau times the mean load of a device, for a grid of tau.

// taus is the grid of pre-splits: shares of the mean load of a device.
var taus = []float64{1, 0.7, 0.5, 0.35, 0.25}

// The default budget of the beam search is evaluations for any problem plus a number of
// inner searches.
const (
	baseBudget  = 250_000
	searchesFor = 200
)

// greedy is the stage that runs the inner search on starting divisions.
type greedy struct{}

func (greedy) apply(r *run, s state) (state, error) {
	// The first limit is an estimate of the work of an inner search.
	perRun := int64(len(s.fitting.entries)) * int64(2+min(len(r.catalog.all), shortlist)/2)
	if r.limit == 0 {
		r.limit = baseBudget + searchesFor*perRun
	}
	g := repairedGrid(r.opt.Grid)
	perGrid := perRun * int64(len(g.rules)*len(g.thresholds))
	s.starts, s.best = r.evaluate(r.afford(starts(r, s, g), s.best, perGrid), s.best, nil)
	slices.SortStableFunc(s.starts, compareOutcomes)
	finer, best := r.evaluate(r.afford(presplit(r, s.starts[0].division, g), s.best, perGrid), s.best, nil)
	s.starts, s.best = append(s.starts, finer...), best
	return s, nil
}

// repairedGrid returns the grid of method NeuroShard: it also runs without a cap, tries
// both rules and falls back on orders by memory.
func repairedGrid(n int) grid {
	return grid{rules: []rule{leastAfter, leastSoFar}, thresholds: append([]float64{uncapped}, thresholds(n)...), rescue: true}
}

// starts returns the jobs of the starting divisions: the pieces after forced splits;
// the pieces that first fit needs; everything split to some width; and, if memory is
// tight, everything split to small shares of a device.
func starts(r *run, s state, g grid) (jobs []job) {
	c, pieces := r.catalog, s.fitting.pieces()
	jobs = r.fresh(jobs, s.forced, g)
	jobs = r.fresh(jobs, s.fitting, g)
	for class := c.widest(pieces) - 1; class >= narrowest; class-- {
		jobs = r.fresh(jobs, c.divide(c.halved(pieces, func(k int32) bool { return c.pieces[k].class > class })), g)
	}
	if c.total(pieces) > c.room()/4*3 {
		for parts := int64(2); parts <= 8; parts *= 2 {
			jobs = r.fresh(jobs, c.divide(c.above(pieces, c.budget/parts)), g)
		}
	}
	return jobs
}

// presplit returns the jobs of divisions in which everything is split that takes longer
// than tau times the mean load of a device.
func presplit(r *run, from *division, g grid) (jobs []job) {
	c, pieces := r.catalog, from.pieces()
	mean := 0.0
	for _, k := range pieces {
		mean += c.pieces[k].alone / float64(len(c.all))
	}
	for _, tau := range taus {
		jobs = r.fresh(jobs, c.divide(c.halved(pieces, func(k int32) bool { return c.time(k) > tau*mean })), g)
	}
	return jobs
}
