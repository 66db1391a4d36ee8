package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// placed builds a placement table by table.
type placed struct {
	p      *problem.Problem
	shards [][]problem.Shard
}

func place(p *problem.Problem) *placed {
	return &placed{p, make([][]problem.Shard, p.Topology.Devices)}
}

func (l *placed) slice(table, device int, tier problem.Tier, cache float64) *placed {
	s := l.p.Whole(table)
	s.Tier, s.Cache = tier, cache
	l.shards[device] = append(l.shards[device], s)
	return l
}

func (l *placed) on(table, device int) *placed { return l.slice(table, device, "", 0) }

// blocks gives each device of [from, to) a block of the rows of some columns.
func (l *placed) blocks(table int, kind problem.ShardingType, columns problem.Range, from, to int) *placed {
	t := &l.p.Tables[table]
	block := (t.Rows + int64(to-from) - 1) / int64(to-from)
	for d := from; d < to; d++ {
		rows := problem.Range{Start: int64(d-from) * block, End: min(t.Rows, int64(d-from+1)*block)}
		l.shards[d] = append(l.shards[d], problem.Shard{Table: table, Rows: rows, Columns: columns, ShardingType: kind})
	}
	return l
}

func (l *placed) rowWise(table int) *placed {
	return l.blocks(table, problem.RowWise, l.p.Whole(table).Columns, 0, len(l.shards))
}

func (l *placed) hostWise(table, host int) *placed {
	n := l.p.Topology.PerHost()
	return l.blocks(table, problem.TableRowWise, l.p.Whole(table).Columns, host*n, (host+1)*n)
}

// grid gives each of the hosts an equal slice of the columns.
func (l *placed) grid(table int, hosts ...int) *placed {
	n, width := l.p.Topology.PerHost(), int64(l.p.Tables[table].Dim/len(hosts))
	for i, h := range hosts {
		l.blocks(table, problem.Grid, problem.Range{Start: int64(i) * width, End: int64(i+1) * width}, h*n, (h+1)*n)
	}
	return l
}

func (l *placed) replicate(table int) *placed {
	for d := range l.shards {
		s := l.p.Whole(table)
		s.ShardingType = problem.DataParallel
		l.shards[d] = append(l.shards[d], s)
	}
	return l
}

func (l *placed) price(t testing.TB) plan.Breakdown {
	t.Helper()
	return must.Get(NewPricer(l.p).Price(l.shards))(t)
}

// tableOf returns a table of one feature; skewed accesses are Zipf's, the others
// uniform.
func tableOf(name string, rows int64, dim int, pooling float64, skewed bool) problem.Table {
	t := problem.Table{
		Name: name, Rows: rows, Dim: dim, Features: []problem.Feature{{Name: "f_" + name, PoolingFactor: pooling}},
		Access: access.Distribution{Kind: access.Uniform},
	}
	if skewed {
		t.Access = access.Distribution{Kind: access.Zipf, Exponent: 1.2}
	}
	return t
}

func on(t testing.TB, name string, devices, perHost int, tables ...problem.Table) *problem.Problem {
	return &problem.Problem{Tables: tables, Batch: 65536, Topology: hardware.Topology{Profile: must.Get(hardware.ByName(name))(t), Devices: devices, DevicesPerHost: perHost}}
}

func near(t testing.TB, what string, got, want unit.Millis) {
	t.Helper()
	if !(math.Abs(float64(got-want)) <= 1e-12*math.Abs(float64(want))) {
		t.Errorf("%s: got %v ms, want %v ms", what, float64(got), float64(want))
	}
}

// byHand is a problem of one table of 1000 x 16 on a100-80. A batch of 100 reads 300 of
// its rows once and 100 rows twice.
func byHand(t testing.TB, devices, perHost int, o problem.Optimizer) *problem.Problem {
	p := on(t, "a100-80", devices, perHost, tableOf("t", 1000, 16, 5, false))
	p.Batch = 100
	p.Tables[0].Optimizer = o
	p.Tables[0].Access = access.Distribution{Kind: access.Histogram, Batch: 100}
	p.Tables[0].Access.Reuse[0], p.Tables[0].Access.Reuse[1] = .75, .25
	return p
}

const a100Stream = 2039e6 * .894 // bytes a millisecond

