package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
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
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
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

// TestLayoutCountsBlocks: after each of many changes, a layout counts the bytes of the shards, what every device receives from
// blocks of rows, and the bytes that moved since the first placement. The blocks are equal, in the order of their devices.
func TestLayoutCountsBlocks(t *testing.T) {
	p := handMade(unit.GiB, 8, table{1000, 32, 9}, table{77, 16, 4}, table{5, 64, 2}, table{400, 8, 30}, table{10, 4, 1}, table{10, 4, 1})
	p.Topology.NetworkBandwidth, p.Topology.DevicesPerHost, p.Batch = 1e10, 4, 800
	newScorer := forHugeCTR(t, p)
	old := inTurn(p)
	r := newRun(context.Background(), p, newScorer, inRows())
	r.catalog.former = newFormer(p, &From{Shards: old})
	r.forms.choices = make([][]problem.Form, len(p.Tables))
	a := newAnnealer(r.catalog, newScorer(), 1, r.forms)
	a.c.former.steer = 1e-9
	var parts []placed
	for i, k := range r.catalog.whole() {
		parts = append(parts, placed{k, int32(i % 8)})
	}
	a.reset(parts)
	seen := map[int]bool{}
	inBlocks := func(table int) bool {
		a.gone, a.come = append(a.gone[:0], a.tables[table]...), a.come[:0]
		n := 2 + a.draw.IntN(6)
		if !p.Tables[table].CutsByRows(n) {
			return false
		}
		for _, d := range a.draw.Perm(8)[:n] {
			a.come = append(a.come, placed{a.c.inForm(a.forms.whole[table], p.Tables[table].Dim, problem.Form{Blocks: n}), int32(d)})
		}
		return a.fits(false)
	}
	for i := range 3000 {
		if i%2 == 0 && !a.propose() || i%2 > 0 && !inBlocks(i%6) {
			continue
		}
		before := a.softSums
		if a.try(); a.draw.IntN(2) > 0 {
			a.undo(before)
		} else {
			a.accept()
		}
		shards := r.catalog.shards(a.all())
		received, next := int64(0), make([]problem.Range, len(p.Tables)) // the rows and columns that come next
		for d, held := range shards {
			bytes := int64(0)
			for _, s := range held {
				received += int64(p.ReceivedOf(s))
				if n := s.Blocks; n > 0 {
					seen[n] = true
					if s.Rows.Start != next[s.Table].Start || s.ShardingType != problem.RowWise || s.Dim() != p.Tables[s.Table].Dim {
						t.Fatalf("device %d: got block %+v, want one from row %d on", d, s, next[s.Table].Start)
					}
					next[s.Table].Start = s.Rows.End
					s.Rows = problem.Range{End: p.Tables[s.Table].BlockRows(n)} // a shorter last block counts as a full one
				}
				bytes += int64(p.ShardMemory(s).Tables())
			}
			if a.own[d] != bytes {
				t.Fatalf("device %d: got %d bytes, want %d", d, a.own[d], bytes)
			}
		}
		for i, rows := range next {
			if rows.Start != 0 && rows.Start != p.Tables[i].Rows {
				t.Fatalf("got blocks of %d of %d rows", rows.Start, p.Tables[i].Rows)
			}
		}
		if got := a.c.budget - a.budget; got != received {
			t.Fatalf("got %d bytes received, want %d", got, received)
		}
		if moved := int64(a.c.former.movedShards(shards)); a.moved != moved {
			t.Fatalf("got %d bytes moved, want %d", a.moved, moved)
		}
	}
	if len(seen) != 6 {
		t.Errorf("got tables in these numbers of blocks: %v, want 2 to 7", seen)
	}
}

