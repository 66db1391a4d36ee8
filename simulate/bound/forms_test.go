package bound_test

import (
	"context"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
)

// A table with constraints on its sharding types, its tiers or its cuts has no way that they forbid,
// and so has a table if the sharding types of all tables forbid it: the bound is that of the ways that
// are left, where it was that of all ways.
func TestStatedTypesSharpenTheBound(t *testing.T) {
	p := &problem.Problem{
		Tables:   []problem.Table{once("wide", 8_000_000, 128, 20, 65536), once("narrow", 1000, 4, 1, 65536)},
		Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 4, DevicesPerHost: 4, ReserveShare: hardware.NoReserve, HostMemory: 1 << 42},
		Batch:    65536,
	}
	on := func(d int) []int { return []int{d} }
	table := func(kind problem.ShardingType, tier problem.Tier, at, granules int) way {
		return way{kind: kind, at: on(at), widths: on(granules), tiers: []problem.Tier{tier}}
	}
	whole, other := table(problem.TableWise, problem.HBM, 0, 32), table(problem.TableWise, problem.HBM, 1, 1)
	rows, replicas := way{kind: problem.RowWise}, way{kind: problem.DataParallel}
	all := problem.ShardingTypes()
	for _, test := range []struct {
		name string
		set  func(c *problem.Constraint)
		// types are those that all tables may have.
		types []problem.ShardingType
		wide  way
		other way
		// gap is the largest gap, in percent, of the placement.
		gap float64
	}{
		{"table_wise", func(c *problem.Constraint) { c.ShardingTypes = []problem.ShardingType{problem.TableWise} }, all, whole, other, 1},
		{"table_wise for all", func(*problem.Constraint) {}, []problem.ShardingType{problem.TableWise}, whole, other, 1},
		{"row_wise", func(c *problem.Constraint) { c.ShardingTypes = []problem.ShardingType{problem.RowWise} }, all, rows, rows, 1},
		{"data_parallel", func(c *problem.Constraint) { c.ShardingTypes = []problem.ShardingType{problem.DataParallel} }, all, replicas, replicas, 1},
		{"a device", func(c *problem.Constraint) { c.Devices, c.MinWidth = on(0), 128 }, all, whole, other, 1},
		{"no split", func(c *problem.Constraint) {
			c.NoSplit, c.Tiers = true, []problem.Tier{problem.HBM}
			c.ShardingTypes = []problem.ShardingType{problem.ColumnWise, problem.RowWise}
		}, all, whole, other, 1},
	} {
		allowed := bound.Allowed{ShardingTypes: test.types, Host: true}
		free := *p
		p := free
		p.Tables = append([]problem.Table(nil), free.Tables...)
		test.set(&p.Tables[0].Constraint)
		if err := p.Validate(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		of := func(p *problem.Problem, allowed bound.Allowed) float64 {
			b, err := bound.Simulated(context.Background(), p, allowed)
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			return float64(b.Total)
		}
		cost := float64(price(t, simulate.NewPricer(&p), shardsOf(&p, []way{test.wide, test.other})))
		got, without := of(&p, allowed), of(&free, bound.Allowed{ShardingTypes: all, Host: true})
		t.Logf("%-18s cost %.3f ms, bound %.3f ms, %.3f ms without the constraint", test.name, cost, got, without)
		if got > cost || cost > got*(1+test.gap/100) {
			t.Errorf("%s: got a bound of %v ms, want at most the cost of %v ms, and no more than %v %% below it", test.name, got, cost, test.gap)
		}
		if got < without {
			t.Errorf("%s: got a bound of %v ms, below %v ms without the constraint", test.name, got, without)
		}
	}
}

// A table that may only be cut by rows has no bound among slices of columns, and one without HBM none
// without host memory.
func TestNoBoundOfTablesWithoutAForm(t *testing.T) {
	for _, test := range []struct {
		name    string
		set     func(c *problem.Constraint)
		allowed bound.Allowed
	}{
		{"row_wise", func(c *problem.Constraint) { c.ShardingTypes = []problem.ShardingType{problem.RowWise} }, bound.Allowed{ShardingTypes: []problem.ShardingType{problem.TableWise, problem.DataParallel}}},
		{"host", func(c *problem.Constraint) { c.Tiers = []problem.Tier{problem.Host} }, bound.Allowed{ShardingTypes: problem.ShardingTypes()}},
	} {
		p := onA100(t, 1024, 4, 4)
		p.Tables = copies(2, narrow("table", 1000, 8, 10))
		p.Topology.HostMemory = 1 << 40
		test.set(&p.Tables[0].Constraint)
		if got, err := bound.Simulated(context.Background(), p, test.allowed); err == nil {
			t.Errorf("%s: got %+v, want an error", test.name, got)
		}
		test.allowed.ShardingTypes, test.allowed.Host = problem.ShardingTypes(), true
		if got, err := bound.Simulated(context.Background(), p, test.allowed); err != nil || !(got.Total > 0) {
			t.Errorf("%s: all sharding types and tiers: got %+v, %v, want a bound", test.name, got, err)
		}
	}
}
