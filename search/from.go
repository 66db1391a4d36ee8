package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// A search may begin from an old placement (Options.From). Then a placement also has a number of moved bytes: what its devices must
// receive, counted by rectangles of rows and columns. A device receives the cells that it did not hold and that some device held, as
// weights with their optimizer state; cells that no device held are made. A row-wise state is one number for each row of a shard: it
// moves if the device held no cell of the shard in that row.
//
//	columns    0      16      32      48      64
//	old        |  device 0     |   device 1    |
//	new        |  device 0 | 2 |   device 1    |     device 2 receives its columns
//
// Where slices of a table lie in the columns is free, so it is chosen (arrange): walk over the columns, and take the slice of the
// device that held them; then exchange neighbours if that saves bytes. A table of k slices takes O(k^2) steps.

// From is an old placement that a search begins from. Method NeuroShard then changes it
// little: it minimises the cost plus Price times the moved bytes, under a budget of moved
// bytes. Moved bytes are weights and optimizer state that devices receive from other devices.
type From struct {
	// Shards is what each device of the cluster held, with the tables' numbers and sizes of
	// the problem: ranges that the tables have no more are left out, and so are devices that
	// the cluster has no more. The slices are not modified.
	Shards [][]problem.Shard
	// Price is the cost in ms of a moved byte, at least 0.
	Price float64
	// Limited says that there is a budget: at most Most bytes move, beyond those that the
	// search had to move to place all tables.
	Limited bool
	Most    unit.Bytes
}

// check returns an error if the method does not begin from an old placement, or if the placement
// is not one of the problem's tables and devices.
func (f *From) check(p *problem.Problem, method Method) error {
	if f == nil {
		return nil
	}
	if method != NeuroShard {
		return fmt.Errorf("search option from: method %q does not begin from an old placement: choose method %q", method, NeuroShard)
	}
	if math.IsNaN(f.Price) || math.IsInf(f.Price, 0) || f.Price < 0 {
		return fmt.Errorf("search option from: a price of %v ms for a moved byte is not a number of at least 0", f.Price)
	}
	if f.Most < 0 {
		return fmt.Errorf("search option from: a budget of %d moved bytes is negative", f.Most)
	}
	if len(f.Shards) != p.Topology.Devices {
		return fmt.Errorf("search option from: the old placement has %d devices and the problem has %d: give a list of shards for each device of the problem", len(f.Shards), p.Topology.Devices)
	}
	for d, held := range f.Shards {
		for _, s := range held {
			if s.Table < 0 || s.Table >= len(p.Tables) {
				return fmt.Errorf("search option from: device %d held a shard of table number %d, and the problem has %d tables", d, s.Table, len(p.Tables))
			}
			t := &p.Tables[s.Table]
			if inside := (rectangle{problem.Range{End: t.Rows}, problem.Range{End: int64(t.Dim)}}).overlap(s.Rows, s.Columns); inside == 0 || inside != s.Rows.Len()*s.Columns.Len() {
				return fmt.Errorf("search option from: device %d held rows [%d, %d) of columns [%d, %d), which are no part of table %q of %d x %d: clip old shards to the table", d, s.Rows.Start, s.Rows.End, s.Columns.Start, s.Columns.End, t.Name, t.Rows, t.Dim)
			}
		}
	}
	return nil
}

// rectangle is a part of a table.
type rectangle struct{ rows, columns problem.Range }

// overlap returns the number of cells that a rectangle shares with rows and columns.
func (r rectangle) overlap(rows, columns problem.Range) int64 {
	return shared(r.rows, rows) * shared(r.columns, columns)
}

// shared returns the length of what two ranges share.
func shared(a, b problem.Range) int64 { return max(0, min(a.End, b.End)-max(a.Start, b.Start)) }

// former is what devices held before the search, and what moving bytes costs the search.
type former struct {
	tables []formerTable
	// price is From.Price. steer is the price in the goal of an annealing, which may be
	// another one. limit is the most bytes that may move.
	price, steer float64
	limit        int64
	// known are counts of bytes that take long.
	known map[shardPlace]int64
}

// formerTable is what devices held of one table.
type formerTable struct {
	parts []formerShard // by columns and rows, then by device
	// cell is the bytes of a weight with its optimizer state, and row those of the state of
	// each row of a shard.
	cell, row int64
	// home are the slices of the old placement in the order of their columns, if the table may
	// stay as it is, and sorted are the same slices sorted. stays is the number of bytes that
	// move then: 0, or more if there are more devices, or fewer.
	home, sorted []columnSlice
	stays        int64
}

// formerShard is a shard that a device held.
type formerShard struct {
	device int32
	problem.Shard
}

