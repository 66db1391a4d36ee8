package search

import "github.com/neuroshard/neuroshard/problem"

// recall is the stage that moves tables back from host memory into HBM if they fit
// there and the cost does not rise. It moves small tables that the annealing put into
// host memory by chance, because the goal does not depend on where they are.
type recall struct{}

func (recall) apply(r *run, s state) (state, error) {
	l := newLayout(r.catalog, r.scorer(), r.forms)
	if l.hostBudget == 0 || r.status != Complete || !r.forms.columns {
		return s, nil
	}
	a := &mover{layout: l}
	a.reset(s.best.placed())
	cost, changed := a.best, false
	for _, t := range a.order() {
		if a.forms.barred[t] || !a.hosted(t) || !a.remain(t, problem.Form{}) {
			continue
		}
		before := a.softSums
		a.try()
		r.stats.Evaluations++
		if now := a.scorer.Cost(); now <= cost && a.computeSum <= before.computeSum {
			cost, changed = now, true
			a.accept()
			continue
		}
		a.undo(before)
	}
	if changed {
		// Recalled tables may leave the cost unchanged, and then this placement is
		// preferred.
		s.best = r.offerPlaced(placement{}, a.all())
	}
	return s, nil
}
