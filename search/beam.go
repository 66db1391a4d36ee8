package search

import "slices"

// Stage beam chooses which tables are split. From each of the K best divisions of a
// step, it splits each candidate piece in halves, one candidate for each child, runs
// the inner search on each child, and goes on with the K best of those. Candidates are
// the N largest pieces and the N most expensive.
//
//	step 0            {A B C}
//	                /    |    \
//	step 1   {a a B C} {A b b C} {A B c c}        timed by the inner search
//	             |         |         x            the K best go on (here K = 2)
//	step 2   {a a b b C} ...
//
// At most L * K * 2N inner searches are run, each on a grid of M thresholds.
//
// The published search (published.go) is exactly this. Stage beam repairs it:
//
//   - A division that is a permutation of one seen before ({a a b b C} above is
//     reached twice) is not searched again.
//   - Divisions that do not fit are ranked by the bytes they lack; the published
//     search treats them all alike.
//   - Pieces that cannot be split are not counted among the candidates.
//   - The inner search also goes without a cap, tries both rules, and falls back on
//     orders by memory (inner.go).
//   - The beam sets out from the starts of stage greedy.
//
// The work is limited by a budget of evaluations, not of time, so that the result does
// not depend on the machine: if one inner search is expensive, fewer children are
// tried, and on fewer thresholds.

// beamSteps is the number of steps of stage beam if all shapes are tried and the caller does not
// steer the beam: the shapes find most of what further steps would find (docs/evidence/SEARCH.md).
const beamSteps = 3

// beam is the stage that splits pieces step by step.
type beam struct{}

func (beam) apply(r *run, s state) (state, error) {
	if r.annealsOnce() || len(s.coarse) > 0 {
		return s, nil
	}
	e := expansion{
		grid:     repairedGrid(r.opt.Grid),
		perRun:   max(1, r.stats.Evaluations/int64(max(1, r.stats.Placements))),
		perState: max(1, r.stats.Evaluations/int64(max(1, r.stats.States))),
	}
	steps := r.opt.Steps
	if !r.opt.steersBeam() && allShapes(r.catalog) {
		steps = min(steps, beamSteps)
	}
	left := r.opt.Steps - steps // a step may spend the same evaluations as if all steps were made
	s.best = beamSearch(r, s, nil, steps, func(beam []outcome, steps int) []job { return children(r, beam, left+steps, e) })
	return s, nil
}

// beamSearch runs the steps of a beam search from the outcomes of the starting divisions.
// expand returns the children of the surviving divisions, given how many steps remain.
func beamSearch(r *run, s state, known permutations, steps int, expand func(beam []outcome, steps int) []job) placement {
	r.event.Phase = "beam"
	before := r.event.Level
	outcomes := s.starts
	for level := 1; level <= steps; level++ {
		if r.ended() {
			break
		}
		if r.limit > 0 && r.stats.Evaluations >= r.limit {
			r.exhausted()
			return s.best
		}
		slices.SortStableFunc(outcomes, compareOutcomes)
		jobs := expand(outcomes[:min(r.opt.Beam, len(outcomes))], steps-level+1)
		if len(jobs) == 0 {
			return s.best
		}
		r.event.Level = before + level
		r.stats.Levels = r.event.Level
		outcomes, s.best = r.evaluate(jobs, s.best, known)
	}
	if r.ended() {
		r.cutShort()
	}
	return s.best
}

// expansion says how stage beam chooses children, and how much work they take.
type expansion struct {
	grid grid
	// perRun is the estimated number of evaluations of one inner search, and perState that
	// of a whole grid.
	perRun, perState int64
}

// children returns the divisions to try next, each once, the likeliest first. Their
// number is what the budget allows if that number of steps is still to come. If the
// budget does not allow whole grids, a child gets the one inner search that was best
// for its parent.
func children(r *run, beam []outcome, steps int, e expansion) (jobs []job) {
	allowance, each := (r.limit-r.stats.Evaluations)/int64(steps), e.perState
	thin := allowance < each*int64(r.opt.Beam*r.opt.Candidates)
	if thin {
		r.exhausted()
		each = e.perRun
	}
	candidates := make([][]int, len(beam))
	longest := 0
	for i, parent := range beam {
		candidates[i] = splittable(r.catalog, parent.division, r.opt.Candidates)
		longest = max(longest, len(candidates[i]))
	}
	for rank := range longest {
		for i, parent := range beam {
			if rank >= len(candidates[i]) || int64(len(jobs)+1)*each > allowance {
				continue
			}
			g := e.grid
			if thin {
				g = parent.again()
			}
			jobs = r.fresh(jobs, r.catalog.split(parent.division, candidates[i][rank]), g)
		}
	}
	return jobs
}

// again returns a grid that holds only the inner search that was best.
func (o *outcome) again() grid {
	if o.lack > 0 {
		return grid{rules: []rule{leastAfter}, thresholds: []float64{uncapped}, rescue: true}
	}
	return grid{rules: []rule{o.rule}, thresholds: []float64{o.threshold}}
}

// splittable returns the positions of the n most expensive and the n largest pieces in
// s that can be split, by turns.
func splittable(c *catalog, s *division, n int) []int {
	var positions []int
	taken := make(map[int32]bool, len(s.entries))
	for i, p := range s.entries {
		if _, _, ok := c.cut(p.piece); ok && !taken[p.piece] {
			taken[p.piece] = true
			positions = append(positions, i)
		}
	}
	return byTurns(c, s, positions, n)
}

// byTurns returns the first n of the positions and the n of most bytes, by turns, each
// once.
func byTurns(c *catalog, s *division, positions []int, n int) []int {
	n = min(n, len(positions))
	largest := slices.Clone(positions)
	slices.SortFunc(largest, func(a, b int) int { return c.largestFirst(s.entries[a], s.entries[b]) })
	var both []int
	for i := range n {
		for _, at := range []int{positions[i], largest[i]} {
			if !slices.Contains(both, at) {
				both = append(both, at)
			}
		}
	}
	return both
}
