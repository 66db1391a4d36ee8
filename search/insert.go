package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// insert.go puts pieces without a place into a layout whose other pieces stay, and then
// relieves devices that hold more bytes than they have room for:
//
//	insert    each piece where the goal rises least: whole, in 2, 4, 8, ... equal slices, or in
//	          another form. If it fits nowhere, it goes to the device with the most room
//	relieve   the slices of a table on the fullest device become one slice, which takes fewer
//	          bytes. Then the device gives a slice, some columns of one, or a slice for a
//	          smaller one, so that the fewest bytes move for each byte of relief
//
// An insertion estimates each device once for each slice, and computes the goal for a few of
// them.

const (
	// insertLooks is the number of devices that an insertion compares by the goal, and
	// insertSlices the largest number of slices that a table is cut into if it fits as fewer.
	insertLooks, insertSlices = 6, 64
	// The scales of the goal are set anew after scaleEvery insertions.
	scaleEvery = 32
	// relieveLooks is the number of devices that may get bytes of the fullest one.
	relieveLooks = 6
)

// inserter inserts pieces into a layout.
type inserter struct {
	*mover
	s *resumer
	// times are the computes of devices with a slice, and devices those to choose from.
	times   []float64
	devices []candidate
}

// place inserts the pieces that are left, and reports whether everything fits.
func (m *inserter) place() bool {
	m.s.order()
	m.reset(m.s.parts)
	for i, k := range m.s.left {
		if i%scaleEvery == 0 {
			m.begin()
			m.rescale(m.alike, max(leastScale*m.best, m.s.mean), 1)
		}
		m.insert(k)
	}
	m.begin()
	return m.settle()
}

// insert inserts a piece where the goal rises least.
func (m *inserter) insert(k int32) {
	least, best := math.Inf(1), []placed(nil)
	for _, piece := range m.s.formsOf(k) {
		parts, goal := m.cheapest(piece)
		if goal < least || best == nil && parts != nil {
			least, best = goal, parts
		}
	}
	if best == nil {
		best = m.beyond(k)
	}
	m.gone, m.come = m.gone[:0], append(m.come[:0], best...)
	for _, p := range best {
		m.c.register(&m.c.pieces[p.piece])
	}
	m.try()
	m.accept()
}

// cheapest returns the best parts for a piece and the goal with them; no parts if it fits
// nowhere.
func (m *inserter) cheapest(k int32) (best []placed, least float64) {
	least = math.Inf(1)
	switch piece := &m.c.pieces[k]; {
	case piece.span == everywhere:
		return m.together([]placed{{k, 0}})
	case piece.span == oneHost:
		for h := range m.fullHosts() {
			if parts, goal := m.together([]placed{{k, h * m.local}}); goal < least {
				best, least = parts, goal
			}
		}
		return best, least
	}
	for n := 1; n == 1 || n <= insertSlices || best == nil && n <= len(m.c.all); n = finer(m.c, k, n) {
		pieces := m.equal(k, n)
		if pieces == nil {
			break
		}
		parts, goal := m.inSlices(pieces)
		if goal < least {
			best, least = parts, goal
		} else if best != nil {
			break
		}
	}
	return best, least
}

// equal returns n slices of a piece whose widths differ by at most a granule; nil if it cannot
// be cut so.
func (m *inserter) equal(k int32, n int) []int32 {
	if n == 1 {
		return []int32{k}
	}
	const g = problem.ColumnGranule
	table, single := m.table(k)
	if !single {
		return nil
	}
	width := m.c.pieces[k].members[0].width / g
	if width/n*g < m.c.least(table) || m.c.rules.EqualSlices && (width*g < m.c.problem.Tables[table].Dim || !evenInto(m.c, table, n)) {
		return nil
	}
	pieces := make([]int32, n)
	for i := range pieces {
		pieces[i] = m.c.slice(k, (width+i)/n*g)
	}
	return pieces
}

// together returns parts and the goal with them; no parts if they do not fit.
func (m *inserter) together(parts []placed) ([]placed, float64) {
	m.gone, m.come = m.gone[:0], append(m.come[:0], parts...)
	if !m.fits(false) {
		return nil, math.Inf(1)
	}
	before := m.softSums
	m.try()
	goal := m.goal()
	m.undo(before)
	return parts, goal
}

// inSlices puts slices on devices, one after the other, and takes them back. It returns the
// parts and the goal with them; no parts if they do not fit.
func (m *inserter) inSlices(pieces []int32) (parts []placed, goal float64) {
	before := len(m.live)
	for _, k := range pieces {
		p := placed{k, m.device(k, parts)}
		if p.device == none {
			break
		}
		parts = append(parts, p)
		m.gone, m.come = m.gone[:0], append(m.come[:0], p)
		m.try()
		m.accept()
	}
	goal = m.goal()
	m.gone, m.come = append(m.gone[:0], m.live[before:]...), m.come[:0]
	m.try()
	m.accept()
	if len(parts) < len(pieces) {
		return nil, math.Inf(1)
	}
	return parts, goal
}

