package bound_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

// once is a table whose rows are looked up at most once in a batch.
func once(name string, rows int64, dim int, pooling float64, batch int) problem.Table {
	t := problem.Table{Name: name, Rows: rows, Dim: dim, Features: []problem.Feature{{Name: name, PoolingFactor: pooling}}}
	t.Access = access.Distribution{Kind: access.Histogram, Batch: batch}
	t.Access.Reuse[0] = 1
	return t
}

func ExampleSimulated() {
	a100, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	p := problem.Problem{
		Tables:   []problem.Table{once("user", 1_000_000, 64, 20, 65536), once("item", 4_000_000, 64, 10, 65536)},
		Topology: hardware.Topology{Profile: a100, Devices: 2, ReserveShare: hardware.NoReserve},
		Batch:    65536,
	}
	least, err := bound.Simulated(context.Background(), &p, bound.Allowed{})
	if err != nil {
		panic(err)
	}
	// One table on each device.
	plan, err := simulate.NewPricer(&p).Price([][]problem.Shard{{p.Whole(0)}, {p.Whole(1)}})
	if err != nil {
		panic(err)
	}
	// Half of each table on both devices.
	left, right := []problem.Shard{p.Whole(0), p.Whole(1)}, []problem.Shard{p.Whole(0), p.Whole(1)}
	for i := range left {
		left[i].Columns.End, right[i].Columns.Start = 32, 32
	}
	halves, err := simulate.NewPricer(&p).Price([][]problem.Shard{left, right})
	if err != nil {
		panic(err)
	}
	fmt.Println("no plan is below ", least.Total)
	fmt.Printf("a table each      %v, within %.0f %% of the best\n", plan.Cost, 100*bound.Gap(plan.Cost, least.Total))
	fmt.Printf("halves of each    %v, within %.0f %% of the best\n", halves.Cost, 100*bound.Gap(halves.Cost, least.Total))
	// Output:
	// no plan is below  1.29 ms
	// a table each      1.29 ms, within 0 % of the best
	// halves of each    1.37 ms, within 6 % of the best
}

// Two equal tables that cannot be cut, on two devices: every term by hand.
func TestByHand(t *testing.T) {
	p := &problem.Problem{
		Tables:   []problem.Table{once("a", 1_000_000, 4, 1, 1000), once("b", 1_000_000, 4, 1, 1000)},
		Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 2, ReserveShare: hardware.NoReserve},
		Batch:    1000,
	}
	// 1000 lookups of 1000 rows, 16 bytes each: a sector of 32, a transfer of 64.
	const n, stream, l2, issue = 1000, 2039 * .894 * 1e6, 2271e6, 108 * 1e6
	const rest = n*8 + n*8 + n*32
	const row, miss, bag, use, update, eachBag, overhead = 6.2, 5.3, 49, 4.7, 42.0, 10.3, 82 // ns, and bytes of a row in memory
	shareBag, share := math.Pow(.25, .20), math.Pow(.25, .87)                                // of a warp, forward and backward
	norm := func(a, b, c float64) float64 {
		return math.Pow(math.Pow(a, 6)+math.Pow(b, 6)+math.Pow(c, 6), 1.0/6)
	}
	forward := norm((n*(64+overhead)+rest)/(stream*.90), (n*32+rest)/l2, n*((row+miss)*.25+bag*shareBag)/issue)
	updates := norm((n*32+n*2*(64+overhead)+n*4)/(stream*.74), (n*32+n*2*32)/l2, (use+update)*n*share/issue)
	sorting := n*(8+2*3*12)/(stream*.42) + (n*28+n*20)/stream + eachBag*n/issue // a million rows: 21 bits, 3 passes
	wantCompute := .014 + .093 + forward + updates + sorting
	// Half of the batch of 4 columns goes to the other device.
	collective := .045 + 500*4*4/230e6
	wantForward := collective + 2*1000*4*4/stream
	wantBackward := collective + 2*500*8*4/stream
	got := must.Get(bound.Simulated(context.Background(), p, bound.Allowed{}))(t)
	for _, c := range []struct {
		name string
		got  unit.Millis
		want float64
	}{
		{"compute", got.Compute, wantCompute},
		{"forward comm", got.ForwardComm, wantForward},
		{"backward comm", got.BackwardComm, wantBackward},
		{"total", got.Total, wantCompute + wantForward + wantBackward},
	} {
		if math.Abs(float64(c.got)-c.want) > 1e-6*c.want {
			t.Errorf("%s: got %v ms, want %v", c.name, float64(c.got), c.want)
		}
	}
	cost := must.Get(simulate.NewPricer(p).Price([][]problem.Shard{{p.Whole(0)}, {p.Whole(1)}}))(t)
	if gap := bound.Gap(cost.Cost, got.Total); gap < 0 || gap > 1e-6 {
		t.Errorf("the best plan: got a gap of %v, want 0", gap)
	}
}

