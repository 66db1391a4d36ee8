package search_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/unit"
)

// check fails if the result is no valid plan of p in slices of columns, or if its cost is not the stated cost.
func check(t rapid.TB, p *problem.Problem, r search.Result) {
	t.Helper()
	checkPlacement(t, p, factory(p), search.Columns(), r)
}

// tight draws a problem whose devices are just large enough, or not quite, with
// all pieces of constraints.
func tight(t *rapid.T) *problem.Problem {
	devices := rapid.SampledFrom([]int{1, 2, 3, 5, 20}).Draw(t, "devices")
	p := &problem.Problem{
		Batch:      rapid.SampledFrom([]int{1, 64}).Draw(t, "batch"),
		Accounting: rapid.SampledFrom([]problem.Accounting{problem.CountAll, problem.CountWeights, problem.CountTorchRec(problem.NewestTorchRec())}).Draw(t, "accounting"),
	}
	total := 0.0
	for i := range rapid.IntRange(1, 14).Draw(t, "tables") {
		table := problem.Table{
			Name:      fmt.Sprintf("t%d", i),
			Rows:      int64(math.Exp(rapid.Float64Range(2, 12).Draw(t, "log rows"))),
			Dim:       4 * rapid.IntRange(1, 16).Draw(t, "dim/4"),
			Optimizer: rapid.SampledFrom([]problem.Optimizer{problem.SGD, problem.RowwiseAdagrad, problem.Adam}).Draw(t, "optimizer"),
			Features:  []problem.Feature{{PoolingFactor: rapid.Float64Range(0, 50).Draw(t, "pooling")}},
		}
		if rapid.IntRange(0, 4).Draw(t, "two features") == 0 {
			table.Features = append(table.Features, problem.Feature{PoolingFactor: 1})
		}
		switch rapid.IntRange(0, 5).Draw(t, "vectors") {
		case 0:
			table.Features[0].Bags = rapid.SampledFrom([]float64{.02, .5, 3, 2.6}).Draw(t, "bags")
		case 1:
			table.Pooling = problem.PoolingNone
		}
		c := &table.Constraint
		switch rapid.IntRange(0, 9).Draw(t, "constraint") {
		case 0:
			c.NoSplit = true
		case 1:
			c.Colocation = rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group")
		case 2:
			c.Devices = rapid.SliceOfNDistinct(rapid.IntRange(0, devices-1), 1, min(devices, 3), rapid.ID[int]).Draw(t, "allowed")
		case 3:
			c.MinWidth = min(table.Dim, 4*rapid.IntRange(1, 4).Draw(t, "min width/4"))
		}
		p.Tables = append(p.Tables, table)
		m := (&problem.Problem{Tables: []problem.Table{table}, Batch: p.Batch, Accounting: p.Accounting}).ShardMemory(problem.Shard{
			Rows: problem.Range{End: table.Rows}, Columns: problem.Range{End: int64(table.Dim)},
		})
		total += float64(m[problem.ForwardExchange].Used())
	}
	p.Topology = hardware.Topology{Profile: hardware.Profiles()[0], Devices: devices, Memory: unit.GiB, ReserveShare: hardware.NoReserve}
	slack := rapid.SampledFrom([]float64{0.95, 1, 1.01, 1.1, 1.3, 2, 8}).Draw(t, "slack")
	p.Topology.Memory = p.DeviceMemory(0)[problem.ForwardExchange].Used() + unit.Bytes(math.Ceil(total*slack/float64(devices)))
	must.Do(t, p.Validate())
	return p
}

func TestPropertyDevicesNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := tight(t)
		n := search.DevicesNeeded(p)
		fits := func(n int) bool {
			resized := *p
			resized.Topology.Devices = n
			_, err := search.Run(context.Background(), &resized, factory(&resized), search.Options{Workers: 1, MaxEvaluations: 1})
			return err == nil
		}
		if n > 0 && !fits(n) {
			t.Errorf("got %d devices needed, but found no plan on them", n)
		}
	})
}

// stepsOf returns Options.Steps for a method: n if it runs a beam search.
func stepsOf(m search.Method, n int) int {
	if m == search.Paper {
		return n
	}
	return 0
}

func TestSameResultForAnyWorkers(t *testing.T) {
	for _, m := range search.Methods() {
		p := pool(9, 20, 4, 64)
		var want search.Result
		var events []search.Event
		for _, workers := range []int{1, 3} {
			var seen []search.Event
			r, err := search.Run(context.Background(), p, factory(p), searchtest.WithPolicy(search.Options{
				Method: m, Workers: workers, Steps: stepsOf(m, 4), Seed: 3,
				OnEvent: func(e search.Event) { seen = append(seen, e) },
			}))
			if err != nil {
				t.Fatalf("%s: %v", m, err)
			}
			if workers == 1 {
				want, events = r, seen
				continue
			}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("%s: result with %d workers (-1 worker +%d):\n%s", m, workers, workers, diff)
			}
			if diff := cmp.Diff(events, seen); diff != "" {
				t.Errorf("%s: events with %d workers (-1 worker +%d):\n%s", m, workers, workers, diff)
			}
		}
	}
}

