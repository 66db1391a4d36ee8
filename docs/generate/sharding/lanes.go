package main

import (
	"context"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// lanes prints the costs of plans under both lane rules: the rule that the search of the
// plan assumed, and the other one.
func lanes(ctx context.Context, p *program) error {
	p.head("workload", "cluster", ">by widest: widest, ms", ">own, ms", ">preferred: widest, ms", ">own, ms", ">by own: widest, ms", ">own, ms",
		">regret if own holds, %", ">preferred, %", ">regret of the plan by own if widest holds, %")
	return eachProblem(ctx, p, regretOf)
}

// regret holds the SIMULATED costs of three plans under each lane rule: found under
// LanesByWidest, the same with the preference for plans that are cheap under LanesByTable,
// and found under LanesByTable.
type regret [3][2]unit.Millis

// regretOf plans a problem three times.
func regretOf(ctx context.Context, p *problem.Problem, types []problem.ShardingType) (v regret, err error) {
	own := *p
	own.LaneRule = problem.LanesByTable
	judges := []*simulate.Pricer{simulate.NewPricer(p), simulate.NewPricer(&own)}
	for i, run := range []struct {
		problem *problem.Problem
		alone   bool
	}{{p, true}, {p, false}, {&own, true}} {
		found, err := neuroshard.Plan(ctx, run.problem, neuroshard.Options{Search: search.Options{ShardingTypes: types, Brief: true}, OneLaneRule: run.alone})
		if err == nil && found.Status == search.Interrupted {
			err = context.Cause(ctx)
		}
		if err != nil {
			return v, err
		}
		for rule, judge := range judges {
			b, err := judge.Price(found.Shards)
			if err != nil {
				return v, err
			}
			v[i][rule] = b.Cost
		}
	}
	return v, nil
}

func (v *regret) add(w regret) {
	for i := range v {
		for rule := range v[i] {
			v[i][rule] += w[i][rule]
		}
	}
}

// row prints the means of the sums over n problems.
func (v regret) row(p *program, name, cluster string, n int) {
	cells := []string{name, cluster}
	for _, costs := range v {
		for _, cost := range costs {
			cells = append(cells, millis(cost/unit.Millis(n)))
		}
	}
	above := func(cost, least unit.Millis) string { return fmt.Sprintf("%.1f", 100*float64(cost/least-1)) }
	p.row(append(cells, above(v[0][1], v[2][1]), above(v[1][1], v[2][1]), above(v[2][0], v[0][0]))...)
}