func TestGap(t *testing.T) {
	for _, test := range []struct{ cost, bound, want float64 }{{103, 100, .03}, {100, 100, 0}, {1, 0, 0}, {99, 100, -.01}} {
		if got := bound.Gap(unit.Millis(test.cost), unit.Millis(test.bound)); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("cost %v, bound %v: got %v, want %v", test.cost, test.bound, got, test.want)
		}
	}
}

// A table that is larger than the memory of a device has no replicas, and no bound if
// nothing else is allowed.
func TestNoBoundOfTablesThatFitNowhere(t *testing.T) {
	p := &problem.Problem{
		Tables:   []problem.Table{once("a", 1_000_000, 64, 1, 64)},
		Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 2, ReserveShare: hardware.NoReserve},
		Batch:    64,
	}
	everywhere := bound.Allowed{ShardingTypes: []problem.ShardingType{problem.DataParallel}}
	if got, err := bound.Simulated(context.Background(), p, everywhere); err != nil || !(got.Total > 0) {
		t.Errorf("got %+v, %v, want a bound", got, err)
	}
	p.Topology.Memory = p.DeviceMemory(0)[problem.ForwardExchange].Total() + 64_000_000
	if got, err := bound.Simulated(context.Background(), p, everywhere); err == nil {
		t.Errorf("a quarter of the memory: got %+v, want an error", got)
	}
}

func TestWithoutLookups(t *testing.T) {
	p := &problem.Problem{
		Tables:   []problem.Table{once("a", 1000, 8, 0, 64), once("b", 1000, 8, 0, 64)},
		Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 2, ReserveShare: hardware.NoReserve},
		Batch:    64,
	}
	got, err := bound.Simulated(context.Background(), p, bound.Allowed{})
	if err != nil || got.Compute != 0 || !(got.Total > 0) {
		t.Errorf("got %+v, %v, want communication only", got, err)
	}
	everywhere := bound.Allowed{ShardingTypes: []problem.ShardingType{problem.DataParallel}}
	if got, err := bound.Simulated(context.Background(), p, everywhere); err != nil || got != (bound.Bound{}) {
		t.Errorf("replicas: got %+v, %v, want a bound of 0", got, err)
	}
	p.Topology.Profile, p.Topology.DevicesPerHost = must.Get(hardware.ByName("rtx2080ti"))(t), 1
	for _, allowed := range []bound.Allowed{{}, everywhere} {
		if _, err := bound.Simulated(context.Background(), p, allowed); err == nil {
			t.Errorf("several hosts without a network, %v: got no error", allowed)
		}
	}
}

