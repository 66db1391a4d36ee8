package reinforce

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/policy"
)

// beside are the methods whose plans of the test tasks stand beside the policy's on its card.
var beside = []search.Method{search.Random, search.Lookup}

// Compare plans test tasks greedily with a policy, and with methods Random and Lookup, and
// measures the plans. Costs and balances are means over the tasks that all of them solved.
func Compare(ctx context.Context, tests []problem.Problem, trained search.Policy, measure Measure, workers int, seed uint64) ([]policy.Test, error) {
	options := []search.Options{{Method: search.Method(trained.Method()), Policy: trained}}
	for _, m := range beside {
		options = append(options, search.Options{Method: m})
	}
	costs := make([][]float64, len(tests)) // of each method; 0 where a method found no plan
	balances := make([][]float64, len(tests))
	solved := make([][]bool, len(tests))
	err := each(workers, len(tests), func(_, i int) error {
		costs[i], balances[i], solved[i] = make([]float64, len(options)), make([]float64, len(options)), make([]bool, len(options))
		for k, opt := range options {
			opt.Workers, opt.Brief, opt.Seed = 1, true, seed
			took, err := planned(ctx, &tests[i], opt, measure)
			var infeasible *search.Infeasible
			switch {
			case errors.As(err, &infeasible):
			case err != nil:
				return fmt.Errorf("test task %d, method %s: %w", i, opt.Method, err)
			default:
				costs[i][k], balances[i][k], solved[i][k] = float64(took.Cost), balanceOf(took), true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := make([]policy.Test, len(options))
	for k := range options {
		all[k].Method = string(options[k].Method)
	}
	comparable := 0
	for i := range tests {
		together := true
		for k := range options {
			together = together && solved[i][k]
			if solved[i][k] {
				all[k].Solved++
			}
		}
		if !together {
			continue
		}
		comparable++
		for k := range options {
			all[k].CostMS += costs[i][k]
			all[k].Balance += balances[i][k]
		}
	}
	for k := range all {
		all[k].CostMS /= float64(max(1, comparable))
		all[k].Balance /= float64(max(1, comparable))
	}
	return all, nil
}

// planned returns the measured step times of a method's plan.
func planned(ctx context.Context, p *problem.Problem, opt search.Options, measure Measure) (plan.Breakdown, error) {
	opt.ShardingTypes = search.Columns()
	result, err := neuroshard.Plan(ctx, p, neuroshard.Options{Search: opt})
	if err != nil {
		return plan.Breakdown{}, err
	}
	return measure(p, result.Shards)
}

// balanceOf is the published reward of AutoShard: the time of the least busy device over that
// of the busiest one, without exchanges.
func balanceOf(b plan.Breakdown) float64 {
	least, most := math.Inf(1), 0.0
	for _, d := range b.Devices {
		took := float64(d.Forward + d.Backward)
		least, most = min(least, took), max(most, took)
	}
	if most == 0 {
		return 0
	}
	return least / most
}
