package neuroshard

import (
	"context"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// againstFlat compares the placement found under a hierarchical exchange with two others: what
// a search with flat exchanges finds, and what the search finds with the next seed. It returns
// the placement with the shortest whole step or, if no step is stated, with the least estimated
// cost. So a plan never takes longer than the plan for flat exchanges.
//
// Without the two, the search under a hierarchical exchange is less sure of its plan than
// others, for two reasons. Hosts count beside devices, so a table that moves to another host
// changes two sums of columns, and most such changes do not pay alone. And the gradients of
// replicas are exchanged with those of the dense part, which a step counts and the search
// does not.
//
// Searches with a budget, and searches that were cut short, are not repeated.
func againstFlat(ctx context.Context, l *line, found search.Result) (search.Result, error) {
	opt := l.opt.Search
	if !l.priced.Hierarchy.On() || opt.Method != search.NeuroShard || opt.Budget > 0 || opt.MaxEvaluations > 0 ||
		found.Optimal || found.Status != search.Complete {
		return found, nil
	}
	exchanges, priced := *l.problem, *l.priced
	exchanges.Hierarchy, priced.Hierarchy = problem.Hierarchy{}, problem.Hierarchy{}
	prices, err := l.opt.list(&priced)
	if err != nil {
		return found, err
	}
	flat := line{problem: &exchanges, priced: &priced, opt: l.opt, prices: prices}
	opt.Beside = nil // it counts the hierarchical exchange
	next := l.opt.Search
	next.Seed++
	for _, further := range []func() (search.Result, error){
		func() (search.Result, error) { return flat.search(ctx, opt) },
		func() (search.Result, error) { return l.search(ctx, next) },
	} {
		other, err := further()
		if err != nil || other.Status != search.Complete {
			continue // found stays as it is
		}
		if found, err = shorter(l, found, other); err != nil {
			return found, err
		}
	}
	return found, nil
}

// shorter returns the placement with the shorter step, with the work of both searches.
func shorter(l *line, a, b search.Result) (search.Result, error) {
	first, err := worth(l, a)
	if err != nil {
		return a, err
	}
	second, err := worth(l, b)
	if err != nil {
		return a, err
	}
	stats := a.Stats
	stats.Evaluations += b.Stats.Evaluations
	stats.Placements += b.Stats.Placements
	stats.States += b.Stats.States
	stats.Duplicates += b.Stats.Duplicates
	stats.Levels += b.Stats.Levels
	if second < first {
		a = b
		a.Cost, a.Optimal = float64(l.prices.Price(b.Shards).Cost), false
	}
	a.Stats = stats
	return a, nil
}

// worth returns what a placement is judged by, in ms: its whole step or, if no step is stated
// or a step was measured with the placement to be found, its estimated cost.
func worth(l *line, r search.Result) (float64, error) {
	in := l.opt.Step
	if in == nil || in.Measured.Step > 0 && in.Measured.Shards == nil {
		return float64(l.prices.Price(r.Shards).Cost), nil
	}
	priced, err := priceStep(l.problem, r.Shards, *in)
	if err != nil {
		return 0, err
	}
	return float64(priced.Times.Step), nil
}
