package search

const (
	// Without a budget, the run makes scratchEvaluations, or scratchASlice for each slice, whichever is more. Under a budget of time
	// the first run makes scratchTrial.
	scratchEvaluations, scratchASlice, scratchTrial = 60_000, 30, 2_000
	// scratchHeat is the heat of the runs, which begin hot and cool down.
	scratchHeat = 1
)

// scratch anneals the first placement that fits, without the starts of the race, in one run that cools down over all evaluations; under a
// budget of time, in runs from that placement, each twice as long as the one before it. It takes the place of the race to compare with
// it (Options.FromScratch).
func scratch(r *run) (state, error) {
	s, err := fitted(r, false)
	if err != nil || s.best.parts == nil {
		return s, err
	}
	r.event.Phase = "anneal"
	c := &course{r: r, base: s.best, best: s.best, forms: r.forms}
	evaluations := max(scratchEvaluations, scratchASlice*int64(len(s.best.parts)))
	switch {
	case r.most > 0:
		evaluations = r.most
	case r.opt.Budget > 0:
		evaluations = scratchTrial
	}
	for once := true; once || r.opt.Budget > 0 && !c.over(); once = false {
		c.anneal([]racer{{s.best, mayNumber(r)}}, evaluations, scratchHeat, mover{})
		evaluations *= 2
	}
	c.noteEnd()
	r.scorer().Reset()
	s.best = c.best
	return s, nil
}
