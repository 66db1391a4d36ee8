package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// blocked is additive with blocks of rows on chosen devices: a block has its share of a table's time
// and all of its columns. A row_wise table costs as much as a whole one.
type blocked struct{ *additive }

// blockItem is above all items of slices.
const blockItem = 1_000_000

func (b blocked) Item(table, width int, form problem.Form) int {
	item := b.additive.Item(table, width, problem.Form{})
	if form == (problem.Form{}) || form == (problem.Form{ShardingType: problem.RowWise}) {
		return item
	}
	if form != (problem.Form{Blocks: form.Blocks}) {
		panic(fmt.Sprintf("search: blocked does not estimate form %+v", form))
	}
	return blockItem*form.Blocks + item
}

func (b blocked) shift(device, item int, sign float64) {
	time, dims := b.price(item % blockItem)
	b.time[device] += sign * time / float64(max(1, item/blockItem))
	b.dims[device] += sign * dims
}

func (b blocked) Add(device, item int)    { b.shift(device, item, 1) }
func (b blocked) Remove(device, item int) { b.shift(device, item, -1) }

func (b blocked) ComputeWith(item int, devices []int32, out []float64) {
	for i, d := range devices {
		b.Add(int(d), item)
		out[i] = b.Compute(int(d))
		b.Remove(int(d), item)
	}
}

// inRows are the options of a search that may cut tables by rows over chosen devices.
func inRows() Options {
	return Options{Workers: 1, ShardingTypes: append(Columns(), problem.RowWise), ChosenRows: true}
}

// forHugeCTR makes p a problem for HugeCTR, and returns its Scorers.
func forHugeCTR(t *testing.T, p *problem.Problem) Factory {
	t.Helper()
	p.Accounting, p.Engine = problem.CountAll, problem.HugeCTR
	must.Do(t, p.Validate())
	base := additiveFactory(p)
	return func() Scorer { return blocked{base().(*additive)} }
}

// inTurn returns the whole tables, dealt to the devices in turn.
func inTurn(p *problem.Problem) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	for i := range p.Tables {
		d := i % len(shards)
		shards[d] = append(shards[d], p.Whole(i))
	}
	return shards
}

// TestSearchCutsRows: a search cuts the rows of the table that takes most of the time, also with a budget of evaluations. It
// does not for other engines, without row_wise, or if the Scorers do not estimate that.
func TestSearchCutsRows(t *testing.T) {
	tables := []table{{1000, 4, 250}}
	for range 15 {
		tables = append(tables, table{1000, 4, 25})
	}
	for _, test := range []struct {
		change func(p *problem.Problem, opt *Options)
		want   bool
	}{
		{func(*problem.Problem, *Options) {}, true},
		{func(_ *problem.Problem, opt *Options) { opt.MaxEvaluations = 100_000 }, true},
		{func(p *problem.Problem, _ *Options) { p.Engine = problem.TorchRec }, false},
		{func(_ *problem.Problem, opt *Options) { opt.ShardingTypes = Columns() }, false},
		{func(_ *problem.Problem, opt *Options) { opt.ChosenRows = false }, false},
	} {
		p, opt := handMade(unit.GiB, 5, tables...), inRows()
		newScorer := forHugeCTR(t, p)
		test.change(p, &opt)
		r := must.Get(Run(context.Background(), p, newScorer, opt))(t)
		cut := slices.ContainsFunc(slices.Concat(r.Shards...), func(s problem.Shard) bool { return s.Table == 0 && s.Blocks > 1 })
		if cut != test.want || cut != (r.Cost < 1000) {
			t.Errorf("engine %q, %+v: got rows on chosen devices: %v, and a cost of %v, want %v", p.Engine, opt, cut, r.Cost, test.want)
		}
	}
}

// inBlocks returns a problem for HugeCTR and a placement whose first and last tables are in two blocks of
// rows each, on devices 1 and 3. The last table may only be row_wise, and has no row for each device. Each of two slices of
// table 5 is in two blocks, on devices 0 and 2, and 1 and 3.
func inBlocks(t *testing.T) (*problem.Problem, [][]problem.Shard, Factory) {
	t.Helper()
	p := handMade(unit.GiB, 4, table{1001, 32, 9}, table{77, 16, 4}, table{50, 64, 2}, table{400, 8, 30}, table{10, 4, 1}, table{300, 16, 5}, table{3, 4, 1})
	p.Tables[6].Constraint.ShardingTypes = []problem.ShardingType{problem.RowWise}
	newScorer := forHugeCTR(t, p)
	shards := inTurn(p)
	shards[0], shards[1], shards[2] = shards[0][1:], shards[1][:1], shards[2][:1]
	block := func(d, table, i int, columns problem.Range, shardingType problem.ShardingType) {
		s, rows := p.Whole(table), p.Tables[table].BlockRows(2)
		s.Rows, s.Columns = problem.Range{Start: rows * int64(i), End: min(s.Rows.End, rows*int64(i+1))}, columns
		s.ShardingType, s.Blocks = shardingType, 2
		shards[d] = append(shards[d], s)
	}
	for d := range shards {
		if d%2 > 0 {
			block(d, 0, d/2, p.Whole(0).Columns, problem.RowWise)
			block(d, 6, d/2, p.Whole(6).Columns, problem.RowWise)
		}
		block(d, 5, d/2, problem.Range{Start: 8 * int64(d%2), End: 8 + 8*int64(d%2)}, problem.Grid)
		slices.SortFunc(shards[d], func(a, b problem.Shard) int { return a.Table - b.Table })
	}
	return p, shards, newScorer
}

// TestBlocksStay: tables in blocks of rows on chosen devices stay where they are if no byte may move, also beside a new table.
// Otherwise they may change, which makes the plan cheaper. A table that may only lie so cannot be placed anew.
func TestBlocksStay(t *testing.T) {
	p, old, newScorer := inBlocks(t)
	run := func(from From) (Result, error) {
		opt := inRows()
		opt.From = &from
		return Run(context.Background(), p, newScorer, opt)
	}
	stays, err := run(From{Shards: old, Limited: true})
	if err != nil || stays.Moved != 0 || cmp.Diff(old, stays.Shards) != "" {
		t.Fatalf("got %d moved bytes of an unchanged placement, and %v:\n%s", stays.Moved, err, cmp.Diff(old, stays.Shards))
	}
	without := make([][]problem.Shard, len(old)) // table 3 is new
	for d, held := range old {
		without[d] = slices.DeleteFunc(slices.Clone(held), func(s problem.Shard) bool { return s.Table == 3 })
	}
	if r, err := run(From{Shards: without, Limited: true}); err != nil || r.Moved != 0 {
		t.Errorf("got %d moved bytes for a new table and %v, want none", r.Moved, err)
	}
	if free, err := run(From{Shards: old}); err != nil || free.Cost >= stays.Cost || free.Moved == 0 {
		t.Errorf("got cost %v and %d moved bytes if bytes may move, and %v, want less than %v", free.Cost, free.Moved, err, stays.Cost)
	}
	var impossible *NoShardingType
	if _, err := run(From{Shards: make([][]problem.Shard, 4)}); !errors.As(err, &impossible) {
		t.Errorf("got %v from an empty placement, want a *NoShardingType", err)
	}
}
