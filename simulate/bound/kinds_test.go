package bound_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

var everyKind = bound.Allowed{ShardingTypes: problem.ShardingTypes(), Host: true, Operators: true}

func ExampleSimulated_shardingTypes() {
	a100, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	p := problem.Problem{
		Tables:   []problem.Table{once("user", 40_000_000, 64, 60, 65536), once("country", 300, 64, 1, 65536)},
		Topology: hardware.Topology{Profile: a100, Devices: 4, ReserveShare: hardware.NoReserve},
		Batch:    65536,
	}
	columns, err := bound.Simulated(context.Background(), &p, bound.Allowed{})
	if err != nil {
		panic(err)
	}
	least, err := bound.Simulated(context.Background(), &p, bound.Allowed{ShardingTypes: problem.ShardingTypes()})
	if err != nil {
		panic(err)
	}
	// A quarter of the rows on each device, and the small table on all.
	shards := make([][]problem.Shard, 4)
	for d := range shards {
		block, copied := p.Whole(0), p.Whole(1)
		block.ShardingType, copied.ShardingType = problem.RowWise, problem.DataParallel
		block.Rows = problem.Range{Start: int64(d) * 10_000_000, End: int64(d+1) * 10_000_000}
		shards[d] = []problem.Shard{block, copied}
	}
	plan, err := simulate.NewPricer(&p).Price(shards)
	if err != nil {
		panic(err)
	}
	fmt.Println("no plan by columns is below ", columns.Total)
	fmt.Println("no plan at all is below     ", least.Total)
	fmt.Printf("rows of one, copies of one   %v, within %.0f %% of the best\n", plan.Cost, 100*bound.Gap(plan.Cost, least.Total))
	// Output:
	// no plan by columns is below  2.18 ms
	// no plan at all is below      1.38 ms
	// rows of one, copies of one   1.41 ms, within 2 % of the best
}

// way is how one table is placed: its sharding type, and the devices of its slices, or
// their hosts, with the widths of the slices in granules.
type way struct {
	kind     problem.ShardingType
	at       []int
	widths   []int
	tiers    []problem.Tier
	operator problem.Operator
	// cache is the cache share of slices in tier HostCached; 0 means 0.25.
	cache float64
}

// shardsOf returns the placement as shards, by device.
func shardsOf(p *problem.Problem, ways []way) [][]problem.Shard {
	n, l := p.Topology.Devices, p.Topology.PerHost()
	shards := make([][]problem.Shard, n)
	byRows := func(s problem.Shard, first, devices int) {
		t := &p.Tables[s.Table]
		block := t.BlockRows(devices)
		for d := range devices {
			s.Rows = problem.Range{Start: int64(d) * block, End: min(t.Rows, int64(d+1)*block)}
			shards[first+d] = append(shards[first+d], s)
		}
	}
	for i, w := range ways {
		s := p.Whole(i)
		s.ShardingType, s.Operator = w.kind, w.operator
		switch w.kind {
		case problem.RowWise:
			byRows(s, 0, n)
		case problem.DataParallel:
			for d := range shards {
				shards[d] = append(shards[d], s)
			}
		default:
			column := int64(0)
			for j, g := range w.widths {
				s.Columns = problem.Range{Start: column, End: column + int64(g*problem.ColumnGranule)}
				column = s.Columns.End
				if w.kind == problem.TableRowWise || w.kind == problem.Grid {
					byRows(s, w.at[j]*l, l)
					continue
				}
				s.Tier, s.Cache = w.tiers[j], 0
				if s.Tier == problem.HostCached {
					s.Cache = cmp.Or(w.cache, 0.25)
				}
				shards[w.at[j]] = append(shards[w.at[j]], s)
			}
		}
	}
	return shards
}

