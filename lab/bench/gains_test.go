package bench

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// A task that all solve, one where the published search fails, one where all but it
// fail, and one that was not planned by the default method.
func TestGains(t *testing.T) {
	solved := func(task string, method search.Method, predicted, simulated, wall float64) Record {
		return Record{
			Setting: "a", Task: task, Method: method, Tables: 7, Cluster: Cluster{"h200", 16, 2}, Valid: true,
			CostMS: &predicted, SimulatedCostMS: &simulated, WallMS: wall, Status: search.Complete, Plan: make([]Placed, 3),
		}
	}
	unsolved := func(task string, method search.Method, status search.Status) Record {
		return Record{Setting: "a", Task: task, Method: method, WallMS: 8, Status: status}
	}
	least := 7.5
	first := solved("a/0", search.NeuroShard, 1, 9, 2)
	first.BoundMS, first.BoundWallMS = &least, 1
	g := NewGains([]Record{
		first,
		solved("a/0", search.Paper, 100, 12, 4),
		solved("a/0", search.Size, 1, 36, 6),
		solved("a/0", search.Dim, 100, 18, 6), // the judge is the simulated device, not the model
		solved("a/1", search.NeuroShard, 1, 10, 4),
		unsolved("a/1", search.Paper, search.OutOfTime),
		unsolved("a/1", search.Size, ""),
		solved("a/1", search.Dim, 1, 8, 6),
		unsolved("a/2", search.NeuroShard, ""),
		solved("a/2", search.Paper, 1, 8, 6),
		unsolved("a/2", search.Dim, ""),
		solved("a/3", search.Paper, 1, 8, 6),
	})
	value := func(v float64) *float64 { return &v }
	entry := func(method search.Method, cost, wall float64) *Entry {
		return &Entry{Method: method, CostMS: &cost, Shards: 3, WallMS: wall, Status: search.Complete}
	}
	cluster := Cluster{"h200", 16, 2}
	want := &Gains{
		Tasks: []Gain{
			{
				Setting: "a", Task: "a/0", Tables: 7, Cluster: cluster, Judge: Simulated,
				Default: entry(search.NeuroShard, 9, 2), Paper: entry(search.Paper, 12, 4), Baseline: entry(search.Dim, 18, 6), Baselines: 2, BaselinesSolved: 2,
				OverPaper: value(25), OverBaseline: value(50), BoundMS: value(7.5), Gap: value(.2),
			},
			{
				Setting: "a", Task: "a/1", Tables: 7, Cluster: cluster, Judge: Simulated,
				Default: entry(search.NeuroShard, 10, 4), Paper: &Entry{Method: search.Paper, WallMS: 8, Status: search.OutOfTime},
				Baseline: entry(search.Dim, 8, 6), Baselines: 2, BaselinesSolved: 1, OverBaseline: value(-25),
			},
			{
				Setting: "a", Task: "a/2", Judge: Simulated,
				Default: &Entry{Method: search.NeuroShard, WallMS: 8}, Paper: entry(search.Paper, 8, 6), Baseline: &Entry{}, Baselines: 1,
			},
			{Setting: "a", Task: "a/3", Tables: 7, Cluster: cluster, Judge: Simulated, Paper: entry(search.Paper, 8, 6)},
		},
		OverPaper: Stat{25, 25, 1}, OverBaseline: Stat{12.5, 50, 2}, Gap: Stat{.2, .2, 1}, WallMS: Stat{14. / 3, 4, 3},
	}
	if diff := cmp.Diff(want, g, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("gains (-want +got):\n%s", diff)
	}
	for name, records := range map[string][]Record{
		"no records": nil, "others alone": {solved("a/0", search.Paper, 1, 1, 1)}, "the default alone": {first},
		"not on the same task": {first, solved("a/1", search.Paper, 1, 1, 1)},
	} {
		if got := NewGains(records); got != nil {
			t.Errorf("%s: got %+v, want no gains", name, got)
		}
	}
}

