package plan

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// held.go finds the parts of a shard that its device did not hold under an earlier plan, and the
// devices that held them.
//
// The borders of the earlier shards cut the shard into pieces, so that each piece has one set of
// holders:
//
//	  earlier shards            the shard         pieces, with their holders
//	+-------+-------+
//	|   0   |   2   |         +-----------+        +-----+-----+
//	|       +-------+         |           |        |  0  |  2  |
//	+-------+   3   |    +    |           |   =    |     +-----+
//	|   1   |       |         |           |        +-----+  3  |
//	+-------+-------+         +-----------+        |  1  |     |
//	                                               +-----+-----+
//
// The shard's columns are cut into strips, each strip's rows into pieces, and neighbours in a
// strip that have the same holders are one piece. For k earlier shards that overlap the shard,
// this is O(k log k) for the layouts that plans have.

// weights says how many bytes the cells of a table take.
type weights struct {
	precision problem.Precision
	optimizer problem.Optimizer
	// carried says that optimizer state moves: the optimizer is the same in both plans.
	carried bool
}

// weightsOf returns the weights of table b, which the earlier plan has as a, or nil.
func weightsOf(a, b *Table) weights {
	return weights{b.Precision, b.Optimizer, a == nil || !a.Stated || a.Optimizer == b.Optimizer}
}

// cells returns the bytes of the weights of a number of cells.
func (w weights) cells(n int64) unit.Bytes { return unit.Bytes(n * w.precision.Bytes()) }

// state returns the bytes of the optimizer state of a whole shard.
func (w weights) state(s Shard) unit.Bytes {
	return unit.Bytes(w.optimizer.StateBytes(s.Rows.Len(), int(s.Columns.Len())))
}

// shard returns the bytes of a shard with its state.
func (w weights) shard(s Shard) unit.Bytes { return w.cells(s.Rows.Len()*s.Columns.Len()) + w.state(s) }

// rowwise reports whether the optimizer state is one number for each row of a shard.
func (w weights) rowwise() bool { return w.optimizer == problem.RowwiseAdagrad }

// stateOf returns the bytes of the state of some cells; rows is the number of rows whose state is
// counted with these cells, if the state is row-wise.
func (w weights) stateOf(cells, rows int64) unit.Bytes {
	switch {
	case !w.carried:
		return 0
	case w.rowwise():
		return unit.Bytes(w.optimizer.StateBytes(rows, 1))
	}
	return unit.Bytes(w.optimizer.StateBytes(cells, 1))
}

// piece returns the bytes of a piece, and of the state that moves with it.
func (w weights) piece(p piece) (cells, state unit.Bytes) {
	n := p.rows.Len() * p.columns.Len()
	return w.cells(n), w.stateOf(n, p.stateRows)
}

// fate is what becomes of a part of a shard.
type fate uint8

const (
	// isMoved: other devices held the part.
	isMoved fate = iota
	// isLost: no device held the part, but the earlier table has it.
	isLost
	// isAdded: the earlier table does not have the part.
	isAdded
)

// piece is a part of a shard that its device did not hold.
type piece struct {
	rows, columns problem.Range
	fate          fate
	// holders are the devices that held the piece; replicated stands for all devices.
	holders []int
	// stateRows is the number of rows whose row-wise state goes with this piece: the device
	// held no cell of these rows of the shard, and this piece is the first of them. Other slices
	// of the table that the device held have a state of their own.
	stateRows int64
}

// held is a table as devices held it under the earlier plan.
type held struct {
	rows, columns int64
	// devices is the number of devices that hold the replicated shards.
	devices int
	// strips are the shards by their columns, sorted.
	strips []strip
	// shards are sorted by device.
	shards []Shard
}

// strip is the shards of a table with the same columns, sorted by row.
type strip struct {
	columns problem.Range
	shards  []Shard
	// apart says that no two shards have a row in common.
	apart bool
}

// newHeld returns how the devices of an earlier plan, of the given number, held table t, which must
// not be modified while the result is used.
func newHeld(t *Table, devices int) *held {
	h := &held{rows: t.Rows, columns: int64(t.Dim), devices: devices}
	h.shards = ordered(t.Shards, func(a, b Shard) int { return cmp.Compare(a.Device, b.Device) })
	sorted := ordered(t.Shards, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(a.Columns.Start, b.Columns.Start), cmp.Compare(a.Columns.End, b.Columns.End), cmp.Compare(a.Rows.Start, b.Rows.Start))
	})
	for len(sorted) > 0 {
		n, apart := 1, true
		for n < len(sorted) && sorted[n].Columns == sorted[0].Columns {
			apart = apart && sorted[n-1].Rows.End <= sorted[n].Rows.Start
			n++
		}
		h.strips = append(h.strips, strip{sorted[0].Columns, sorted[:n], apart})
		sorted = sorted[n:]
	}
	return h
}