func (s *formerShard) cells() rectangle { return rectangle{s.Rows, s.Columns} }

// shardPlace is a shard on a device, or a slice that several devices hold together, by its
// first device.
type shardPlace struct {
	table int
	slice columnSlice
	start int64
}

func newFormer(p *problem.Problem, from *From) *former {
	f := &former{tables: make([]formerTable, len(p.Tables)), price: from.Price, steer: from.Price, limit: math.MaxInt64, known: map[shardPlace]int64{}}
	for d, held := range from.Shards {
		for _, s := range held {
			t := &f.tables[s.Table]
			t.parts = append(t.parts, formerShard{int32(d), s})
		}
	}
	for i := range f.tables {
		f.tables[i].prepare(p, i)
	}
	return f
}

// prepare sets what follows from the parts.
func (t *formerTable) prepare(p *problem.Problem, i int) {
	table := &p.Tables[i]
	one, two := table.Optimizer.StateBytes(1, 1), table.Optimizer.StateBytes(1, 2)
	t.cell, t.row = table.Precision.Bytes()+two-one, one-(two-one)
	if p.Accounting == problem.CountWeights {
		t.cell, t.row = problem.FP32.Bytes(), 0
	}
	slices.SortStableFunc(t.parts, func(a, b formerShard) int { return compareRectangles(a.cells(), b.cells()) })
}

func compareRectangles(a, b rectangle) int {
	return cmp.Or(cmp.Compare(a.columns.Start, b.columns.Start), cmp.Compare(a.columns.End, b.columns.End),
		cmp.Compare(a.rows.Start, b.rows.Start), cmp.Compare(a.rows.End, b.rows.End))
}

// bytes returns the bytes of all tables, with their optimizer state but a row-wise one; at least 1.
func (f *former) bytes(p *problem.Problem) float64 {
	bytes := 1.0
	for i := range p.Tables {
		bytes += float64(f.tables[i].cell) * float64(p.Tables[i].Rows) * float64(p.Tables[i].Dim)
	}
	return bytes
}

// priced returns what moved bytes add to the cost, and toll what they add under another price. Both are infinite beyond the budget.
func (f *former) priced(moved int64) float64 { return f.toll(f.price, moved) }

func (f *former) toll(price float64, moved int64) float64 {
	if moved > f.limit {
		return math.Inf(1)
	}
	return price * float64(moved)
}

// moved returns the bytes that a device must receive for a shard of a table.
func (f *former) moved(table int, device int32, shard rectangle) int64 {
	t := &f.tables[table]
	held, own := int64(0), int64(0)
	for i := range t.parts {
		part := &t.parts[i]
		if part.Columns.Start >= shard.columns.End {
			break
		}
		cells := shard.overlap(part.Rows, part.Columns)
		if i == 0 || part.cells() != t.parts[i-1].cells() {
			held += cells
		}
		if part.device == device {
			own += cells
		}
	}
	bytes := max(0, held-own) * t.cell
	if t.row > 0 && bytes > 0 {
		bytes += t.row * t.rowsWithout(device, shard)
	}
	return bytes
}

// movedShards returns the bytes that devices must receive for their shards.
func (f *former) movedShards(shards [][]problem.Shard) (bytes unit.Bytes) {
	for d, held := range shards {
		for _, s := range held {
			bytes += unit.Bytes(f.moved(s.Table, int32(d), rectangle{s.Rows, s.Columns}))
		}
	}
	return bytes
}

// rowsWithout returns the number of rows of a shard that some device held in the shard's
// columns, without those in which the shard's device held a cell of the shard.
func (t *formerTable) rowsWithout(device int32, shard rectangle) int64 {
	var held, own []problem.Range
	for i := range t.parts {
		if part := &t.parts[i]; shared(part.Columns, shard.columns) > 0 {
			held = append(held, part.Rows)
			if part.device == device {
				own = append(own, part.Rows)
			}
		}
	}
	return covered(held, shard.rows) - covered(own, shard.rows)
}

// covered returns how much of a range some ranges cover. It sorts them.
func covered(ranges []problem.Range, of problem.Range) (n int64) {
	slices.SortFunc(ranges, func(a, b problem.Range) int { return cmp.Compare(a.Start, b.Start) })
	for _, r := range ranges {
		if r.End > of.Start && r.Start < of.End {
			n += shared(r, of)
			of.Start = r.End
		}
	}
	return n
}

