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
	return weights{b.Precision, b.Optimizer, a == nil || a.Optimizer == b.Optimizer}
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

// overlapping calls visit with each earlier shard that has a cell of s.
func (h *held) overlapping(s Shard, visit func(Shard)) {
	for _, p := range h.strips {
		if meet(p.columns, s.Columns).Len() <= 0 {
			continue
		}
		k := 0
		if p.apart {
			k, _ = slices.BinarySearchFunc(p.shards, s.Rows.Start, func(s Shard, row int64) int {
				if s.Rows.End <= row {
					return -1
				}
				return 1
			})
		}
		for ; k < len(p.shards) && p.shards[k].Rows.Start < s.Rows.End; k++ {
			if p.shards[k].Rows.End > s.Rows.Start {
				visit(p.shards[k])
			}
		}
	}
}

// grid is a shard, cut at the borders of the earlier shards.
type grid struct {
	*held
	// xs and ys are the borders of columns and of rows.
	xs, ys []int64
	// holders has, for each strip and then each row of the grid, the devices that held it, ascending.
	holders [][]int
}

// grid returns the grid of shard s.
func (h *held) grid(s Shard) *grid {
	g := &grid{held: h, xs: []int64{s.Columns.Start, s.Columns.End}, ys: []int64{s.Rows.Start, s.Rows.End}}
	cut := func(rows, columns problem.Range) {
		for _, border := range []int64{columns.Start, columns.End} {
			if s.Columns.Start < border && border < s.Columns.End {
				g.xs = append(g.xs, border)
			}
		}
		for _, border := range []int64{rows.Start, rows.End} {
			if s.Rows.Start < border && border < s.Rows.End {
				g.ys = append(g.ys, border)
			}
		}
	}
	var earlier []Shard
	h.overlapping(s, func(o Shard) {
		cut(o.Rows, o.Columns)
		earlier = append(earlier, o)
	})
	cut(problem.Range{End: h.rows}, problem.Range{End: h.columns})
	for _, at := range []*[]int64{&g.xs, &g.ys} {
		slices.Sort(*at)
		*at = slices.Compact(*at)
	}
	slices.SortStableFunc(earlier, func(a, b Shard) int { return cmp.Compare(a.Device, b.Device) })
	rows := len(g.ys) - 1
	g.holders = make([][]int, (len(g.xs)-1)*rows)
	for _, o := range earlier {
		x, _ := slices.BinarySearch(g.xs, o.Columns.Start)
		for ; x < len(g.xs)-1 && g.xs[x] < o.Columns.End; x++ {
			y, _ := slices.BinarySearch(g.ys, o.Rows.Start)
			for ; y < rows && g.ys[y] < o.Rows.End; y++ {
				at := &g.holders[x*rows+y]
				*at = append(*at, o.Device)
			}
		}
	}
	return g
}

// lacks returns the pieces of the shard that the device did not hold, by column, then row.
func (g *grid) lacks(device int) []piece {
	var pieces []piece
	rows := len(g.ys) - 1
	known := make([]bool, rows)
	for i, holders := range g.holders {
		x, y := i/rows, i%rows
		p := piece{rows: problem.Range{Start: g.ys[y], End: g.ys[y+1]}, columns: problem.Range{Start: g.xs[x], End: g.xs[x+1]}, holders: holders}
		switch {
		case slices.Contains(holders, device) || 0 <= device && device < g.devices && slices.Contains(holders, replicated):
			known[y] = true
			continue
		case len(holders) > 0:
			p.fate = isMoved
		case p.rows.Start < g.held.rows && p.columns.Start < g.columns:
			p.fate = isLost
		default:
			p.fate = isAdded
		}
		pieces = append(pieces, p)
	}
	g.assignState(pieces, known)
	return joinPieces(pieces)
}

// assignState gives the row-wise state of each row of the grid to one of its pieces, unless the
// device held a part of the row: to the first piece that moves, else that is lost, else that is
// added.
func (g *grid) assignState(pieces []piece, known []bool) {
	first := make([]int, len(known)) // the number of a piece, from 1
	for i := range pieces {
		y, _ := slices.BinarySearch(g.ys, pieces[i].rows.Start)
		if k := first[y]; !known[y] && (k == 0 || pieces[i].fate < pieces[k-1].fate) {
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

// common calls visit with each of the devices 0 to devices-1 that held a part of the shard, and with the
// bytes that need not move if that device is to hold it: those that a device with no part of the table
// would receive, less those that this device receives.
func (g *grid) common(w weights, devices int, visit func(device int, bytes unit.Bytes)) {
	moved := func(device int) (bytes unit.Bytes) {
		for _, p := range g.lacks(device) {
			if p.fate == isMoved {
				cells, state := w.piece(p)
				bytes += cells + state
			}
		}
		return bytes
	}
	holders := slices.Concat(g.holders...)
	if slices.Contains(holders, replicated) {
		for d := range g.devices {
			holders = append(holders, d)
		}
	}
	slices.Sort(holders)
	all := moved(nobody)
	for _, d := range slices.Compact(holders) {
		if 0 <= d && d < devices {
			visit(d, all-moved(d))
		}
	}
}

// nobody is the number of no device.
const nobody = replicated - 1