// randomWay draws a way of table i.
func randomWay(p *problem.Problem, i int, kinds []problem.ShardingType, host bool, r *rand.Rand) way {
	t := &p.Tables[i]
	n, l := p.Topology.Devices, p.Topology.PerHost()
	granules, least := t.Dim/problem.ColumnGranule, t.MinWidth()/problem.ColumnGranule
	for {
		w := way{kind: kinds[r.IntN(len(kinds))]}
		if !t.Permits(w.kind) && t.Apart() {
			continue
		}
		places, parts, tiers := n, 1, host
		switch w.kind {
		case problem.RowWise:
			if !t.CutsByRows(n) {
				continue
			}
			return w
		case problem.DataParallel:
			return w
		case problem.TableRowWise, problem.Grid:
			if !t.CutsByRows(l) {
				continue
			}
			places, tiers = n/l, false
		}
		if w.kind == problem.ColumnWise || w.kind == problem.Grid {
			parts = 2 + r.IntN(3)
		}
		if w.kind == problem.ColumnWise && r.IntN(3) == 0 {
			parts += r.IntN(6) // and several on a device
		}
		if parts > 1 && granules < parts*least || parts > places && w.kind != problem.ColumnWise {
			continue
		}
		w.at = r.Perm(places)[:min(parts, places)]
		for len(w.at) < parts {
			w.at = append(w.at, r.IntN(places))
		}
		w.cut(granules, least, tiers, r)
		if tiers {
			w.cache = []float64{0, 0.5, 1 / float64(t.Rows), r.Float64(), math.Pow(r.Float64(), 4), 1 - math.Pow(r.Float64(), 4)}[r.IntN(6)]
		}
		return w
	}
}

// cut draws the widths and the tiers of the slices of a table of the given granules; host
// is true if they may be in host memory.
func (w *way) cut(granules, least int, host bool, r *rand.Rand) {
	left := granules
	for j := range w.at {
		g := left
		if more := len(w.at) - j - 1; more > 0 {
			g = least + r.IntN(left-more*least-least+1)
		}
		left -= g
		w.widths = append(w.widths, g)
		tier := problem.HBM
		if host && r.IntN(3) == 0 {
			tier = problem.Tiers()[1+r.IntN(2)]
		}
		w.tiers = append(w.tiers, tier)
	}
}

// usedKinds returns what the ways need to be allowed.
func usedKinds(ways []way) bound.Allowed {
	a := bound.Allowed{}
	for _, w := range ways {
		if !slices.Contains(a.ShardingTypes, w.kind) {
			a.ShardingTypes = append(a.ShardingTypes, w.kind)
		}
		a.Operators = a.Operators || w.operator > 0
		for _, tier := range w.tiers {
			a.Host = a.Host || tier.OnHost()
		}
	}
	return a
}

// tightest sets the memory of the devices to what the placement needs.
func tightest(p *problem.Problem, shards [][]problem.Shard) {
	most := unit.Bytes(0)
	for _, held := range shards {
		used := unit.Bytes(0)
		for _, s := range held {
			used += p.ShardMemory(s)[problem.ForwardExchange].Used()
		}
		most = max(most, used)
	}
	p.Topology.Memory = most + p.DeviceMemory(0)[problem.ForwardExchange].Total()
}

// tightestEach sets the memory of each device to what the placement needs of it.
func tightestEach(p *problem.Problem, shards [][]problem.Shard) {
	p.Topology.ReserveShare, p.Topology.DeviceMemories = hardware.NoReserve, nil
	fixed := p.DeviceMemory(0)[problem.ForwardExchange].Total()
	for _, held := range shards {
		used := max(1, fixed)
		for _, s := range held {
			used += p.ShardMemory(s)[problem.ForwardExchange].Used()
		}
		p.Topology.DeviceMemories = append(p.Topology.DeviceMemories, used)
	}
}

// inSlices draws slices of table i as wide as the lanes of one class allow, on one device
// or on several.
func inSlices(p *problem.Problem, i int, r *rand.Rand) way {
	granules, least := p.Tables[i].Dim/problem.ColumnGranule, p.Tables[i].MinWidth()/problem.ColumnGranule
	widest := max(least, []int{4, 8, 16, granules}[r.IntN(4)])
	parts := max(1, min((granules+widest-1)/widest, granules/least))
	w := way{kind: problem.TableWise}
	if parts > 1 {
		w.kind = problem.ColumnWise
	}
	home, apart := r.IntN(p.Topology.Devices), r.IntN(2) == 0
	for j := range parts {
		if apart {
			home = r.IntN(p.Topology.Devices)
		}
		w.at = append(w.at, home)
		w.widths = append(w.widths, (granules+j)/parts)
		w.tiers = append(w.tiers, problem.HBM)
	}
	return w
}

