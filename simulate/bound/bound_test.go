package bound_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

func profile(t testing.TB, name string) hardware.Profile {
	t.Helper()
	p, err := hardware.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

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
	// no plan is below  1.40 ms
	// a table each      1.40 ms, within 0 % of the best
	// halves of each    1.53 ms, within 9 % of the best
}

// Two equal tables that cannot be cut, on two devices: every term by hand.
func TestByHand(t *testing.T) {
	p := &problem.Problem{
		Tables:   []problem.Table{once("a", 1_000_000, 4, 1, 1000), once("b", 1_000_000, 4, 1, 1000)},
		Topology: hardware.Topology{Profile: profile(t, "a100-80"), Devices: 2, ReserveShare: hardware.NoReserve},
		Batch:    1000,
	}
	// 1000 lookups of 1000 rows, 16 bytes each: a sector of 32, a transfer of 64.
	const n, stream, l2, issue = 1000, 2039 * .894 * 1e6, 2271e6, 108 * 1e6
	const rest = n*8 + n*8 + n*32
	const row, bag, eachUpdate, eachBag, overhead = 7.9, 55, 16.2, 22, 119 // ns, and bytes of a row in memory
	shareBag, share := math.Pow(.25, .24), math.Pow(.25, .74)              // of a warp, forward and backward
	norm := func(a, b, c float64) float64 {
		return math.Pow(math.Pow(a, 6)+math.Pow(b, 6)+math.Pow(c, 6), 1.0/6)
	}
	forward := norm((n*(64+overhead)+rest)/(stream*.86), (n*32+rest)/l2, n*(row*.25+bag*shareBag)/issue)
	update := norm((n*32+n*2*(64+overhead)+n*4)/(stream*.60), (n*32+n*2*32)/l2, eachUpdate*3*n*share/issue)
	sorting := n*(8+2*3*12)/(stream*.68) + (n*28+n*20)/stream + eachBag*n/issue // a million rows: 21 bits, 3 passes
	wantCompute := .003 + .042 + forward + update + sorting
	// Half of the batch of 4 columns goes to the other device.
	collective := .045 + 500*4*4/230e6
	wantForward := collective + 2*1000*4*4/stream
	wantBackward := collective + 2*500*8*4/stream
	got, err := bound.Simulated(context.Background(), p, bound.Allowed{})
	if err != nil {
		t.Fatal(err)
	}
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
	cost, err := simulate.NewPricer(p).Price([][]problem.Shard{{p.Whole(0)}, {p.Whole(1)}})
	if err != nil {
		t.Fatal(err)
	}
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
		Topology: hardware.Topology{Profile: profile(t, "a100-80"), Devices: 2, ReserveShare: hardware.NoReserve},
		Batch:    64,
	}
	everywhere := bound.Allowed{ShardingTypes: []problem.ShardingType{problem.DataParallel}}
	if got, err := bound.Simulated(context.Background(), p, everywhere); err != nil || !(got.Total > 0) {
		t.Errorf("got %+v, %v, want a bound", got, err)
	}
	p.Topology.Memory = p.DeviceMemory(0).Total() + 64_000_000
	if got, err := bound.Simulated(context.Background(), p, everywhere); err == nil {
		t.Errorf("a quarter of the memory: got %+v, want an error", got)
	}
}

