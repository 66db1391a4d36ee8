package search

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// blocks.go keeps tables of an old placement where they are whose rows are cut over chosen
// devices (problem.Form.Blocks). A piece has all rows, so no change of a layout touches such
// tables: their bytes, columns and times are counted beside those of the pieces. Tables whose
// blocks may not stay, because the table has other rows now or a device is gone, are placed
// anew, as slices.

// keptBlocks are the tables that stay in blocks of rows on chosen devices.
type keptBlocks struct {
	// shards are the blocks of each device.
	shards [][]problem.Shard
	tables map[int]bool
	// dims are the columns of the blocks of each device, and received is what every device receives
	// from blocks. short is catalog.short without the blocks.
	dims, short []int64
	received    int64
}

// keepBlocks takes the tables of an old placement that stay in blocks out of the catalog, and counts
// the blocks in every layout.
func keepBlocks(r *run, held [][]formerShard) {
	c, p := r.catalog, r.catalog.problem
	if !r.opt.ChosenRows || r.opt.ColumnsOnly || !c.rules.AnyDevices {
		return
	}
	k := &keptBlocks{shards: make([][]problem.Shard, len(c.all)), tables: map[int]bool{}, dims: make([]int64, len(c.all)), short: c.short}
	short := slices.Clone(c.short)
	for table, shards := range held {
		if !blocksMayStay(r, table, shards) {
			continue
		}
		k.tables[table] = true
		for _, s := range shards {
			k.shards[s.device] = append(k.shards[s.device], s.Shard)
			short[s.device] += int64(p.ShardMemory(s.Shard).Tables())
			k.dims[s.device] += int64(p.DimSum(s.Shard))
			k.received += int64(p.ReceivedOf(s.Shard))
		}
	}
	if len(k.tables) == 0 {
		return
	}
	c.unsplit = slices.DeleteFunc(c.whole(), func(piece int32) bool { return k.tables[c.pieces[piece].members[0].table] })
	c.budget, c.short, c.kept = c.budget-k.received, short, k
	c.scorer = r.newScorer()
	c.scorer.Reset()
	r.own = newBesideBlocks(r.own, k, p)
}

// blocksMayStay reports whether the shards of a table are equal slices in blocks, as the engine
// cuts them, and the table may stay so. The shards must be sorted by columns, then by rows.
func blocksMayStay(r *run, table int, shards []formerShard) bool {
	t := &r.catalog.problem.Tables[table]
	if len(shards) == 0 || shards[0].Blocks < 2 || !mayCutRows(t, r.opt.ShardingTypes) {
		return false
	}
	n, width := shards[0].Blocks, shards[0].Columns.Len()
	if len(shards)%n != 0 || int64(len(shards)/n)*width != int64(t.Dim) || !t.CutsByRows(n) {
		return false
	}
	block := t.BlockRows(n)
	for i, s := range shards {
		row, column := int64(i%n)*block, int64(i/n)*width
		if s.Blocks != n || s.Rows != (problem.Range{Start: row, End: min(t.Rows, row+block)}) || s.Columns != (problem.Range{Start: column, End: column + width}) {
			return false
		}
	}
	return true
}

// mayCutRows reports whether a table may be cut by rows over any devices.
func mayCutRows(t *problem.Table, types []problem.ShardingType) bool {
	return t.Constraint.Colocation == "" && len(t.Constraint.Devices) == 0 && !t.Constraint.NoSplit &&
		problem.Permitted(types, problem.RowWise) && t.Permits(problem.RowWise) && t.Constraint.PermitsTier(problem.HBM)
}

// holds reports whether a table stays in blocks.
func (k *keptBlocks) holds(table int) bool { return k != nil && k.tables[table] }

// releaseBlocks reverses keepBlocks: all tables are placed anew.
func releaseBlocks(r *run) {
	if c := r.catalog; c.kept != nil {
		c.unsplit, c.budget, c.short, c.kept = nil, c.budget+c.kept.received, c.kept.short, nil
		r.own = c.scorer
	}
}

// join adds the blocks to the shards of the other tables.
func (k *keptBlocks) join(shards [][]problem.Shard) {
	if k == nil {
		return
	}
	for d := range shards {
		shards[d] = append(shards[d], k.shards[d]...)
		slices.SortStableFunc(shards[d], func(a, b problem.Shard) int {
			return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Columns.Start, b.Columns.Start))
		})
	}
}

// besideBlocks is a Scorer whose devices always hold some blocks of rows.
type besideBlocks struct {
	Scorer
	blocks []keptItem
}

type keptItem struct{ device, item int }

func newBesideBlocks(s Scorer, k *keptBlocks, p *problem.Problem) *besideBlocks {
	b := &besideBlocks{Scorer: s}
	for d, held := range k.shards {
		for _, shard := range held {
			b.blocks = append(b.blocks, keptItem{d, s.Item(shard.Table, shard.Dim(), p.Form(shard))})
		}
	}
	return b
}

// Reset empties all devices of everything but the blocks.
func (b *besideBlocks) Reset() {
	b.Scorer.Reset()
	for _, x := range b.blocks {
		b.Add(x.device, x.item)
	}
}
