package search

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// placed is a piece on a device. If several devices hold the piece, device is one of
// them.
type placed struct{ piece, device int32 }

// placement is a list of pieces on devices, and the predicted cost in ms. One that was offered (run.offer) has the most expensive
// piece first. The zero placement means that there is no placement: its list is nil.
type placement struct {
	parts []placed
	cost  float64
	// toll is the price of the bytes that move, in ms; 0 if the search begins from nothing.
	toll float64
}

// pair returns pieces on devices, from two lists.
func pair(pieces, devices []int32) []placed {
	parts := make([]placed, len(pieces))
	for i, k := range pieces {
		parts[i] = placed{k, devices[i]}
	}
	return parts
}

// expensiveFirst returns the parts by falling times of their pieces alone. The catalog's scorer must
// hold nothing.
func (c *catalog) expensiveFirst(parts []placed) []placed {
	sorted := make([]placed, 0, len(parts))
	for _, p := range slices.Backward(parts) {
		c.time(p.piece)
		sorted = append(sorted, p)
	}
	slices.SortStableFunc(sorted, func(a, b placed) int { return cmp.Compare(c.pieces[b.piece].alone, c.pieces[a.piece].alone) })
	return sorted
}

// tableSlice is a slice of a table in a placement.
type tableSlice struct {
	member
	piece, device int32
}

// shards returns what each device holds. The slices of a table take its columns in the
// order of their devices, the wider slices first; or, if devices held tables before, in the
// order in which the fewest bytes move.
func (c *catalog) shards(parts []placed) [][]problem.Shard {
	var all []tableSlice
	byHost := map[int]int{} // slices by host, of each table
	for _, p := range parts {
		k := &c.pieces[p.piece]
		for _, m := range k.members {
			all = append(all, tableSlice{m, p.piece, p.device})
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
