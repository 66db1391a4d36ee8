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

// On a large problem (run.large) ten splits change nothing. The annealing (anneal.go) then
// does more than the beam, and it does most from a division of few slices, even if other
// divisions cost less at first. So stage beam is left out there, and the annealing also
// begins at placements of three coarse divisions, in which everything is split that takes
// longer than the mean load of a device, or is wider than 32 or 64 columns.

// coarseClasses are the widest width classes of the coarse divisions, and coarseThreshold is
// the limit on their dim sums.
var coarseClasses = []uint8{5, 6, classes}

const coarseThreshold = 1.05

// greedy is the stage that runs the inner search on starting divisions.
type greedy struct{}

func (greedy) apply(r *run, s state) (state, error) {
	if r.ended() && s.best.division != nil {
		r.cutShort()
		return s, nil
	}
	// The first limit is an estimate of the work of an inner search.
	perRun := int64(len(s.fitting.entries)) * int64(2+min(len(r.catalog.all), shortlist)/2)
	if r.limit == 0 {
		r.limit = baseBudget + searchesFor*perRun
	}
	large := r.large(s.forced)
	g := repairedGrid(r.opt.Grid)
	if large {
		g = thinGrid(r.opt.Grid)
	}
	perGrid := perRun * int64(len(g.rules)*len(g.thresholds))
	s.starts, s.best = r.evaluate(r.afford(starts(r, s, g), s.best, perGrid), s.best, nil)
	slices.SortStableFunc(s.starts, compareOutcomes)
	finer, best := r.evaluate(r.afford(presplit(r, s.starts[0].division, g), s.best, perGrid), s.best, nil)
	s.starts, s.best = append(s.starts, finer...), best
	if large {
		s = coarse(r, s, perRun)
		s.starts = nil // no beam sets out from them
		for _, w := range r.workers {
			w.trail = trail{}
		}
	}
	return s, nil
}

// coarse adds to the state a placement of each coarse division. perRun is the work of an
// inner search.
func coarse(r *run, s state, perRun int64) state {
	c := r.catalog
	g := grid{rules: []rule{leastAfter}, thresholds: []float64{coarseThreshold}, rescue: true}
	var jobs []job
	for _, class := range coarseClasses {
		pieces := c.halved(s.fitting.pieces(), func(k int32) bool { return c.pieces[k].class > class })
		mean := c.meanTime(pieces)
		jobs = append(jobs, job{c.divide(c.halved(pieces, func(k int32) bool { return c.time(k) > mean })), g})
	}
	outcomes, best := r.evaluate(r.afford(jobs, s.best, perRun), s.best, nil)
	s.best = best
	for _, o := range outcomes {
		if o.lack == 0 && !breaks(c, o.placement) {
			s.coarse = append(s.coarse, o.placed())
		}
	}
	return s
}

// repairedGrid returns the grid of method NeuroShard: it also runs without a cap, tries
// both rules and falls back on orders by memory.
func repairedGrid(n int) grid {
	return grid{rules: []rule{leastAfter, leastSoFar}, thresholds: append([]float64{uncapped}, thresholds(n)...), rescue: true}
}

// thinGrid returns the grid for a large problem: one rule, and three thresholds instead of n
// beside no cap.
func thinGrid(n int) grid {
	g := repairedGrid(min(n, 3))
	g.rules = []rule{leastAfter}
	return g
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
	mean := c.meanTime(pieces)
	for _, tau := range taus {
		jobs = r.fresh(jobs, c.divide(c.halved(pieces, func(k int32) bool { return c.time(k) > tau*mean })), g)
	}
	return jobs
}