// draw draws a problem of few tables; half of the problems have one operation.
func draw(t *rapid.T, tables, devices, granules int) *problem.Problem {
	p := &problem.Problem{Batch: rapid.SampledFrom([]int{64, 2048, 16384, 65536}).Draw(t, "batch")}
	p.Engine = rapid.SampledFrom([]problem.Engine{"", "", problem.TorchRec, problem.HugeCTR}).Draw(t, "engine")
	p.LaneRule = rapid.SampledFrom([]problem.LaneRule{problem.LanesByWidest, problem.LanesByWidest, problem.LanesByTable}).Draw(t, "lane rule")
	p.Topology.Profile = rapid.SampledFrom(hardware.Profiles()).Draw(t, "profile")
	p.Topology.Devices = rapid.IntRange(1, devices).Draw(t, "devices")
	p.Topology.Memory = 1 << 42
	if p.Topology.Profile.NICGBps > 0 {
		p.Topology.DevicesPerHost = rapid.IntRange(1, p.Topology.Devices).Draw(t, "devices per host")
		p.Topology.NVLinkDomain = p.Topology.DevicesPerHost * rapid.IntRange(0, 3).Draw(t, "hosts of a domain")
	}
	mixed := rapid.Bool().Draw(t, "mixed")
	var like problem.Table
	for i := range rapid.IntRange(1, tables).Draw(t, "tables") {
		if i == 0 || mixed {
			like.Optimizer = problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer"))
			like.Precision = problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision"))
			like.Weighted = rapid.IntRange(0, 3).Draw(t, "weighted") == 0
			like.Module = rapid.SampledFrom([]string{"", "m"}).Draw(t, "module")
			like.Pooling = drawPooling(t, p, &like)
			like.IndexDedup = (like.Pooling == problem.PoolingNone || !p.Engine.Rules().SequenceDedup) && rapid.IntRange(0, 2).Draw(t, "index dedup") == 0
			like.Prefetch = rapid.Bool().Draw(t, "prefetch")
			like.KernelSettings = rapid.SampledFrom([]string{"", "", "x"}).Draw(t, "kernel settings")
		}
		table := like
		table.Name = fmt.Sprint("t", i)
		table.Rows = int64(math.Exp(rapid.Float64Range(2, 18).Draw(t, "ln rows")))
		table.Dim = 4 * rapid.IntRange(1, granules).Draw(t, "granules")
		bags := []float64{0}
		if table.Pooling != problem.PoolingNone && p.Engine != problem.HugeCTR {
			bags = []float64{0, 0, 0, 0.02, 0.3, 2, 2.6}
		}
		for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "features") {
			table.Features = append(table.Features, problem.Feature{
				Bags:          rapid.SampledFrom(bags).Draw(t, "bags"),
				PoolingFactor: rapid.SampledFrom([]float64{0, 0.5, 1, 7, 40, 150}).Draw(t, "pooling"),
				LengthCV:      rapid.SampledFrom([]float64{0, 0, 0.3, 1, 4}).Draw(t, "length cv"),
			})
		}
		table.Access = access.Distribution{Kind: rapid.SampledFrom([]access.Kind{access.Unstated, access.Zipf, access.Uniform}).Draw(t, "access"), Exponent: rapid.Float64Range(0.2, 1.5).Draw(t, "exponent")}
		if rapid.IntRange(0, 5).Draw(t, "constrained") == 0 {
			table.Constraint.MinWidth = min(table.Dim, 4*rapid.IntRange(1, 8).Draw(t, "least width"))
		}
		p.Tables = append(p.Tables, table)
		if rapid.IntRange(0, 5).Draw(t, "again") == 0 {
			table.Name += "x"
			p.Tables = append(p.Tables, table)
		}
	}
	return p
}

// drawPooling draws the pooling of a table like the given one, which is sequences in a quarter of
// the problems of engines that run them.
func drawPooling(t *rapid.T, p *problem.Problem, like *problem.Table) problem.Pooling {
	if like.Weighted || p.Engine == problem.HugeCTR {
		return problem.Pooling(rapid.IntRange(0, 1).Draw(t, "pooling of bags"))
	}
	return problem.Pooling(rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "pooling"))
}

