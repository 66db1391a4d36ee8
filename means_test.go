package neuroshard_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// TestMeansAreCutByRowsTogether plans tables of means for TorchRec with all sharding types: a table
// of means is never grid, and if one is cut by rows, all tables of its module are.
func TestMeansAreCutByRowsTogether(t *testing.T) {
	profile, err := hardware.ByName("v100-32")
	if err != nil {
		t.Fatal(err)
	}
	planned := func(constrain func(tables []problem.Table)) (*neuroshard.Result, error) {
		p := problem.Problem{
			Batch: 4096, Engine: problem.TorchRec,
			Topology: hardware.Topology{Devices: 4, DevicesPerHost: 2, Profile: profile, Memory: unit.GiB},
		}
		for i := range 4 {
			name := strconv.Itoa(i)
			p.Tables = append(p.Tables, problem.Table{
				Name: name, Module: "m", Rows: 50_000, Dim: 64, Features: []problem.Feature{{Name: name, PoolingFactor: 5}},
			})
		}
		p.Tables[0].Pooling, p.Tables[1].Pooling = problem.MeanPooling, problem.MeanPooling
		constrain(p.Tables)
		options := neuroshard.Options{Prices: neuroshard.TorchRec(), Search: search.Options{ShardingTypes: problem.ShardingTypes()}}
		return neuroshard.Plan(context.Background(), &p, options)
	}
	only := func(i int, k problem.ShardingType) func([]problem.Table) {
		return func(tables []problem.Table) { tables[i].Constraint.ShardingTypes = []problem.ShardingType{k} }
	}
	for name, test := range map[string]struct {
		constrain func([]problem.Table)
		cut       bool // all tables are cut by rows
	}{
		"free":             {func([]problem.Table) {}, false},
		"means by rows":    {only(0, problem.RowWise), true},
		"sums not by rows": {only(2, problem.DataParallel), false},
		"too large":        {func(tables []problem.Table) { tables[0].Rows, tables[0].Constraint.MinWidth = 3_700_000, 64 }, true},
	} {
		found, err := planned(test.constrain)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		means, others := 0, 0
		for i, table := range found.Plan.Tables {
			switch rows := table.ShardingType == plan.RowWise || table.ShardingType == plan.TableRowWise; {
			case i < 2 && table.ShardingType == plan.Grid:
				t.Errorf("%s: table %d of means is grid", name, i)
			case i < 2 && rows:
				means++
			case !rows:
				others++
			}
		}
		if means > 0 && others > 0 || test.cut && others > 0 {
			t.Errorf("%s: %d tables of means are cut by rows, and %d tables are not", name, means, others)
		}
	}
	_, err = planned(func(tables []problem.Table) {
		only(0, problem.RowWise)(tables)
		only(3, problem.TableWise)(tables)
	})
	if err == nil || !strings.Contains(err.Error(), `table "0" is pooled by means and may only be cut by rows, and table "3"`) {
		t.Errorf("got error %v, want the two tables that cannot be together", err)
	}
}
