package neuroshard_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// TestTablesLargerThanDevices plans a table whose narrowest slice is larger than a device.
// The table must be cut by rows or go to host memory, and be refused by name if neither is
// possible.
func TestTablesLargerThanDevices(t *testing.T) {
	table := func(name string, rows int64, dim int) problem.Table {
		return problem.Table{Name: name, Rows: rows, Dim: dim, Features: []problem.Feature{{Name: name, PoolingFactor: 3}}, Access: access.Distribution{Kind: access.Zipf, Exponent: 1.1}}
	}
	profile := profileNamed(t, "a100-80")
	on := func(devices, perHost int, host unit.Bytes) hardware.Topology {
		return hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: perHost, HostMemory: host, ReserveShare: hardware.NoReserve}
	}
	tables := []problem.Table{table("huge", 5_500_000_000, 4), table("wide", 200_000, 128), table("small", 900, 16)}
	for _, c := range []struct {
		name     string
		topology hardware.Topology
		types    []problem.ShardingType
		huge     plan.ShardingType // of table huge; empty if no plan exists
		tier     plan.Tier
	}{
		{"all sharding types", on(8, 4, 0), problem.ShardingTypes(), plan.RowWise, plan.HBM},
		{"rows of hosts", on(8, 4, 0), []problem.ShardingType{problem.ColumnWise, problem.TableRowWise}, plan.TableRowWise, plan.HBM},
		{"host memory", on(8, 4, unit.TiB), search.Columns(), plan.TableWise, plan.Host},
		{"host memory of one device", on(1, 1, unit.TiB), search.Columns(), plan.TableWise, plan.Host},
		{"columns", on(8, 4, 0), search.Columns(), "", ""},
		{"by default", on(8, 4, 0), nil, plan.RowWise, plan.HBM},
		{"replicas", on(8, 4, 0), []problem.ShardingType{problem.ColumnWise, problem.DataParallel}, "", ""},
		{"too little host memory", on(8, 4, 100*unit.GiB), search.Columns(), "", ""},
	} {
		p := &problem.Problem{Tables: tables, Topology: c.topology, Batch: 8192}
		r, err := neuroshard.Plan(context.Background(), p, neuroshard.Options{Search: search.Options{ShardingTypes: c.types, MaxEvaluations: 20_000}})
		if c.huge == "" {
			var infeasible *search.Infeasible
			if !errors.As(err, &infeasible) || infeasible.Table != "huge" || infeasible.Reason == "" {
				t.Errorf("%s: got error %v, want that table huge does not fit, and why", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if err := r.Plan.Validate(p); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got := r.Plan.Tables[0]
		for _, s := range got.Shards {
			if got.ShardingType != c.huge || s.Tier.OnHost() != c.tier.OnHost() {
				t.Errorf("%s: got %s with shard %+v, want %s in %s", c.name, got.ShardingType, s, c.huge, c.tier)
			}
		}
		if r.Simulated.Cost <= 0 || math.Abs(float64(r.Predicted.Cost/r.Simulated.Cost)-1) > .05 {
			t.Errorf("%s: got predicted cost %v, simulated %v: want within 5 %%", c.name, r.Predicted.Cost, r.Simulated.Cost)
		}
	}
}
