package neuroshard

import (
	"context"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
)

// The search minimises the estimated cost of the embeddings. Under HugeCTR's exchanges, a whole
// step counts some of its parts in another way: the stack hides sorts and fixed times, a block of
// rows sends vectors of its own, and the gradients of replicas travel with those of the dense
// part. And under a hierarchical exchange the annealing has more local optima, because hosts
// count beside devices. So Plan compares finalists for such stacks:
//
//	found                        the placement of the search
//	slices of columns alone      if the step's stack has an exchange of HugeCTR's
//	flat exchanges, next seed    if the exchange is hierarchical
//
// The finalist with the shortest whole step is the plan or, if no step is stated, the one with
// the least estimated cost. So a plan for a hierarchical exchange takes no longer than what the
// search finds for flat ones.

// bestFinalist returns the best finalist beside the placement found. Searches with a budget,
// searches that were cut short, and searches that tried all placements have no further
// finalists. If ctx ends meanwhile, the best finalist until then has status Interrupted.
func bestFinalist(ctx context.Context, l *line, found search.Result) (search.Result, error) {
	opt := l.opt.Search
	if opt.Method != search.NeuroShard || opt.Budget > 0 || opt.MaxEvaluations > 0 || found.Optimal || found.Status != search.Complete {
		return found, nil
	}
	further, err := finalists(l)
	if err != nil {
		return found, err
	}
	for _, find := range further {
		other, err := find(ctx)
		if err != nil || other.Status != search.Complete {
			continue // the placement found stays
		}
		if found, err = shorter(l, found, other); err != nil {
			return found, err
		}
	}
	if len(further) > 0 && ctx.Err() != nil {
		found.Status = search.Interrupted
	}
	return found, nil
}

// finalists returns the searches for further finalists.
func finalists(l *line) (all []func(context.Context) (search.Result, error), err error) {
	if in := l.opt.Step; in != nil && in.Stack.Exchange != step.Flat {
		columns := l.opt.Search
		columns.ShardingTypes = slices.DeleteFunc(slices.Clone(columns.ShardingTypes), func(t problem.ShardingType) bool {
			return t != problem.TableWise && t != problem.ColumnWise
		})
		if n := len(columns.ShardingTypes); n > 0 && n < len(l.opt.Search.ShardingTypes) {
			all = append(all, func(ctx context.Context) (search.Result, error) { return l.search(ctx, columns) })
		}
	}
	if !l.priced.Hierarchy.On() {
		return all, nil
	}
	exchanges, priced := *l.problem, *l.priced
	exchanges.Hierarchy, priced.Hierarchy = problem.Hierarchy{}, problem.Hierarchy{}
	prices, err := l.opt.list(&priced)
	if err != nil {
		return nil, err
	}
	flat := line{problem: &exchanges, priced: &priced, opt: l.opt, prices: prices}
	alone, next := l.opt.Search, l.opt.Search
	alone.Beside = nil // it counts the hierarchical exchange
	next.Seed++
	return append(all,
		func(ctx context.Context) (search.Result, error) { return flat.search(ctx, alone) },
		func(ctx context.Context) (search.Result, error) { return l.search(ctx, next) },
	), nil
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
