package search

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// onHosts is a problem of tables of 1000 x 16 on two hosts of two devices, all of whose
// memory counts.
func onHosts(constraints ...problem.Constraint) *problem.Problem {
	p := &problem.Problem{Batch: 64, Topology: hardware.Topology{
		Profile: hardware.Profiles()[4], Devices: 4, DevicesPerHost: 2, HostMemory: unit.GiB,
	}}
	for i, constraint := range constraints {
		p.Tables = append(p.Tables, problem.Table{
			Name: string(rune('A' + i)), Rows: 1000, Dim: 16,
			Features: []problem.Feature{{PoolingFactor: 1}}, Constraint: constraint,
		})
	}
	return p
}

// TestTableWiseAloneIsWhole: 16 columns on two devices would take half the time.
func TestTableWiseAloneIsWhole(t *testing.T) {
	p := handMade(1<<20, 2, table{10, 16, 3})
	for _, test := range []struct {
		types []problem.ShardingType
		want  []string
	}{
		{nil, []string{"A0-8", "A8-16"}},
		{[]problem.ShardingType{problem.ColumnWise}, []string{"A0-8", "A8-16"}},
		{[]problem.ShardingType{problem.TableWise, problem.ColumnWise}, []string{"A0-8", "A8-16"}},
		{[]problem.ShardingType{problem.TableWise}, []string{"A0-16", ""}},
	} {
		r := must.Get(Run(context.Background(), p, additiveFactory(p), Options{ShardingTypes: test.types}))(t)
		got := listing(p, r)
		slices.Sort(got)
		slices.Sort(test.want)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("sharding types %v (-want +got):\n%s", test.types, diff)
		}
	}
	if p.Tables[0].Constraint.MinWidth != 0 {
		t.Error("the problem itself was changed")
	}
}

// TestShardingTypesWithoutForm asks for sharding types that no table can take, and for a
// type that the search has no form for, alone and beside others.
func TestShardingTypesWithoutForm(t *testing.T) {
	const unknown = `the search does not place tables by sharding type "diagonal": choose among "table_wise", "column_wise", "row_wise", "table_row_wise", "grid", "data_parallel"`
	for _, test := range []struct {
		types []problem.ShardingType
		want  string
	}{
		{[]problem.ShardingType{problem.RowWise}, `none of the allowed sharding types can place "A": the tables have too few rows for a block on each device, or their constraints or pooling, or the rules of the engine, forbid it`},
		{[]problem.ShardingType{problem.RowWise, "diagonal"}, unknown},
		{[]problem.ShardingType{problem.ColumnWise, "diagonal"}, unknown},
		{append(problem.ShardingTypes(), "diagonal"), unknown},
		{[]problem.ShardingType{"diagonal"}, unknown},
	} {
		p := onHosts(problem.Constraint{NoSplit: true})
		_, err := Run(context.Background(), p, additiveFactory(p), Options{ShardingTypes: test.types})
		if err == nil || err.Error() != test.want {
			t.Errorf("sharding types %v:\ngot  %v\nwant %s", test.types, err, test.want)
		}
	}
}