func TestWithoutLookups(t *testing.T) {
	p := &problem.Problem{
		Tables:   []problem.Table{once("a", 1000, 8, 0, 64), once("b", 1000, 8, 0, 64)},
		Topology: hardware.Topology{Profile: profile(t, "a100-80"), Devices: 2, ReserveShare: hardware.NoReserve},
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
	p.Topology.Profile, p.Topology.DevicesPerHost = profile(t, "rtx2080ti"), 1
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
			like.IndexDedup = like.Pooling == problem.PoolingNone && rapid.Bool().Draw(t, "index dedup")
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

// placement is the widths of each table's slices on each device, in granules.
type placement [][]int

// shards returns the placement as shards. The slices of a table are in the order of the
// devices.
func (pl placement) shards(p *problem.Problem) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	for i := range pl {
		column := int64(0)
		for r, g := range pl[i] {
			if g > 0 {
				s := p.Whole(i)
				s.Columns = problem.Range{Start: column, End: column + int64(4*g)}
				column = s.Columns.End
				shards[r] = append(shards[r], s)
			}
		}
	}
	return shards
}

// apart gives each table the operator of its number.
func apart(shards [][]problem.Shard, numbers []problem.Operator) [][]problem.Shard {
	for _, held := range shards {
		for i := range held {
			held[i].Operator = numbers[held[i].Table]
		}
	}
	return shards
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

// Of all cuts and placements of tiny problems, the best one is not below the bound, and with one operator
// not far above it; also if tables are hot, or the engine hides a part of the all-to-alls.
func TestNoOptimumIsBelow(t *testing.T) {
	t.Run("as drawn", func(t *testing.T) { noOptimumIsBelow(t, asDrawn, nothingHidden) })
	t.Run("hot tables", func(t *testing.T) { noOptimumIsBelow(t, heat, nothingHidden) })
	t.Run("hidden", func(t *testing.T) { noOptimumIsBelow(t, asDrawn, drawHidden) })
}

func noOptimumIsBelow(t *testing.T, change func(*rapid.T, *problem.Problem), hides func(*rapid.T, *problem.Problem) plan.Hidden) {
	var known gaps
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 3, 3, 4)
		change(t, p)
		if len(p.Tables) > 4 {
			p.Tables = p.Tables[:4]
		}
		operators := drawOperators(t, p)
		hidden := hides(t, p)
		judge := exposed(t, p, hidden)
		pl, numbers := make(placement, len(p.Tables)), make([]problem.Operator, len(p.Tables))
		best := unit.Millis(math.Inf(1))
		var rec func(i int)
		rec = func(i int) {
			if i == len(pl) {
				shards := pl.shards(p)
				best = min(best, price(t, judge, shards))
				// The number of the first table is 0.
				for n := 2; operators && n < 1<<len(pl); n += 2 {
					for j := range numbers {
						numbers[j] = problem.Operator(n >> j & 1)
					}
					best = min(best, price(t, judge, apart(shards, numbers)))
				}
				return
			}
			least := p.Tables[i].MinWidth() / 4
			pl[i] = make([]int, p.Topology.Devices)
			var spread func(r, left int)
			spread = func(r, left int) {
				if r == len(pl[i])-1 {
					if pl[i][r] = left; left == 0 || left >= least {
						rec(i + 1)
					}
					return
				}
				for g := 0; g <= left; g++ {
					if g == 0 || g >= least {
						pl[i][r] = g
						spread(r+1, left-g)
					}
				}
			}
			spread(0, p.Tables[i].Dim/4)
		}
		rec(0)
		least, err := bound.Simulated(context.Background(), p, bound.Allowed{Operators: operators, Hidden: hidden})
		if err != nil {
			t.Fatal(err)
		}
		if best < least.Total {
			t.Fatalf("the best placement: got a cost of %v, want at least the bound %v", best, least.Total)
		}
		known.add(best, least.Total)
	})
	known.judge(t)
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
	p := &problem.Problem{Topology: hardware.Topology{Profile: profile(t, "a100-80"), Devices: devices, DevicesPerHost: 8, ReserveShare: hardware.NoReserve}, Batch: 65536}
	for i := range tables {
		table := pool[i%len(pool)]
		table.Name = fmt.Sprint("t", i)
		table.Dim = 4 << (i % 6)
		table.Rows += int64(i / len(pool)) // so that none is like another
		p.Tables = append(p.Tables, table)
	}
	return p
}

func BenchmarkSimulated(b *testing.B) {
	for _, size := range [][2]int{{40, 8}, {856, 64}, {10_000, 1024}} {
		p := drawn(b, size[0], size[1])
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			for b.Loop() {
				if _, err := bound.Simulated(context.Background(), p, bound.Allowed{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