// TestBlocksFit: two blocks of rows fit a device that has room for them and for what it receives from the second one, and
// do not fit with a byte less.
func TestBlocksFit(t *testing.T) {
	p := handMade(unit.GiB, 3, table{1000, 32, 9}, table{1000, 32, 9}, table{77, 4, 4})
	p.Topology.NetworkBandwidth, p.Batch = 1e10, 800
	newScorer := forHugeCTR(t, p)
	r := newRun(context.Background(), p, newScorer, inRows())
	whole := r.catalog.whole()
	block := r.catalog.inForm(whole[0], 32, problem.Form{Blocks: 2})
	second := &r.catalog.pieces[block]
	need := r.catalog.pieces[whole[1]].bytes + second.bytes + second.received
	if want := int64(267 * 32 * 4); second.received != want { // a third of the batch
		t.Fatalf("got %d bytes received, want %d", second.received, want)
	}
	for missing := range int64(2) {
		r.catalog.budget = need - missing
		l := newLayout(r.catalog, r.scorer(), r.forms)
		l.reset([]placed{{whole[0], 0}, {whole[1], 1}, {whole[2], 2}})
		l.gone, l.come = append(l.gone[:0], l.tables[0]...), append(l.come[:0], placed{block, 0}, placed{block, 1})
		if got := l.fits(false); got != (missing == 0) || l.budget != need-missing {
			t.Errorf("with %d bytes less than needed: got fits %v, and then a budget of %d bytes, want %d", missing, got, l.budget, need-missing)
		}
	}
}

// TestBlocksLeaveHosts: blocks of rows do not lie on just all devices of a host, which is table_row_wise, and slices of columns
// in such blocks not on just all devices of several.
func TestBlocksLeaveHosts(t *testing.T) {
	p := evenProblem(1, 1, 6)
	p.Topology.DevicesPerHost, p.Tables[0].Dim, p.Engine = 2, 32, problem.HugeCTR
	c := newCatalog(p, blocked{additiveFactory(p)().(*additive)}, false)
	for _, test := range []struct {
		devices []int32
		blocks  int
		want    bool
	}{
		{[]int32{2, 3}, 2, true},
		{[]int32{1, 2}, 2, false},
		{[]int32{0, 1, 2, 3}, 2, true},
		{[]int32{0, 1, 2, 4}, 2, false},
		{[]int32{0, 1, 2}, 3, false},
		{[]int32{0, 1, 2, 3}, 4, false},
	} {
		whole := c.whole()[0]
		k := c.inForm(whole, 32*test.blocks/len(test.devices), problem.Form{Blocks: test.blocks})
		var parts []placed
		for _, d := range test.devices {
			parts = append(parts, placed{k, d})
		}
		l := newLayout(c, c.scorer, onlyColumns(c))
		l.reset([]placed{{whole, 0}})
		l.gone, l.come = append(l.gone[:0], l.tables[0]...), parts
		if change, all := changeBreaks(l), breaks(c, parts); change != test.want || all != test.want {
			t.Errorf("%d blocks on devices %v: got a change that breaks a rule: %v, and a placement: %v, want %v", test.blocks, test.devices, change, all, test.want)
		}
	}
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
		r, err := Run(context.Background(), p, newScorer, opt)
		if err != nil {
			t.Fatal(err)
		}
		cut := slices.ContainsFunc(slices.Concat(r.Shards...), func(s problem.Shard) bool { return s.Table == 0 && s.Blocks > 1 })
		if cut != test.want || cut != (r.Cost < 1000) {
			t.Errorf("engine %q, %+v: got rows on chosen devices: %v, and a cost of %v, want %v", p.Engine, opt, cut, r.Cost, test.want)
		}
	}
}

// TestConstrainedTablesStay: tables that a constraint keeps whole, together, or off some devices or
// sharding types are not cut by rows over chosen devices.
func TestConstrainedTablesStay(t *testing.T) {
	p := handMade(unit.GiB, 4, table{100, 8, 1}, table{100, 8, 1}, table{100, 8, 1}, table{100, 8, 1}, table{100, 8, 1})
	p.Tables[0].Constraint = problem.Constraint{NoSplit: true}
	p.Tables[1].Constraint = problem.Constraint{Devices: []int{1}}
	p.Tables[2].Constraint = problem.Constraint{Colocation: "pair"}
	p.Tables[3].Constraint = problem.Constraint{ShardingTypes: []problem.ShardingType{problem.TableWise}}
	p.Topology.ReserveShare = hardware.NoReserve
	r := newRun(context.Background(), p, forHugeCTR(t, p), inRows())
	if want := []bool{4: true}; !slices.Equal(r.forms.chosen, want) {
		t.Errorf("got tables that may be cut by rows: %v, want %v", r.forms.chosen, want)
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