// drawOperators draws whether a plan may divide the slices of a device into operators.
func drawOperators(t *rapid.T, p *problem.Problem) bool {
	return rapid.Bool().Draw(t, "operators") && !p.Engine.Rules().Undivided
}

func price(t interface{ Fatal(...any) }, judge *simulate.Pricer, shards [][]problem.Shard) unit.Millis {
	cost, err := judge.Price(shards)
	if err != nil {
		t.Fatal(err)
	}
	return cost.Cost
}

// asDrawn leaves a problem as it is, and heat makes one or two of its tables hot.
func asDrawn(*rapid.T, *problem.Problem) {}

func heat(t *rapid.T, p *problem.Problem) {
	hot := rapid.IntRange(1, 2).Draw(t, "hot tables")
	for i := range p.Tables {
		for j := range p.Tables[i].Features {
			if f := &p.Tables[i].Features[j]; i < hot {
				f.PoolingFactor = rapid.SampledFrom([]float64{60, 150, 400}).Draw(t, "hot pooling")
			} else {
				f.PoolingFactor = min(f.PoolingFactor, 10)
			}
		}
	}
}

// optimum is a kind of tiny problems: slices of columns or any sharding types and tiers, maybe on
// devices of different memories.
type optimum struct {
	name          string
	kinds, uneven bool
	change        func(*rapid.T, *problem.Problem)
	hides         func(*rapid.T, *problem.Problem) plan.Hidden
}

// Of all placements of tiny problems, the best one is not below the bound, and with one operator not far
// above it; also if tables are hot, if the engine hides a part of the exchanges or exchanges
// hierarchically, or if each device has its own memory.
func TestNoOptimumIsBelow(t *testing.T) {
	for _, c := range []optimum{
		{"columns", false, false, asDrawn, nothingHidden},
		{"columns of hot tables", false, false, heat, nothingHidden},
		{"columns, hidden", false, false, asDrawn, drawHidden},
		{"columns on uneven devices", false, true, asDrawn, nothingHidden},
		{"any kind", true, false, asDrawn, nothingHidden},
		{"any kind, hidden", true, false, asDrawn, drawHidden},
		{"any kind, hierarchical", true, false, asDrawn, drawHierarchy},
	} {
		t.Run(c.name, c.isNotBelow)
	}
}

// ways returns a drawn problem of the kind, and all ways to place each of its tables: of the third
// table in any kind some.
func (c *optimum) ways(t *rapid.T) (p *problem.Problem, all [][]way) {
	switch {
	case c.kinds:
		p = drawKinds(t, 2, 4, 3)
	case c.uneven:
		p = draw(t, 3, 3, 3)
		p.Tables = p.Tables[:min(len(p.Tables), 3)]
		drawMemories(t, p, 1.2, false)
	default:
		p = draw(t, 3, 3, 4)
	}
	c.change(t, p)
	if !c.kinds {
		p.Tables = p.Tables[:min(len(p.Tables), 4)]
		for i := range p.Tables {
			all = append(all, everyCut(p, i))
		}
		return p, all
	}
	p.Tables = p.Tables[:min(len(p.Tables), 3)]
	for i := range p.Tables {
		all = append(all, everyWay(p, i))
		if rapid.IntRange(0, 2).Draw(t, "stated types") == 0 {
			all[i] = statedTypes(t, &p.Tables[i], all[i])
		}
	}
	if len(all) == 3 {
		step := 1 + len(all[0])*len(all[1])*len(all[2])/5000
		some := all[2][:0]
		for j := 0; j < len(all[2]); j += step {
			some = append(some, all[2][j])
		}
		all[2] = some
	}
	return p, all
}

