package search

import (
	"cmp"
	"slices"
)

// The published search is the beam search as the paper describes it: it tries
// permutations of a division as separate divisions, caps every inner search and knows
// one rule.
//
// Method NeuroShard runs it too if the problem is small. Occasionally a slow path of
// single splits from the whole tables ends with a lower cost than all other starts, and
// no plan should become more expensive because of the repairs.

// published is the stage of the published search.
type published struct {
	// repaired says that the repaired search ran before, so that this stage can leave out
	// work that is then not needed.
	repaired bool
}

func (p published) apply(r *run, s state) (state, error) {
	if p.repaired {
		if !alsoPublished(s.forced) || r.status != Complete {
			return s, nil
		}
		r.limit = r.most // the number of pieces limits the work
		if r.annealsOnce() {
			// The annealing among all forms goes on from the placement that it has.
			before := s.best
			s, err := p.search(r, s)
			s.best, s.spare = before, s.best
			return s, err
		}
	} else {
		pieces, err := r.forced()
		if err != nil {
			return s, err
		}
		s.forced = r.catalog.divide(pieces)
	}
	return p.search(r, s)
}

// search runs the published search on the pieces after forced splits.
func (published) search(r *run, s state) (state, error) {
	g := grid{rules: []rule{leastSoFar}, thresholds: thresholds(r.opt.Grid)}
	known := permutations{}
	if r.opt.Forget {
		known = nil
	}
	s.starts, s.best = r.evaluate([]job{{s.forced, g}}, s.best, known)
	s.best = beamSearch(r, s, known, r.opt.Steps, func(beam []outcome, _ int) (jobs []job) {
		for _, parent := range beam {
			for _, at := range halvable(r.catalog, parent.division, r.opt.Candidates) {
				jobs = append(jobs, job{r.catalog.split(parent.division, at), g})
			}
		}
		return jobs
	})
	return s, nil
}

// halvable returns the positions in s of the pieces that the published search splits,
// in the order of their index: the n largest and the n most expensive pieces that have
// exact halves.
func halvable(c *catalog, s *division, n int) []int {
	positions := make([]int, len(s.entries))
	for i := range positions {
		positions[i] = i
	}
	positions = slices.DeleteFunc(byTurns(c, s, positions, n), func(at int) bool {
		left, right, ok := c.cut(s.entries[at].piece)
		return !ok || left != right
	})
	slices.SortFunc(positions, func(a, b int) int { return cmp.Compare(s.entries[a].index, s.entries[b].index) })
	return positions
}
