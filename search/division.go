package search

import (
	"cmp"
	"math"
	"slices"
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
	item int32
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

// entry returns an entry of piece k, whose time must be known.
func (c *catalog) entry(k, index int32) entry {
	piece := &c.pieces[k]
	e := entry{piece: k, index: index, bytes: piece.bytes, dims: piece.dims, item: none}
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

// noLimit is a limit on dim sums that no device reaches. columns turns a cap into the
// largest dim sum that it allows.
const noLimit = math.MaxInt64

func columns(dimCap float64) int64 {
	if dimCap >= 1<<53 {
		return noLimit
	}
	return int64(dimCap)
}