// nothingHidden and drawHidden return what an engine hides.
func nothingHidden(*rapid.T, *problem.Problem) plan.Hidden { return plan.Hidden{} }

func drawHidden(t *rapid.T, _ *problem.Problem) plan.Hidden {
	ms := func(label string) unit.Millis {
		if rapid.Bool().Draw(t, label+" none") {
			return 0
		}
		return unit.Millis(math.Pow(10, rapid.Float64Range(-3, 2).Draw(t, label)))
	}
	return plan.Hidden{Forward: ms("hidden forward"), Backward: ms("hidden backward"), Replicas: rapid.Bool().Draw(t, "replicas hide")}
}

// drawHierarchy draws a hierarchical exchange for the problem, and what is hidden of it.
func drawHierarchy(t *rapid.T, p *problem.Problem) plan.Hidden {
	for i := range p.Tables {
		if p.Tables[i].Pooling == problem.PoolingNone { // its lookups have flat exchanges
			p.Tables[i].Pooling = problem.SumPooling
		}
		p.Tables[i].IndexDedup = false
	}
	p.Hierarchy = problem.Hierarchy{
		Sent:   rapid.Float64Range(.1, 1).Draw(t, "sent"),
		Inside: rapid.Float64Range(.1, 2).Draw(t, "inside"), Between: rapid.Float64Range(.1, 2).Draw(t, "between"),
		Latency: unit.Millis(rapid.SampledFrom([]float64{0, .06, 1}).Draw(t, "latency")),
	}
	if rapid.Bool().Draw(t, "nothing hidden") {
		return plan.Hidden{}
	}
	return drawHidden(t, p)
}

// exposed returns a pricer of exposed costs.
func exposed(t interface{ Fatal(...any) }, p *problem.Problem, hidden plan.Hidden) *simulate.Pricer {
	judge, err := simulate.NewPricer(p).Hiding(hidden)
	if err != nil {
		t.Fatal(err)
	}
	return judge
}

func drawKinds(t *rapid.T, tables, devices, granules int) *problem.Problem {
	p := draw(t, tables, devices, granules)
	p.CommPrecision = problem.Precision(rapid.IntRange(0, 2).Draw(t, "travels"))
	if rapid.Bool().Draw(t, "host memory") {
		p.Topology.HostMemory = 1 << 44
	}
	return p
}

// No placement costs less than the bound, in slices of columns or in any sharding types and tiers: not
// random ones, not those that a descent finds from them, and not in a memory that just holds these; also
// if tables are hot, or the engine hides a part of the exchanges, or plans divide the slices of a device
// into operators.
func TestNoPlacementIsBelow(t *testing.T) {
	noPlacementIsBelow(t, []below{
		{true, false, asDrawn, nothingHidden},
		{true, false, heat, nothingHidden},
		{true, false, asDrawn, drawHidden},
		{false, false, asDrawn, nothingHidden},
		{false, false, asDrawn, drawHidden},
		{false, true, asDrawn, nothingHidden},
	})
}

// below is a kind of placements: only slices of columns, or only those that fit in little memory.
type below struct {
	columns, little bool
	change          func(*rapid.T, *problem.Problem)
	hides           func(*rapid.T, *problem.Problem) plan.Hidden
}

