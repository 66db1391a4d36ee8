package search

const (
	// Without a budget, the runs make scratchEvaluations, or scratchASlice for each slice, whichever is more.
	scratchEvaluations, scratchASlice = 60_000, 30
	// scratchHeat is the heat of the runs, which begin hot and cool down.
	scratchHeat = 1
)

// scratch anneals a simple placement without the starts of the race, in runs from the first placement that fits, each twice as long
// as the one before it, until the budget ends; without a budget, in one run. It takes the place of the race to compare with it
// (Options.FromScratch).
func scratch(r *run) (state, error) {
	s, err := fitted(r, false)
	if err != nil || s.best.parts == nil {
		return s, err
	}
	r.event.Phase = "anneal"
	c := &course{r: r, base: s.best, best: s.best, forms: r.forms}
	evaluations := max(scratchEvaluations, scratchASlice*int64(len(s.best.parts)))
	if r.most > 0 {
		evaluations = r.most
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
