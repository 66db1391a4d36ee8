package search

import (
	"math"
	"slices"
)

// A search goes on from an old placement (Options.From):
//
//	resume    what may stay stays (resume.go), and the other pieces find places (insert.go).
//	          If they find none, the method makes a placement
//	anneal    under the price of moved bytes and the budget, in runs. The first runs have a higher
//	          price, so that bytes move first where that pays most
//
// The bytes that move in the placement that the annealing begins with had to move, as far as
// the search can tell; the budget comes on top of them.

const (
	// A run makes onwardASlice evaluations for each slice, but at least onwardEvaluations. Beyond
	// manyEvaluations it makes onwardMore for each slice.
	onwardEvaluations, onwardASlice = 10_000, 12
	manyEvaluations, onwardMore     = 50_000, 1
	// onwardHeat is the heat of the search for the fewest bytes, and allBytes the price in ms of all bytes together then.
	onwardHeat, allBytes = .015, 1e6
)

// onwardRuns are the runs. share is the least price: the share of the cost that moving all bytes of the
// tables adds to the goal. The heat is low at first, because the old placement is a good one. Later
// runs have the true price, and the exact cost in the goal, for up to a number of slices.
var onwardRuns = []struct {
	share, heat float64
	exact       bool
	most        int64
}{
	{share: .1, heat: .05, most: math.MaxInt64},
	{share: .01, heat: .01, most: math.MaxInt64},
	{heat: .015, exact: true, most: 1000},
	{heat: .3, exact: true, most: 1000},
	{heat: 1, exact: true, most: 100},
}

// onward goes on from the old placement.
func onward(r *run) (s state, err error) {
	f := newFormer(r.catalog.problem, r.opt.From)
	r.catalog.former = f
	f.price = allBytes / f.bytes(r.catalog.problem) // moved bytes count more than any cost
	f.steer = f.price
	old := resume(r)
	if err := r.forms.possible(r.catalog, old.parts); err != nil {
		return s, err
	}
	start, err := onwardFrom(r, old)
	if err != nil {
		return s, err
	}
	a := newAnnealing(r, start, r.forms)
	a.heat = onwardHeat
	a.renumbers = slices.ContainsFunc(start.parts, func(p placed) bool { return r.catalog.pieces[p.piece].form.Operator > 0 })
	fewestBytes(a, old)
	underPrice(a)
	s.best = a.placement
	r.scorer().Reset()
	return s, nil
}

// onwardFrom returns the placement that the annealing begins with.
func onwardFrom(r *run, old *resumer) (placement, error) {
	r.scorer().Reset()
	old.mean = r.catalog.meanTime(old.left)
	m := &inserter{newAnnealer(r.catalog, r.scorer(), r.opt.Seed, r.forms), old}
	m.heat = onwardHeat
	fits := m.place()
	r.stats.Evaluations += m.evaluations
	if fits {
		if best := r.offer(placement{}, m.all()); best.parts != nil {
			return occupy(r, best)
		}
	}
	f := r.catalog.former
	r.catalog.former = nil
	s, err := searchBy(r, r.opt.Method)
	err = r.placed(s, err)
	r.catalog.former = f
	if err != nil {
		return placement{}, err
	}
	return occupy(r, r.offer(placement{}, s.best.parts))
}

// fewestBytes looks for the placement that moves the fewest bytes, and of these for the cheapest one:
// with the tables that had no place anywhere. It sets the limit.
func fewestBytes(a *annealing, old *resumer) {
	f := a.c.former
	f.limit = a.c.movedBytes(a.placement.parts)
	if len(old.left) > 0 || f.limit > 0 {
		for _, k := range old.left {
			a.focus = append(a.focus, a.c.pieces[k].members[0].table)
		}
		a.again(max(onwardEvaluations, onwardASlice*int64(min(len(a.placement.parts), len(old.left)))))
		a.focus = nil
		f.limit = a.c.movedBytes(a.placement.parts)
	}
	f.price, f.steer = a.r.opt.From.Price, a.r.opt.From.Price
	a.placement.toll = f.priced(f.limit)
}

// underPrice anneals in runs under the price and the budget.
func underPrice(a *annealing) {
	from, f := a.r.opt.From, a.c.former
	if from.Limited && from.Most == 0 {
		return
	}
	if f.limit += int64(min(from.Most, math.MaxInt64/4)); !from.Limited {
		f.limit = math.MaxInt64
	}
	all := f.bytes(a.c.problem)
	n := int64(len(a.placement.parts))
	evaluations := max(onwardEvaluations, min(onwardASlice*n, manyEvaluations+onwardMore*n))
	a.r.event.Phase = "anneal"
	for _, run := range onwardRuns {
		if n > run.most {
			break
		}
		f.steer = max(from.Price, run.share*a.placement.cost/all)
		a.heat, a.exact = run.heat, run.exact
		a.again(evaluations)
	}
}
