package search

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// piece is something that is placed whole: a column slice of one table, or all
// the tables of a co-location group. Two slices of a table that are equally
// wide are of the same piece.
type piece struct {
	members []member
	bytes   int64
	// dims is the pooled columns: width times features, over the members.
	dims int64
	// class is the width class of the widest member: i for up to 2^i columns.
	class uint8
	// devices are the allowed devices, ascending; nil allows all.
	devices []int32
	// left and right are the pieces of the two halves; none where it is not
	// split yet, or cannot be.
	left, right int32
	// form is how it is held, and seat which devices that takes. hostBytes are those of
	// host memory.
	form      problem.Form
	span      span
	hostBytes int64
	// cost is the predicted time of the piece alone on a device, and priced says
	// that it is known. known says that the scorer knows the members' items.
	cost          float64
	priced, known bool
}

type member struct{ table, width, item int }

const none = -1

// catalog holds the pieces of one problem. It grows only between parallel
// phases; workers read it.
type catalog struct {
	problem *problem.Problem
	// brief leaves out of an Infeasible how many devices would do.
	brief bool
	// scorer prices pieces; nil where only bytes matter.
	scorer Scorer
	// all lists every device.
	all []int32
	// budget is the bytes of a device that shards may take.
	budget int64
	pieces []piece
	index  map[slice]int32
}

type slice struct {
	table, width int
	form         problem.Form
}

func newCatalog(p *problem.Problem, scorer Scorer) *catalog {
	c := &catalog{
		problem: p,
		scorer:  scorer,
		all:     make([]int32, p.Topology.Devices),
		budget:  int64(p.ShardBudget()),
		index:   make(map[slice]int32, len(p.Tables)),
	}
	for d := range c.all {
		c.all[d] = int32(d)
	}
	if scorer != nil {
		scorer.Reset()
	}
	return c
}

// whole returns the pieces of the unsplit problem, in the order of its groups.
func (c *catalog) whole() []int32 {
	groups := c.problem.Groups()
	pieces := make([]int32, len(groups))
	for i, g := range groups {
		var devices []int32
		for _, d := range g.Devices {
			devices = append(devices, int32(d))
		}
		members := make([]member, len(g.Tables))
		for j, t := range g.Tables {
			members[j] = member{table: t, width: c.problem.Tables[t].Dim}
		}
		pieces[i] = c.add(members, devices, problem.Form{})
		if len(members) == 1 {
			c.index[slice{table: members[0].table, width: members[0].width}] = pieces[i]
		}
	}
	return pieces
}

// add registers a new piece.
func (c *catalog) add(members []member, devices []int32, form problem.Form) int32 {
	k := piece{members: members, devices: devices, left: none, right: none, form: form, span: spanOf(form)}
	for _, m := range members {
		s := c.problem.Whole(m.table)
		s.Columns.End = int64(m.width)
		s.Kind, s.Tier, s.Cache = form.Kind, form.Tier, form.Cache
		if form.Kind.ByRows() {
			s.Rows.End = c.problem.Tables[m.table].BlockRows(c.devicesOf(k.span))
		}
		memory := c.problem.ShardMemory(s)
		k.bytes += int64(memory.Tables())
		k.hostBytes += int64(memory.Host)
		if k.span == oneDevice {
			k.dims += int64(c.problem.DimSum(s))
		}
		k.class = max(k.class, uint8(bits.Len(uint(m.width-1))))
	}
	c.pieces = append(c.pieces, k)
	return int32(len(c.pieces) - 1)
}

// cut returns the widths of the two halves of piece k, granule-aligned and the
// left one never narrower; ok is false where a half would be too narrow.
func (c *catalog) cut(k int32) (left, right int, ok bool) {
	members := c.pieces[k].members
	if len(members) != 1 {
		return 0, 0, false
	}
	const g = problem.ColumnGranule
	width := members[0].width
	left = (width/2 + g - 1) / g * g
	right = width - left
	return left, right, right > 0 && right >= c.problem.Tables[members[0].table].MinWidth()
}

// halves returns the pieces of the two halves of piece k, which can be cut.
func (c *catalog) halves(k int32) (left, right int32) {
	if c.pieces[k].left == none {
		l, r, _ := c.cut(k)
		c.pieces[k].left = c.slice(k, l)
		c.pieces[k].right = c.slice(k, r)
	}
	return c.pieces[k].left, c.pieces[k].right
}

// slice returns the piece of that width of the only table of piece k, in the same form.
func (c *catalog) slice(k int32, width int) int32 { return c.inForm(k, width, c.pieces[k].form) }

// inForm returns the piece of that width and form of the only table of piece k.
func (c *catalog) inForm(k int32, width int, form problem.Form) int32 {
	key := slice{c.pieces[k].members[0].table, width, form}
	id, ok := c.index[key]
	if !ok {
		id = c.add([]member{{table: key.table, width: width}}, c.pieces[k].devices, form)
		c.index[key] = id
	}
	return id
}

// refine cuts every piece for which large holds into halves, and those again,
// as far as they can be cut.
func (c *catalog) refine(pieces []int32, large func(k int32) bool) []int32 {
	refined := make([]int32, 0, len(pieces))
	var visit func(k int32)
	visit = func(k int32) {
		if _, _, ok := c.cut(k); ok && large(k) {
			left, right := c.halves(k)
			visit(left)
			visit(right)
			return
		}
		refined = append(refined, k)
	}
	for _, k := range pieces {
		visit(k)
	}
	return refined
}

// items makes the scorer know a piece.
func (c *catalog) items(k *piece) {
	if k.known {
		return
	}
	for i := range k.members {
		m := &k.members[i]
		m.item = c.scorer.Item(m.table, m.width, k.form)
	}
	k.known = true
}

