package search

import (
	"math"
	"math/bits"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// A piece is what the search places whole: a column slice of one table in one form, or
// all the tables of a co-location. Two slices of a table that have the same width
// and form are the same piece.
type piece struct {
	// The fields that changes of a layout read come first, so that they lie in one cache line.
	//
	// own is what the piece takes of HBM on each device that holds it. dims is the number of pooled columns that travel in all-to-alls: width times features, summed over the
	// members. It is 0 for a piece that several devices hold.
	own  perPhase
	dims int64
	// table, width and item are those of the first member. single says that there is no other.
	table, width, item int32
	// siblings is the number of the list of the piece's siblings (catalog.siblings), or none for a
	// co-location, and operator that of the operator key of the first member (catalog.operators).
	siblings, operator int32
	span               span
	// class is the width class of the widest member: i for up to 2^i columns.
	class  uint8
	single bool
	// known says that the scorer knows the members' items.
	known bool
	// hostBytes is what the piece takes of host memory. first and last are the bytes of HBM that the first and the last device of
	// those that hold the piece need beyond own: the first block may have the most used rows, and the last one fewer rows.
	hostBytes   int64
	first, last perPhase
	// shared is what every device takes because of the piece, beside what it has set aside for these columns (reserved). Of a
	// block of rows on a chosen device it is that of the first block of a slice, and block that of each other one.
	// aside is what it has set aside for the table, whatever the width, and gives back to its first piece.
	shared, block, aside perPhase
	members              []member
	// devices are the allowed devices, ascending; nil allows all.
	devices []int32
	// form is one of the catalog's forms (catalog.forms), and must not be modified: pieces in equal
	// forms have the same one.
	form *problem.Form
	// alone is the predicted time in ms of the piece alone on a device; it is set if timed
	// is true.
	alone float64
	timed bool
}

type member struct{ table, width, item int }

// none stands for no piece, no device and no slot.
const none = -1

// span says which devices hold a piece.
type span = problem.Span

// The spans. What all devices hold is the same on each device, so it is counted once.
const (
	oneDevice  = problem.OneDevice
	oneHost    = problem.OneHost
	everywhere = problem.AllDevices
)

func spanOf(f problem.Form) span { return f.ShardingType.Span() }

// catalog holds the pieces of one problem, each under a number. It grows only between
// parallel phases; workers read it.
type catalog struct {
	problem *problem.Problem
	// rules are those of the problem's engine.
	rules problem.EngineRules
	// onHost says which tables must have all slices on one host; nil if none must.
	onHost []bool
	// brief says that an Infeasible does not state the number of devices that would be enough.
	brief bool
	// scorer estimates the times of pieces; nil if only bytes matter.
	scorer Scorer
	// all lists every device.
	all []int32
	// leasts holds the width of the narrowest slice of each table: see least.
	leasts []int32
	// equalWidths are the EqualWidths of each table. They must not be modified.
	equalWidths [][]int
	// newMembers is room for the members of pieces of one table.
	newMembers []member
	// phase is the phase of the step whose bytes count where one number does (problem.FullestPhase).
	phase problem.Phase
	// budget is the number of bytes that shards may take on the device with the most memory, and ownBudget what is
	// left of it beside what every device takes if each table is whole on one device. hostBudget is the number of
	// bytes of host memory for a device on the host with the most.
	budget, ownBudget perPhase
	hostBudget        int64
	// short is the number of bytes by which each device's budget is below budget, and hostShort that
	// by which its host budget is below hostBudget. Counts of a device's bytes start from these.
	short, hostShort []int64
	// base is the fixed compute of each device (hardware.FixedLoad), in ms.
	base []float64
	// mostShort is the largest of short, and hostMostShort the largest of short on the full host where
	// that is least.
	mostShort, hostMostShort int64
	pieces                   []piece
	// siblings lists the pieces of one table in one form by their width in granules, with none
	// for a width that has no piece yet. families has what the pieces of each list have in common,
	// and familyOf the number of the first list of each table, or none.
	siblings [][]int32
	families []family
	familyOf []int32
	// forms are the forms of the pieces, each once.
	forms []*problem.Form
	// operators numbers the operator keys of the pieces.
	operators map[problem.OperatorKey]int32
	// together are the pieces of co-locations in operators of other numbers than 0.
	together map[together]int32
	// unsplit are the pieces of the unsplit problem; nil until they are asked for.
	unsplit []int32
	// former is what devices held before the search; nil if that does not matter.
	former *former
}

// family is what siblings have in common beside their table. next is the number of the next list
// of the table, or none.
type family struct {
	form *problem.Form
	next int32
}

// together is a co-location, by its first table, in the operator of a number.
type together struct {
	table    int
	operator problem.Operator
}

func newCatalog(p *problem.Problem, scorer Scorer) *catalog {
	c := &catalog{problem: p, rules: p.Engine.Rules(), scorer: scorer, phase: p.FullestPhase(), operators: map[problem.OperatorKey]int32{}}
	c.measure()
	const g = problem.ColumnGranule
	c.leasts, c.familyOf, c.equalWidths = make([]int32, len(p.Tables)), make([]int32, len(p.Tables)), make([][]int, len(p.Tables))
	for i := range c.leasts {
		c.familyOf[i] = none
		c.leasts[i] = int32((max(g, p.Tables[i].MinWidth()) + g - 1) / g * g)
		c.equalWidths[i] = p.Tables[i].EqualWidths()
	}
	c.onHost = onHost(p)
	if scorer != nil {
		scorer.Reset()
	}
	return c
}

// measure sets what the catalog knows of the devices.
func (c *catalog) measure() {
	p, t, n := c.problem, &c.problem.Topology, c.problem.Topology.Devices
	c.budget = bytesOf(p.LargestBudget())
	c.ownBudget = c.budget
	for i := range p.Tables {
		c.ownBudget.add(bytesOf(p.SharedMemory(p.Whole(i)).Used()), -1)
	}
	c.all = make([]int32, n)
	for d := range c.all {
		c.all[d] = int32(d)
	}
	c.short, c.hostShort, c.hostBudget, c.base = make([]int64, n), make([]int64, n), 0, make([]float64, n)
	most := t.Usable(t.Largest())
	for d := range n {
		c.short[d], c.hostBudget = int64(most-t.Usable(d)), max(c.hostBudget, int64(t.HostBudget(d)))
	}
	for d, time := range t.FixedTimes() {
		c.base[d] = float64(time)
	}
	for d := range n {
		c.hostShort[d] = c.hostBudget - int64(t.HostBudget(d))
	}
	c.mostShort, c.hostMostShort = slices.Max(c.short), math.MaxInt64
	for host := range slices.Chunk(c.short, t.PerHost()) {
		if len(host) == t.PerHost() {
			c.hostMostShort = min(c.hostMostShort, slices.Max(host))
		}
	}
}

// whole returns the pieces of the unsplit problem, in the order of its groups. The slice
// is the caller's.
func (c *catalog) whole() []int32 {
	if c.unsplit != nil {
		return slices.Clone(c.unsplit)
	}
	groups := c.problem.Colocations()
	if cap(c.pieces) == 0 {
		c.pieces = make([]piece, 0, piecesEach*len(groups))
	}
	c.unsplit = make([]int32, len(groups))
	for i, g := range groups {
		var devices []int32
		for _, d := range g.Devices {
			devices = append(devices, int32(d))
		}
		members := make([]member, len(g.Tables))
		for j, t := range g.Tables {
			members[j] = member{table: t, width: c.problem.Tables[t].Dim}
		}
		c.unsplit[i] = c.add(members, devices, problem.Form{})
	}
	return slices.Clone(c.unsplit)
}

// piecesEach is the number of pieces that there is room for from the start, for each table:
// a search among all forms makes about this number. Room that is not used takes no memory.
const piecesEach = 12

// add registers a new piece.
func (c *catalog) add(members []member, devices []int32, form problem.Form) int32 {
	first := members[0]
	key := c.problem.OperatorKey(first.table, first.width, form)
	operator, ok := c.operators[key]
	if !ok {
		operator = int32(len(c.operators))
		c.operators[key] = operator
	}
	k := piece{
		members: members, devices: devices, form: c.shared(form), span: spanOf(form), operator: operator, siblings: none,
		table: int32(first.table), width: int32(first.width), single: len(members) == 1,
	}
	for _, m := range members {
		s, n := c.shard(m.table, &form), c.blocks(&form)
		s.Columns.End, s.Rows.End = int64(m.width), c.problem.Tables[m.table].BlockRows(n)
		memory := c.problem.ShardMemory(s)
		own := bytesOf(memory.Used())
		k.hostBytes += int64(memory[c.phase].Host)
		k.shared.add(bytesOf(c.problem.SharedMemory(s).Used()), 1)
		aside, each := c.reserved(m.table)
		k.aside.add(aside, 1)
		k.shared.add(each, -int64(m.width/problem.ColumnGranule))
		if n > 1 {
			last := s
			last.Rows = problem.Range{Start: s.Rows.End * int64(n-1), End: c.problem.Tables[m.table].Rows}
			if others := bytesOf(c.problem.SharedMemory(last).Used()); k.span == oneDevice {
				k.block = others
			} else {
				later := s
				later.Rows = problem.Range{Start: s.Rows.End, End: 2 * s.Rows.End}
				k.first, k.last, own = own, bytesOf(c.problem.ShardMemory(last).Used()), bytesOf(c.problem.ShardMemory(later).Used())
				k.first.add(own, -1)
				k.last.add(own, -1)
				k.shared.add(others, int64(n-1))
			}
		}
		k.own.add(own, 1)
		if k.span == oneDevice {
			k.dims += int64(c.problem.DimSum(s))
		}
		k.class = max(k.class, uint8(bits.Len(uint(m.width-1))))
	}
	id := int32(len(c.pieces))
	if len(members) == 1 {
		k.siblings = c.siblingsIn(first.table, form)
		c.siblings[k.siblings][first.width/problem.ColumnGranule] = id
	}
	c.pieces = append(c.pieces, k)
	return id
}

// holds reports whether no device exceeds its memory in any phase under a placement.
func (c *catalog) holds(parts []placed) bool {
	l := newLedger(c)
	for _, p := range parts {
		l.count(&c.pieces[p.piece], p.device, 1)
	}
	return l.lack(false) == 0
}

// sharedWith returns what every device takes because of a piece.
func (c *catalog) sharedWith(k *piece) perPhase {
	shared := k.shared
	for _, m := range k.members {
		_, each := c.reserved(m.table)
		shared.add(each, int64(m.width/problem.ColumnGranule))
	}
	return shared
}

// reserved returns what every device sets aside for a table, as it takes it if the table is whole on one device: once,
// and for each granule of its columns.
func (c *catalog) reserved(table int) (once, each perPhase) {
	s := c.problem.Whole(table)
	all, n := bytesOf(c.problem.SharedMemory(s).Used()), int32(s.Dim()/problem.ColumnGranule)
	if n == 1 {
		return all, perPhase{}
	}
	s.Columns.End = problem.ColumnGranule
	b := byWidthOf(bytesOf(c.problem.SharedMemory(s).Used()), all, n)
	return b.fixed, b.each
}

// exceeds reports whether a piece takes more than the largest device has in some phase.
func (c *catalog) exceeds(k int32) bool {
	for f, bytes := range c.pieces[k].own {
		if bytes+max(0, c.pieces[k].shared[f]-c.pieces[k].aside[f]) > c.ownBudget[f] {
			return true
		}
	}
	return false
}

// shared returns the catalog's own form that equals a form.
func (c *catalog) shared(form problem.Form) *problem.Form {
	for _, f := range c.forms {
		if *f == form {
			return f
		}
	}
	own := form
	c.forms = append(c.forms, &own)
	return &own
}

// siblingsIn returns the number of the list of the pieces of a table in a form.
func (c *catalog) siblingsIn(table int, form problem.Form) int32 {
	for at := c.familyOf[table]; at != none; at = c.families[at].next {
		if *c.families[at].form == form {
			return at
		}
	}
	list := make([]int32, c.problem.Tables[table].Dim/problem.ColumnGranule+1)
	for i := range list {
		list[i] = none
	}
	at := int32(len(c.siblings))
	c.siblings = append(c.siblings, list)
	c.families = append(c.families, family{c.shared(form), c.familyOf[table]})
	c.familyOf[table] = at
	return at
}

// cut returns the widths of the two halves of piece k, multiples of the granule; the
// left one is never the narrower. ok is false if a half would be too narrow, or if slices
// must be equal and the halves are not. If all slices of the table must have one width
// (problem.Table.OnlyWidth), both are this width, and k must be the whole table.
func (c *catalog) cut(k int32) (left, right int, ok bool) {
	members := c.pieces[k].members
	if len(members) != 1 {
		return 0, 0, false
	}
	const g = problem.ColumnGranule
	width := members[0].width
	left = (width/2 + g - 1) / g * g
	right = width - left
	t := &c.problem.Tables[members[0].table]
	if only := t.OnlyWidth; only > 0 {
		return only, only, width == t.Dim && only < width && t.AllowsWidth(only)
	}
	if left != right && c.rules.EqualSlices {
		return 0, 0, false
	}
	return left, right, right > 0 && right >= t.MinWidth()
}

// parts returns the slices that piece k is cut into, which must be one that can be cut: its
// halves, or slices of the only width that its table may be cut into.
func (c *catalog) parts(k int32) []int32 {
	m := c.pieces[k].members[0]
	if only := c.problem.Tables[m.table].OnlyWidth; only > 0 {
		return slices.Repeat([]int32{c.slice(k, only)}, m.width/only)
	}
	left, right, _ := c.cut(k)
	return []int32{c.slice(k, left), c.slice(k, right)}
}

// membersInBlock is the number of members that get their memory together.
const membersInBlock = 512

// member returns the only member of a piece of one table.
func (c *catalog) member(table, width int) []member {
	if len(c.newMembers) == 0 {
		c.newMembers = make([]member, membersInBlock)
	}
	m := c.newMembers[:1:1]
	c.newMembers = c.newMembers[1:]
	m[0] = member{table: table, width: width}
	return m
}

// slice returns the piece of that width of the only table of piece k, in the form of
// piece k.
func (c *catalog) slice(k int32, width int) int32 {
	if int(c.pieces[k].width) == width {
		return k
	}
	if id := c.siblings[c.pieces[k].siblings][width/problem.ColumnGranule]; id != none {
		return id
	}
	return c.add(c.member(int(c.pieces[k].table), width), c.pieces[k].devices, *c.pieces[k].form)
}

// inForm returns the piece of that width and form of the only table of piece k.
func (c *catalog) inForm(k int32, width int, form problem.Form) int32 {
	table := c.pieces[k].members[0].table
	if id := c.siblings[c.siblingsIn(table, form)][width/problem.ColumnGranule]; id != none {
		return id
	}
	return c.add(c.member(table, width), c.pieces[k].devices, form)
}

// numbered returns piece k in the operator of the number.
func (c *catalog) numbered(k int32, number problem.Operator) int32 {
	members, form := c.pieces[k].members, *c.pieces[k].form
	form.Operator = number
	if len(members) == 1 {
		return c.inForm(k, members[0].width, form)
	}
	if c.together == nil {
		c.together = map[together]int32{}
	}
	c.together[together{members[0].table, c.pieces[k].form.Operator}] = k
	key := together{members[0].table, number}
	id, ok := c.together[key]
	if !ok {
		id = c.add(slices.Clone(members), c.pieces[k].devices, form)
		c.together[key] = id
	}
	return id
}

// halved cuts every piece for which large returns true into halves (parts), and cuts those
// halves again, until large returns false or a piece cannot be cut.
func (c *catalog) halved(pieces []int32, large func(k int32) bool) []int32 {
	finer := make([]int32, 0, len(pieces))
	var visit func(k int32)
	visit = func(k int32) {
		if _, _, ok := c.cut(k); ok && large(k) {
			for _, part := range c.parts(k) {
				visit(part)
			}
			return
		}
		finer = append(finer, k)
	}
	for _, k := range pieces {
		visit(k)
	}
	return finer
}

// register asks the scorer for the items of a piece.
func (c *catalog) register(k *piece) {
	if k.known {
		return
	}
	for i := range k.members {
		m := &k.members[i]
		m.item = c.scorer.Item(m.table, m.width, *k.form)
	}
	k.item, k.known = int32(k.members[0].item), true
}

// put adds a placed piece to a scorer if sign is 1, and removes it if sign is -1.
func (c *catalog) put(s Scorer, p placed, sign int) {
	k := &c.pieces[p.piece]
	c.register(k)
	for _, m := range k.members {
		if sign > 0 {
			s.Add(int(p.device), m.item)
		} else {
			s.Remove(int(p.device), m.item)
		}
	}
}

// time returns the predicted time that piece k alone adds to a device. The catalog's scorer
// must hold nothing.
func (c *catalog) time(k int32) float64 {
	p := &c.pieces[k]
	if !p.timed {
		c.put(c.scorer, placed{k, 0}, 1)
		p.alone, p.timed = c.scorer.Compute(0)-c.base[0], true
		c.put(c.scorer, placed{k, 0}, -1)
	}
	return p.alone
}

// meanTime returns the mean over the devices of the times of pieces, each alone.
func (c *catalog) meanTime(pieces []int32) (mean float64) {
	for _, k := range pieces {
		mean += c.time(k) / float64(len(c.all))
	}
	return mean
}

// allowed returns the devices that piece k may be placed on.
func (c *catalog) allowed(k *piece) []int32 {
	if k.devices != nil {
		return k.devices
	}
	return c.all
}

// operator returns the key of the operator that runs the first member of piece k.
func (c *catalog) operator(k int32) problem.OperatorKey {
	p := &c.pieces[k]
	return c.problem.OperatorKey(p.members[0].table, p.members[0].width, *p.form)
}

// blocks returns the number of blocks of rows that slices in a form are cut into; 1 if they have all rows.
func (c *catalog) blocks(f *problem.Form) int {
	switch {
	case f.Blocks > 0:
		return f.Blocks
	case f.ShardingType.ByRows():
		return c.devicesOf(spanOf(*f))
	}
	return 1
}

// shard returns a whole table as a shard in a form.
func (c *catalog) shard(table int, f *problem.Form) problem.Shard {
	s := c.problem.Whole(table)
	s.ShardingType, s.Tier, s.Cache, s.Operator, s.Blocks = f.ShardingType, f.Tier, f.Cache, f.Operator, f.Blocks
	if f.Blocks > 0 {
		s.ShardingType = problem.RowWise
	}
	return s
}

// devicesOf returns the number of devices of a span.
func (c *catalog) devicesOf(s span) int {
	switch s {
	case oneHost:
		return c.problem.Topology.PerHost()
	case everywhere:
		return len(c.all)
	}
	return 1
}

// endsOf returns the first and the last device of the span that holds device d.
func (c *catalog) endsOf(s span, d int32) (first, last int32) {
	n := int32(c.devicesOf(s))
	first = d / n * n
	return first, first + n - 1
}

// eachOf calls visit for each device of the span that holds device d.
func (c *catalog) eachOf(s span, d int32, visit func(device int32)) {
	first, last := c.endsOf(s, d)
	for d := first; d <= last; d++ {
		visit(d)
	}
}

// least returns the width of the narrowest slice of a table, in columns: a multiple of
// the granule.
func (c *catalog) least(table int) int { return int(c.leasts[table]) }

// rows returns the rows of a piece's tables.
func (c *catalog) rows(k int32) int64 {
	n := int64(0)
	for _, m := range c.pieces[k].members {
		n += c.problem.Tables[m.table].Rows
	}
	return n
}

// room returns the bytes that shards may take of all devices together, and hostRoom those of host
// memory.
func (c *catalog) room() unit.Bytes {
	return unit.Bytes(c.budget[c.phase])*unit.Bytes(len(c.all)) - unit.Bytes(sum(c.short))
}

func (c *catalog) hostRoom() int64 {
	return c.hostBudget*int64(len(c.all)) - sum(c.hostShort)
}

func sum(list []int64) (sum int64) {
	for _, v := range list {
		sum += v
	}
	return sum
}

// free returns the bytes that shards may take of a device.
func (c *catalog) free(device int32) perPhase { return c.budget.less(c.short[device]) }

// freeOn returns the most bytes that a piece of a span may take on each device that holds it.
func (c *catalog) freeOn(s span) perPhase {
	switch s {
	case everywhere:
		return c.budget.less(c.mostShort)
	case oneHost:
		return c.budget.less(c.hostMostShort)
	}
	return c.budget
}

// bytes returns the bytes of piece k in the catalog's phase, and total those of all pieces together.
func (c *catalog) bytes(k int32) int64 { return c.pieces[k].own[c.phase] }

func (c *catalog) total(pieces []int32) (sum unit.Bytes) {
	for _, k := range pieces {
		sum += unit.Bytes(c.bytes(k))
	}
	return sum
}

// without removes a slot from a list; the last slot takes its place.
func without(list []int32, slot int32) []int32 {
	i := slices.Index(list, slot)
	list[i] = list[len(list)-1]
	return list[:len(list)-1]
}