func TestInterrupted(t *testing.T) {
	p := pool(4, 60, 8, 128)
	for _, m := range []search.Method{search.NeuroShard, search.Paper} {
		whole, err := search.Run(context.Background(), p, factory(p), search.Options{Method: m})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		r, err := search.Run(ctx, p, factory(p), search.Options{Method: m, OnEvent: func(e search.Event) {
			if e.Phase == "anneal" || e.Level == 1 {
				cancel()
			}
		}})
		cancel()
		if err != nil {
			t.Fatalf("%s: got error %v, want the best plan so far", m, err)
		}
		check(t, p, r)
		if r.Status != search.Interrupted {
			t.Errorf("%s: got status %q, want %q", m, r.Status, search.Interrupted)
		}
		if r.Stats.Evaluations >= whole.Stats.Evaluations {
			t.Errorf("%s: got %d evaluations, want fewer than the %d of the whole search", m, r.Stats.Evaluations, whole.Stats.Evaluations)
		}
		if _, err := search.Run(ctx, p, factory(p), search.Options{Method: m}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v from an ended context, want %v", m, err, context.Canceled)
		}
	}
}

func TestEventsProgress(t *testing.T) {
	p := pool(4, 40, 8, 64)
	for _, m := range []search.Method{search.NeuroShard, search.Paper} {
		var last search.Event
		n := 0
		r := must.Get(search.Run(context.Background(), p, factory(p), search.Options{Method: m, OnEvent: func(e search.Event) {
			if e.Evaluations < last.Evaluations || e.Level < last.Level || n > 0 && e.Best > last.Best {
				t.Errorf("%s: got event %+v after %+v, want progress", m, e, last)
			}
			last, n = e, n+1
		}}))(t)
		if m == search.Paper && (last.Level != r.Stats.Levels || last.Levels != 10) || last.Best < r.Cost {
			t.Errorf("%s: got last event %+v, want level %d of 10 for the paper's and cost %v", m, last, r.Stats.Levels, r.Cost)
		}
	}
}

// ExampleRun plans a few tables on two devices.
func ExampleRun() {
	profile, _ := hardware.ByName("a100-80")
	p := &problem.Problem{
		Batch:    1024,
		Topology: hardware.Topology{Profile: profile, Devices: 2, ReserveShare: hardware.NoReserve},
		Tables: []problem.Table{
			{Name: "user", Rows: 1_000_000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 40}}},
			{Name: "item", Rows: 5_000_000, Dim: 16, Features: []problem.Feature{{PoolingFactor: 20}}},
			{Name: "city", Rows: 10_000, Dim: 16, Features: []problem.Feature{{PoolingFactor: 1}}},
		},
	}
	r, err := search.Run(context.Background(), p, factory(p), search.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for d, shards := range r.Shards {
		for _, s := range shards {
			fmt.Printf("device %d: %s, columns %d to %d\n", d, p.Tables[s.Table].Name, s.Columns.Start, s.Columns.End)
		}
	}
	fmt.Println(unit.Millis(r.Cost), r.Status)
	// Output:
	// device 0: user, columns 0 to 40
	// device 1: user, columns 40 to 64
	// device 1: item, columns 0 to 16
	// device 1: city, columns 0 to 16
	// 0.666 ms complete
}

func BenchmarkRun(b *testing.B) {
	for _, size := range []struct{ tables, devices int }{{26, 8}, {40, 8}, {1000, 128}, {10000, 1024}} {
		for _, m := range []search.Method{search.NeuroShard, search.Paper} {
			if m == search.Paper && size.tables > 100 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%dx%d", m, size.tables, size.devices), func(b *testing.B) {
				p := pool(3, size.tables, size.devices, 128)
				var r search.Result
				for b.Loop() {
					var err error
					if r, err = search.Run(context.Background(), p, factory(p), search.Options{Method: m}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(r.Cost, "cost-ms")
				b.ReportMetric(float64(r.Stats.Evaluations), "evaluations")
			})
		}
	}
}

func TestBriefAsksNoDevices(t *testing.T) {
	p := pool(3, 20, 4, 64)
	p.Topology.Memory, p.Topology.ReserveShare = 1<<20, hardware.NoReserve
	for _, m := range search.Methods() {
		var full, brief *search.Infeasible
		_, err := search.Run(context.Background(), p, factory(p), searchtest.WithPolicy(search.Options{Method: m}))
		_, briefly := search.Run(context.Background(), p, factory(p), searchtest.WithPolicy(search.Options{Method: m, Brief: true}))
		if !errors.As(err, &full) || !errors.As(briefly, &brief) {
			t.Fatalf("%s: got %v and %v, want infeasible", m, err, briefly)
		}
		if brief.DevicesNeeded != 0 || brief.Table != full.Table || brief.Missing != full.Missing || brief.Reason == full.Reason {
			t.Errorf("%s: brief: got %+v, want %+v without the number of devices that would be enough", m, brief, full)
		}
	}
}