func ExamplePricer_Price_kinds() {
	profile, _ := hardware.ByName("a100-80")
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: profile, Devices: 2}}
	for _, rows := range []int64{100_000_000, 1000} {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint("rows", rows), Rows: rows, Dim: 64,
			Features: []problem.Feature{{Name: fmt.Sprint("f", rows), PoolingFactor: 10}},
		})
	}
	// The large table by rows, the small one on both.
	shards := make([][]problem.Shard, 2)
	block := p.Tables[0].BlockRows(2)
	for d := range shards {
		large, small := p.Whole(0), p.Whole(1)
		large.ShardingType, large.Rows = problem.RowWise, problem.Range{Start: int64(d) * block, End: int64(d+1) * block}
		small.ShardingType = problem.DataParallel
		shards[d] = []problem.Shard{large, small}
	}
	cost, err := NewPricer(p).Price(shards)
	if err != nil {
		panic(err)
	}
	fmt.Println(cost.Cost, Source)
	// Output:
	// 0.763 ms simulated
}

// TestBlocksAreTablesOfBlocks: a problem of blocks has the times of blocks, on all devices or those of
// a host.
func TestBlocksAreTablesOfBlocks(t *testing.T) {
	p := mixed(40, hardware.Topology{Profile: a100(t), Devices: 4, DevicesPerHost: 4})
	blocks := problem.BlocksOf(p, 4)
	var held, whole []problem.Shard
	for i := range p.Tables {
		if !p.Tables[i].CutsByRows(4) {
			continue
		}
		held = append(held, place(p).rowWise(i).shards[0]...)
		whole = append(whole, blocks.Whole(i))
	}
	wantForward, wantBackward := NewPricer(blocks).GroupCost(whole)
	onHost := slices.Clone(held)
	for i := range onHost {
		onHost[i].ShardingType = problem.TableRowWise
	}
	for _, held := range [][]problem.Shard{held, onHost} {
		forward, backward := NewPricer(p).GroupCost(held)
		if math.Abs(float64(forward/wantForward-1)) > 1e-9 || math.Abs(float64(backward/wantBackward-1)) > 1e-9 {
			t.Errorf("%s blocks: got %v and %v, as tables of their own %v and %v", held[0].ShardingType, forward, backward, wantForward, wantBackward)
		}
	}
}

// TestReplicaByHand: each of three devices serves 34 of 100 samples, writes gradients
// as SGD writes rows, and updates all rows by Adam.
func TestReplicaByHand(t *testing.T) {
	p := byHand(t, 3, 0, problem.Adam)
	forward, backward := NewDevice(a100(t)).Compute(Op{
		Batch:  34,
		Tables: []Table{{Rows: 1000, Dim: 16, Counts: p.Tables[0].Access.At(1000, 5, 34)}},
	})
	const elements = 1000 * 16
	dense := (2*4*elements + 2*4*elements + 2*8*elements) / a100Stream
	cost := place(p).replicate(0).price(t)
	for _, d := range cost.Devices {
		near(t, "forward", d.Forward, forward)
		near(t, "backward", d.Backward, backward+unit.Millis(dense))
		near(t, "forward comm", d.ForwardComm, 0)
		near(t, "all-reduce", d.BackwardComm, unit.Millis(.045+2*2.0/3*elements*4/230e6))
	}
	// Weights of half the size, and a table without lookups: its gradients travel as well.
	p.Tables[0].Precision, p.Tables[0].Features[0].PoolingFactor = problem.FP16, 0
	idle := place(p).replicate(0).price(t).Devices[1]
	near(t, "idle forward", idle.Forward, 0)
	near(t, "idle backward", idle.Backward, (2*4*elements+2*2*elements+2*8*elements)/a100Stream)
	near(t, "idle all-reduce", idle.BackwardComm, unit.Millis(.045+2*2.0/3*elements*4/230e6))
}

// together returns the times that each of the ranks spends in exchanges, which must be
// the same for all of them.
func together(t testing.TB, d Device, ranks int, c Comm) (forward, backward unit.Millis) {
	t.Helper()
	c.DimSums = make([]int, ranks)
	f, b, err := d.Comm(c)
	if err != nil {
		t.Fatal(err)
	}
	for r := range f {
		if f[r] != f[0] || b[r] != b[0] {
			t.Fatalf("rank %d: got %v and %v, want %v and %v as on rank 0", r, f[r], b[r], f[0], b[0])
		}
	}
	return f[0], b[0]
}

// inAllWays places the tables of a problem on 9 devices, 4 on a host, in all ways. It
// returns what devices exchange for the tables that they hold together, and for slices.
func inAllWays(p *problem.Problem) (l *placed, joint, slices Comm) {
	l = place(p)
	joint = Comm{PerHost: 4, Batch: p.Batch, ElementBytes: 2, VectorBytes: 4, ByHost: make([]int, 3)}
	slices = Comm{PerHost: 4, Batch: p.Batch, ElementBytes: 2, VectorBytes: 4, DimSums: make([]int, 9)}
	for i := range p.Tables {
		table := &p.Tables[i]
		columns := table.Dim * len(table.Features)
		cuts := table.CutsByRows(9) && table.CutsByRows(4)
		switch {
		case i%6 == 0 && cuts:
			l.rowWise(i)
			joint.RowWise += columns
		case i%6 == 1 && cuts:
			l.hostWise(i, i%2)
			joint.ByHost[i%2] += columns
		case i%6 == 2 && cuts && table.Dim >= 8:
			l.grid(i, 1, 0)
			joint.ByHost[0] += columns / 2
			joint.ByHost[1] += columns / 2
		case i%6 == 3:
			l.replicate(i)
			joint.Replicated += float64(table.Rows) * float64(table.Dim)
		default:
			l.slice(i, i%9, []problem.Tier{problem.HBM, problem.Host, problem.HostCached}[i%3], .25)
			slices.DimSums[i%9] += columns
		}
	}
	return l, joint, slices
}

