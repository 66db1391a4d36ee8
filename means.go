package neuroshard

import (
	"context"
	"slices"
	"time"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// inMeanCuts finds a placement whose tables of means are cut by rows as the engine needs that
// (problem.MeanCuts). A search from an old placement keeps the way of that placement.
func inMeanCuts(ctx context.Context, l *Planner, opt search.Options) (search.Result, error) {
	uncut, cut, err := problem.MeanCuts(l.problem, opt.ShardingTypes)
	if err != nil {
		return search.Result{}, err
	}
	switch {
	case uncut == cut:
		return searchAmong(ctx, l, uncut, opt)
	case opt.From != nil && cutsMeans(l.problem, opt.From):
		return searchAmong(ctx, l, cut, opt)
	case opt.From != nil:
		return searchAmong(ctx, l, uncut, opt)
	}
	return cheaperWay(ctx, l, uncut, cut, opt)
}

// searchAmong finds a placement of p, which is the planner's problem with fewer sharding types.
func searchAmong(ctx context.Context, l *Planner, p *problem.Problem, opt search.Options) (search.Result, error) {
	way := *l
	way.problem = p
	return inOneWidth(ctx, &way, opt)
}

// cheaperWay returns the cheaper placement of two searches. Each gets half of the limits.
func cheaperWay(ctx context.Context, l *Planner, uncut, cut *problem.Problem, opt search.Options) (search.Result, error) {
	half := opt
	half.Budget, half.MaxEvaluations = opt.Budget/2, (opt.MaxEvaluations+1)/2
	started := time.Now()
	whole, err := searchAmong(ctx, l, uncut, half)
	if opt.Budget > 0 {
		opt.Budget = max(time.Nanosecond, opt.Budget-time.Since(started))
	}
	if opt.MaxEvaluations > 0 {
		opt.MaxEvaluations = max(1, opt.MaxEvaluations-whole.Stats.Evaluations)
	}
	rows, failed := searchAmong(ctx, l, cut, opt)
	if err != nil && failed != nil {
		return search.Result{}, err
	}
	found, other := whole, rows
	if err != nil || failed == nil && rows.Cost < whole.Cost {
		found, other = rows, whole
	}
	found.Stats, found.Optimal = together(found.Stats, other.Stats), found.Optimal && other.Optimal
	if other.Status != "" && other.Status != search.Complete {
		found.Status = other.Status
	}
	return found, nil
}

// cutsMeans reports whether an old placement cuts a table of means by rows.
func cutsMeans(p *problem.Problem, from *search.From) bool {
	return slices.ContainsFunc(slices.Concat(from.Shards...), func(s problem.Shard) bool {
		return p.Tables[s.Table].Pooling == problem.MeanPooling && p.ByRows(s)
	})
}
