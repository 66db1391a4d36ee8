package bound_test

import (
	"context"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

// The bound must not be above these placements. Each is in a problem with few other
// placements, so the bound is near, and the test fails if the bound counts anything twice.
// Narrow tables of few rows have one way only: 4 columns are not cut, and the rows are
// fewer than the devices.

// narrow returns a table with uniform lookups.
func narrow(name string, rows int64, dim int, pooling float64) problem.Table {
	return problem.Table{
		Name: name, Rows: rows, Dim: dim, Features: []problem.Feature{{Name: name, PoolingFactor: pooling}},
		Access: access.Distribution{Kind: access.Uniform},
	}
}

// copies returns equal tables with different names.
func copies(count int, like problem.Table) []problem.Table {
	tables := make([]problem.Table, count)
	for i := range tables {
		tables[i] = like
		tables[i].Name += string(rune('a' + i))
	}
	return tables
}

// inTurn places the given number of whole tables on devices, or hosts, in turn.
func inTurn(kind problem.ShardingType, tables, granules, places int) []way {
	ways := make([]way, tables)
	for i := range ways {
		ways[i] = way{kind: kind, at: []int{i % places}, widths: []int{granules}, tiers: []problem.Tier{problem.HBM}}
	}
	return ways
}

// above fails if the bound is above the cost of a placement, or if the cost is more than
// the share gap above the bound. The memory is what the placement needs, times slack.
func above(t *testing.T, p *problem.Problem, ways []way, slack, gap float64) {
	t.Helper()
	shards := shardsOf(p, ways)
	tightest(p, shards)
	p.Topology.Memory = unit.Bytes(float64(p.Topology.Memory) * slack)
	must.Do(t, p.Validate())
	least := must.Get(bound.Simulated(context.Background(), p, usedKinds(ways)))(t)
	cost := price(t, simulate.NewPricer(p), shards)
	if cost < least.Total {
		t.Errorf("got a cost of %v ms, want at least the bound %v ms", float64(cost), float64(least.Total))
	}
	if got := bound.Gap(cost, least.Total); got > gap {
		t.Errorf("got a cost of %v, %.2f %% above the bound, want at most %v %%", cost, 100*got, 100*gap)
	}
}

func onA100(t *testing.T, batch, devices, perHost int) *problem.Problem {
	return &problem.Problem{Batch: batch, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: devices, DevicesPerHost: perHost, ReserveShare: hardware.NoReserve}}
}

// Eight tables fill the memory that blocks of a large one leave: memory has a price.
func TestNotAboveInTightMemory(t *testing.T) {
	p := onA100(t, 65536, 4, 4)
	p.Tables = append(copies(8, narrow("small", 3, 64, 45)), narrow("giant", 1<<30, 4, 1))
	above(t, p, append(inTurn(problem.TableWise, 8, 16, 4), way{kind: problem.RowWise}), 1, 0.002)
}

// The two tables of each device have the rows that three passes can sort at most: rows have a
// price.
func TestNotAboveWithLimitedRows(t *testing.T) {
	p := onA100(t, 4096, 4, 4)
	many := narrow("many", 1<<22, 4, 200)
	many.Access = access.Distribution{Kind: access.Zipf, Exponent: 1.5}
	p.Tables = append(copies(8, many), narrow("long", 1000, 4, 20000))
	above(t, p, append(inTurn(problem.TableWise, 8, 1, 4), way{kind: problem.DataParallel}), 1.01, 0.001)
}

// Each host of two computes half of the tables.
func TestNotAboveByHost(t *testing.T) {
	p := onA100(t, 65536, 4, 2)
	p.Tables = copies(4, narrow("many", 1<<23, 16, 200))
	above(t, p, inTurn(problem.TableRowWise, 4, 4, 2), 1.5, 1e-6)
}

// Half of the tables of each device lie in host memory, because HBM has room for the others only: the
// bytes of HBM have a price, and the host link takes most of the time.
func TestNotAboveWithTablesOnHosts(t *testing.T) {
	p := onA100(t, 65536, 4, 4)
	p.Topology.HostMemory = 1 << 44
	like := narrow("large", 1<<24, 64, 10)
	like.Constraint.MinWidth = 64
	like.Constraint.Tiers = []problem.Tier{problem.HBM, problem.Host}
	p.Tables = copies(8, like)
	ways := inTurn(problem.TableWise, 8, 16, 4)
	for i := 4; i < 8; i++ {
		ways[i].tiers = []problem.Tier{problem.Host}
	}
	above(t, p, ways, 1, 0.02)
}

// Packing takes nearly all of the time of the exchanges.
func TestNotAboveWhenPacking(t *testing.T) {
	p := onA100(t, 65536, 4, 4)
	p.Topology.Profile.IntraGBps = 1e5
	p.Tables = append(copies(8, narrow("small", 3, 256, 1)), narrow("giant", 1<<33, 4, 1))
	above(t, p, append(inTurn(problem.TableWise, 8, 64, 4), way{kind: problem.RowWise}), 1.01, 0.25)
}

// Slices are on one host and blocks on the other: no device has two operators.
func TestNotAboveWithClassesApart(t *testing.T) {
	p := onA100(t, 1024, 4, 2)
	p.Tables = append(copies(2, narrow("small", 1, 4, 100)), narrow("long", 1<<28, 4, 2000))
	above(t, p, append(inTurn(problem.TableWise, 2, 1, 2), way{kind: problem.TableRowWise, at: []int{1}, widths: []int{1}, tiers: []problem.Tier{problem.HBM}}), 2, 0.002)
}

// The last block has 1 row and the others n-1, so its device has room for another table.
func TestNotAboveWithAShortLastBlock(t *testing.T) {
	for n := 3; n <= 6; n++ {
		p := onA100(t, 1024, n, n)
		p.Tables = []problem.Table{narrow("long", int64((n-1)*(n-1)+1), 4, 10000)}
		block := p.Whole(0)
		block.ShardingType, block.Rows.End = problem.RowWise, int64(n-1)
		last := block
		last.Rows.End = 1
		// 32 bytes a lookup nearly fill the room.
		room := float64(p.ShardMemory(block)[problem.ForwardExchange].Used() - p.ShardMemory(last)[problem.ForwardExchange].Used())
		p.Tables = append(p.Tables, narrow("other", 1, 4, 0.95*room/1024/32))
		above(t, p, []way{{kind: problem.RowWise}, {kind: problem.TableWise, at: []int{n - 1}, widths: []int{1}, tiers: []problem.Tier{problem.HBM}}}, 1, 0.5)
	}
}

// Each device has two operators, because the narrow tables would waste lanes beside the wide
// ones. The batch is small, so the fixed time of the second operator shows.
func TestNotAboveWithSeveralOperators(t *testing.T) {
	p := onA100(t, 8192, 2, 2)
	wide := narrow("wide", 3, 128, 1)
	wide.Constraint.MinWidth = 128
	p.Tables = append(copies(2, narrow("narrow", 3, 4, 400)), copies(2, wide)...)
	apart := inTurn(problem.TableWise, 4, 1, 2)
	for i := 2; i < 4; i++ {
		apart[i].operator, apart[i].widths = 1, []int{32}
	}
	above(t, p, apart, 1.5, 0.1)
	fused := slices.Clone(apart)
	for i := range fused {
		fused[i].operator = 0
	}
	judge := simulate.NewPricer(p)
	if a, b := price(t, judge, shardsOf(p, apart)), price(t, judge, shardsOf(p, fused)); a >= b {
		t.Errorf("got a cost of %v with two operators, %v with one: the test says nothing", a, b)
	}
}
