package search

import (
	"cmp"
	"slices"
)

// The published search is the beam search as the paper describes it. It chooses which tables
// are split. From each of the K best divisions of a step, it splits each candidate piece in
// halves, one candidate for each child, runs the inner search on each child, and goes on with
// the K best of those. Candidates are the N largest pieces and the N most expensive.
//
//	step 0            {A B C}
//	                /    |    \
//	step 1   {a a B C} {A b b C} {A B c c}        timed by the inner search
//	             |         |         x            the K best go on (here K = 2)
//	step 2   {a a b b C} ...
//
// At most L * K * 2N inner searches are run, each on a grid of M thresholds. A division that is a
// permutation of one seen before ({a a b b C} above is reached twice) is a division of its own.

// published is the stage of the published search.
type published struct{}

func (published) apply(r *run, s state) (state, error) {
	pieces, err := r.forced()
	if err != nil {
		return s, err
	}
	s.forced = pieces
	known := permutations{}
	if r.opt.Forget {
		known = nil
	}
	outcomes, best := r.evaluate([]*division{r.catalog.divide(pieces)}, s.best, known)
	s.best = beamSearch(r, outcomes, best, known)
	return s, nil
}

// beamSearch runs the steps from the outcomes of the first divisions, and returns the cheapest
// placement of theirs and best.
func beamSearch(r *run, outcomes []outcome, best placement, known permutations) placement {
	r.event.Phase = "beam"
	for level := 1; level <= r.opt.Steps; level++ {
		if r.ended() {
			break
		}
		if r.most > 0 && r.stats.Evaluations >= r.most {
			r.exhausted()
			return best
		}
		slices.SortStableFunc(outcomes, compareOutcomes)
		var children []*division
		for _, parent := range outcomes[:min(r.opt.Beam, len(outcomes))] {
			for _, at := range halvable(r.catalog, parent.division, r.opt.Candidates) {
				children = append(children, r.catalog.split(parent.division, at))
			}
		}
		if len(children) == 0 {
			return best
		}
		r.event.Level = level
		r.stats.Levels = level
		outcomes, best = r.evaluate(children, best, known)
	}
	if r.ended() {
		r.cutShort()
	}
	return best
}

// halvable returns the positions in s of the pieces that the published search splits,
// in the order of their index: the n largest and the n most expensive pieces that have
// exact halves.
func halvable(c *catalog, s *division, n int) []int {
	n = min(n, len(s.entries))
	positions := make([]int, len(s.entries))
	for i := range positions {
		positions[i] = i
	}
	largest := slices.Clone(positions)
	slices.SortFunc(largest, func(a, b int) int { return c.largestFirst(s.entries[a], s.entries[b]) })
	both := append(positions[:n:n], largest[:n]...)
	slices.SortFunc(both, func(a, b int) int { return cmp.Compare(s.entries[a].index, s.entries[b].index) })
	return slices.DeleteFunc(slices.Compact(both), func(at int) bool {
		left, right, ok := c.cut(s.entries[at].piece)
		return !ok || left != right
	})
}
