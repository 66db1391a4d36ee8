package neuroshard_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
)

// On two hosts of two devices, the plan of four tables is the cheapest of all placements.
func TestHierarchicalPlanIsTheOptimum(t *testing.T) {
	hierarchicalPlanIsTheOptimum(t, 100_000)
}

// hierarchicalPlanIsTheOptimum plans with at most the given evaluations. Without a limit (0), Plan
// compares finalists as well.
func hierarchicalPlanIsTheOptimum(t *testing.T, evaluations int64) {
	p := several(t)
	p.Tables = p.Tables[2:6]
	types := []problem.ShardingType{problem.TableWise, problem.RowWise, problem.TableRowWise, problem.DataParallel}
	forms := []problem.Form{{}, {ShardingType: problem.TableRowWise}, {ShardingType: problem.RowWise}, {ShardingType: problem.DataParallel}}
	for _, h := range []problem.Hierarchy{inSteps, {Sent: .3, Inside: .1, Between: 2, Latency: .01}} {
		own := *p
		own.Hierarchy = h
		prices := must.Get(neuroshard.Pretrained().List(t.Context(), &own))(t)
		scorer, least := prices.NewScorer(), math.Inf(1)
		var items [4][4]int
		for i := range own.Tables {
			for k, form := range forms {
				items[i][k] = scorer.Item(i, own.Tables[i].Dim, form)
			}
		}
		// A table has eight places: each device, each host, and all devices in two forms.
		for places := range 1 << (3 * len(own.Tables)) {
			scorer.Reset()
			for i := range own.Tables {
				switch at := places >> (3 * i) & 7; {
				case at < 4:
					scorer.Add(at, items[i][0])
				case at < 6:
					scorer.Add(2*(at-4), items[i][1])
				default:
					scorer.Add(0, items[i][at-4])
				}
			}
			least = min(least, scorer.Cost())
		}
		r := planned(t, inHosts(p, h), neuroshard.Options{Search: search.Options{ShardingTypes: types, OneOperator: true, MaxEvaluations: evaluations}})
		if got := float64(r.Predicted.Cost); math.Abs(got/least-1) > 1e-9 {
			t.Errorf("%+v: got a cost of %v, want %v, the least of all placements", h, got, least)
		}
	}
}

// Bad hierarchical exchanges, and price lists that know none, are errors.
func TestHierarchicalExchangeErrors(t *testing.T) {
	p := several(t)
	stack := must.Get(step.StackByName("hugectr-hierarchical"))(t)
	own := *p
	own.Hierarchy = problem.Hierarchy{Sent: .5, Inside: 1, Between: 1}
	in := &step.Input{Measured: step.Measured{Step: 100}, Stack: stack}
	for _, c := range []struct {
		name string
		p    *problem.Problem
		opt  neuroshard.Options
		want string
	}{
		{"formulas", inHosts(p, inSteps), neuroshard.Options{Prices: neuroshard.TorchRec()}, "knows only flat exchanges"},
		{"out of range", inHosts(p, problem.Hierarchy{Sent: 2, Inside: 1, Between: 1}), neuroshard.Options{}, "2 is not above 0 and at most 1"},
		{"stated by the problem", &own, neuroshard.Options{Step: in}, "leave Problem.Hierarchy zero"},
	} {
		if _, err := neuroshard.Plan(context.Background(), c.p, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// If the context ends while Plan searches for further finalists, the plan is the best one until
// then and says that it was interrupted.
func TestInterruptedFinalists(t *testing.T) {
	p := several(t)
	p.Tables = p.Tables[:6]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	searched := false // the first search went beyond its start
	opt := neuroshard.Options{Search: search.Options{ShardingTypes: problem.ShardingTypes(), OnEvent: func(e search.Event) {
		if e.Phase != "start" {
			searched = true
		} else if searched {
			cancel()
		}
	}}}
	r, err := neuroshard.Plan(ctx, inHosts(p, inSteps), opt)
	if err != nil || ctx.Err() == nil || r.Status != search.Interrupted {
		t.Fatalf("got %v, context %v, want a plan with status interrupted: %+v", err, ctx.Err(), r)
	}
}
