package main

import (
	"context"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// lanes prints what a plan costs if the other lane rule holds than the one that it was
// searched under.
func lanes(ctx context.Context, p *program) error {
	p.head("workload", "cluster", ">by widest: widest, ms", ">own, ms", ">preferred: widest, ms", ">own, ms", ">by own: widest, ms", ">own, ms",
		">regret if own holds, %", ">preferred, %", ">regret of the plan by own if widest holds, %")
	tasks, err := bench.WorkloadTasks(p.workloads, []string{bench.DefaultCluster, bench.OtherCluster})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		v, err := regretOf(ctx, &t.Problem, problem.ShardingTypes())
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		v.row(p, t.Setting, cluster(t.Problem.Topology), 1)
	}
	for _, spec := range workload.PaperSettings() {
		var sum regret
		for i := range paperTasks {
			w, err := workload.ByName(fmt.Sprintf("paper-%s-%d", spec.Name, i))
			if err != nil {
				return err
			}
			q := w.Problem()
			v, err := regretOf(ctx, &q, columnsOnly)
			if err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
			sum.add(v)
		}
		sum.row(p, fmt.Sprintf("paper's %s, mean of %d tasks", spec.Name, paperTasks), fmt.Sprintf("%d x a100-80", spec.Devices), paperTasks)
	}
	return nil
}

// regret holds the SIMULATED costs of three plans under each lane rule: found under
// LanesByWidest, the same with the preference for plans that are cheap under LanesByTable,
// and found under LanesByTable.
type regret [3][2]unit.Millis

// regretOf searches for the three plans of a problem.
func regretOf(ctx context.Context, p *problem.Problem, types []problem.ShardingType) (v regret, err error) {
	own := *p
	own.LaneRule = problem.LanesByTable
	byWidest, err := neuroshard.Pretrained().List(p)
	if err != nil {
		return v, err
	}
	byOwn, err := neuroshard.Pretrained().List(&own)
	if err != nil {
		return v, err
	}
	judges := []*simulate.Pricer{simulate.NewPricer(p), simulate.NewPricer(&own)}
	for i, run := range []struct {
		problem *problem.Problem
		prices  neuroshard.PriceList
		beside  search.Factory
	}{{p, byWidest, nil}, {p, byWidest, byOwn.NewScorer}, {&own, byOwn, nil}} {
		found, err := search.Run(ctx, run.problem, run.prices.NewScorer, search.Options{ShardingTypes: types, Brief: true, Beside: run.beside})
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
