package search

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Several slices of a table may lie on one device. They take more bytes and time than one
// slice with their columns, as each reads the table's indices. But an operator runs as
// wide as its widest slice, so it can pay to cut a wide table where it lies:
//
//	device 0   wide 128, narrow 8, narrow 8     all run in groups of 32 lanes
//	recut      wide 4 x 32, narrow 8, narrow 8  all run in groups of 8 lanes
//
// The slices that a table has on a device in one form have the same width, or widths that
// differ by one granule. So the annealing draws only that width.

// laneWidths are the widest slices, in columns, of operators with 8 and with 16 lanes
// (docs/SIMULATED.md).
var laneWidths = [...]int{32, 64}

// oneOperatorIn is the inverse of the share of recuts that cut all slices of an operator.
const oneOperatorIn = 8

// lanesOf returns the widest slice that runs with the lanes of a slice of the width.
func lanesOf(width int) int {
	for _, widest := range laneWidths {
		if width <= widest {
			return widest
		}
	}
	return math.MaxInt
}

// recut cuts the slices of a table on its device into slices of at most 32 columns, of at most 64 or of half the width of
// one of them, or joins them. Sometimes it does so with all slices of the operator.
func (m *mover) recut(slot int32) bool {
	p := m.parts[slot]
	if _, ok := m.table(p.piece); !ok || m.c.pieces[p.piece].span != oneDevice {
		return false
	}
	widest := math.MaxInt
	switch i := m.draw.IntN(len(laneWidths) + 2); {
	case i < len(laneWidths):
		widest = laneWidths[i]
	case i == len(laneWidths):
		widest = max(problem.ColumnGranule, m.width(slot)/2)
	}
	if m.draw.IntN(oneOperatorIn) > 0 {
		m.recutTable(slot, widest)
	} else {
		for _, other := range m.held[p.device] {
			if m.fuses(other, p.piece) && !slices.Contains(m.gone, other) {
				m.recutTable(other, widest)
			}
		}
		m.evaluations += int64(len(m.gone)+len(m.come)) / 4 // a change of this size takes longer
	}
	return len(m.gone) > 0 && m.fits(false)
}

// recutTable proposes slices of at most widest columns for the slices that a table has on
// the device of one of them, unless the slices have these widths already.
func (m *mover) recutTable(slot int32, widest int) {
	p := m.parts[slot]
	from, columns := len(m.gone), m.gather(p.piece, p.device)
	now := m.gone[from:]
	n := m.cuts(p.piece, columns, widest)
	narrowest := columns / problem.ColumnGranule / n * problem.ColumnGranule
	even := func(slot int32) bool {
		w := m.width(slot)
		return w == narrowest || w == narrowest+problem.ColumnGranule
	}
	if len(now) == n && !slices.ContainsFunc(now, func(slot int32) bool { return !even(slot) }) {
		m.gone = m.gone[:from]
		return
	}
	m.into(p.piece, columns, n, p.device)
}

// fuses reports whether a slice runs in the operator that would run a piece on the
// slice's device.
func (m *mover) fuses(slot, piece int32) bool {
	k := &m.c.pieces[m.parts[slot].piece]
	return k.operator == m.c.pieces[piece].operator && k.single
}

// gather adds to gone the slices that a device keeps of a piece's table in the piece's
// form, and returns the number of their columns.
func (m *mover) gather(piece, device int32) (columns int) {
	table, siblings := m.c.pieces[piece].table, m.c.pieces[piece].siblings
	for _, slot := range m.tables[table] {
		if m.parts[slot].device == device && m.c.pieces[m.parts[slot].piece].siblings == siblings && !slices.Contains(m.gone, slot) {
			m.gone = append(m.gone, slot)
			columns += m.width(slot)
		}
	}
	return columns
}

// cuts returns the least number of slices of a piece's table that hold the columns with
// at most widest in a slice, or the largest number that the table may be cut into.
func (m *mover) cuts(piece int32, columns, widest int) int {
	n := 1
	if widest < columns {
		n = (columns + widest - 1) / widest
	}
	return max(1, min(n, columns/m.c.least(int(m.c.pieces[piece].table))))
}

// into adds to come n slices of a piece's table with the given columns together.
func (m *mover) into(piece int32, columns, n int, device int32) {
	const g = problem.ColumnGranule
	for i := range n {
		m.come = append(m.come, placed{m.c.slice(piece, (columns/g+i)/n*g), device})
	}
}

// asTheyAre reports whether slices like a piece are neither cut nor joined where they go.
func (m *mover) asTheyAre(piece int32) bool {
	_, single := m.table(piece)
	return !single || m.uncut || m.c.rules.EqualSlices
}

// lift takes a slice off its device in the proposed change, or all slices that the device
// has of the slice's table and form, and returns the piece that is taken.
func (m *mover) lift(slot int32) int32 {
	p := m.parts[slot]
	from := len(m.gone)
	m.gone = append(m.gone, slot)
	if m.asTheyAre(p.piece) || m.c.pieces[p.piece].span != oneDevice {
		return p.piece
	}
	others := m.gather(p.piece, p.device)
	if others == 0 {
		return p.piece
	}
	if m.draw.IntN(2) == 0 {
		m.gone = m.gone[:from+1]
		return p.piece
	}
	return m.c.slice(p.piece, others+m.width(slot))
}

