package search

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// wholeRows is blocked with row_wise tables that cost as much as whole ones.
type wholeRows struct{ blocked }

func (w wholeRows) Item(table, width int, form problem.Form) int {
	if form.ShardingType == problem.RowWise {
		form = problem.Form{}
	}
	return w.blocked.Item(table, width, form)
}

// inBlocks returns a problem for HugeCTR and a placement whose first table is in two blocks of
// rows, on devices 1 and 3.
func inBlocks(t *testing.T) (*problem.Problem, [][]problem.Shard, func() Scorer) {
	t.Helper()
	p := handMade(unit.GiB, 4, table{1001, 32, 9}, table{77, 16, 4}, table{50, 64, 2}, table{400, 8, 30}, table{10, 4, 1}, table{300, 16, 5})
	rowsProblem(t, 0, p)
	shards := inTurn(p)
	shards[0] = shards[0][1:]
	for i, d := range []int{1, 3} {
		s := p.Whole(0)
		s.Rows = problem.Range{Start: 501 * int64(i), End: min(1001, 501*int64(i+1))}
		s.ShardingType, s.Blocks = problem.RowWise, 2
		shards[d] = append([]problem.Shard{s}, shards[d]...)
	}
	base := additiveFactory(p)
	return p, shards, func() Scorer { return wholeRows{blocked{base().(*additive), 0}} }
}

// TestBlocksStay: tables in blocks of rows on chosen devices stay where they are, with or
// without a budget, and their times and bytes count.
func TestBlocksStay(t *testing.T) {
	p, old, newScorer := inBlocks(t)
	run := func(from From) Result {
		opt := Options{Workers: 1, ShardingTypes: []problem.ShardingType{problem.TableWise, problem.ColumnWise, problem.RowWise}, ChosenRows: true, From: &from}
		r, err := Run(context.Background(), p, newScorer, opt)
		if err != nil {
			t.Fatal(err)
		}
		s := newScorer()
		s.Reset()
		blocks := 0
		for d, held := range r.Shards {
			for _, shard := range held {
				if shard.ShardingType == problem.RowWise && shard.Blocks == 0 && d > 0 {
					continue
				}
				s.Add(d, s.Item(shard.Table, shard.Dim(), p.Form(shard)))
				if shard.Table == 0 && shard.Blocks == 2 && (d == 1 || d == 3) {
					blocks++
				}
			}
		}
		if blocks != 2 || r.Cost != s.Cost() {
			t.Errorf("got %d blocks at their old places and cost %v, want 2 and %v", blocks, r.Cost, s.Cost())
		}
		return r
	}
	if r := run(From{Shards: old, Limited: true}); r.Moved != 0 || cmp.Diff(old, r.Shards) != "" {
		t.Errorf("got %d moved bytes of an unchanged placement:\n%s", r.Moved, cmp.Diff(old, r.Shards))
	}
	free := run(From{Shards: old})
	without := make([][]problem.Shard, len(old)) // table 3 is new
	for d, held := range old {
		for _, s := range held {
			if s.Table != 3 {
				without[d] = append(without[d], s)
			}
		}
	}
	if r := run(From{Shards: without, Limited: true}); r.Moved != 0 || r.Cost < free.Cost {
		t.Errorf("got %d moved bytes and cost %v for a new table, want none and at least %v", r.Moved, r.Cost, free.Cost)
	}
	// With little memory, the bytes that every device receives from blocks count.
	r := newRun(context.Background(), p, newScorer, Options{From: &From{Shards: old}, ChosenRows: true, Workers: 1})
	budget := r.catalog.budget
	keepBlocks(r, heldBefore(r))
	if !r.catalog.kept.holds(0) {
		t.Fatal("got no tables that stay in blocks")
	}
	second := old[3][0]
	if want := budget - int64(p.ReceivedOf(second)); second.Rows.Start == 0 || r.catalog.budget != want {
		t.Errorf("got a budget of %d bytes, want %d", r.catalog.budget, want)
	}
	releaseBlocks(r)
	if r.catalog.budget != budget || len(r.catalog.whole()) != len(p.Tables) {
		t.Errorf("got a budget of %d bytes for %d tables after all, want %d for %d", r.catalog.budget, len(r.catalog.whole()), budget, len(p.Tables))
	}
}