// device returns the device for a slice with the least goal, among those without a part of its
// table; none if none has room.
func (m *inserter) device(k int32, parts []placed) int32 {
	piece := &m.c.pieces[k]
	m.c.register(piece)
	m.candidates(k)
	best, least, looks := int32(none), math.Inf(1), 0
	for _, c := range m.devices {
		if looks == insertLooks {
			break
		}
		if slices.ContainsFunc(parts, func(p placed) bool { return p.device == c.device }) {
			continue
		}
		m.gone, m.come = m.gone[:0], append(m.come[:0], placed{k, c.device})
		if !m.fits(false) {
			continue
		}
		looks++
		before := m.softSums
		m.try()
		if goal := m.goal(); goal < least {
			best, least = c.device, goal
		}
		m.undo(before)
	}
	return best
}

// candidates sets devices to the allowed ones with room for a piece, by the rise of the goal
// that their compute and columns let expect.
func (m *inserter) candidates(k int32) {
	piece := &m.c.pieces[k]
	allowed := m.c.allowed(piece)
	m.times = slices.Grow(m.times[:0], len(allowed))[:len(allowed)]
	if len(piece.members) == 1 {
		m.scorer.ComputeWith(piece.members[0].item, allowed, m.times)
	} else {
		for i, d := range allowed {
			m.times[i] = m.compute[d] + piece.alone
		}
	}
	m.evaluations += int64(len(allowed))
	slope := func(scale, power float64) float64 {
		if power <= 0 {
			return scale
		}
		return scale * unpowered(power/float64(len(m.compute))) / power
	}
	forCompute, forColumns := slope(m.computeScale, m.computePower), slope(m.column*m.dimScale, m.dimPower)
	m.devices = m.devices[:0]
	for i, d := range allowed {
		if m.own[d]+m.shared(d)+piece.bytes > m.budget || piece.hostBytes > 0 && m.host[d]+piece.hostBytes > m.hostBudget {
			continue
		}
		rise := forCompute*(powered(m.times[i], m.computeScale)-powered(m.compute[d], m.computeScale)) + meanWeight*(m.times[i]-m.compute[d])/float64(len(m.compute)) +
			forColumns*(powered(float64(m.dims[d]+piece.dims), m.dimScale)-powered(float64(m.dims[d]), m.dimScale))
		m.devices = append(m.devices, candidate{d, rise})
	}
	slices.SortFunc(m.devices, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.rise, b.rise), cmp.Compare(a.device, b.device)) })
}

// beyond returns parts for a piece that fits nowhere: on the allowed devices with the most room.
func (m *inserter) beyond(k int32) (parts []placed) {
	piece := &m.c.pieces[k]
	if piece.span != oneDevice {
		return []placed{{k, 0}}
	}
	allowed := slices.Clone(m.c.allowed(piece))
	slices.SortStableFunc(allowed, func(a, b int32) int { return cmp.Compare(m.own[a]+m.shared(a), m.own[b]+m.shared(b)) })
	pieces := []int32{k}
	for n := 2; m.c.pieces[pieces[len(pieces)-1]].bytes > m.budget && n <= len(allowed); n++ {
		if cut := m.equal(k, n); cut != nil {
			pieces = cut
		}
	}
	for i, k := range pieces {
		parts = append(parts, placed{k, allowed[i]})
	}
	return parts
}

// settle relieves devices until everything fits, and reports whether it does.
func (m *inserter) settle() bool {
	for range 4*len(m.live) + 4*len(m.c.all) {
		fullest, most := int32(none), int64(0)
		for d := range m.own {
			if beyond := m.beyondRoom(int32(d)); beyond > most {
				fullest, most = int32(d), beyond
			}
		}
		if fullest == none {
			return m.lack(false) == 0
		}
		if !m.relieve(fullest, most) {
			return false
		}
	}
	return false
}

// beyondRoom returns the bytes of HBM by which a device exceeds its budget.
func (m *inserter) beyondRoom(d int32) int64 { return m.own[d] + m.shared(d) - m.budget }

// relief is a change that relieves a device.
type relief struct {
	gone []int32
	come []placed
	// bytes are those of the relief, at most those that the device needs. moved is the number
	// of bytes that move for it, and goal the goal after it.
	bytes, moved int64
	goal         float64
}

// better reports whether a relief is better than another one: it relieves all that is needed,
// and moves fewer bytes for each byte.
func (r *relief) better(than *relief, needed int64) bool {
	if full := r.bytes == needed; full != (than.bytes == needed) {
		return full
	}
	return cmp.Or(cmp.Compare(float64(r.moved)*float64(than.bytes), float64(than.moved)*float64(r.bytes)), cmp.Compare(r.goal, than.goal)) < 0
}

// relieve makes the best change that takes bytes off a device, and reports whether there is one.
func (m *inserter) relieve(device int32, needed int64) bool {
	best := m.bestJoin(device, needed)
	if best == nil {
		best = m.bestMove(device, needed)
	}
	if best == nil {
		best = m.bestSwap(device, needed)
	}
	if best == nil {
		return false
	}
	m.gone, m.come = append(m.gone[:0], best.gone...), append(m.come[:0], best.come...)
	m.try()
	m.accept()
	return true
}

