package main

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// operators prints what a plan saves by dividing its operators: the cost of plans with
// undivided and with divided operators, if kernels choose lanes by the widest table,
// and the cost of the same plans if kernels choose lanes by each table.
func operators(ctx context.Context, p *program) error {
	p.head("workload", "cluster", ">one operator, ms", ">divided, ms", ">gain %", ">tables apart", ">one operator, own lanes, ms", ">divided, own lanes, ms", ">gain %")
	return eachProblem(ctx, p, worthOf)
}

// worth is the SIMULATED cost of two plans, one with undivided operators and one with
// divided ones, under both lane rules, and the number of tables that the latter keeps apart.
type worth struct {
	one, divided [2]unit.Millis
	apart        int
}

// worthOf plans a problem with and without division of its operators.
func worthOf(ctx context.Context, p *problem.Problem, types []problem.ShardingType) (v worth, err error) {
	own := *p
	own.LaneRule = problem.LanesByTable
	judges := []*simulate.Pricer{simulate.NewPricer(p), simulate.NewPricer(&own)}
	for _, one := range []bool{true, false} {
		r, err := neuroshard.Plan(ctx, p, neuroshard.Options{Search: search.Options{ShardingTypes: types, Brief: true, OneOperator: one}})
		if err == nil && r.Status == search.Interrupted {
			err = context.Cause(ctx)
		}
		if err != nil {
			return v, err
		}
		costs := &v.divided
		if one {
			costs = &v.one
		} else {
			v.apart = r.Plan.Divided()
		}
		for rule, judge := range judges {
			b, err := judge.Price(r.Shards)
			if err != nil {
				return v, err
			}
			costs[rule] = b.Cost
		}
	}
	return v, nil
}

func (v *worth) add(w worth) {
	for rule := range v.one {
		v.one[rule] += w.one[rule]
		v.divided[rule] += w.divided[rule]
	}
	v.apart += w.apart
}

// row prints the means of the sums over n problems.
func (v worth) row(p *program, name, cluster string, n int) {
	cells := []string{name, cluster}
	for rule := range v.one {
		one, divided := v.one[rule]/unit.Millis(n), v.divided[rule]/unit.Millis(n)
		cells = append(cells, millis(one), millis(divided), fmt.Sprintf("%.1f", 100*(1-float64(divided/one))))
		if rule == 0 {
			cells = append(cells, strconv.FormatFloat(math.Round(10*float64(v.apart)/float64(n))/10, 'f', -1, 64))
		}
	}
	p.row(cells...)
}
