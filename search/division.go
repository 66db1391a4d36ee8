package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// entry is a piece of a division. Its index, unique in the division, names the entry in
// an assignment; it also breaks ties as the prototype does: a split leaves the left
// half at its index, the right half comes last.
//
// The fields that an inner search reads are copies of the piece's: entries lie in
// memory in the order of reading, and the pieces of thousands of tables do not.
type entry struct {
	piece, index int32
	bytes, dims  int64
	// item is the piece's number in the Scorer; none for several tables.
	item  int32
	class uint8
	// bound says that not all devices are allowed, or not beside other slices.
	bound bool
}

// division is a set of column splits: the pieces that the tables are cut into. A
// division is not modified after it is made.
type division struct {
	// entries are in placement order: the most expensive piece first. Of pieces with equal
	// times, the one with the highest index comes first.
	entries []entry
	// dims is the sum of the pieces' pooled columns.
	dims int64
}

// placement is a division with a device for each entry, by the entry's index, and the
// predicted cost in ms. The zero placement means that there is no placement: its
// division is nil.
type placement struct {
	division *division
	devices  []int32
	cost     float64
	// toll is the price of the bytes that move, in ms; 0 if the search begins from nothing.
	toll float64
}

// entry returns an entry of piece k, whose time must be known.
func (c *catalog) entry(k, index int32) entry {
	piece := &c.pieces[k]
	e := entry{piece: k, index: index, bytes: piece.bytes, dims: piece.dims, item: none, class: piece.class}
	m := piece.members[0]
	e.bound = piece.devices != nil || c.rules.OneSlice && m.width < c.problem.Tables[m.table].Dim || staysOnHost(c, piece)
	if len(piece.members) == 1 {
		e.item = int32(piece.members[0].item)
	}
	return e
}

// divide estimates the time of each piece and returns the division of the pieces.
func (c *catalog) divide(pieces []int32) *division {
	// The times are copied for sorting, because the pieces do not lie in the order of the list.
	type timed struct {
		alone float64
		index int32
	}
	order := make([]timed, len(pieces))
	s := &division{entries: make([]entry, 0, len(pieces))}
	for i, k := range pieces {
		order[i] = timed{c.time(k), int32(i)}
		s.dims += c.pieces[k].dims
	}
	slices.SortFunc(order, func(a, b timed) int { // as mostExpensiveFirst
		return cmp.Or(cmp.Compare(b.alone, a.alone), cmp.Compare(b.index, a.index))
	})
	for _, t := range order {
		s.entries = append(s.entries, c.entry(pieces[t.index], t.index))
	}
	return s
}

// pieces returns the pieces of the entries, by index.
func (s *division) pieces() []int32 {
	pieces := make([]int32, len(s.entries))
	for _, p := range s.entries {
		pieces[p.index] = p.piece
	}
	return pieces
}

// split returns s with the entry at position at cut in halves, and with it all slices of
// its table if slices must be equal. That entry must be one that can be cut.
func (c *catalog) split(s *division, at int) *division {
	if c.rules.EqualSlices {
		return splitTable(c, s, at)
	}
	old := s.entries[at]
	left, right := c.halves(old.piece)
	c.time(left)
	c.time(right)
	child := &division{
		entries: make([]entry, 0, len(s.entries)+1),
		dims:    s.dims,
	}
	child.entries = append(append(child.entries, s.entries[:at]...), s.entries[at+1:]...)
	for _, p := range []entry{c.entry(left, old.index), c.entry(right, int32(len(s.entries)))} {
		i, _ := slices.BinarySearchFunc(child.entries, p, c.mostExpensiveFirst)
		child.entries = slices.Insert(child.entries, i, p)
	}
	return child
}

func (c *catalog) mostExpensiveFirst(a, b entry) int {
	return cmp.Or(
		cmp.Compare(c.pieces[b.piece].alone, c.pieces[a.piece].alone),
		cmp.Compare(b.index, a.index),
	)
}

func (c *catalog) largestFirst(a, b entry) int {
	return cmp.Or(
		cmp.Compare(c.pieces[b.piece].bytes, c.pieces[a.piece].bytes),
		cmp.Compare(a.index, b.index),
	)
}