func noPlacementIsBelow(t *testing.T, cases []below) {
	sum, count := 0.0, 0.0
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(cases).Draw(t, "case")
		columns, little := c.columns, c.little
		p := drawKinds(t, 6, 4, rapid.SampledFrom([]int{4, 16, 40, 150}).Draw(t, "widest"))
		c.change(t, p)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		kinds := []problem.ShardingType{problem.ColumnWise}
		if columns {
			p.Topology.HostMemory = 0
		} else {
			kinds = problem.ShardingTypes()
			random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
			kinds = kinds[:1+random.IntN(len(kinds))]
		}
		kinds = append(kinds, problem.TableWise)
		hidden := c.hides(t, p)
		judge := exposed(t, p, hidden)
		operators := drawOperators(t, p)
		anyWay := func(i int) way {
			w := inSlices(p, i, random)
			if !columns || random.IntN(2) == 0 {
				w = randomWay(p, i, kinds, p.Topology.HostMemory > 0, random)
			}
			if operators {
				w.operator = problem.Operator(random.IntN(problem.Operators))
			}
			return w
		}
		ways := make([]way, len(p.Tables))
		for i := range ways {
			ways[i] = anyWay(i)
		}
		compare := func(p *problem.Problem, allowed bound.Allowed) {
			if columns {
				allowed = bound.Allowed{Operators: operators}
			}
			allowed.Hidden = hidden
			least := must.Get(bound.Simulated(context.Background(), p, allowed))(t)
			cost := price(t, judge, shardsOf(p, ways))
			if cost < least.Total || !(least.Total >= 0) {
				t.Fatalf("%d devices, %d a host, %v: placement %v costs %v, below the bound %v of %v", p.Topology.Devices, p.Topology.PerHost(), p.Topology.DeviceMemory(0), ways, cost, least.Total, allowed)
			}
			if !(least.Compute >= 0 && least.ForwardComm >= 0 && least.BackwardComm >= 0) {
				t.Fatalf("got %+v, want no negative part", least)
			}
			sum += bound.Gap(cost, least.Total)
			count++
		}
		if little {
			tightest(p, shardsOf(p, ways))
		}
		cost := price(t, judge, shardsOf(p, ways))
		for range 100 {
			i := random.IntN(len(ways))
			before := ways[i]
			ways[i] = anyWay(i)
			if now := price(t, judge, shardsOf(p, ways)); now <= cost && (!little || within(p, shardsOf(p, ways))) {
				cost = now
			} else {
				ways[i] = before
			}
		}
		compare(p, usedKinds(ways))
		tightest(p, shardsOf(p, ways))
		compare(p, usedKinds(ways))
		compare(constrained(p, shardsOf(p, ways), random), everyKind)
		tightestEach(p, shardsOf(p, ways))
		compare(p, usedKinds(ways))
	})
	t.Logf("mean gap of %v placements: %.1f %%", count, 100*sum/count)
}

// everyWay returns all ways to place table i with at most two slices.
func everyWay(p *problem.Problem, i int) []way {
	t := &p.Tables[i]
	n, l := p.Topology.Devices, p.Topology.PerHost()
	granules, least := t.Dim/problem.ColumnGranule, t.MinWidth()/problem.ColumnGranule
	var ways []way
	if t.Permits(problem.DataParallel) {
		ways = append(ways, way{kind: problem.DataParallel})
	}
	if t.CutsByRows(n) {
		ways = append(ways, way{kind: problem.RowWise})
	}
	slices := func(one, more problem.ShardingType, places int, tiers ...problem.Tier) {
		for _, tier := range tiers {
			for a := range places {
				ways = append(ways, way{kind: one, at: []int{a}, widths: []int{granules}, tiers: []problem.Tier{tier}})
				for b := range places {
					for g := least; g <= granules-least && (a != b || more == problem.ColumnWise); g++ {
						ways = append(ways, way{kind: more, at: []int{a, b}, widths: []int{g, granules - g}, tiers: []problem.Tier{tier, problem.HBM}})
					}
				}
			}
		}
	}
	if p.Topology.HostMemory > 0 {
		slices(problem.TableWise, problem.ColumnWise, n, problem.Tiers()...)
	} else {
		slices(problem.TableWise, problem.ColumnWise, n, problem.HBM)
	}
	if t.CutsByRows(l) && !t.Apart() {
		slices(problem.TableRowWise, problem.Grid, n/l, problem.HBM)
	}
	return ways
}

// statedTypes gives the table one or two sharding types, and returns those of its ways that they
// allow.
func statedTypes(t *rapid.T, table *problem.Table, ways []way) []way {
	c := &table.Constraint
	c.ShardingTypes = []problem.ShardingType{rapid.SampledFrom(ways).Draw(t, "stated").kind}
	if rapid.Bool().Draw(t, "another") {
		c.ShardingTypes = append(c.ShardingTypes, rapid.SampledFrom(problem.ShardingTypes()).Draw(t, "other"))
	}
	return slices.DeleteFunc(ways, func(w way) bool { return !c.Permits(w.kind) })
}

