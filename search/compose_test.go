package search_test

import (
	"context"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
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
	must.Do(t, p.Validate())
	for _, limit := range []int64{200, 400, 2000, 20_000} {
		r := must.Get(search.Run(context.Background(), p, formsFactory(p, false), search.Options{
			MaxEvaluations: limit, ShardingTypes: []problem.ShardingType{problem.TableWise, problem.ColumnWise, problem.DataParallel},
		}))(t)
		for d, held := range r.Shards {
			if !slices.ContainsFunc(held, func(s problem.Shard) bool { return s.Table == 0 && s.ShardingType == problem.DataParallel }) {
				t.Errorf("%d evaluations, device %d: got %v, want table A on it, too", limit, d, held)
			}
		}
	}
}
