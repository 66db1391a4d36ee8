package search

import "time"

// Simulated annealing without the starts of the race. Its runs begin hot, at the first placement that fits, and cool down:
//
//	budget of time         a run of 2,000 evaluations, one that should take an eighth of the time
//	                       left, and then runs that should each take all of the time left
//	budget of evaluations  one run makes all of them
//	no budget              one run makes 60,000, or 30 for each slice if that is more
//
// It has the changes and the goal of the other runs of annealing (anneal.go). It takes the place of the race to compare with
// it (Options.FromScratch).

const (
	// scratchHeat is the heat of the runs, scratchTrial the evaluations of the first run under a
	// budget of time, and 1/secondRun the share of the time of the second one. A run plans for
	// inTime of the time left.
	scratchHeat  = 1
	scratchTrial = 2_000
	secondRun    = 8
	inTime       = .95
	// Without a budget, the run makes scratchEvaluations, or scratchASlice for each slice, whichever is more.
	scratchEvaluations, scratchASlice = 60_000, 30
)

// scratch anneals a simple placement.
func scratch(r *run) (state, error) {
	s, err := fitted(r, false)
	if err != nil || s.best.parts == nil {
		return s, err
	}
	r.event.Phase = "anneal"
	first := s.best.parts
	a := newAnnealing(r, s.best, r.forms)
	a.renumbers = mayNumber(r)
	if r.opt.Budget > 0 {
		untilEnd(a, first)
	} else {
		evaluations := max(scratchEvaluations, scratchASlice*int64(len(first)))
		if r.most > 0 {
			evaluations = a.left()
		}
		a.heat = scratchHeat
		a.from(first, evaluations)
		if r.most > 0 && r.status == Complete {
			r.exhausted()
		}
	}
	a.scorer.Reset()
	s.best = a.placement
	return s, nil
}

// untilEnd anneals from a placement until the budget of time ends.
func untilEnd(a *annealing, first []placed) {
	start, before, evaluations := remaining(a.r.ctx), a.r.stats.Evaluations, int64(scratchTrial)
	for runs := 0; a.left() > 0; runs++ {
		a.heat = scratchHeat
		a.from(first, evaluations)
		left := remaining(a.r.ctx)
		each := (start - left) / time.Duration(max(1, a.r.stats.Evaluations-before))
		evaluations = int64(inTime * float64(left/max(1, each)))
		if runs == 0 {
			evaluations /= secondRun
		}
		evaluations = max(scratchTrial, evaluations)
	}
}