// With slices of columns only, the bound is that of the zero Allowed. With more ways it
// is no higher.
func TestMoreKindsCostNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawKinds(t, 6, 4, 16)
		columns := must.Get(bound.Simulated(context.Background(), p, bound.Allowed{}))(t)
		for _, a := range []bound.Allowed{{}, {ShardingTypes: []problem.ShardingType{problem.ColumnWise}}, {ShardingTypes: []problem.ShardingType{problem.TableWise, problem.ColumnWise}, Host: p.Topology.HostMemory == 0}} {
			if got, err := bound.Simulated(context.Background(), p, a); err != nil || got != columns {
				t.Fatalf("%v: got %+v, %v, want %+v", a, got, err, columns)
			}
		}
		kinds := rapid.Permutation([][]problem.ShardingType{
			{problem.RowWise}, {problem.TableRowWise, problem.Grid}, {problem.DataParallel},
		}).Draw(t, "kinds")
		last := columns.Total
		allowed := bound.Allowed{ShardingTypes: []problem.ShardingType{problem.TableWise, problem.ColumnWise}}
		host := rapid.IntRange(0, 2*len(kinds)).Draw(t, "host at")
		for i, k := range kinds {
			allowed.ShardingTypes = append(allowed.ShardingTypes, k...)
			allowed.Host = i >= host
			got := must.Get(bound.Simulated(context.Background(), p, allowed))(t)
			if got.Total > last {
				t.Fatalf("%v: got %v, want at most the %v of fewer ways", allowed, got.Total, last)
			}
			last = got.Total
		}
		if again, err := bound.Simulated(context.Background(), p, allowed); err != nil || again.Total != last {
			t.Fatalf("again: got %v, %v, want %v", again.Total, err, last)
		}
	})
}

// The times of exchanges are those of the simulated device.
func TestWires(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawKinds(t, 4, 16, 8)
		p.Topology.Devices = rapid.IntRange(1, 40).Draw(t, "many devices")
		if p.Topology.Profile.NICGBps > 0 {
			p.Topology.DevicesPerHost = rapid.IntRange(1, p.Topology.Devices).Draw(t, "per host")
			p.Topology.NVLinkDomain = p.Topology.DevicesPerHost * rapid.IntRange(0, 3).Draw(t, "hosts of a domain")
		}
		n, hosts := p.Topology.Devices, p.Topology.Hosts()
		columns := 4 * rapid.IntRange(1, 100).Draw(t, "columns")
		weights := rapid.Float64Range(1, 1e9).Draw(t, "weights")
		d := simulate.NewDevice(p.Topology.Device())
		of := func(row int, host []int, weights float64) float64 {
			f, b, err := d.Comm(simulate.Comm{PerHost: p.Topology.PerHost(), Domain: p.Topology.NVLinkDomain, Batch: p.Batch, ElementBytes: p.CommBytes(), DimSums: make([]int, n), RowWise: row, ByHost: host, Replicated: weights})
			if err != nil {
				t.Fatal(err)
			}
			return float64(f[0] + b[0])
		}
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-9*want {
				t.Fatalf("%s of %d devices, %d a host: got %v ms, want %v", what, n, p.Topology.PerHost(), got, want)
			}
		}
		got := bound.Exchanges(p, columns, weights)
		near("columns", got[0], func() float64 {
			sums := make([]int, n)
			for r := range sums {
				sums[r] = columns
			}
			f, b, err := d.Comm(simulate.Comm{PerHost: p.Topology.PerHost(), Domain: p.Topology.NVLinkDomain, Batch: p.Batch, ElementBytes: p.CommBytes(), DimSums: sums})
			if err != nil {
				t.Fatal(err)
			}
			return float64(f[0] + b[0])
		}())
		near("blocks", got[1], of(columns, nil, 0))
		near("replicas", got[3], of(0, nil, weights))
		if n%hosts == 0 && p.Topology.PerHost() > 1 && n%p.Topology.PerHost() == 0 {
			even := make([]int, hosts)
			for h := range even {
				even[h] = columns
			}
			near("by host", got[2], of(0, even, 0))
		}
	})
}
