package search_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/fixedseed"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/unit"
)

// check fails if the result is no valid plan of p, or if its cost is not the stated
// cost. It shares no code with the search.
func check(t rapid.TB, p *problem.Problem, r search.Result) {
	t.Helper()
	if len(r.Shards) != p.Topology.Devices {
		t.Fatalf("got %d devices, want %d", len(r.Shards), p.Topology.Devices)
	}
	scorer := factory(p)()
	scorer.Reset()
	columns := make([][]bool, len(p.Tables))
	entries := make([]int, len(p.Tables))
	home := make([]int, len(p.Tables))
	for i := range p.Tables {
		columns[i] = make([]bool, p.Tables[i].Dim)
	}
	for d, shards := range r.Shards {
		memory := p.DeviceMemory(d)
		for _, s := range shards {
			table := &p.Tables[s.Table]
			memory = memory.Add(p.ShardMemory(s))
			scorer.Add(d, scorer.Item(s.Table, s.Dim(), problem.Form{}))
			if s.Rows != (problem.Range{Start: 0, End: table.Rows}) {
				t.Errorf("table %q: got rows %v, want all", table.Name, s.Rows)
			}
			if s.Columns.Start%4 != 0 || s.Dim()%4 != 0 || s.Dim() < table.MinWidth() {
				t.Errorf("table %q: got columns %v, want multiples of 4, at least %d", table.Name, s.Columns, table.MinWidth())
			}
			for c := s.Columns.Start; c < s.Columns.End; c++ {
				if columns[s.Table][c] {
					t.Errorf("table %q: column %d is placed twice", table.Name, c)
				}
				columns[s.Table][c] = true
			}
			if allowed := table.Constraint.Devices; len(allowed) > 0 && !slices.Contains(allowed, d) {
				t.Errorf("table %q: got device %d, want one of %v", table.Name, d, allowed)
			}
			entries[s.Table]++
			home[s.Table] = d
		}
		if memory.Total() > p.Topology.DeviceMemory(d) {
			t.Errorf("device %d: got %d bytes, want at most %d", d, memory.Total(), p.Topology.DeviceMemory(d))
		}
	}
	groups := map[string]int{}
	for i := range p.Tables {
		table := &p.Tables[i]
		if slices.Contains(columns[i], false) {
			t.Errorf("table %q: columns are missing", table.Name)
		}
		if table.Constraint.NoSplit && entries[i] > 1 {
			t.Errorf("table %q: got %d slices, want it whole", table.Name, entries[i])
		}
		if g := table.Constraint.Colocation; g != "" {
			if first, ok := groups[g]; ok && home[first] != home[i] {
				t.Errorf("group %q: got devices %d and %d, want one", g, home[first], home[i])
			}
			groups[g] = i
		}
	}
	if cost := scorer.Cost(); cost != r.Cost {
		t.Errorf("cost: got %v, want %v, the cost of the placement built anew", r.Cost, cost)
	}
}

// firstFit is first fit by falling bytes after forced splits, written anew.
func firstFit(p *problem.Problem) (placed [][]problem.Shard, ok bool) {
	type unit struct {
		tables []int
		width  int // of a single table
		bytes  int64
		where  []int
	}
	budget := int64(p.ShardBudget(0))
	bytes := func(table, width int) int64 {
		s := p.Whole(table)
		s.Columns.End = int64(width)
		return int64(p.ShardMemory(s).Tables())
	}
	var units []unit
	for _, g := range p.Colocations() {
		if len(g.Tables) > 1 {
			u := unit{tables: g.Tables, where: g.Devices}
			for _, i := range g.Tables {
				u.bytes += bytes(i, p.Tables[i].Dim)
			}
			units = append(units, u)
			continue
		}
		i := g.Tables[0]
		widths := []int{p.Tables[i].Dim}
		for len(widths) > 0 {
			w := widths[0]
			widths = widths[1:]
			left := (w/2 + 3) / 4 * 4
			if bytes(i, w) > budget && w-left >= p.Tables[i].MinWidth() && w > left {
				widths = append(widths, left, w-left)
				continue
			}
			units = append(units, unit{g.Tables, w, bytes(i, w), g.Devices})
		}
	}
	slices.SortStableFunc(units, func(a, b unit) int { return int(min(1, max(-1, b.bytes-a.bytes))) })
	n := p.Topology.Devices
	used := make([]int64, n)
	placed = make([][]problem.Shard, n)
	start := make([]int64, len(p.Tables))
next:
	for _, u := range units {
		for d := range n {
			if used[d]+u.bytes > budget || u.where != nil && !slices.Contains(u.where, d) {
				continue
			}
			used[d] += u.bytes
			for _, i := range u.tables {
				s := p.Whole(i)
				if len(u.tables) == 1 {
					s.Columns = problem.Range{Start: start[i], End: start[i] + int64(u.width)}
					start[i] = s.Columns.End
				}
				placed[d] = append(placed[d], s)
			}
			continue next
		}
		return nil, false
	}
	return placed, true
}

