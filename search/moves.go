package search

import (
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// The changes that the annealing draws:
//
//	move       a slice to another device, or all slices of its table to another host (onehost.go)
//	swap       two slices of two devices, or the blocks of two slices of two hosts
//	split      a slice in two, of any widths; one part to another device
//	regroup    columns of a slice, or all of them, to another slice of its table
//	recut      the slices of a table on a device into narrower or wider ones (recut.go); equal slices of a table into
//	           another number of them, or into blocks of rows on chosen devices
//	trade      a slice for a part of a slice of another device or host, equally wide
//	balance    columns of a slice to another device, so that both send the same number of columns
//	reform     a table, or one slice, into another form
//	renumber   a table into the operator of another number (operators.go)
//
// A part that comes to a device with a slice of its table widens that slice, or the two
// are cut anew. A change is not tried if its slices are not allowed on the device or do not
// fit its memory; runs of the race may exceed HBM (anneal.go).

// mover draws changes of a layout.
type mover struct {
	*layout
	draw *rand.Rand
	// renumbers says that tables take other numbers of operators, too. uncut says that no
	// change cuts or joins slices, or gives them another form.
	renumbers, uncut bool
	// sameForms says that every table keeps its form.
	sameForms bool
	// acrossHosts is the number of hosts that blocks of rows on one host are spread over by columns
	// where a table becomes such blocks for a start of the annealing; 0 or 1 means one host.
	acrossHosts int
	// focus are tables that half of the changes are about; none by default.
	focus []int
}

const (
	// One in reformEvery changes is a change of a table's form.
	reformEvery = 6
	// If tables take other numbers of operators, one in renumberEvery changes is one of these,
	// or one in renumberUncut if no slice is cut.
	renumberEvery, renumberUncut = 8, 4
	// If tables may also be cut into blocks of rows on chosen devices, one in blocksEvery changes more cuts a table anew.
	blocksEvery = 5
	// reformLooks is the number of devices drawn; the one with the least compute among
	// them gets the slice.
	reformLooks = 3
	// balanceLooks is the number of devices drawn for columns; the one that sends the fewest
	// columns among them gets the columns.
	balanceLooks = 3
)

// moves are the changes of slices, each as often as it is drawn. Each proposes a change of a slice in gone and come, and
// reports whether it can be made.
var moves = [...]func(m *mover, slot int32) bool{
	(*mover).move, (*mover).move, (*mover).move,
	(*mover).swap, (*mover).swap, (*mover).swap,
	(*mover).split,
	(*mover).recut,
	(*mover).regroup,
	(*mover).trade, (*mover).trade,
	(*mover).balance,
}

// evenMoves are those of tables that an engine needs in equal slices, and uncutMoves those that cut no slice.
var (
	evenMoves = [...]func(m *mover, slot int32) bool{
		(*mover).move, (*mover).move, (*mover).move, (*mover).move,
		(*mover).swap, (*mover).swap, (*mover).swap, (*mover).swap,
		(*mover).recutEvenly,
	}
	uncutMoves = [...]func(m *mover, slot int32) bool{(*mover).move, (*mover).swap}
)

// propose draws a change into gone and come and reports whether the change can be made.
func (m *mover) propose() bool {
	m.gone, m.come = m.gone[:0], m.come[:0]
	slot := m.drawn()
	if m.renumbers && m.draw.IntN(m.renumberEvery()) == 0 {
		return m.renumber(slot)
	}
	if m.uncut {
		return uncutMoves[m.draw.IntN(len(uncutMoves))](m, slot)
	}
	if m.mixed && !m.sameForms && m.draw.IntN(reformEvery) == 0 {
		return m.reform(slot)
	}
	if m.c.rules.AnyDevices && m.draw.IntN(blocksEvery) == 0 {
		return m.recutEvenly(slot)
	}
	if m.c.rules.EqualSlices {
		return evenMoves[m.draw.IntN(len(evenMoves))](m, slot)
	}
	return moves[m.draw.IntN(len(moves))](m, slot)
}

// drawn draws a slice: in half of the draws one of a table in focus, if there are any. Otherwise,
// in half of the draws any slice, in the others a slice of the slowest device. In a search among all
// forms, some of these others draw a slice of the device that sends the most columns instead, or of
// the host that does under a hierarchical exchange. Their share grows with the exchanges' share of
// the goal.
func (m *mover) drawn() int32 {
	if len(m.focus) > 0 && m.draw.IntN(2) > 0 {
		if slots := m.tables[m.focus[m.draw.IntN(len(m.focus))]]; len(slots) > 0 {
			return slots[m.draw.IntN(len(slots))]
		}
	}
	slot := m.live[m.draw.IntN(len(m.live))]
	if m.draw.IntN(2) > 0 {
		return slot
	}
	device := m.slowest
	if exchange := m.exchange(); m.mixed && m.draw.Float64()*(m.computeScale+exchange) < exchange {
		device = m.mostColumns
		if inside, between := m.column*m.dimScale, m.hostColumn*m.hostScale; between > 0 && m.draw.Float64()*(inside+between) < between {
			device = m.onHost(first(m.hostDims))
		}
	}
	if on := m.held[device]; len(on) > 0 {
		slot = on[m.draw.IntN(len(on))]
	}
	return slot
}

// exchange returns the part of the goal that the exchanges took at the start.
func (m *mover) exchange() float64 {
	time := m.column * m.dimScale
	if m.column > 0 {
		time += m.hostColumn * m.hostScale
	}
	return time
}

// onHost draws a device of a host of a hierarchical exchange.
func (m *mover) onHost(host int32) int32 {
	size := int32(m.hierarchy.HostSize())
	return host*size + m.draw.Int32N(min(size, int32(len(m.compute))-host*size))
}

// move puts a slice on another device.
func (m *mover) move(slot int32) bool {
	p := m.parts[slot]
	if staysOnHost(m.c, &m.c.pieces[p.piece]) && m.draw.IntN(rehostEvery) == 0 {
		return rehost(m, slot)
	}
	to, ok := m.other(p)
	if !ok {
		return false
	}
	m.bring(m.lift(slot), to)
	return m.fits(false)
}

// other draws an allowed device that does not hold the part.
func (m *mover) other(p placed) (int32, bool) {
	if m.c.pieces[p.piece].span != oneDevice {
		return m.otherHost(p)
	}
	piece := &m.c.pieces[p.piece]
	allowed := m.c.allowed(piece)
	if staysOnHost(m.c, piece) {
		allowed = onHostOf(m.c, hostOf(m.c, p.device), allowed)
	}
	return m.drawOther(allowed, p.device)
}

// drawOther draws a device of a list, which must ascend, that is not the given one.
func (m *mover) drawOther(allowed []int32, device int32) (int32, bool) {
	if len(allowed) < 2 {
		return 0, false
	}
	i := m.draw.IntN(len(allowed) - 1)
	if allowed[i] == device || allowed[i] > device {
		i++ // skips the device itself, as the list is ascending
	}
	return allowed[i], allowed[i] != device
}

// otherHost draws a full host that does not hold the part, and returns the host's first
// device.
func (m *mover) otherHost(p placed) (int32, bool) {
	if m.c.pieces[p.piece].span != oneHost {
		return 0, false
	}
	hosts := m.fullHosts()
	if hosts < 2 {
		return 0, false
	}
	h := int32(m.draw.IntN(int(hosts - 1)))
	if h >= m.hostOf[p.device] {
		h++
	}
	return h * m.local, true
}

// swap exchanges two slices of two devices.
func (m *mover) swap(slot int32) bool {
	p := m.parts[slot]
	other := m.live[m.draw.IntN(len(m.live))]
	q := m.parts[other]
	if q.piece == p.piece || !m.exchangeable(p, q) {
		return false
	}
	there, here := m.lift(slot), m.lift(other)
	m.bring(there, q.device)
	m.bring(here, p.device)
	return m.fits(false)
}

// exchangeable reports whether two slices can change places: slices on different devices, or with flat exchanges blocks on
// different hosts. Each must be allowed in the place of the other.
func (m *mover) exchangeable(p, q placed) bool {
	span := m.c.pieces[p.piece].span
	return (span == oneDevice || span == oneHost && m.hierarchy == nil) && m.c.pieces[q.piece].span == span &&
		q.device != p.device && m.allows(p.piece, q.device) && m.allows(q.piece, p.device)
}

func (m *mover) allows(piece, device int32) bool {
	devices := m.c.pieces[piece].devices
	return devices == nil || slices.Contains(devices, device)
}

// split cuts a slice in two and puts one part on another device.
func (m *mover) split(slot int32) bool {
	p := m.parts[slot]
	left, ok := m.cut(slot)
	if !ok {
		return false
	}
	part := m.c.slice(p.piece, m.width(slot)-left)
	to, ok := m.other(placed{part, p.device})
	if !ok {
		return false
	}
	m.gone = append(m.gone, slot)
	m.come = append(m.come, placed{m.c.slice(p.piece, left), p.device})
	m.bring(part, to)
	return m.fits(false)
}

// trade exchanges a slice for a part, of the same width, of a wider slice on another device.
func (m *mover) trade(slot int32) bool {
	other := m.live[m.draw.IntN(len(m.live))]
	if m.width(slot) < m.width(other) {
		slot, other = other, slot
	}
	p, q := m.parts[slot], m.parts[other]
	table, single := m.table(p.piece)
	second, alone := m.table(q.piece)
	if !single || !alone || table == second || !m.exchangeable(p, q) || !m.mayCut(slot) {
		return false
	}
	part, least := m.width(other), m.c.least(table)
	if part < least || m.width(slot)-part < least {
		return false
	}
	m.gone = append(m.gone, slot, other)
	m.come = append(m.come, placed{m.c.slice(p.piece, m.width(slot)-part), p.device})
	m.bring(m.c.slice(p.piece, part), q.device)
	m.bring(q.piece, p.device)
	return m.fits(false)
}

// balance moves columns of a slice to the one of three devices that sends the fewest columns,
// so that both devices send the same number of columns.
func (m *mover) balance(slot int32) bool {
	const g = problem.ColumnGranule
	p := m.parts[slot]
	table, single := m.table(p.piece)
	if !single || m.c.pieces[p.piece].span != oneDevice {
		return false
	}
	narrow := placed{m.c.slice(p.piece, m.c.least(table)), p.device}
	to, ok := m.other(narrow)
	if !ok {
		return false
	}
	for range balanceLooks - 1 {
		if d, _ := m.other(narrow); m.dims[d] < m.dims[to] {
			to = d
		}
	}
	k, width := &m.c.pieces[p.piece], m.width(slot)
	features := k.dims / int64(width)
	part := (int((m.dims[p.device]-m.dims[to])/2/max(1, features)) + g - 1) / g * g
	if least := m.c.least(table); part < least || width-part < least {
		return false
	}
	m.gone = append(m.gone, slot)
	m.come = append(m.come, placed{m.c.slice(p.piece, width-part), p.device})
	m.bring(m.c.slice(p.piece, part), to)
	return m.fits(false)
}

// cut draws the width that a slice keeps when a part of it is cut off: half of the
// slice with probability 1/2, else any width. ok is false if the slice cannot be cut.
func (m *mover) cut(slot int32) (left int, ok bool) {
	const g = problem.ColumnGranule
	table, single := m.table(m.parts[slot].piece)
	if !single || !m.mayCut(slot) {
		return 0, false
	}
	least := m.c.least(table) / g
	width := m.width(slot) / g
	if width < 2*least {
		return 0, false
	}
	if m.draw.IntN(2) == 0 {
		return width / 2 * g, true
	}
	return (least + m.draw.IntN(width-2*least+1)) * g, true
}

// mayCut reports whether a part may be cut by columns in its form.
func (m *mover) mayCut(slot int32) bool {
	switch m.c.pieces[m.parts[slot].piece].span {
	case oneHost:
		table, single := m.table(m.parts[slot].piece)
		return single && m.forms.sliced[table]
	case everywhere:
		return false
	}
	return true
}

// regroup moves some or all columns of a slice to another slice of its table.
func (m *mover) regroup(slot int32) bool {
	p := m.parts[slot]
	table, ok := m.table(p.piece)
	if !ok {
		return false
	}
	of := m.tables[table]
	if len(of) < 2 {
		return false
	}
	other := of[m.draw.IntN(len(of))]
	to := m.parts[other].device
	if other == slot {
		return false
	}
	m.gone = append(m.gone, slot)
	if to == p.device || m.draw.IntN(2) == 0 {
		m.bring(p.piece, to)
		return m.fits(false)
	}
	left, ok := m.cut(slot)
	if !ok {
		return false
	}
	m.come = append(m.come, placed{m.c.slice(p.piece, left), p.device})
	m.bring(m.c.slice(p.piece, m.width(slot)-left), to)
	return m.fits(false)
}

// reform gives another form to the given slice or to its table.
func (m *mover) reform(slot int32) bool {
	p := m.parts[slot]
	table, ok := m.table(p.piece)
	if !ok || len(m.forms.choices[table]) == 0 {
		return false
	}
	choices := m.forms.choices[table]
	now := *m.c.pieces[p.piece].form
	n := len(choices)
	if !m.forms.barred[table] {
		n++ // the zero form
	}
	to := problem.Form{}
	if i := m.draw.IntN(n); i < len(choices) {
		to = choices[i]
	}
	to.Operator = now.Operator // the table's slices all have the same
	if to == now {
		return false
	}
	if spanOf(to) == oneDevice && spanOf(now) == oneDevice && now.Blocks == 0 {
		switch m.draw.IntN(4) {
		case 0:
			return m.remain(table, to)
		case 1, 2:
			return m.retier(slot, to)
		}
	}
	return m.become(table, to, int64(m.draw.IntN(2)), false)
}

// retier proposes that one slice takes another form, and stays on its device or goes to
// another one. The other slices of its table keep their forms.
func (m *mover) retier(slot int32, to problem.Form) bool {
	p := m.parts[slot]
	device := p.device
	if m.draw.IntN(2) == 0 {
		var ok bool
		if device, ok = m.other(p); !ok {
			return false
		}
	}
	m.gone = append(m.gone, slot)
	m.bring(m.c.inForm(p.piece, m.width(slot), to), device)
	return m.fits(false)
}

// remain proposes that each slice of a table takes another form and stays on its
// device.
func (m *mover) remain(table int, to problem.Form) bool {
	m.gone, m.come = append(m.gone[:0], m.tables[table]...), m.come[:0]
	for _, slot := range m.gone {
		p := m.parts[slot]
		m.come = append(m.come, placed{m.c.inForm(p.piece, m.width(slot), to), p.device})
	}
	return m.fits(false)
}

// become proposes that a table takes a form. If slices in the form lie on single
// devices, the table is cut into the fewest slices that fit a device, times 2^finer. If
// together is true, only all devices together need to have room, and blocks of rows on one host
// go to the host with the least compute. Otherwise the host is drawn. Under a hierarchical exchange
// the host is always drawn, because that led to better plans.
func (m *mover) become(table int, to problem.Form, finer int64, together bool) bool {
	m.gone, m.come = append(m.gone[:0], m.tables[table]...), m.come[:0]
	whole := m.forms.whole[table]
	width := m.c.pieces[whole].members[0].width
	switch spanOf(to) {
	case everywhere:
		m.come = append(m.come, placed{m.c.inForm(whole, width, to), 0})
	case oneHost:
		host := m.draw.Int32N(m.fullHosts())
		if together && m.hierarchy == nil {
			host = m.idlestHost()
		}
		if !m.onHosts(m.c.inForm(whole, width, to), host, together) {
			return false
		}
	case oneDevice:
		if !m.slices(whole, to, finer) {
			return false
		}
	}
	return m.fits(together)
}

// onHosts proposes blocks of rows on the given full host, or slices of columns, each cut into blocks
// of rows on a host of its own: the given host and the hosts after it. It proposes slices if one host has
// no room for the blocks, or if a start asks for them (acrossHosts). Otherwise half of the changes of an
// annealing, and all under a hierarchical exchange, draw the number of hosts, which may be 1.
func (m *mover) onHosts(whole, host int32, together bool) bool {
	hosts := m.fullHosts()
	pieces := []int32{whole}
	if m.forms.sliced[m.c.pieces[whole].members[0].table] {
		pieces = m.c.halved(pieces, m.c.exceeds)
		switch {
		case len(pieces) > 1 || m.hierarchy == nil && hosts == 1:
		case m.hierarchy != nil, !together && m.draw.IntN(2) == 0:
			pieces = m.grid(whole, int(hosts))
		case together && m.acrossHosts > 1:
			pieces = m.equalSlices(whole, m.acrossHosts)
		}
	}
	if len(pieces) > int(hosts) {
		return false
	}
	for i, k := range pieces {
		m.come = append(m.come, placed{k, (host + int32(i)) % hosts * m.local})
	}
	return true
}

// idlestHost returns the full host whose devices have the least compute together.
func (m *mover) idlestHost() int32 {
	sums := make([]float64, m.fullHosts())
	for d, time := range m.compute {
		if h := m.hostOf[d]; int(h) < len(sums) {
			sums[h] += time
		}
	}
	return int32(slices.Index(sums, slices.Min(sums)))
}

// equalSlices returns a number of equal slices of a table in blocks, or the whole table if it has no
// such slices.
func (m *mover) equalSlices(whole int32, n int) []int32 {
	table := m.c.pieces[whole].members[0].table
	if dim := m.c.problem.Tables[table].Dim; dim%n == 0 && slices.Contains(m.c.equalWidths[table], dim/n) {
		return slices.Repeat([]int32{m.c.slice(whole, dim/n)}, n)
	}
	return []int32{whole}
}

// grid returns equal slices of a table in blocks, one for each of a drawn number of hosts. Under a
// hierarchical exchange, slices on several hosts balance the columns of hosts.
func (m *mover) grid(whole int32, hosts int) []int32 {
	table := m.c.pieces[whole].members[0].table
	widths := m.widthsOf(table, hosts)
	if len(widths) == 0 {
		return []int32{whole}
	}
	width := widths[m.draw.IntN(len(widths))]
	return slices.Repeat([]int32{m.c.slice(whole, width)}, m.c.problem.Tables[table].Dim/width)
}

// slices proposes slices of a whole table, on devices with little compute.
func (m *mover) slices(whole int32, form problem.Form, finer int64) bool {
	const g = problem.ColumnGranule
	k := &m.c.pieces[m.c.inForm(whole, m.c.pieces[whole].members[0].width, form)]
	first := k.members[0]
	budget := max(1, m.c.budget[m.c.phase])
	n := (k.own[m.c.phase] + budget - 1) / budget
	if m.hostBudget > 0 {
		n = max(n, (k.hostBytes+m.hostBudget-1)/m.hostBudget)
	}
	n <<= finer
	granules := int64(first.width / g)
	n = max(1, min(n, int64(len(m.c.allowed(k))), granules*g/int64(m.c.least(first.table))))
	if m.c.problem.Tables[first.table].MinWidth() == first.width {
		n = 1
	}
	if m.c.rules.EqualSlices {
		if n = int64(evenly(m.c, first.table, int(n))); n == 0 || n > int64(len(m.c.allowed(k))) {
			return false
		}
	}
	allowed := m.c.allowed(k)
	for i := range n {
		piece := m.c.inForm(whole, int((granules+i)/n)*g, form)
		if i == 1 && staysOnHost(m.c, &m.c.pieces[piece]) {
			allowed = onHostOf(m.c, hostOf(m.c, m.come[0].device), allowed)
		}
		best := int32(none)
		for range reformLooks {
			d := allowed[m.draw.IntN(len(allowed))]
			used := slices.ContainsFunc(m.come, func(p placed) bool { return p.device == d })
			if !used && (best == none || m.compute[d] < m.compute[best]) {
				best = d
			}
		}
		if best == none {
			return false
		}
		m.come = append(m.come, placed{piece, best})
	}
	return true
}

// renumberEvery returns the inverse of the share of changes that renumber a table.
func (m *mover) renumberEvery() int {
	switch {
	case !m.uncut:
		return renumberEvery
	case len(m.c.all) == 1:
		return 1 // nothing else can change
	}
	return renumberUncut
}

// renumber gives another number of operators to the table of a slice, or to its co-location.
func (m *mover) renumber(slot int32) bool {
	number := problem.Operator(m.draw.IntN(problem.Operators - 1))
	if number >= m.formAt(slot).Operator {
		number++
	}
	slots := []int32{slot}
	if table, single := m.table(m.parts[slot].piece); single {
		slots = m.tables[table]
	}
	for _, slot := range slots {
		m.number(slot, number)
	}
	return m.fits(false)
}

// number proposes that a slot's part takes a number of operators.
func (m *mover) number(slot int32, number problem.Operator) {
	p := m.parts[slot]
	m.gone, m.come = append(m.gone, slot), append(m.come, placed{m.c.numbered(p.piece, number), p.device})
}
