package search

// Stage longer uses up a budget of time (Options.Budget). It begins where a search without a
// budget ends, so a plan with a budget that lets the other stages end is never more expensive
// than the plan without one, and more time never makes it more expensive:
//
//	seed 0   fit ... singly    | run  run  run | .................. | run   run   run | ...
//	                           | .05  .15   1  | .................. | .05   .15    1  |     heat
//	seed 1                     |               | fit ... operators  |                 |
//
// Each run anneals from the cheapest placement so far, and may change forms and numbers of operators.
// Runs of different heat take turns: cool ones look near that placement, hot ones leave it. A turn
// ends with a run of twice the evaluations from the simple placement of stage early. Between two turns
// the stages from fit to operators search again, by the draws of the next seed, because another search finds
// placements that annealing misses; not for a large problem. After each turn, runs are twice as long.

// longerHeats are the heats of a turn.
var longerHeats = []float64{.05, .15, 1}

// longer is the stage that uses up a budget of time. search are the stages before it, without
// singly.
type longer struct{ search stage }

func (l longer) apply(r *run, s state) (state, error) {
	s = withAside(r, s)
	if r.opt.Budget == 0 || r.opt.From != nil || s.best.division == nil || r.status != Complete {
		return s, nil
	}
	if len(r.catalog.all) == 1 && addsUp(r.scorer()) {
		return s, nil // all placements of slices cost the same
	}
	r.event.Phase = "anneal"
	a := newAnnealing(r, s.best, r.forms)
	a.renumbers = mayNumber(r)
	repeats := len(s.coarse) == 0 // seeds of large problems differ little, and annealing them takes long
	for evaluations, seed := a.longRun(), r.opt.Seed+1; a.left() > 0; evaluations, seed = 2*evaluations, seed+1 {
		for _, a.heat = range longerHeats {
			if a.left() > 0 {
				a.from(a.placement.placed(), evaluations)
			}
		}
		if a.left() > 0 && s.simple != nil {
			a.heat = scratchHeat
			a.from(s.simple, 2*evaluations)
		}
		if repeats && a.left() > 0 {
			a.placement = cheaper(a.placement, searchAgain(r, l.search, seed, r.forms, a.placement))
		}
	}
	a.scorer.Reset()
	s.best = a.placement
	return s, nil
}
