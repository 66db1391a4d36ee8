package search_test

import (
	"context"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// TestFewEvaluationsReachOtherForms plans a problem in which one of six whole tables
// takes most of the time. Replicated on all devices, the table takes a quarter of that.
// The search finds the replica, even if the budget of evaluations is small.
func TestFewEvaluationsReachOtherForms(t *testing.T) {
	p := &problem.Problem{Batch: 64, Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 4, ReserveShare: hardware.NoReserve}}
	for i := range 6 {
		p.Tables = append(p.Tables, problem.Table{
			Name: string(rune('A' + i)), Rows: 20, Dim: 16, Constraint: problem.Constraint{NoSplit: true},
			Features: []problem.Feature{{PoolingFactor: float64(10 + i)}},
		})
	}
	p.Tables[0].Features[0].PoolingFactor = 2000
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{200, 400, 2000, 20_000} {
		r, err := search.Run(context.Background(), p, formsFactory(p, false), search.Options{
			MaxEvaluations: limit, ShardingTypes: []problem.ShardingType{problem.TableWise, problem.ColumnWise, problem.DataParallel},
		})
		if err != nil {
			t.Fatal(err)
		}
		for d, held := range r.Shards {
			if !slices.ContainsFunc(held, func(s problem.Shard) bool { return s.Table == 0 && s.ShardingType == problem.DataParallel }) {
				t.Errorf("%d evaluations, device %d: got %v, want table A on it, too", limit, d, held)
			}
		}
	}
}

// TestTablesOfOtherFormsStayThere plans a table that has to be on all devices beside others that are slices of
// columns.
func TestTablesOfOtherFormsStayThere(t *testing.T) {
	p := &problem.Problem{Batch: 1024, Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 2, ReserveShare: hardware.NoReserve}}
	for i := range 8 {
		p.Tables = append(p.Tables, problem.Table{
			Name: string(rune('A' + i)), Rows: 1000, Dim: 16, Features: []problem.Feature{{PoolingFactor: float64(1 + i)}},
			Constraint: problem.Constraint{ShardingTypes: []problem.ShardingType{problem.TableWise, problem.ColumnWise}},
		})
	}
	p.Tables[5].Constraint.ShardingTypes = []problem.ShardingType{problem.DataParallel}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, sums := range []bool{false, true} {
		r, err := search.Run(context.Background(), p, formsFactory(p, sums), search.Options{
			ShardingTypes: []problem.ShardingType{problem.TableWise, problem.ColumnWise, problem.DataParallel},
		})
		if err != nil {
			t.Fatal(err)
		}
		for table := range p.Tables {
			on := 0
			for _, held := range r.Shards {
				if slices.ContainsFunc(held, func(s problem.Shard) bool { return s.Table == table }) {
					on++
				}
			}
			if on == 0 || table == 5 && on != len(r.Shards) {
				t.Errorf("times add up %v: table %d is on %d of %d devices: %v", sums, table, on, len(r.Shards), r.Shards)
			}
		}
	}
}
