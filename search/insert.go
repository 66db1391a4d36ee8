package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// insert.go puts pieces without a place into a layout of the other pieces. A piece goes where the
// goal rises least: whole, in 2, 4, 8, ... equal slices, or in another form. Devices may hold more
// bytes than they have room for: such bytes have a price in the goal. If some are left after the
// last insertion, an annealing under a rising price removes them.

const (
	// The scales of the goal are set anew after scaleEvery insertions.
	scaleEvery = 32
	// firstCrowding is the price of a byte beyond a device's memory, in moved bytes. It rises by
	// the factor crowdingRises in each of mostSettled runs at most.
	firstCrowding, crowdingRises, mostSettled = 4, 2, 8
)

// inserter inserts pieces into a layout.
type inserter struct {
	*annealer
	s *resumer
}

// place inserts the pieces that are left, the most expensive first, and reports whether everything fits.
func (m *inserter) place() bool {
	m.crowding = firstCrowding * m.c.former.price
	slices.SortStableFunc(m.s.left, func(a, b int32) int { return cmp.Compare(m.c.pieces[b].alone, m.c.pieces[a].alone) })
	m.reset(m.s.parts)
	for i, k := range m.s.left {
		if i%scaleEvery == 0 {
			m.begin()
			m.rescale(m.alike, max(leastScale*m.best, m.s.mean), 1)
		}
		if !m.insert(k) {
			return false
		}
	}
	m.begin()
	for range mostSettled {
		if m.over == 0 {
			break
		}
		m.settle()
		m.crowding *= crowdingRises
	}
	m.crowding = 0
	return m.lack(false) == 0
}

// settle anneals for the fewest bytes beyond the memory of devices and the fewest that move.
func (m *inserter) settle() {
	m.focus = nil
	for d, slots := range m.held {
		if m.excess(int32(d)) > 0 {
			for _, slot := range slots {
				m.focus = append(m.focus, m.c.pieces[m.parts[slot].piece].members[0].table)
			}
		}
	}
	before := m.evaluations
	m.evaluations = 0
	if best, _ := m.anneal(max(onwardEvaluations, onwardASlice*int64(len(m.focus))), m.s.r.ended); best != nil {
		m.reset(best)
	}
	m.evaluations += before
}

// insert inserts a piece where the goal rises least, and reports whether there is a place.
func (m *inserter) insert(k int32) bool {
	least, best := math.Inf(1), []placed(nil)
	// consider keeps parts if the goal with them is the least.
	consider := func(parts []placed) (better bool) {
		if goal := m.goalWith(parts); goal < least {
			least, best, better = goal, parts, true
		}
		return better
	}
	for _, k := range m.s.formsOf(k) {
		switch piece := &m.c.pieces[k]; piece.span {
		case everywhere:
			consider([]placed{{k, 0}})
		case oneHost:
			for h := range m.fullHosts() {
				consider([]placed{{k, h * m.local}})
			}
		case oneDevice:
			for n := 1; n <= len(m.c.all); n = finer(m.c, k, n) {
				if !consider(m.inSlices(m.equal(k, n))) && n > 1 {
					break
				}
			}
		}
	}
	m.gone, m.come = m.gone[:0], append(m.come[:0], best...)
	m.try()
	m.accept()
	return best != nil
}

// goalWith returns the goal with parts; infinity if there are none, or they may not lie there.
func (m *inserter) goalWith(parts []placed) float64 {
	m.gone, m.come = m.gone[:0], append(m.come[:0], parts...)
	if len(parts) == 0 || !m.fits(false) {
		return math.Inf(1)
	}
	before := m.softSums
	m.try()
	goal := m.goal()
	m.undo(before)
	return goal
}

// equal returns n slices of a piece whose widths differ by at most a granule, the widest first; nil
// if it cannot be cut so.
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
	pieces := even(m.c, k, n)
	slices.Reverse(pieces)
	return pieces
}

// inSlices returns slices, the widest first, on the devices where the goal rises least with the
// first slice; nil if these are too few. It compares those that compute the least.
func (m *inserter) inSlices(pieces []int32) (parts []placed) {
	if len(pieces) == 0 {
		return nil
	}
	first := &m.c.pieces[pieces[0]]
	devices := slices.Clone(m.c.allowed(first))
	slices.SortStableFunc(devices, func(a, b int32) int {
		return cmp.Or(cmp.Compare(m.excess(a), m.excess(b)), cmp.Compare(m.compute[a], m.compute[b]))
	})
	var rises []candidate
	for _, d := range devices[:min(len(devices), max(mostLooks, 2*len(pieces)))] {
		if goal := m.goalWith([]placed{{pieces[0], d}}); !math.IsInf(goal, 1) {
			rises = append(rises, candidate{d, goal})
		}
	}
	slices.SortStableFunc(rises, func(a, b candidate) int { return cmp.Compare(a.rise, b.rise) })
	for _, c := range rises {
		if len(parts) < len(pieces) && (len(parts) == 0 || !strays(m.c, first, parts[0].device, c.device)) {
			parts = append(parts, placed{pieces[len(parts)], c.device})
		}
	}
	if len(parts) < len(pieces) {
		return nil
	}
	return parts
}
