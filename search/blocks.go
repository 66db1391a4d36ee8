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
	// bytes and dims are those of the blocks of each device, and received is what every device
	// receives from blocks.
	bytes, dims []int64
	received    int64
}

// keepBlocks returns the tables of an old placement that stay in blocks, or nil if none does.
func keepBlocks(r *run) *keptBlocks {
	p, held := r.catalog.problem, r.opt.From.Shards
	if !r.opt.ChosenRows || r.opt.ColumnsOnly || !p.Engine.Rules().AnyDevices {
		return nil
	}
	of := make([][]formerShard, len(p.Tables))
	for d, shards := range held {
		for _, s := range shards {
			of[s.Table] = append(of[s.Table], formerShard{int32(d), s})
		}
	}
	k := &keptBlocks{shards: make([][]problem.Shard, len(held)), tables: map[int]bool{}, bytes: make([]int64, len(held)), dims: make([]int64, len(held))}
	for table, shards := range of {
		if !blocksMayStay(r, table, shards) {
			continue
		}
		k.tables[table] = true
		for _, s := range shards {
			k.shards[s.device] = append(k.shards[s.device], s.Shard)
			k.bytes[s.device] += int64(p.ShardMemory(s.Shard).Tables())
			k.dims[s.device] += int64(p.DimSum(s.Shard))
			k.received += int64(p.ReceivedOf(s.Shard))
		}
	}
	if len(k.tables) == 0 {
		return nil
	}
	return k
}

// blocksMayStay reports whether the shards of a table are equal slices in blocks, as the engine
// cuts them, and the table may stay so.
func blocksMayStay(r *run, table int, shards []formerShard) bool {
	t := &r.catalog.problem.Tables[table]
	if len(shards) == 0 || shards[0].Blocks < 2 || !mayCutRows(t, r.opt.ShardingTypes) {
		return false
	}
	n, first := shards[0].Blocks, shards[0]
	if len(shards)%n != 0 || int64(len(shards)/n)*first.Columns.Len() != int64(t.Dim) || !t.CutsByRows(n) {
		return false
	}
	slices.SortFunc(shards, func(a, b formerShard) int {
		return compareRectangles(rectangle{a.Rows, a.Columns}, rectangle{b.Rows, b.Columns})
	})
	block := t.BlockRows(n)
	for i, s := range shards {
		row, column := int64(i%n)*block, int64(i/n)*first.Columns.Len()
		if s.Blocks != n || s.Rows != (problem.Range{Start: row, End: min(t.Rows, row+block)}) || s.Columns != (problem.Range{Start: column, End: column + first.Columns.Len()}) {
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

// keep takes the tables in blocks out of the catalog, and counts them in every layout.
func (k *keptBlocks) keep(r *run) {
	c := r.catalog
	c.unsplit = slices.DeleteFunc(c.whole(), func(piece int32) bool { return k.tables[c.pieces[piece].members[0].table] })
	c.budget -= k.received
	c.kept = k
	c.scorer = r.newScorer()
	c.scorer.Reset()
	r.workers[0].scorer = newBesideBlocks(r.workers[0].scorer, k, c.problem)
}

// holds reports whether a table stays in blocks.
func (k *keptBlocks) holds(table int) bool { return k != nil && k.tables[table] }

// release reverses keep: all tables are placed anew.
func (k *keptBlocks) release(r *run) {
	c := r.catalog
	c.unsplit, c.kept, c.budget = nil, nil, c.budget+k.received
	r.workers[0].scorer = c.scorer
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

// Additive, Joint, Numbered and Hides are those of the Scorer.
func (b *besideBlocks) Additive() bool { return addsUp(b.Scorer) }

// Joint reports whether the Scorer's Cost depends on more than maxima.
func (b *besideBlocks) Joint() bool { return isJoint(b.Scorer) }

// Numbered reports whether the Scorer takes numbers of operators.
func (b *besideBlocks) Numbered() bool { return numbersOperators(b.Scorer) }

// Hides reports whether the Scorer hides a part of the exchanges.
func (b *besideBlocks) Hides() bool { return hidingOf(b.Scorer) != nil }

// AllToAlls returns the times of the all-to-alls; it may be called if Hides returns true.
func (b *besideBlocks) AllToAlls() (times, free [2]float64) { return hidingOf(b.Scorer).AllToAlls() }

// HostSize returns the number of devices that count as one host; 0 if exchanges are flat. The
// other methods of Hierarchical may be called if it is not 0.
func (b *besideBlocks) HostSize() int {
	if h := hierarchyOf(b.Scorer); h != nil {
		return h.HostSize()
	}
	return 0
}

// Columns returns the columns that a device sends inside its host.
func (b *besideBlocks) Columns(device int) int64 { return hierarchyOf(b.Scorer).Columns(device) }

// HostColumns returns the columns that a host sends to others.
func (b *besideBlocks) HostColumns(host int) int64 { return hierarchyOf(b.Scorer).HostColumns(host) }

// Rates returns the times of a direction of the exchange.
func (b *besideBlocks) Rates() (column, hostColumn, fixed float64) {
	return hierarchyOf(b.Scorer).Rates()
}
