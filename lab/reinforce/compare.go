package reinforce

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

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
	took := make([][]*plan.Breakdown, len(tests)) // of each method; nil where it found no plan
	err := each(workers, len(tests), func(_, i int) error {
		took[i] = make([]*plan.Breakdown, len(options))
		for k, opt := range options {
			opt.Workers, opt.Brief, opt.Seed = 1, true, seed
			b, err := planned(ctx, &tests[i], opt, measure)
			var infeasible *search.Infeasible
			switch {
			case errors.As(err, &infeasible):
			case err != nil:
				return fmt.Errorf("test task %d, method %s: %w", i, opt.Method, err)
			default:
				took[i][k] = &b
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	together := 0.0 // tasks that all methods solved
	for _, of := range took {
		if !slices.Contains(of, nil) {
			together++
		}
	}
	all := make([]policy.Test, len(options))
	for k := range all {
		all[k].Method = string(options[k].Method)
		for _, of := range took {
			if of[k] != nil {
				all[k].Solved++
			}
			if !slices.Contains(of, nil) {
				all[k].CostMS += float64(of[k].Cost)
				all[k].Balance += balanceOf(*of[k])
			}
		}
		all[k].CostMS /= max(1, together)
		all[k].Balance /= max(1, together)
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