func (c optimum) isNotBelow(t *testing.T) {
	var known gaps
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		p, all := c.ways(t)
		allowed := bound.Allowed{Hidden: c.hides(t, p), Operators: !c.uneven && drawOperators(t, p)}
		if c.kinds {
			allowed.ShardingTypes, allowed.Host = everyKind.ShardingTypes, everyKind.Host
		}
		judge := exposed(t, p, allowed.Hidden)
		ways := make([]way, len(all))
		best, cheapest := unit.Millis(math.Inf(1)), ""
		var rec func(i int)
		rec = func(i int) {
			if i == len(all) {
				shards := shardsOf(p, ways)
				if c.uneven && !within(p, shards) {
					return
				}
				if cost := price(t, judge, shards); cost < best {
					best, cheapest = cost, fmt.Sprint(ways)
				}
				return
			}
			for _, ways[i] = range all[i] {
				rec(i + 1)
				if allowed.Operators && i > 0 {
					ways[i].operator = 1
					rec(i + 1)
				}
			}
		}
		rec(0)
		if cheapest == "" {
			return // no placement fits
		}
		compared++
		least := must.Get(bound.Simulated(context.Background(), p, allowed))(t)
		if best < least.Total {
			t.Fatalf("%v of memory: the best placement %s costs %v, below the bound %v", p.Topology.DeviceMemories, cheapest, best, least.Total)
		}
		// If all ways of all tables were tried, on equal devices and in one operator, the bound is sharp.
		last := &p.Tables[len(p.Tables)-1]
		if !c.uneven && (!c.kinds || len(p.Tables) < 3 && p.Tables[0].Optimizer == last.Optimizer) {
			known.add(best, least.Total)
		}
	})
	if compared == 0 {
		t.Error("got no problem with a placement that fits")
	}
	known.judge(t)
}

// everyCut returns all ways to place table i in slices of columns, one or none on each device.
func everyCut(p *problem.Problem, i int) (all []way) {
	least := p.Tables[i].MinWidth() / problem.ColumnGranule
	var spread func(w way, device, left int)
	spread = func(w way, device, left int) {
		if left == 0 {
			all = append(all, w)
			return
		}
		for g := least; g <= left && device < p.Topology.Devices; g++ {
			wider := way{kind: problem.ColumnWise, at: append(slices.Clone(w.at), device), widths: append(slices.Clone(w.widths), g), tiers: append(slices.Clone(w.tiers), problem.HBM)}
			spread(wider, device+1, left-g)
		}
		if device < p.Topology.Devices {
			spread(w, device+1, left)
		}
	}
	spread(way{}, 0, p.Tables[i].Dim/problem.ColumnGranule)
	return all
}

// gaps are the gaps between optima and their bounds.
type gaps struct{ sum, count float64 }

func (g *gaps) add(cost, least unit.Millis) {
	g.sum += bound.Gap(cost, least)
	g.count++
}

// judge fails if the mean gap is wide. A single problem decides the mean of a few, so it
// judges 40 problems or more, which are drawn with the build tag long.
func (g *gaps) judge(t *testing.T) {
	t.Helper()
	mean := g.sum / g.count
	t.Logf("mean gap of %v optima: %.1f %%", g.count, 100*mean)
	if g.count >= 40 && mean > 0.25 {
		t.Errorf("got optima %.1f %% above the bound in the mean, want a sharper bound", 100*mean)
	}
}

// drawn returns a problem with the given number of tables of the drawn pool.
func drawn(t testing.TB, tables, devices int) *problem.Problem {
	t.Helper()
	pool := workload.Pool(1)
	p := &problem.Problem{Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: devices, DevicesPerHost: 8, ReserveShare: hardware.NoReserve}, Batch: 65536}
	for i := range tables {
		table := pool[i%len(pool)]
		table.Name = fmt.Sprint("t", i)
		table.Dim = 4 << (i % 6)
		table.Rows += int64(i / len(pool)) // so that none is like another
		p.Tables = append(p.Tables, table)
	}
	return p
}
