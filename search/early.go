package search

import "slices"

// Stage early anneals a simple placement under a budget of time, so that a search that has a few
// milliseconds has a good placement before the other stages have one:
//
//	fit | early 2,000 | greedy | early 6,000  18,000  54,000 | beam ... operators | longer
//
// Each run begins hot, at the placement of stage fit. The other stages do not go on from the
// result, and their evaluations do not count it, so that they do what they do without a budget.
// Stage longer compares the result with theirs.

// beforeGreedy and afterGreedy are the evaluations of the runs of stage early. Large problems
// have the former only, because of a large problem stage greedy soon finds better placements.
var beforeGreedy, afterGreedy = []int64{2_000}, []int64{6_000, 18_000, 54_000}

// early is the stage that anneals a simple placement.
type early struct{ runs []int64 }

func (e early) apply(r *run, s state) (state, error) {
	if r.opt.Budget == 0 || r.opt.From != nil || r.most > 0 || s.best.division == nil || r.status != Complete ||
		slices.Contains(r.forms.barred, true) {
		return s, nil
	}
	if s.simple == nil {
		s.simple = s.best.placed()
	} else if r.large(s.forced) {
		return s, nil
	}
	before, finalists := r.stats, r.finalists
	a := newAnnealing(r, s.best, r.forms)
	if s.aside.division != nil {
		a.placement = cheaper(s.best, s.aside)
	}
	a.renumbers, a.trades, a.heat = mayNumber(r), true, scratchHeat
	for _, evaluations := range e.runs {
		if a.left() > 0 {
			a.from(s.simple, evaluations)
		}
	}
	a.scorer.Reset()
	s.aside = a.placement
	r.asideCost = s.aside.cost
	r.aside.Evaluations += r.stats.Evaluations - before.Evaluations
	r.aside.Placements += r.stats.Placements - before.Placements
	r.stats, r.finalists = before, finalists
	return s, nil
}

// withAside returns the cheaper placement of the best one and that of stage early, and counts the
// work of stage early.
func withAside(r *run, s state) state {
	r.stats.Evaluations += r.aside.Evaluations
	r.stats.Placements += r.aside.Placements
	r.aside = Stats{}
	if s.aside.division != nil {
		s.best = cheaper(s.best, s.aside)
	}
	return s
}
