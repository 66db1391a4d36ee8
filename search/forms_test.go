package search

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestFormsOfConstrainedTables: a table that must stay whole takes no blocks of rows,
// one with devices of its own lies on those alone, and one of a group stays with it.
func TestFormsOfConstrainedTables(t *testing.T) {
	p := onHosts(problem.Constraint{}, problem.Constraint{NoSplit: true}, problem.Constraint{Devices: []int{0, 1, 2}}, problem.Constraint{Colocation: "g"}, problem.Constraint{MinWidth: 16},
		problem.Constraint{Tiers: []problem.Tier{problem.HBM}}, problem.Constraint{Tiers: []problem.Tier{problem.HostCached}, CacheShare: .3}, problem.Constraint{Tiers: []problem.Tier{problem.HBM, problem.Host}})
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	f := newForms(newCatalog(p, nil, false), Options{ShardingTypes: problem.ShardingTypes()})
	const tiers = "host_cached host"
	for i, want := range []string{
		"row_wise table_row_wise data_parallel " + tiers,
		"data_parallel " + tiers,
		tiers,
		"",
		"row_wise table_row_wise data_parallel " + tiers,
		"row_wise table_row_wise data_parallel",
		"host_cached",
		"row_wise table_row_wise data_parallel host",
	} {
		if barred := !p.Tables[i].Constraint.PermitsTier(problem.HBM); f.barred[i] != barred {
			t.Errorf("table %s: got barred %v, want %v", p.Tables[i].Name, f.barred[i], barred)
		}
		got, seen := "", map[string]bool{}
		for _, form := range f.choices[i] {
			name := string(form.ShardingType)
			if name == "" {
				name = string(form.Tier)
			}
			if !seen[name] && got != "" {
				got += " "
			}
			if !seen[name] {
				got += name
			}
			seen[name] = true
		}
		if got != want {
			t.Errorf("table %s, %+v: got forms %q, want %q", p.Tables[i].Name, p.Tables[i].Constraint, got, want)
		}
	}
}

// TestMayCut: a slice on a device may be cut by columns, blocks on a host where grids
// are allowed, and what lies on all devices never.
func TestMayCut(t *testing.T) {
	for _, sliced := range []bool{false, true} {
		p := onHosts(problem.Constraint{})
		types := []problem.ShardingType{problem.ColumnWise, problem.RowWise, problem.TableRowWise, problem.DataParallel}
		if sliced {
			types = append(types, problem.Grid)
		}
		c := newCatalog(p, nil, false)
		r := &mover{layout: newLayout(c, nil, newForms(c, Options{ShardingTypes: types}))}
		for held, want := range map[problem.ShardingType]bool{"": true, problem.RowWise: false, problem.DataParallel: false, problem.TableRowWise: sliced} {
			r.parts = []placed{{c.inForm(c.whole()[0], 16, problem.Form{ShardingType: held}), 0}}
			if got := r.mayCut(0); got != want {
				t.Errorf("%q, grids allowed %v: got %v, want %v", held, sliced, got, want)
			}
		}
	}
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
		r, err := Run(context.Background(), p, additiveFactory(p), Options{ShardingTypes: test.types})
		if err != nil {
			t.Fatal(err)
		}
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