// mix spreads a piece's number over 64 bits (the finaliser of SplitMix64, Steele
// et al. 2014), so that sums of them tell multisets apart.
func mix(k int32) uint64 {
	z := (uint64(k) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// order returns a hash of the pieces in their order.
func (s *division) order() (hash uint64) {
	for _, p := range s.entries {
		hash = hash*0x9e3779b97f4a7c15 + mix(p.piece)
	}
	return hash
}

// alike reports whether two divisions have the same pieces in the same order.
func (s *division) alike(t *division) bool {
	return slices.EqualFunc(s.entries, t.entries, func(a, b entry) bool { return a.piece == b.piece })
}

// placed is a piece on a device. If several devices hold the piece, device is one of
// them.
type placed struct{ piece, device int32 }

// placed returns the pieces of a placement with their devices, the most expensive
// first.
func (p placement) placed() []placed {
	all := make([]placed, 0, len(p.devices))
	for _, e := range p.division.entries {
		all = append(all, placed{e.piece, p.devices[e.index]})
	}
	return all
}

// apart returns the pieces and the devices as two lists.
func apart(all []placed) (pieces, devices []int32) {
	pieces, devices = make([]int32, len(all)), make([]int32, len(all))
	for i, p := range all {
		pieces[i], devices[i] = p.piece, p.device
	}
	return pieces, devices
}

// tableSlice is a slice of a table in a placement.
type tableSlice struct {
	member
	piece, device int32
}

// shards returns what each device holds. The slices of a table take its columns in the
// order of their devices, the wider slices first; or, if devices held tables before, in the
// order in which the fewest bytes move.
func (c *catalog) shards(p placement) [][]problem.Shard {
	var all []tableSlice
	byHost := map[int]int{} // slices by host, of each table
	for _, e := range p.division.entries {
		k := &c.pieces[e.piece]
		for _, m := range k.members {
			all = append(all, tableSlice{m, e.piece, p.devices[e.index]})
		}
		if k.span == oneHost {
			byHost[k.members[0].table]++
		}
	}
	slices.SortFunc(all, func(a, b tableSlice) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.device, b.device), cmp.Compare(b.width, a.width))
	})
	c.arrange(all)
	held := make([][]problem.Shard, len(c.all))
	table, next := none, int64(0)
	for _, x := range all {
		if x.table != table {
			table, next = x.table, 0
		}
		t, s := &c.problem.Tables[table], c.columnSlice(x.piece, x.device)
		s.width = int64(x.width) // of this table of a co-location
		shard := c.shard(table, c.pieces[x.piece].form)
		if byHost[table] > 1 || s.blocks > 0 && x.width < t.Dim {
			shard.ShardingType = problem.Grid
		}
		for i := range s.n {
			part := s.part(next, i, t.Rows)
			shard.Rows, shard.Columns = part.rows, part.columns
			held[s.first+i] = append(held[s.first+i], shard)
		}
		next += s.width
	}
	return held
}

// arrange puts the slices of each table, which follow each other, in the order in which the
// fewest bytes move, if devices held tables before.
func (c *catalog) arrange(all []tableSlice) {
	if c.former == nil {
		return
	}
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].table == all[0].table {
			n++
		}
		if n > 1 {
			list := make([]columnSlice, n)
			for i, s := range all[:n] {
				list[i] = c.columnSlice(s.piece, s.device)
			}
			c.former.arrange(all[0].table, list, c.problem.Tables[all[0].table].Rows)
			for i, s := range list {
				all[i] = tableSlice{c.pieces[s.key].members[0], s.key, s.first}
			}
		}
		all = all[n:]
	}
}

// columnSlice returns a piece with a single table, on the devices of the piece's span that
// holds a device.
func (c *catalog) columnSlice(k, device int32) columnSlice {
	p := &c.pieces[k]
	s := columnSlice{width: int64(p.members[0].width), first: device, n: int32(c.devicesOf(p.span)), key: k}
	if p.span == everywhere {
		s.first = 0
	} else if p.span == oneHost {
		s.first = device / s.n * s.n
	}
	s.blocks = int64(p.form.Blocks)
	if n := c.blocks(p.form); n > 1 {
		s.blockRows = c.problem.Tables[p.members[0].table].BlockRows(n)
	}
	return s
}

// movedBytes returns the bytes that move for a placement; 0 if no devices held tables before.
func (c *catalog) movedBytes(all []placed) (bytes int64) {
	if c.former == nil {
		return 0
	}
	slicesOf := map[int][]columnSlice{}
	for _, p := range all {
		members := c.pieces[p.piece].members
		if len(members) > 1 {
			bytes += c.movedTogether(p)
			continue
		}
		slicesOf[members[0].table] = append(slicesOf[members[0].table], c.columnSlice(p.piece, p.device))
	}
	for table, list := range slicesOf {
		bytes += c.former.arrange(table, list, c.problem.Tables[table].Rows)
	}
	return bytes
}

// movedTogether returns the bytes that move for a co-location.
func (c *catalog) movedTogether(p placed) (bytes int64) {
	for _, m := range c.pieces[p.piece].members {
		s := c.problem.Whole(m.table)
		bytes += c.former.moved(m.table, p.device, rectangle{s.Rows, s.Columns})
	}
	return bytes
}

// noLimit is a limit on dim sums that no device reaches. columns turns a cap into the
// largest dim sum that it allows.
const noLimit = math.MaxInt64

func columns(dimCap float64) int64 {
	if dimCap >= 1<<53 {
		return noLimit
	}
	return int64(dimCap)
}