// Gains are of the costs that records are judged by, whatever was predicted: own is
// (1 - gain) of the other's. Means are over the tasks with both plans, and a method
// that fails on one takes it out of the count.
func TestGainsAreOfSimulatedCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Float64Range(.01, 1e4)
		var records []Record
		type sides struct{ own, paper, best float64 } // +Inf: no plan
		var all []sides
		for i := range rapid.IntRange(1, 6).Draw(t, "tasks") {
			s := sides{math.Inf(1), math.Inf(1), math.Inf(1)}
			for _, m := range append([]search.Method{search.NeuroShard, search.Paper}, search.Baselines()...) {
				r := Record{Task: string(rune('a' + i)), Method: m}
				if rapid.IntRange(0, 3).Draw(t, "solved") > 0 {
					predicted, simulated := draw.Draw(t, "predicted"), draw.Draw(t, "simulated")
					r.Valid, r.CostMS, r.SimulatedCostMS = true, &predicted, &simulated
					switch m {
					case search.NeuroShard:
						s.own = simulated
					case search.Paper:
						s.paper = simulated
					default:
						s.best = min(s.best, simulated)
					}
				}
				records = append(records, r)
			}
			all = append(all, s)
		}
		g := NewGains(records)
		check := func(what string, got *float64, own, other float64, sum *float64, n *int) {
			if math.IsInf(own, 1) || math.IsInf(other, 1) {
				if got != nil {
					t.Fatalf("%s: got a gain of %v, want none without two plans", what, *got)
				}
				return
			}
			if got == nil || math.Abs((1-*got/100)*other-own) > 1e-9*(own+other) {
				t.Fatalf("%s: got gain %v of %v and %v ms", what, got, own, other)
			}
			*sum, *n = *sum+*got, *n+1
		}
		var paper, best float64
		var papers, bests int
		for i, s := range all {
			check("over paper", g.Tasks[i].OverPaper, s.own, s.paper, &paper, &papers)
			check("over the best baseline", g.Tasks[i].OverBaseline, s.own, s.best, &best, &bests)
		}
		for _, c := range []struct {
			got Stat
			sum float64
			n   int
		}{{g.OverPaper, paper, papers}, {g.OverBaseline, best, bests}} {
			if c.got.Tasks != c.n || math.Abs(c.got.Mean*float64(max(1, c.n))-c.sum) > 1e-6*(1+math.Abs(c.sum)) {
				t.Fatalf("got %+v, want a mean of %v over %d", c.got, c.sum/float64(c.n), c.n)
			}
		}
	})
}

// Each record of the default method has a bound that its simulated cost is not below;
// no other has one, nor has what nothing simulated judges.
func TestCertificates(t *testing.T) {
	tasks := suite(t, "d4_m16", 4, 3)
	opt := Options{Methods: []search.Method{search.NeuroShard, search.Dim}, Certificate: true}
	records, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		switch {
		case (r.BoundMS != nil) != (r.Method == search.NeuroShard):
			t.Errorf("task %s by %s: got bound %v, want one of the default method's plans alone", r.Task, r.Method, r.BoundMS)
		case r.BoundMS != nil && !(0 < *r.BoundMS && *r.BoundMS <= *r.SimulatedCostMS && r.BoundWallMS > 0):
			t.Errorf("task %s: got bound %v ms in %v ms of a plan that takes %v", r.Task, *r.BoundMS, r.BoundWallMS, *r.SimulatedCostMS)
		case r.check() != nil:
			t.Errorf("task %s by %s: %v", r.Task, r.Method, r.check())
		}
	}
	opt.Prices = nets(t, ".pt")
	if records, err = Run(context.Background(), tasks, opt); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.BoundMS != nil {
			t.Errorf("task %s by %s: got a bound of what was not simulated", r.Task, r.Method)
		}
	}
}

// slow plans until the context ends: with a plan, or by method Dim without.
func slow(ctx context.Context, _ *problem.Problem, opt neuroshard.Options, _ int) (*neuroshard.Result, error) {
	<-ctx.Done()
	if opt.Search.Method == search.Dim {
		return nil, ctx.Err()
	}
	times := plan.Breakdown{Cost: 2}
	return &neuroshard.Result{Status: search.Interrupted, Predicted: times, Simulated: times}, nil
}

// A search that the time limit ends has another status than one that the caller interrupts.
func TestTimeLimit(t *testing.T) {
	tasks := suite(t, "d4_m16", 4, 1)
	opt := Options{planner: slow, Methods: []search.Method{search.Paper, search.Dim}, TimeLimit: time.Millisecond}
	records, err := Run(context.Background(), tasks, opt)
	if err != nil || len(records) != 2 {
		t.Fatalf("got %d records and error %v, want 2", len(records), err)
	}
	for i, valid := range []bool{true, false} {
		if r := records[i]; r.Valid != valid || r.Status != search.OutOfTime || !(r.WallMS >= 1) || r.check() != nil {
			t.Errorf("%s: got %+v, want valid %v and status %q after 1 ms or more", r.Method, r, valid, search.OutOfTime)
		}
	}
	for _, limit := range []time.Duration{0, time.Hour} {
		opt.TimeLimit = limit
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		if records, err := Run(ctx, tasks, opt); !errors.Is(err, context.Canceled) || len(records) != 0 {
			t.Errorf("limit %v, interrupted: got %d records and error %v, want none and %v", limit, len(records), err, context.Canceled)
		}
	}
	// Another limit is another comparison.
	heads := map[string]bool{}
	for _, o := range []Options{{}, {TimeLimit: time.Second}, {TimeLimit: time.Minute}, {Certificate: true}} {
		o.Methods = opt.Methods
		head, err := identity(tasks, o)
		if err != nil {
			t.Fatal(err)
		}
		heads[head] = true
	}
	if len(heads) != 4 {
		t.Errorf("got %d different journals of 4 comparisons", len(heads))
	}
}