// price returns the predicted time of piece k alone on a device. The catalog's
// scorer must hold nothing.
func (c *catalog) price(k int32) float64 {
	known := &c.pieces[k]
	if !known.priced {
		c.items(known)
		for _, m := range known.members {
			c.scorer.Add(0, m.item)
		}
		known.cost, known.priced = c.scorer.Compute(0), true
		for _, m := range known.members {
			c.scorer.Remove(0, m.item)
		}
	}
	return known.cost
}

// allowed returns the devices that piece k may be placed on.
func (c *catalog) allowed(k *piece) []int32 {
	if k.devices != nil {
		return k.devices
	}
	return c.all
}

// piece is one thing to place. Its index, unique in the state, names it in an
// assignment; it also breaks ties as the prototype does: a split leaves the
// left half at its index, the right half comes last.
//
// What an inner search reads of the piece is copied here, since pieces are read
// in order and the pieces, of thousands of tables, from all over the memory.
type entry struct {
	piece, index int32
	bytes, dims  int64
	// item is what the Scorer knows it by; none for several tables.
	item  int32
	class uint8
	// bound says that not all devices are allowed.
	bound bool
}

// piece returns a piece of piece k, which has been priced.
func (c *catalog) entry(k, index int32) entry {
	piece := &c.pieces[k]
	p := entry{piece: k, index: index, bytes: piece.bytes, dims: piece.dims, item: none, class: piece.class, bound: piece.devices != nil}
	if len(piece.members) == 1 {
		p.item = int32(piece.members[0].item)
	}
	return p
}

// state is a set of column splits: the pieces that every table is in. It is
// not modified once made.
type division struct {
	// pieces are in placement order: dearest first, among equals the highest
	// index first.
	entries []entry
	// dims is the sum of the pieces' pooled columns.
	dims int64
	// hash is the sum of the pieces' hashes: equal for the same pieces in any
	// order. Two states in 2^64 share one by chance, and then one is not tried.
	hash uint64
}

// newState prices the pieces and orders them.
func (c *catalog) newDivision(pieces []int32) *division {
	s := &division{entries: make([]entry, len(pieces))}
	for i, k := range pieces {
		c.price(k)
		s.entries[i] = c.entry(k, int32(i))
		s.dims += c.pieces[k].dims
		s.hash += mix(k)
	}
	slices.SortFunc(s.entries, c.dearestFirst)
	return s
}

// pieces returns the pieces of the pieces, by index.
func (s *division) pieces() []int32 {
	pieces := make([]int32, len(s.entries))
	for _, p := range s.entries {
		pieces[p.index] = p.piece
	}
	return pieces
}

// split returns s with the piece at position at, which can be cut, in halves.
func (c *catalog) split(s *division, at int) *division {
	old := s.entries[at]
	left, right := c.halves(old.piece)
	c.price(left)
	c.price(right)
	child := &division{
		entries: make([]entry, 0, len(s.entries)+1),
		dims:    s.dims,
		hash:    s.hash - mix(old.piece) + mix(left) + mix(right),
	}
	child.entries = append(append(child.entries, s.entries[:at]...), s.entries[at+1:]...)
	for _, p := range []entry{c.entry(left, old.index), c.entry(right, int32(len(s.entries)))} {
		i, _ := slices.BinarySearchFunc(child.entries, p, c.dearestFirst)
		child.entries = slices.Insert(child.entries, i, p)
	}
	return child
}

func (c *catalog) dearestFirst(a, b entry) int {
	return cmp.Or(
		cmp.Compare(c.pieces[b.piece].cost, c.pieces[a.piece].cost),
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

// placement is a state with a device for each piece, by the piece's index, and
// what that is predicted to cost.
type placement struct {
	division *division
	devices  []int32
	cost     float64
}

// shards returns what each device holds. The slices of a table take its
// columns in the order of their devices, wider first.
func (c *catalog) shards(p placement) [][]problem.Shard {
	type placed struct {
		member
		piece, device int32
	}
	var all []placed
	byHost := map[int]int{} // of tables in several slices by host
	for _, entry := range p.division.entries {
		k := &c.pieces[entry.piece]
		for _, m := range k.members {
			all = append(all, placed{m, entry.piece, p.devices[entry.index]})
		}
		if k.span == oneHost {
			byHost[k.members[0].table]++
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.device, b.device), cmp.Compare(b.width, a.width))
	})
	held := make([][]problem.Shard, len(c.all))
	table, next := none, int64(0)
	for _, s := range all {
		if s.table != table {
			table, next = s.table, 0
		}
		shard := c.problem.Whole(table)
		shard.Columns = problem.Range{Start: next, End: next + int64(s.width)}
		next = shard.Columns.End
		k := &c.pieces[s.piece]
		shard.Kind, shard.Tier, shard.Cache = k.form.Kind, k.form.Tier, k.form.Cache
		if byHost[table] > 1 {
			shard.Kind = problem.Grid
		}
		c.eachOf(k.span, s.device, func(i int, d int32) {
			placed := shard
			if k.form.Kind.ByRows() {
				block := c.problem.Tables[table].BlockRows(c.devicesOf(k.span))
				placed.Rows = problem.Range{Start: int64(i) * block, End: min(shard.Rows.End, int64(i+1)*block)}
			}
			held[d] = append(held[d], placed)
		})
	}
	return held
}

// dimCap returns the pooled columns a device may hold under a threshold: that
// many times the mean over the devices.
func (c *catalog) dimCap(s *division, threshold float64) float64 {
	if math.IsInf(threshold, 1) {
		return threshold
	}
	return threshold * float64(s.dims) / float64(len(c.all))
}
