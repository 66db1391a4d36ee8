package neuroshard_test

import (
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/search"
)

// TestWidthsShareTheLimits: the searches with several widths make no more evaluations together than
// one search may, up to a first placement each.
func TestWidthsShareTheLimits(t *testing.T) {
	p := sequences(t, 16, 8, 128, 3)
	const most = 40_000
	r := planned(t, p, neuroshard.Options{Search: search.Options{MaxEvaluations: most}})
	if n := r.Stats.Evaluations; n < most/4 || n > most*11/10 {
		t.Errorf("got %d evaluations, want about %d", n, most)
	}
}

// TestSequencesInMoreThanHalves: a module of sequences is cut into three slices where that is cheaper
// than the best plan of halves.
func TestSequencesInMoreThanHalves(t *testing.T) {
	p := sequences(t, 3, 2, 96, 1)
	opt := neuroshard.Options{Search: search.Options{ShardingTypes: problem.ShardingTypes(), MaxEvaluations: 50_000}}
	free := planned(t, p, opt)
	for i := range p.Tables {
		p.Tables[i].Constraint.MinWidth = 48
	}
	halves := planned(t, p, opt)
	for _, s := range free.Plan.Tables[0].Shards {
		if got := s.Columns.Len(); got != 32 {
			t.Errorf("got a slice of %d columns, want 32", got)
		}
	}
	if share := free.Predicted.Cost / halves.Predicted.Cost; share > .95 {
		t.Errorf("got %v, and %v in halves", free.Predicted.Cost, halves.Predicted.Cost)
	}
}

// TestMeansOfTwoWaysOfRows: if a table of means may only be cut by rows and another table of its module
// not, no plan exists, and the error names both.
func TestMeansOfTwoWaysOfRows(t *testing.T) {
	p := means(t, func(tables []problem.Table) {
		tables[0].Constraint.ShardingTypes = []problem.ShardingType{problem.RowWise}
		tables[3].Constraint.ShardingTypes = []problem.ShardingType{problem.TableWise}
	})
	_, err := neuroshard.Plan(t.Context(), p, neuroshard.Options{Prices: neuroshard.TorchRec()})
	if err == nil || !strings.Contains(err.Error(), `table "0" is pooled by means and may only be cut by rows, and table "3"`) {
		t.Errorf("got error %v, want the two tables that cannot be together", err)
	}
}

// TestSequencesFromAnOldPlan: from an old plan, the slices of a module keep to one width.
func TestSequencesFromAnOldPlan(t *testing.T) {
	p := sequences(t, 3, 2, 96, 1)
	opt := neuroshard.Options{Search: search.Options{ShardingTypes: problem.ShardingTypes(), MaxEvaluations: 5_000}}
	old := planned(t, p, opt).Plan
	p.Batch *= 2
	got := must.Get(replan.Plan(t.Context(), p, old, replan.Options{Options: opt}))(t)
	if err := got.Result.Plan.Validate(p); err != nil {
		t.Error(err)
	}
}