func price(p *problem.Problem, placed [][]problem.Shard) float64 {
	s := factory(p)()
	for d, shards := range placed {
		for _, shard := range shards {
			s.Add(d, s.Item(shard.Table, shard.Dim(), problem.Form{}))
		}
	}
	return s.Cost()
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
		total += float64(m.Tables())
	}
	p.Topology = hardware.Topology{Profile: hardware.Profiles()[0], Devices: devices, Memory: unit.GiB, ReserveShare: hardware.NoReserve}
	slack := rapid.SampledFrom([]float64{0.95, 1, 1.01, 1.1, 1.3, 2, 8}).Draw(t, "slack")
	p.Topology.Memory = p.DeviceMemory(0).Received + unit.Bytes(math.Ceil(total*slack/float64(devices)))
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPropertyPlansAreValidAndNeverWorse(t *testing.T) {
	fixedseed.Few(t)
	rapid.Check(t, func(t *rapid.T) {
		p := tight(t)
		seed := rapid.Uint64().Draw(t, "seed")
		run := func(m search.Method) (search.Result, bool) {
			r, err := search.Run(context.Background(), p, factory(p), searchtest.WithPolicy(search.Options{Method: m, Seed: seed, Workers: 1, Steps: stepsOf(m, 3), MaxEvaluations: 20_000}))
			var infeasible *search.Infeasible
			if errors.As(err, &infeasible) {
				if infeasible.Table == "" || infeasible.Reason == "" || infeasible.Need <= 0 || infeasible.Missing < 0 {
					t.Errorf("%s: got %+v, want a table, bytes and a reason", m, infeasible)
				}
				return r, false
			}
			if err != nil {
				t.Fatalf("%s: %v", m, err)
			}
			check(t, p, r)
			return r, true
		}
		best, found := run(search.NeuroShard)
		for _, m := range append(append(search.Baselines(), search.Paper), search.Learned()...) {
			r, ok := run(m)
			if m == search.Paper || m.Learned() {
				continue // only checked to be valid: the paper's search tries other splits
			}
			if ok && !found {
				t.Errorf("got no plan, %s found one", m)
			}
			if ok && r.Cost < best.Cost {
				t.Errorf("got cost %v, %s has %v", best.Cost, m, r.Cost)
			}
		}
		if placed, ok := firstFit(p); ok {
			if !found {
				t.Errorf("got no plan, first fit found one")
			} else if cost := price(p, placed); cost < best.Cost {
				t.Errorf("got cost %v, first fit has %v", best.Cost, cost)
			}
		}
	})
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
		if n == 0 {
			if _, ok := firstFit(p); ok {
				t.Errorf("got no number of devices that fit, but %d fit", p.Topology.Devices)
			}
			return
		}
		if !fits(n) {
			t.Errorf("got %d devices needed, but found no plan on them", n)
		}
		if _, ok := firstFit(p); ok && n > p.Topology.Devices && p.Topology.Devices > 1 {
			t.Errorf("got %d devices needed, but %d fit", n, p.Topology.Devices)
		}
	})
}

func TestNearOptimumOfTinyProblems(t *testing.T) {
	sum, hits := 0.0, 0
	const tasks = 20
	for seed := range uint64(tasks) {
		p := pool(seed, 4, 2, 16)
		p.Topology.Memory = 0
		for i := range p.Tables {
			p.Tables[i].Dim = 4 * (1 + int(seed+uint64(i)*3)%3)
		}
		want := optimum(p)
		r, err := search.Run(context.Background(), p, factory(p), search.Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, r)
		if r.Cost < want*(1-1e-12) {
			t.Errorf("task %d: got cost %v, below the optimum %v", seed, r.Cost, want)
		}
		sum += r.Cost / want
		if r.Cost <= want*(1+1e-12) {
			hits++
		}
	}
	t.Logf("mean ratio to the optimum %.4f, reached on %d of %d tasks", sum/tasks, hits, tasks)
	if sum/tasks > 1.03 {
		t.Errorf("got a mean ratio to the optimum of %.4f, want at most 1.03", sum/tasks)
	}
}