// bestJoin returns the best relief of a device by a slice that takes the place of all slices of a
// table there, for which no bytes move; nil if there is none.
func (m *inserter) bestJoin(device int32, needed int64) (best *relief) {
	if m.c.rules.EqualSlices {
		return nil
	}
	for _, slot := range slices.Clone(m.held[device]) {
		piece := m.parts[slot].piece
		if _, single := m.table(piece); !single {
			continue
		}
		m.gone = m.gone[:0]
		columns := m.gather(piece, device)
		if gone := slices.Clone(m.gone); len(gone) > 1 && slot == slices.Min(gone) {
			best = m.better(best, device, needed, gone, placed{m.c.slice(piece, columns), device})
		}
	}
	return best
}

// bestMove returns the best relief of a device by a slice, or some columns of one, that goes to
// another device; nil if there is none.
func (m *inserter) bestMove(device int32, needed int64) (best *relief) {
	roomy := m.roomiest(device)
	for _, slot := range slices.Clone(m.held[device]) {
		piece := m.parts[slot].piece
		targets := roomy
		if table, single := m.table(piece); single {
			for _, part := range m.c.former.tables[table].parts {
				targets = append(targets[:len(targets):len(targets)], part.device)
			}
		}
		for _, to := range targets {
			if to == device || !m.allows(piece, to) {
				continue
			}
			best = m.better(best, device, needed, []int32{slot}, placed{piece, to})
			if left, right, ok := m.part(slot, needed, to); ok {
				best = m.better(best, device, needed, []int32{slot}, placed{left, device}, placed{right, to})
			}
		}
	}
	return best
}

// bestSwap returns the best relief of a device by a slice that changes places with a smaller
// one; nil if there is none.
func (m *inserter) bestSwap(device int32, needed int64) (best *relief) {
	for _, slot := range slices.Clone(m.held[device]) {
		for _, to := range m.roomiest(device) {
			for _, other := range slices.Clone(m.held[to]) {
				p, q := m.parts[slot], m.parts[other]
				if m.allows(p.piece, to) && m.allows(q.piece, device) {
					best = m.better(best, device, needed, []int32{slot, other}, placed{p.piece, to}, placed{q.piece, device})
				}
			}
		}
	}
	return best
}

// better returns the better one of a relief, which may be nil, and a change.
func (m *inserter) better(best *relief, device int32, needed int64, gone []int32, come ...placed) *relief {
	if r := m.tryRelief(device, needed, gone, come); r != nil && (best == nil || r.better(best, needed)) {
		return r
	}
	return best
}

// roomiest returns the devices with the most room, without the given one.
func (m *inserter) roomiest(device int32) []int32 {
	devices := slices.DeleteFunc(slices.Clone(m.c.all), func(d int32) bool { return d == device })
	slices.SortStableFunc(devices, func(a, b int32) int { return cmp.Compare(m.beyondRoom(a), m.beyondRoom(b)) })
	return devices[:min(len(devices), relieveLooks)]
}

// part returns the two pieces of a slice, the second just large enough to relieve its device
// of the bytes needed, or as large as the other device has room for.
func (m *inserter) part(slot int32, needed int64, to int32) (left, right int32, ok bool) {
	const g = problem.ColumnGranule
	p := m.parts[slot]
	table, single := m.table(p.piece)
	width := int64(m.width(slot) / g)
	if !single || m.c.rules.EqualSlices || width < 2 {
		return 0, 0, false
	}
	least := int64(m.c.least(table) / g)
	narrowest := &m.c.pieces[m.c.slice(p.piece, g*int(least))]
	fixed := narrowest.bytes
	each := max(1, (m.c.pieces[p.piece].bytes-fixed)/max(1, width-least))
	n := min((needed+each-1)/each, least+(-m.beyondRoom(to)-fixed)/each)
	n = max(n, least)
	if width-n < least {
		return 0, 0, false
	}
	return m.c.slice(p.piece, g*int(width-n)), m.c.slice(p.piece, g*int(n)), true
}

// tryRelief returns what a change does for a device; nil if it relieves nothing, or if another
// device has no room for it.
func (m *inserter) tryRelief(device int32, needed int64, gone []int32, come []placed) *relief {
	m.gone, m.come = append(m.gone[:0], gone...), append(m.come[:0], come...)
	if changeBreaks(m.layout) {
		return nil
	}
	freed := m.own[device] - m.after(device)
	if freed <= 0 {
		return nil
	}
	for _, p := range come {
		k := &m.c.pieces[p.piece]
		if p.device != device && m.after(p.device)+m.shared(p.device) > m.budget || k.hostBytes > 0 && m.host[p.device]+k.hostBytes > m.hostBudget {
			return nil
		}
		m.c.register(k)
	}
	before := m.softSums
	m.try()
	r := &relief{slices.Clone(gone), slices.Clone(come), min(freed, needed), max(0, m.moved-before.moved), m.goal()}
	m.undo(before)
	return r
}