// TestPriceOfAllKinds puts the parts of a cost together by its definition.
func TestPriceOfAllKinds(t *testing.T) {
	p := mixed(40, hardware.Topology{Profile: a100(t), Devices: 9, DevicesPerHost: 4})
	p.CommPrecision = problem.FP16
	l, all, comm := inAllWays(p)
	cost := l.price(t)
	forward, backward, err := NewDevice(a100(t)).Comm(comm)
	if err != nil {
		t.Fatal(err)
	}
	joint, back := together(t, NewDevice(a100(t)), 9, all)
	pricer, last := NewPricer(p), unit.Millis(0)
	for r, held := range l.shards {
		f, b := pricer.GroupCost(held)
		if d := cost.Devices[r]; d.Forward != f || d.Backward != b {
			t.Errorf("device %d: got compute times %v and %v in a placement, want %v and %v as by itself", r, d.Forward, d.Backward, f, b)
		}
		near(t, "backward comm", cost.Devices[r].BackwardComm, backward[r]+back)
		last = max(last, f+b+backward[r]+back)
	}
	most := unit.Millis(0)
	for r, d := range cost.Devices {
		near(t, "total", d.Total(), last+forward[r]+joint)
		most = max(most, d.Total())
	}
	near(t, "cost", cost.Cost, most)
	// Each class has operators of its own, and their times add up.
	var f, b unit.Millis
	for class := range problem.OperatorClass(problem.OperatorClasses) {
		var own []problem.Shard
		for _, s := range l.shards[1] {
			if classOf(p, &s) == class {
				own = append(own, s)
			}
		}
		x, y := pricer.GroupCost(own)
		f += x
		b += y
	}
	near(t, "forward of all classes", cost.Devices[1].Forward, f)
	near(t, "backward of all classes", cost.Devices[1].Backward, b)
}

// TestNoAllToAllWithoutSlices: there is no all-to-all if devices hold all tables
// together, and no other exchange if they hold none together.
func TestNoAllToAllWithoutSlices(t *testing.T) {
	p := on(t, "a100-80", 4, 0, tableOf("a", 1000, 16, 5, false), tableOf("b", 1000, 16, 5, false))
	if d := place(p).replicate(0).price(t).Devices[0]; d.ForwardComm != 0 {
		t.Errorf("replicas alone: got %v of forward comm, want 0", d.ForwardComm)
	}
	rows := place(p).rowWise(0).price(t).Devices[0]
	forward, backward := together(t, NewDevice(a100(t)), 4, Comm{Batch: p.Batch, RowWise: 16})
	near(t, "row-wise alone", rows.ForwardComm, forward)
	near(t, "row-wise alone, backward", rows.BackwardComm, backward)
	if d := place(p).price(t).Devices[0]; d.ForwardComm != unit.Micros(45) {
		t.Errorf("nothing placed: got %v of forward comm, want an all-to-all of nothing", d.ForwardComm)
	}
	one := on(t, "a100-80", 1, 0, tableOf("a", 1000, 16, 5, false))
	if d := place(one).replicate(0).price(t).Devices[0]; d.ForwardComm != 0 || d.BackwardComm != 0 || d.Forward == 0 {
		t.Errorf("one device: got %+v, want compute alone", d)
	}
}

// TestInputOfKinds: blocks get all bags and their part of the lookups, replicas nothing.
func TestInputOfKinds(t *testing.T) {
	p := byHand(t, 4, 0, problem.SGD)
	input := func(l *placed) unit.Millis {
		return must.Get(NewPricer(p).Input(l.shards))(t)
	}
	want := func(bags, lookups []float64) unit.Millis {
		t, _ := NewDevice(a100(t)).InputComm(InputComm{Batch: 100, Bags: bags, Lookups: lookups})
		return t
	}
	near(t, "row-wise", input(place(p).rowWise(0)), want([]float64{1, 1, 1, 1}, []float64{1.265, 1.265, 1.265, 1.265}))
	near(t, "replicas", input(place(p).replicate(0)), want(make([]float64, 4), make([]float64, 4)))
	near(t, "a slice", input(place(p).on(0, 1)), want([]float64{0, 1, 0, 0}, []float64{0, 5, 0, 0}))
}