// of calls visit with each shard that the device held.
func (h *held) of(device int, visit func(Shard)) {
	first := func(d int) int {
		k, _ := slices.BinarySearchFunc(h.shards, d, func(s Shard, d int) int { return cmp.Compare(s.Device, d) })
		return k
	}
	for k := first(device); k < len(h.shards) && h.shards[k].Device == device; k++ {
		visit(h.shards[k])
	}
	if device < h.devices {
		for k := 0; k < len(h.shards) && h.shards[k].Device == replicated; k++ {
			visit(h.shards[k])
		}
	}
}

// overlapping calls visit with each earlier shard that has rows of the range; its columns may be
// any.
func (h *held) overlapping(rows problem.Range, visit func(Shard)) {
	for _, p := range h.strips {
		k := 0
		if p.apart {
			k, _ = slices.BinarySearchFunc(p.shards, rows.Start, func(s Shard, row int64) int {
				if s.Rows.End <= row {
					return -1
				}
				return 1
			})
		}
		for ; k < len(p.shards) && p.shards[k].Rows.Start < rows.End; k++ {
			if p.shards[k].Rows.End > rows.Start {
				visit(p.shards[k])
			}
		}
	}
}

// lacks returns the pieces of shard s that the device did not hold, by column, then row.
func (h *held) lacks(device int, s Shard) []piece {
	var own []problem.Range // the rows of s that the device held a part of
	whole := false
	h.of(device, func(o Shard) {
		rows, columns := meet(o.Rows, s.Rows), meet(o.Columns, s.Columns)
		if rows.Len() > 0 && columns.Len() > 0 {
			own = append(own, rows)
			whole = whole || rows == s.Rows && columns == s.Columns
		}
	})
	if whole {
		return nil
	}
	g := newGrid(h, s, own)
	rowHeld := g.marked(own)
	h.overlapping(s.Rows, func(o Shard) { g.put(o) })
	var pieces []piece
	for x := range g.strips() {
		pieces = append(pieces, g.pieces(h, device, x)...)
	}
	g.assignState(pieces, rowHeld)
	return joinPieces(pieces)
}

// grid is a shard, cut at the borders of the earlier shards.
type grid struct {
	xs, ys []int64
	// holders has, for each strip and then each row of the grid, the devices that held it.
	holders [][]int
}

// newGrid returns the grid of shard s. own are further borders of rows.
func newGrid(h *held, s Shard, own []problem.Range) *grid {
	g := &grid{xs: []int64{s.Columns.Start, s.Columns.End}, ys: []int64{s.Rows.Start, s.Rows.End}}
	cut := func(at *[]int64, r problem.Range, of problem.Range) {
		for _, border := range []int64{r.Start, r.End} {
			if of.Start < border && border < of.End {
				*at = append(*at, border)
			}
		}
	}
	h.overlapping(s.Rows, func(o Shard) {
		if meet(o.Columns, s.Columns).Len() > 0 {
			cut(&g.xs, o.Columns, s.Columns)
			cut(&g.ys, o.Rows, s.Rows)
		}
	})
	for _, rows := range own {
		cut(&g.ys, rows, s.Rows)
	}
	cut(&g.xs, problem.Range{End: h.columns}, s.Columns)
	cut(&g.ys, problem.Range{End: h.rows}, s.Rows)
	for _, at := range []*[]int64{&g.xs, &g.ys} {
		slices.Sort(*at)
		*at = slices.Compact(*at)
	}
	g.holders = make([][]int, g.strips()*g.rows())
	return g
}

func (g *grid) strips() int { return len(g.xs) - 1 }
func (g *grid) rows() int   { return len(g.ys) - 1 }

// put notes the holder of an earlier shard.
func (g *grid) put(o Shard) {
	for x := range g.strips() {
		if o.Columns.Start > g.xs[x] || o.Columns.End < g.xs[x+1] {
			continue
		}
		y, _ := slices.BinarySearch(g.ys, o.Rows.Start)
		for ; y < g.rows() && g.ys[y] < o.Rows.End; y++ {
			at := &g.holders[x*g.rows()+y]
			*at = append(*at, o.Device)
		}
	}
}

// marked returns which rows of the grid are in one of the ranges.
func (g *grid) marked(ranges []problem.Range) []bool {
	in := make([]bool, g.rows())
	for _, r := range ranges {
		y, _ := slices.BinarySearch(g.ys, r.Start)
		for ; y < g.rows() && g.ys[y] < r.End; y++ {
			in[y] = true
		}
	}
	return in
}

