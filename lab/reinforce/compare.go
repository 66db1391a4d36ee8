package reinforce

import (
	"context"
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/policy"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// beside are the methods whose plans of the test tasks stand beside the policy's on its card.
var beside = []search.Method{search.Random, search.Lookup}

// Compare plans test tasks greedily with a policy, and with methods Random and Lookup, and
// measures the plans. The costs are means over the tasks that all of them solved.
func Compare(ctx context.Context, tests []problem.Problem, trained search.Policy, measure Measure, workers int, seed uint64) ([]policy.Test, error) {
	options := []search.Options{{Method: search.Method(trained.Method()), Policy: trained}}
	for _, m := range beside {
		options = append(options, search.Options{Method: m})
	}
	costs := make([][]float64, len(tests)) // of each method; nil where a method found no plan
	solved := make([][]bool, len(tests))
	errs := make([]error, len(tests))
	each(workers, len(tests), func(_, i int) {
		costs[i], solved[i] = make([]float64, len(options)), make([]bool, len(options))
		for k, opt := range options {
			opt.Workers, opt.Brief, opt.Seed = 1, true, seed
			cost, err := planned(ctx, &tests[i], opt, measure)
			var infeasible *search.Infeasible
			switch {
			case errors.As(err, &infeasible):
			case err != nil:
				errs[i] = fmt.Errorf("test task %d, method %s: %w", i, opt.Method, err)
				return
			default:
				costs[i][k], solved[i][k] = cost, true
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
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
		}
	}
	for k := range all {
		all[k].CostMS /= float64(max(1, comparable))
	}
	return all, nil
}

// planned returns the measured cost of a method's plan.
func planned(ctx context.Context, p *problem.Problem, opt search.Options, measure Measure) (float64, error) {
	result, err := neuroshard.Plan(ctx, p, neuroshard.Options{Search: opt})
	if err != nil {
		return 0, err
	}
	took, err := measure(p, result.Shards)
	return float64(took.Cost), err
}