// optimum tries every way to cut dims of 4, 8 and 12 and every placement.
func optimum(p *problem.Problem) float64 {
	return optimumOf(p, func([]unit.Bytes) bool { return true })
}

// optimumOf is optimum among the placements with the bytes of shards by device that may be.
func optimumOf(p *problem.Problem, may func(used []unit.Bytes) bool) float64 {
	s := factory(p)()
	best := math.Inf(1)
	used := make([]unit.Bytes, p.Topology.Devices)
	cuts := map[int][][]int{4: {{4}}, 8: {{8}, {4, 4}}, 12: {{12}, {8, 4}, {4, 4, 4}}}
	var table func(i int)
	var put func(i int, widths []int)
	put = func(i int, widths []int) {
		if len(widths) == 0 {
			table(i + 1)
			return
		}
		shard := p.Whole(i)
		shard.Columns.End = int64(widths[0])
		item, bytes := s.Item(i, widths[0], problem.Form{}), p.ShardMemory(shard).Tables()
		for d := range p.Topology.Devices {
			s.Add(d, item)
			used[d] += bytes
			put(i, widths[1:])
			used[d] -= bytes
			s.Remove(d, item)
		}
	}
	table = func(i int) {
		if i == len(p.Tables) {
			if may(used) {
				best = min(best, s.Cost())
			}
			return
		}
		for _, widths := range cuts[p.Tables[i].Dim] {
			put(i, widths)
		}
	}
	table(0)
	return best
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
		p := pool(9, 45, 6, 128)
		var want search.Result
		var events []search.Event
		for _, workers := range []int{1, 2, 8} {
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

func TestSeedMatters(t *testing.T) {
	p := pool(9, 45, 6, 128)
	run := func(seed uint64) search.Result {
		r, err := search.Run(context.Background(), p, factory(p), search.Options{Method: search.Random, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if cmp.Equal(run(1), run(2)) {
		t.Error("got the same random plan from seeds 1 and 2")
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

// TestBetterThanPaper holds the repairs to what they are for.
func TestBetterThanPaper(t *testing.T) {
	sum := 0.0
	const tasks = 8
	for seed := range uint64(tasks) {
		p := pool(seed, 30+int(seed)*3, 8, 128)
		costs := map[search.Method]float64{}
		for _, m := range []search.Method{search.NeuroShard, search.Paper} {
			r, err := search.Run(context.Background(), p, factory(p), search.Options{Method: m})
			if err != nil {
				t.Fatal(err)
			}
			check(t, p, r)
			costs[m] = r.Cost
		}
		if costs[search.NeuroShard] > costs[search.Paper] {
			t.Errorf("seed %d: got cost %v, more expensive than the paper's %v", seed, costs[search.NeuroShard], costs[search.Paper])
		}
		sum += math.Log(costs[search.NeuroShard] / costs[search.Paper])
	}
	ratio := math.Exp(sum / tasks)
	t.Logf("mean cost %.3f of the paper's", ratio)
	if ratio > 0.95 {
		t.Errorf("got a mean cost of %.3f of the paper's, want at most 0.95", ratio)
	}
}

func TestEventsProgress(t *testing.T) {
	p := pool(4, 40, 8, 64)
	for _, m := range []search.Method{search.NeuroShard, search.Paper} {
		var last search.Event
		n := 0
		r, err := search.Run(context.Background(), p, factory(p), search.Options{Method: m, OnEvent: func(e search.Event) {
			if e.Evaluations < last.Evaluations || e.Level < last.Level || n > 0 && e.Best > last.Best {
				t.Errorf("%s: got event %+v after %+v, want progress", m, e, last)
			}
			last, n = e, n+1
		}})
		if err != nil {
			t.Fatal(err)
		}
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

// Tiny problems are solved to the optimum: every way to cut the tables and every
// placement is tried here, too. Two slices of one table on one device are among
// them, which the search joins.
func TestOptimumOfTinyProblems(t *testing.T) { optimumOfTinyProblems(t, 8, 2) }

// optimumOfTinyProblems is TestOptimumOfTinyProblems with a number of tasks. Some of them
// are annealed, too.
func optimumOfTinyProblems(t *testing.T, tasks, withRefinement int) {
	proven, hits, refined, limited := 0, 0, 0, 0
	slowest := time.Duration(0)
	for seed := range uint64(tasks) {
		p := pool(seed, 4, 2+int(seed%2), 16)
		p.Topology.Memory = 0
		for i := range p.Tables {
			p.Tables[i].Dim = 4 * (1 + int(seed+uint64(i)*3)%3)
		}
		want := optimum(p)
		start := time.Now()
		r, err := search.Run(context.Background(), p, factory(p), search.Options{Workers: 1})
		slowest = max(slowest, time.Since(start))
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, r)
		if r.Cost < want*(1-1e-12) {
			t.Errorf("task %d: got cost %v, below the optimum %v", seed, r.Cost, want)
		}
		if r.Optimal {
			if proven++; r.Cost > want*(1+1e-9) {
				t.Errorf("task %d: cost %v is said to be optimal, %v is", seed, r.Cost, want)
			}
		}
		// Devices that hold little more than half: the search must keep to it.
		tight := *p
		tight.Topology.Memory = 0
		for i := range p.Tables {
			tight.Topology.Memory += p.ShardMemory(p.Whole(i)).Tables()
		}
		tight.Topology.Memory = tight.DeviceMemory(0).Received + tight.Topology.Memory*2/3
		if r, err := search.Run(context.Background(), &tight, factory(&tight), search.Options{Workers: 1}); err == nil {
			check(t, &tight, r)
			limited++
		}
		if r.Cost <= want*(1+1e-9) {
			hits++
		} else {
			t.Logf("task %d: cost %v is %.4f of the optimum", seed, r.Cost, r.Cost/want)
		}
		if seed >= uint64(withRefinement) {
			continue
		}
		// With a budget of the caller's, the search anneals instead of trying all placements.
		r, err = search.Run(context.Background(), p, factory(p), search.Options{Workers: 1, MaxEvaluations: 300_000})
		if err != nil {
			t.Fatal(err)
		}
		if r.Optimal {
			t.Errorf("task %d: an annealed placement is said to be optimal", seed)
		}
		if r.Cost <= want*(1+1e-9) {
			refined++
		}
	}
	t.Logf("optimum on %d of %d tasks, %d proven, the slowest in %v; by annealing on %d of %d", hits, tasks, proven, slowest, refined, withRefinement)
	if limited < tasks/2 {
		t.Errorf("%d tasks fit tight devices, want most", limited)
	}
	if least := tasks * 95 / 100; hits < least || proven < least || refined < withRefinement-1 {
		t.Errorf("got the optimum on %d of %d tasks, %d proven, and on %d of %d by annealing alone, want %d, %d and %d at least", hits, tasks, proven, refined, withRefinement, least, least, withRefinement-1)
	}
}

// TestLessThanTheBuffers: if the buffers of a device take more than its memory, the error says so, and
// states no bytes below 0.
func TestLessThanTheBuffers(t *testing.T) {
	p := pool(1, 3, 4, 64)
	p.Accounting, p.Batch = problem.CountAll, 1<<20
	p.Topology.Memory = p.DeviceMemory(0).Received / 2
	_, err := search.Run(context.Background(), p, formsFactory(p, true), search.Options{})
	var infeasible *search.Infeasible
	if !errors.As(err, &infeasible) || infeasible.Have >= 0 || infeasible.Missing <= infeasible.Need {
		t.Fatalf("got %+v, want an Infeasible with less than nothing free", err)
	}
	if got := err.Error(); !strings.Contains(got, "has none free, because its reserve and the buffers of exchanges take") || strings.Contains(got, " -") {
		t.Errorf("got %q", got)
	}
	_, err = search.Run(context.Background(), p, formsFactory(p, true), search.Options{ShardingTypes: []problem.ShardingType{problem.RowWise}})
	if err == nil || strings.Contains(err.Error(), " -") || !strings.Contains(err.Error(), "have 0 B for them") {
		t.Errorf("row_wise: got %v", err)
	}
}