// pieces returns the pieces of strip x that the device did not hold, one for each row of the grid.
func (g *grid) pieces(h *held, device, x int) []piece {
	var list []piece
	for y := range g.rows() {
		p := piece{rows: problem.Range{Start: g.ys[y], End: g.ys[y+1]}, columns: problem.Range{Start: g.xs[x], End: g.xs[x+1]}}
		p.holders = g.holders[x*g.rows()+y]
		switch {
		case slices.Contains(p.holders, device) || device < h.devices && slices.Contains(p.holders, replicated):
			continue
		case len(p.holders) > 0:
			p.fate = isMoved
		case p.rows.Start < h.rows && p.columns.Start < h.columns:
			p.fate = isLost
		default:
			p.fate = isAdded
		}
		slices.Sort(p.holders)
		list = append(list, p)
	}
	return list
}

// assignState gives the row-wise state of each row of the grid to one of its pieces, unless the
// device held a part of the row: to the first piece that moves, else that is lost, else that is
// added.
func (g *grid) assignState(pieces []piece, held []bool) {
	first := make([]int, g.rows()) // the number of a piece, from 1
	for i := range pieces {
		y, _ := slices.BinarySearch(g.ys, pieces[i].rows.Start)
		if k := first[y]; !held[y] && (k == 0 || pieces[i].fate < pieces[k-1].fate) {
			first[y] = i + 1
		}
	}
	for _, k := range first {
		if k > 0 {
			pieces[k-1].stateRows = pieces[k-1].rows.Len()
		}
	}
}

// joinPieces joins pieces that follow each other in a strip and have the same fate and holders.
func joinPieces(pieces []piece) []piece {
	n := 0
	for _, p := range pieces {
		if n > 0 {
			last := &pieces[n-1]
			if last.columns == p.columns && last.rows.End == p.rows.Start && last.fate == p.fate && slices.Equal(last.holders, p.holders) {
				last.rows.End = p.rows.End
				last.stateRows += p.stateRows
				continue
			}
		}
		pieces[n] = p
		n++
	}
	return pieces[:n]
}

// common calls visit with each of the devices 0 to devices-1 that held a part of shard s, and with
// the bytes of the shard that need not move if that device is to hold it.
func (h *held) common(s Shard, w weights, devices int, visit func(device int, bytes unit.Bytes)) {
	var parts []part
	h.overlapping(s.Rows, func(o Shard) {
		p := part{o.Device, meet(o.Rows, s.Rows), 0}
		p.cells = p.rows.Len() * max(0, meet(o.Columns, s.Columns).Len())
		parts = append(parts, p)
	})
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.rows.Start, b.rows.Start))
	})
	count := func(parts []part) unit.Bytes {
		cells := int64(0)
		for _, p := range parts {
			cells += p.cells
		}
		return w.cells(cells) + w.stateOf(cells, 0)
	}
	if w.carried && w.rowwise() {
		known := union(parts, func(p part) bool { return p.cells > 0 })
		cells := count
		count = func(parts []part) unit.Bytes {
			rows := union(parts, func(part) bool { return true })
			return cells(parts) + w.stateOf(0, overlap(rows, known))
		}
	}
	everywhere := 0
	for everywhere < len(parts) && parts[everywhere].device == replicated {
		everywhere++
	}
	if everywhere > 0 {
		bytes := count(parts[:everywhere])
		for d := range min(h.devices, devices) {
			visit(d, bytes)
		}
	}
	for parts = parts[everywhere:]; len(parts) > 0; {
		n := 1
		for n < len(parts) && parts[n].device == parts[0].device {
			n++
		}
		if d := parts[0].device; d < devices {
			visit(d, count(parts[:n]))
		}
		parts = parts[n:]
	}
}

// part is what a device held of a shard: the rows of which it held any cell of the table, and the
// number of the shard's cells.
type part struct {
	device int
	rows   problem.Range
	cells  int64
}

// union returns the rows of the parts that are wanted, as ranges that ascend and do not overlap.
func union(parts []part, wanted func(part) bool) []problem.Range {
	var rows []problem.Range
	for _, p := range parts {
		if wanted(p) {
			rows = append(rows, p.rows)
		}
	}
	slices.SortFunc(rows, func(a, b problem.Range) int { return cmp.Compare(a.Start, b.Start) })
	n := 0
	for _, r := range rows {
		if n > 0 && r.Start <= rows[n-1].End {
			rows[n-1].End = max(rows[n-1].End, r.End)
			continue
		}
		rows[n] = r
		n++
	}
	return rows[:n]
}

// overlap returns the number of rows that are in ranges of both lists, which union returned.
func overlap(a, b []problem.Range) (rows int64) {
	for len(a) > 0 && len(b) > 0 {
		rows += max(0, meet(a[0], b[0]).Len())
		if a[0].End < b[0].End {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return rows
}