// columnSlice is a slice of a table's columns, and the devices that hold it: n devices from
// the first on. Each holds a block of blockRows rows; or all rows, if blockRows is 0. If blocks is above 0, it is one of
// that number of blocks of a slice, on chosen devices.
type columnSlice struct {
	width             int64
	first, n          int32
	blockRows, blocks int64
	// key tells slices apart that differ in their form only. It is a piece's number.
	key int32
}

func compareColumnSlices(a, b columnSlice) int {
	return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.width, a.width), cmp.Compare(a.key, b.key))
}

// part returns the part of a table with the given number of rows that the i-th of the devices holds. start is the sum of the
// widths of the slices before it: blocks of a slice follow each other.
func (s columnSlice) part(start int64, i int32, rows int64) rectangle {
	part, block := rectangle{problem.Range{End: rows}, problem.Range{Start: start}}, int64(i)
	if s.blocks > 0 {
		at := start / s.width
		part.columns.Start, block = at/s.blocks*s.width, at%s.blocks
	}
	if part.columns.End = part.columns.Start + s.width; s.blockRows > 0 {
		from := min(rows, block*s.blockRows)
		part.rows = problem.Range{Start: from, End: min(rows, from+s.blockRows)}
	}
	return part
}

// settle says that the slices are those of the old placement of a table, in the order of their
// columns.
func (f *former) settle(table int, home []columnSlice, rows int64) {
	t := &f.tables[table]
	t.home, t.sorted = home, slices.SortedFunc(slices.Values(home), compareColumnSlices)
	t.stays = f.inOrder(table, home, rows)
}

// at returns the bytes that devices must receive for a slice that begins at a column.
func (f *former) at(table int, s columnSlice, start int64, rows int64) (bytes int64) {
	if s.n == 1 {
		return f.moved(table, s.first, s.part(start, 0, rows))
	}
	key := shardPlace{table: table, slice: s, start: start}
	key.slice.key = 0
	if bytes, ok := f.known[key]; ok {
		return bytes
	}
	for i := range s.n {
		bytes += f.moved(table, s.first+i, s.part(start, i, rows))
	}
	f.known[key] = bytes
	return bytes
}

// arrange sorts the slices of a table in the order of their columns that it finds best, and
// returns the bytes that move. It returns at least 1 for a table that could stay as it was, so
// that no table changes without any gain. The table has the given number of rows.
func (f *former) arrange(table int, list []columnSlice, rows int64) int64 {
	t := &f.tables[table]
	if len(list) > 1 {
		slices.SortFunc(list, compareColumnSlices)
	}
	if len(t.parts) == 0 {
		return 0
	}
	if slices.Equal(list, t.sorted) {
		copy(list, t.home)
		return t.stays
	}
	bytes := f.best(table, list, rows)
	if len(t.home) > 0 {
		bytes = max(1, bytes)
	}
	return bytes
}

// best is arrange for sorted slices.
func (f *former) best(table int, list []columnSlice, rows int64) int64 {
	t := &f.tables[table]
	if len(list) == 1 || list[0].blocks > 0 { // blocks are in the order of their devices
		return f.inOrder(table, list, rows)
	}
	t.walk(list)
	bytes := f.inOrder(table, list, rows)
	for i := 1; i < len(list) && bytes > 0; i++ {
		list[i-1], list[i] = list[i], list[i-1]
		if n := f.inOrder(table, list, rows); n < bytes {
			bytes = n
		} else {
			list[i-1], list[i] = list[i], list[i-1]
		}
	}
	return bytes
}

// inOrder returns the bytes that move if the slices follow each other.
func (f *former) inOrder(table int, list []columnSlice, rows int64) (bytes int64) {
	start := int64(0)
	for _, s := range list {
		bytes += f.at(table, s, start, rows)
		start += s.width
	}
	return bytes
}

// walk puts the slices in the order of the columns that their devices held. Before the next of these
// columns, it puts the widest slice that fits of those whose devices held none.
func (t *formerTable) walk(list []columnSlice) {
	held := func(s columnSlice) int64 {
		first := int64(math.MaxInt64)
		for i := range t.parts {
			if part := &t.parts[i]; part.device >= s.first && part.device < s.first+s.n {
				first = min(first, part.Columns.Start)
			}
		}
		return first
	}
	slices.SortStableFunc(list, func(a, b columnSlice) int { return cmp.Compare(held(a), held(b)) })
	start := int64(0)
	for i := range list {
		next := held(list[i])
		best := -1
		for j := i; j < len(list); j++ {
			if s := list[j]; held(s) == math.MaxInt64 && s.width <= next-start && (best < 0 || s.width > list[best].width) {
				best = j
			}
		}
		if best > i {
			s := list[best]
			copy(list[i+1:best+1], list[i:best])
			list[i] = s
		}
		start += list[i].width
	}
}
