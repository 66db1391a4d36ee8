package neuroshard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// paperTask is one of the paper's tasks, on 4 devices.
func paperTask(t testing.TB) *problem.Problem {
	t.Helper()
	hw := must.Get(hardware.ByName("a100-80"))(t)
	task := must.Get(workload.Draw(workload.Pool(1), workload.PaperSettings()[2], 1, 0))(t)
	p := task.Problem(hw)
	return &p
}

// keeping returns a Measure that keeps the finalist of a number, and notes the finalists.
func keeping(kept, finalists int, seen *[]Finalist) *Measure {
	return &Measure{Finalists: finalists, Run: func(_ context.Context, _ *problem.Problem, all []Finalist) (*Measured, error) {
		*seen = all
		return &Measured{Trials: make([]Trial, len(all)), Kept: kept, Profile: "test", Rounds: 5}, nil
	}}
}

// measured plans, and has finalists run.
func measured(ctx context.Context, p *problem.Problem, opt Options, m *Measure) (*Result, error) {
	opt.Search.ShardingTypes = search.Columns()
	l, err := NewPlanner(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	r, err := l.Plan(ctx)
	if err == nil {
		r, err = l.Measure(ctx, r, m)
	}
	return r, err
}

func TestMeasureRunsDifferentFinalists(t *testing.T) {
	p := paperTask(t)
	brief := search.Options{MaxEvaluations: 20_000, ShardingTypes: search.Columns()}
	usual := must.Get(Plan(context.Background(), p, Options{Search: brief}))(t)
	var all []Finalist
	result := must.Get(measured(context.Background(), p, Options{Search: brief}, keeping(0, 6, &all)))(t)
	if len(all) != 6 {
		t.Fatalf("got %d finalists, want 6", len(all))
	}
	if all[0].Method != search.NeuroShard || all[0].Seed != 0 || fmt.Sprint(all[0].Shards) != fmt.Sprint(usual.Shards) || fmt.Sprint(result.Shards) != fmt.Sprint(usual.Shards) {
		t.Errorf("got %s first, want the plan of the search without a measurement", all[0].Name(&all[0]))
	}
	greedy := slices.IndexFunc(all, func(f Finalist) bool { return slices.Contains(search.Baselines(), f.Method) })
	if greedy != 1 || all[2].Method != search.Paper {
		t.Errorf("got finalists %s and %s after the first, want a greedy one and paper", all[1].Method, all[2].Method)
	}
	for i := range all {
		f := &all[i]
		if err := plan.New(p, f.Shards).Validate(p); err != nil {
			t.Errorf("finalist %s: %v", f.Name(&all[0]), err)
		}
		for k := range i {
			if share := moved(p, f.Shards, all[k].Shards); share < leastDifferent {
				t.Errorf("finalists %s and %s do only %.1f %% of the work on different devices", f.Name(&all[0]), all[k].Name(&all[0]), 100*share)
			}
		}
		if i > 3 && f.Predicted.Cost < all[i-1].Predicted.Cost {
			t.Errorf("finalist %d is cheaper as predicted than the one before it", i)
		}
	}
	// The same finalists for any number of workers.
	var again []Finalist
	brief.Workers = 1
	must.Get(measured(context.Background(), p, Options{Search: brief}, keeping(0, 6, &again)))(t)
	for i := range all {
		if all[i].Name(&all[0]) != again[i].Name(&again[0]) || fmt.Sprint(all[i].Shards) != fmt.Sprint(again[i].Shards) {
			t.Errorf("finalist %d: got %s with one worker, want %s with the same shards", i, again[i].Name(&again[0]), all[i].Name(&all[0]))
		}
	}
}

// The finalist that is kept is the plan.
func TestMeasureKeepsTheFastest(t *testing.T) {
	p := paperTask(t)
	var all []Finalist
	result := must.Get(measured(context.Background(), p, Options{}, keeping(2, 4, &all)))(t)
	by := result.Plan.Provenance
	if fmt.Sprint(result.Shards) != fmt.Sprint(all[2].Shards) || by.Method != string(search.Paper) || result.Predicted.Cost != all[2].Predicted.Cost {
		t.Errorf("got the plan of method %s at %v, want that of the third finalist, %s at %v", by.Method, result.Predicted.Cost, all[2].Method, all[2].Predicted.Cost)
	}
	if result.Measured == nil || result.Measured.Kept != 2 || len(result.Measured.Finalists) != 4 {
		t.Errorf("got measurement %+v, want one of four finalists that keeps the third", result.Measured)
	}
	want := "the plan was chosen among 4 finalists by their times on test: another measurement may choose another one"
	if !slices.Contains(by.Warnings, want) {
		t.Errorf("got warnings %q, want %q", by.Warnings, want)
	}
	// As the paper's method alone has it.
	alone := must.Get(Plan(context.Background(), p, Options{Search: search.Options{Method: search.Paper, ShardingTypes: search.Columns()}}))(t)
	if fmt.Sprint(alone.Shards) != fmt.Sprint(result.Shards) || alone.Predicted.Cost != result.Predicted.Cost || alone.Simulated.Cost != result.Simulated.Cost {
		t.Errorf("got a plan that differs from that of method %s", search.Paper)
	}
}

// If the measurement is interrupted, the first choice of the cost model stays, and says so. Any
// other failure is the error of Plan.
func TestMeasureInterruptedOrFailing(t *testing.T) {
	p := paperTask(t)
	brief := search.Options{MaxEvaluations: 20_000, ShardingTypes: search.Columns()}
	usual, err := Plan(context.Background(), p, Options{Search: brief})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := must.Get(measured(ctx, p, Options{Search: brief}, &Measure{Finalists: 3, Run: func(ctx context.Context, _ *problem.Problem, _ []Finalist) (*Measured, error) {
		cancel()
		return nil, ctx.Err()
	}}))(t)
	if fmt.Sprint(result.Shards) != fmt.Sprint(usual.Shards) || result.Status != search.Interrupted || result.Measured != nil {
		t.Errorf("interrupted: got status %s and measurement %v, want the plan of the search, interrupted", result.Status, result.Measured)
	}
	if !slices.ContainsFunc(result.Warnings(), func(w string) bool { return strings.Contains(w, "first choice of the cost model") }) {
		t.Errorf("interrupted: got warnings %q", result.Warnings())
	}
	broken := errors.New("the worker died")
	_, err = measured(context.Background(), p, Options{Search: brief}, &Measure{Finalists: 3, Run: func(context.Context, *problem.Problem, []Finalist) (*Measured, error) {
		return nil, broken
	}})
	if !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}

func TestMeasureRefuses(t *testing.T) {
	p := paperTask(t)
	replicated := *p
	replicated.Topology.Replicas = 2
	var all []Finalist
	for name, c := range map[string]struct {
		p   *problem.Problem
		opt Options
		m   *Measure
	}{
		"one finalist":    {p, Options{}, keeping(0, 1, &all)},
		"nothing runs":    {p, Options{}, &Measure{Finalists: 3}},
		"another method":  {p, Options{Search: search.Options{Method: search.Paper}}, keeping(0, 3, &all)},
		"hidden exchange": {p, Options{Hidden: plan.Hidden{Forward: unit.Millis(1)}}, keeping(0, 3, &all)},
		"replicas":        {&replicated, Options{}, keeping(0, 3, &all)},
	} {
		l, err := NewPlanner(context.Background(), c.p, c.opt)
		if err == nil {
			err = l.CheckMeasure(c.m)
		}
		if refused, ok := errors.AsType[*MeasureError](err); !ok || refused.Hint == "" {
			t.Errorf("%s: got error %v, want a *MeasureError with a hint", name, err)
		}
	}
	if all != nil {
		t.Errorf("got %d finalists, want none", len(all))
	}
}

// The share of moved work does not depend on the numbers of equal devices, and counts columns by
// their lookups.
func TestMoved(t *testing.T) {
	p := &problem.Problem{Topology: hardware.Topology{Devices: 2}, Batch: 100}
	for _, pooling := range []float64{1, 2, 3} {
		p.Tables = append(p.Tables, problem.Table{Rows: 10, Dim: 8, Features: []problem.Feature{{PoolingFactor: pooling}}})
	}
	left, right := p.Whole(2), p.Whole(2)
	left.Columns.End, right.Columns.Start = 4, 4
	whole := [][]problem.Shard{{p.Whole(0), p.Whole(1)}, {p.Whole(2)}}
	for name, c := range map[string]struct {
		b    [][]problem.Shard
		want float64
	}{
		"itself":     {whole, 0},
		"renamed":    {[][]problem.Shard{whole[1], whole[0]}, 0},
		"one table":  {[][]problem.Shard{{p.Whole(1)}, {p.Whole(2), p.Whole(0)}}, 101. / 603},
		"one column": {[][]problem.Shard{{p.Whole(0), p.Whole(1), left}, {right}}, 301. / 2 / 603},
	} {
		if got := moved(p, whole, c.b); got < c.want-1e-12 || got > c.want+1e-12 {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