func TestMalformedPlacements(t *testing.T) {
	p := on(t, "a100-80", 10, 4, tableOf("a", 1003, 16, 5, false), tableOf("b", 11, 16, 5, false))
	edit := func(l *placed, device int, change func(*problem.Shard)) *placed {
		change(&l.shards[device][0])
		return l
	}
	for _, test := range []struct {
		l    *placed
		want string
	}{
		{edit(place(p).rowWise(0), 4, func(s *problem.Shard) { s.Rows = problem.Range{Start: 1010, End: 1111} }), `device 4: table "a": rows 1010 to 1111 are not a block of its 1003 rows`},
		{edit(place(p).rowWise(0), 4, func(s *problem.Shard) { s.Rows = problem.Range{Start: -101, End: 0} }), `device 4: table "a": rows -101 to 0`},
		{place(p).rowWise(1), `device 6: table "b": rows 12 to 11 are not a block of its 11 rows`},
		{place(p).slice(0, 0, problem.HostCached, 1), `device 0: table "a": a cache of 1 of its rows: give a share above 0 and below 1`},
		{place(p).slice(0, 0, problem.HostCached, math.NaN()), "a cache of NaN"},
		{place(p).slice(0, 0, problem.HostCached, 0), "a cache of 0"},
		{edit(place(p).rowWise(0), 0, func(s *problem.Shard) { s.Tier = problem.Host }), `device 0: table "a": row_wise shards in tier host: only table_wise and column_wise`},
	} {
		if _, err := NewPricer(p).Price(test.l.shards); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q in it", err, test.want)
		}
	}
}

// TestPricerServesManyGoroutines: all goroutines need the counts of the replicas at once.
func TestPricerServesManyGoroutines(t *testing.T) {
	p := on(t, "a100-80", 4, 0, tableOf("a", 10_000, 16, 5, false), tableOf("b", 1000, 16, 5, true))
	l := place(p).rowWise(0).replicate(1)
	pricer, want := NewPricer(p), l.price(t).Cost
	got := make([]unit.Millis, 8)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() {
			if cost, err := pricer.Price(l.shards); err == nil {
				got[i] = cost.Cost
			}
		})
	}
	group.Wait()
	for _, total := range got {
		if total != want {
			t.Errorf("got %v, want %v", total, want)
		}
	}
}

func TestGroupCostOfKindsDoesNotAllocate(t *testing.T) {
	p := mixed(30, hardware.Topology{Profile: a100(t), Devices: 4})
	l := place(p)
	for i := range p.Tables {
		switch {
		case i%4 == 0 && p.Tables[i].CutsByRows(4):
			l.rowWise(i)
		case i%4 == 1:
			l.replicate(i)
		case i%4 == 2:
			l.slice(i, 0, problem.HostCached, .5)
		default:
			l.slice(i, 0, problem.Host, 0)
		}
	}
	pricer := NewPricer(p)
	pricer.GroupCost(l.shards[0])
	if got := testing.AllocsPerRun(10, func() { pricer.GroupCost(l.shards[0]) }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

// TestTiersAddUp: a table in a host's memory adds its transfers to the times in HBM. The cached rows
// of all tables of an operator decide in how many passes it sorts their places: 100 rows of each of two
// tables take two passes, and 50 rows of each take one.
func TestTiersAddUp(t *testing.T) {
	p := on(t, "a100-80", 1, 0, tableOf("a", 1000, 16, 10, false), tableOf("b", 1000, 16, 10, false))
	p.Batch, p.Tables[1].Optimizer = 1024, problem.SGD
	d := NewDevice(a100(t))
	inHBM := place(p).on(0, 0).on(1, 0).price(t).Devices[0]
	for _, c := range []struct {
		tier   problem.Tier
		cache  float64
		cached float64
	}{{problem.Host, 0, 0}, {problem.HostCached, .1, 200}, {problem.HostCached, .05, 100}} {
		l := place(p).slice(0, 0, c.tier, c.cache).slice(1, 0, c.tier, c.cache)
		forward, backward := inHBM.Forward, inHBM.Backward
		for i, s := range l.shards[0] {
			f, b := d.HostLink(&p.Tables[i], p.Tables[i].Counts(p.Batch), 16, p.Form(s))
			forward, backward = forward+f, backward+b
		}
		if c.cached > 0 {
			backward += d.SortPlaces(2*10*1024, c.cached)
		}
		got := l.price(t).Devices[0]
		near(t, string(c.tier)+" forward", got.Forward, forward)
		near(t, string(c.tier)+" backward", got.Backward, backward)
	}
}