// bring adds a piece to a device in the proposed change. If the device keeps slices of
// the same table in the same form, they and the piece become one slice, or slices that run
// with the lanes of the widest of them. If it keeps none, the piece is sometimes cut into
// slices that run with the lanes that the device's operator has.
func (m *mover) bring(piece, device int32) {
	if m.asTheyAre(piece) || m.c.pieces[piece].span == everywhere {
		m.come = append(m.come, placed{piece, device})
		return
	}
	from, widest := len(m.gone), int(m.c.pieces[piece].width)
	columns := widest + m.gather(piece, device)
	for _, slot := range m.gone[from:] {
		widest = max(widest, m.width(slot))
	}
	lanes := math.MaxInt
	switch {
	case m.c.pieces[piece].span != oneDevice:
	case len(m.gone) > from:
		if columns > lanesOf(widest) && m.draw.IntN(2) == 0 {
			lanes = lanesOf(widest)
		}
	case widest > laneWidths[0] && m.draw.IntN(4) == 0:
		lanes = m.lanesThere(piece, device)
	}
	m.into(piece, columns, m.cuts(piece, columns, lanes), device)
}

// lanesThere returns the widest slice that runs with the lanes of the operator that would
// run a piece on a device, by what else the operator runs after the change.
func (m *mover) lanesThere(piece, device int32) int {
	widest := 0
	for _, slot := range m.held[device] {
		if m.fuses(slot, piece) && !slices.Contains(m.gone, slot) {
			widest = max(widest, m.width(slot))
		}
	}
	if widest == 0 {
		return math.MaxInt
	}
	return lanesOf(widest)
}

// recutEvenly cuts a table into another number of equal slices: the next larger or smaller
// number, or any; or into blocks of rows on chosen devices. The new parts lie on the devices of the old ones and, if they are more,
// on devices with little compute, or again on the same devices.
func (m *mover) recutEvenly(slot int32) bool {
	p := m.parts[slot]
	table, single := m.table(p.piece)
	if !single || m.c.pieces[p.piece].span == everywhere || m.c.pieces[p.piece].span == oneHost && !m.forms.sliced[table] {
		return false
	}
	piece, n, ok := m.otherCut(p.piece)
	if !ok {
		return false
	}
	old := m.tables[table]
	m.gone = append(m.gone, old...)
	again := !m.c.rules.OneSlice && n > len(old) && m.draw.IntN(4) == 0
	from := m.draw.IntN(len(old))
	for i := range n {
		device := m.parts[old[(from+i)%len(old)]].device
		if i >= len(old) && !again {
			if device, ok = m.idlest(placed{piece, p.device}); !ok {
				return false
			}
		}
		m.come = append(m.come, placed{piece, device})
	}
	return m.fits(false)
}

// mostBlocks is the largest number of blocks of rows on chosen devices that a table is cut into.
const mostBlocks = 16

// otherCut draws another cut of the table of a piece: into equal slices or, if it may be cut so, into blocks of rows on chosen
// devices. It returns the piece and the number of the parts.
func (m *mover) otherCut(k int32) (piece int32, n int, ok bool) {
	table, form, width := int(m.c.pieces[k].table), *m.c.pieces[k].form, int(m.c.pieces[k].width)
	t, blocks := &m.c.problem.Tables[table], form.Blocks
	if m.forms.chosen[table] && spanOf(form) == oneDevice && m.draw.IntN(2) == 0 {
		form.Blocks = 2 + m.draw.IntN(min(len(m.c.all)-1, mostBlocks)-1) // a block on every device is row_wise
		if form.Blocks == blocks || !t.CutsByRows(form.Blocks) {
			return 0, 0, false
		}
		return m.c.inForm(k, t.Dim, form), form.Blocks, true
	}
	if blocks > 0 {
		form.Blocks, width = 0, 0
	}
	width, ok = m.otherWidth(table, width)
	if !ok || blocks > 0 && m.forms.barred[table] {
		return 0, 0, false
	}
	return m.c.inForm(k, width, form), t.Dim / width, true
}

// otherWidth draws another width than now for the slices of a table; any width if now is 0.
func (m *mover) otherWidth(table, now int) (width int, ok bool) {
	widths := m.widthsOf(table, 2*len(m.c.all))
	if len(widths) == 0 || len(widths) == 1 && now > 0 {
		return 0, false
	}
	at := slices.Index(widths, now)
	if m.draw.IntN(2) == 0 && at >= 0 {
		at += 1 - 2*m.draw.IntN(2)
		if at < 0 || at >= len(widths) {
			return 0, false
		}
		return widths[at], true
	}
	width = widths[m.draw.IntN(len(widths))]
	return width, width != now
}

// widthsOf returns the widths into which a table may be cut, with at most a number of slices.
func (m *mover) widthsOf(table, most int) []int {
	widths := m.c.equalWidths[table]
	for len(widths) > 0 && m.c.problem.Tables[table].Dim/widths[len(widths)-1] > most {
		widths = widths[:len(widths)-1]
	}
	return widths
}

// idlest draws devices for a slice like p and returns the one with the least compute, or
// the first device of a host.
func (m *mover) idlest(p placed) (best int32, ok bool) {
	best = none
	for range reformLooks {
		d, drawn := m.other(p)
		if drawn && (best == none || m.compute[d] < m.compute[best]) {
			best = d
		}
	}
	return best, best != none
}
