package search

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
)

// An engine may demand that all slices of a table have the same width, that they lie in one tier, and that a device holds at most
// one of them (problem.EngineRules). Steps that cut or place tables make only what the rules allow: a table is cut as a whole, into
// any number of equal slices, or into equal blocks of rows on devices of their own (AnyDevices). No placement that breaks a rule
// becomes the best one (offer), and no change that breaks one is tried (fits). Constraint.OneHost is kept in the same two ways.
// The rule that no device is empty is kept as the memory is: a run of the race may leave devices empty, at a price, and all other
// placements get a part on each device (occupy).

// breaks reports whether placed pieces break a rule of the problem's engine. Empty devices
// are no such rule here.
func breaks(c *catalog, parts []placed) bool {
	if unruled(c) {
		return false
	}
	of := map[int][]placed{}
	for _, p := range parts {
		table := c.pieces[p.piece].members[0].table
		of[table] = append(of[table], p)
	}
	for _, list := range of {
		if clash(c, list) {
			return true
		}
	}
	return false
}

// changeBreaks reports whether the proposed change of a layout breaks a rule.
func changeBreaks(l *layout) bool {
	if unruled(l.c) {
		return false
	}
	last := none
	for _, p := range l.come {
		if table, single := l.table(p.piece); single && table != last {
			if last = table; clash(l.c, l.partsAfter(table)) {
				return true
			}
		}
	}
	return false
}

// clash reports whether the rules forbid these parts of one table together.
func clash(c *catalog, parts []placed) bool {
	first := &c.pieces[parts[0].piece]
	for i, p := range parts {
		k := &c.pieces[p.piece]
		differ := c.rules.EqualSlices && first.members[0].width != k.members[0].width || c.rules.OneTier && first.form != k.form
		if differ || slices.ContainsFunc(parts[:i], func(q placed) bool { return !compatible(c, k, p.device, q.device) }) {
			return true
		}
	}
	if first.form.Blocks != c.problem.Topology.PerHost() {
		return false
	}
	// Blocks of rows on all devices of some hosts are a table_row_wise table, or a grid of hosts.
	hosts := map[int32]bool{}
	for _, p := range parts {
		hosts[hostOf(c, p.device)] = true
	}
	return len(hosts)*first.form.Blocks == len(parts)
}

// compatible reports whether slices of the piece's table may lie on these two devices, which may be
// the same one.
func compatible(c *catalog, k *piece, d, other int32) bool {
	if d == other {
		return !c.rules.OneSlice && k.span != oneHost
	}
	return !strays(c, k, d, other)
}

// unruled reports whether all slices of a table may lie on all devices, because no rule and no
// constraint forbids it.
func unruled(c *catalog) bool { return c.rules == (problem.EngineRules{}) && c.onHost == nil }

// holders are the devices that hold slices of each table.
type holders struct {
	c *catalog
	// apart says that a device holds at most one slice of a table.
	apart bool
	// of has the devices by table. They matter (needed) if a device holds at most one slice of a table, or if a table must lie on
	// one host.
	of map[int][]int32
}

func newHolders(c *catalog, apart bool) holders { return holders{c, apart, map[int][]int32{}} }

func (h holders) needed() bool { return h.apart || h.c.onHost != nil }

// bars reports whether the piece must not lie on device d, because of the slices of its table that
// are placed already.
func (h holders) bars(k *piece, d int32) bool {
	on := h.of[k.members[0].table]
	return len(on) > 0 && (h.apart && slices.Contains(on, d) || strays(h.c, k, d, on[0]))
}

// put records a piece on device d.
func (h holders) put(k *piece, d int32) {
	if h.needed() {
		table := k.members[0].table
		h.of[table] = append(h.of[table], d)
	}
}

// open returns the devices of a list that the slices placed already leave to the piece. If the
// piece is the first slice of a table that must stay on one host, only hosts with room for all
// slices of this width count. free returns the free bytes of a device. scratch is used for the
// result.
func (h holders) open(k *piece, devices, scratch []int32, free func(d int32) perPhase) []int32 {
	first := len(h.of[k.members[0].table]) == 0
	if first && !staysOnHost(h.c, k) {
		return devices
	}
	scratch = scratch[:0]
	host, room := int32(none), false
	for _, d := range devices {
		if now := hostOf(h.c, d); first && now != host {
			host, room = now, h.hasRoom(k, d, free)
		}
		if !h.bars(k, d) && (!first || room) {
			scratch = append(scratch, d)
		}
	}
	return scratch
}

// hasRoom reports whether the allowed devices of the host of device d have room for all slices of
// the piece's table, if they are as wide as the piece.
func (h holders) hasRoom(k *piece, d int32, free func(d int32) perPhase) bool {
	m := k.members[0]
	need := int64((h.c.problem.Tables[m.table].Dim + m.width - 1) / m.width)
	h.c.eachOf(oneHost, d, func(d int32) {
		if int(d) >= len(h.c.all) || k.devices != nil && !slices.Contains(k.devices, d) {
			return
		}
		some, left := need, free(d)
		for f, bytes := range k.own {
			if bytes > 0 {
				some = min(some, max(0, left[f]/bytes))
			}
		}
		if h.apart {
			some = min(1, some)
		}
		need -= some
	})
	return need <= 0
}

// finer returns the number of slices to try for piece k after n slices: twice n, or after
// one slice the number for the only width that its table may be cut into.
func finer(c *catalog, k int32, n int) int {
	t := &c.problem.Tables[c.pieces[k].members[0].table]
	if only := t.OnlyWidth; only > 0 && n == 1 {
		return max(2, t.Dim/only)
	}
	return 2 * n
}

// evenInto reports whether a table may be cut into n equal slices.
func evenInto(c *catalog, table, n int) bool {
	t := &c.problem.Tables[table]
	return t.Dim%n == 0 && t.AllowsWidth(t.Dim/n)
}

// evenly returns the least number of equal slices, at least n, into which a table can be
// cut; 0 if there is none.
func evenly(c *catalog, table, n int) int {
	dim := c.problem.Tables[table].Dim
	for _, width := range c.equalWidths[table] {
		if dim/width >= n {
			return dim / width
		}
	}
	return 0
}

// Idle is the error of a search for an engine that needs a part of a table on every
// device, if the tables cannot be spread over all devices.
type Idle struct {
	// Engine is the engine's name in texts.
	Engine string
	// Empty is the number of devices that stay empty, of Devices in all.
	Empty, Devices int
	// Barred are the devices that the constraints of all tables leave out.
	Barred []int
}

// Error says how many devices stay empty, or which devices no table may use.
func (e *Idle) Error() string {
	if len(e.Barred) > 0 {
		return fmt.Sprintf("%s needs a part of a table on every device, and the constraints of all tables leave out these devices: %s", e.Engine, words.List(strings.Fields(strings.Trim(fmt.Sprint(e.Barred), "[]")), 5))
	}
	return fmt.Sprintf("%s needs a part of a table on every device, and %d of %d devices stay empty: there are too few slices", e.Engine, e.Empty, e.Devices)
}

// occupy returns the placement with a part of a table on every device, if the engine needs
// that. It fails with *Idle if it finds no such placement.
//
// While a device is empty, it makes the change that costs least: a slice goes there from a
// device with several, a table is cut into more slices, or a table is spread over all
// devices.
func occupy(r *run, best placement) (placement, error) {
	if !r.catalog.rules.NoIdle || best.parts == nil {
		return best, nil
	}
	m := filler{&mover{layout: newLayout(r.catalog, r.scorer(), r.forms)}}
	m.reset(best.parts)
	empty := m.empty()
	if len(empty) == 0 {
		m.scorer.Reset()
		return best, nil
	}
	for ; len(empty) > 0; empty = m.empty() {
		if !m.occupy(empty) {
			return best, &Idle{r.catalog.rules.Name, len(empty), len(r.catalog.all), barredOf(r.catalog)}
		}
	}
	return r.offer(placement{}, m.all()), nil
}

// barredOf returns the devices on which no table may lie.
func barredOf(c *catalog) (barred []int) {
	allowed := make([]bool, len(c.all))
	for _, k := range c.whole() {
		for _, d := range c.allowed(&c.pieces[k]) {
			allowed[d] = true
		}
	}
	for d, ok := range allowed {
		if !ok {
			barred = append(barred, d)
		}
	}
	return barred
}

// filler puts parts of tables on empty devices.
type filler struct{ *mover }

// empty returns the devices that hold nothing.
func (m filler) empty() (devices []int32) {
	for d := range m.held {
		if m.ledger.empty(int32(d), &perPhase{}) {
			devices = append(devices, int32(d))
		}
	}
	return devices
}

// occupy makes the change that costs least among those that use an empty device. ok is
// false if there is none.
func (m filler) occupy(empty []int32) (ok bool) {
	least := math.Inf(1)
	var gone []int32
	var come []placed
	consider := func(possible bool) {
		if !possible {
			return
		}
		before := m.softSums
		m.try()
		if cost := m.scorer.Cost(); cost < least {
			least, gone, come = cost, slices.Clone(m.gone), slices.Clone(m.come)
		}
		m.undo(before)
	}
	for _, slot := range m.live {
		consider(m.fetch(slot, empty))
	}
	for _, k := range m.c.whole() {
		if table, single := m.table(k); single {
			consider(m.cutFor(table, empty))
			consider(m.everywhere(table))
		}
	}
	if math.IsInf(least, 1) {
		return false
	}
	m.gone, m.come = gone, come
	m.try()
	m.accept()
	return true
}

// fetch proposes that a slice of a device with several goes to an empty one.
func (m filler) fetch(slot int32, empty []int32) bool {
	m.gone, m.come = m.gone[:0], m.come[:0]
	p := m.parts[slot]
	if m.c.pieces[p.piece].span != oneDevice || len(m.held[p.device]) < 2 {
		return false
	}
	i := slices.IndexFunc(empty, func(d int32) bool {
		return m.allows(p.piece, d) && m.ledger.beyond(d, &m.c.pieces[p.piece].own) <= 0
	})
	if i < 0 {
		return false
	}
	m.gone, m.come = append(m.gone, slot), append(m.come, placed{p.piece, empty[i]})
	return m.fits(false)
}

// cutFor proposes that a table on single devices is cut into the next larger number of
// equal slices: one on each device that has one now, the others on empty devices.
func (m filler) cutFor(table int, empty []int32) bool {
	m.gone, m.come = m.gone[:0], m.come[:0]
	old := m.tables[table]
	p := m.parts[old[0]]
	n := evenly(m.c, table, len(old)+1)
	if m.c.pieces[p.piece].span != oneDevice || n == 0 || m.c.pieces[p.piece].form.Blocks > 0 {
		return false
	}
	piece := m.c.slice(p.piece, m.c.problem.Tables[table].Dim/n)
	m.gone = append(m.gone, old...)
	for _, slot := range old {
		m.come = append(m.come, placed{piece, m.parts[slot].device})
	}
	for _, d := range empty {
		if len(m.come) < n && m.allows(piece, d) && m.ledger.beyond(d, &m.c.pieces[piece].own) <= 0 {
			m.come = append(m.come, placed{piece, d})
		}
	}
	used := len(m.come)
	for _, d := range m.c.allowed(&m.c.pieces[piece]) {
		if len(m.come) < n && !slices.ContainsFunc(m.come, func(p placed) bool { return p.device == d }) {
			m.come = append(m.come, placed{piece, d})
		}
	}
	return used > len(old) && len(m.come) == n && m.fits(false)
}

// everywhere proposes that all devices hold a part of a table.
func (m filler) everywhere(table int) bool {
	m.gone, m.come = m.gone[:0], m.come[:0]
	choices := m.forms.choices[table]
	i := slices.IndexFunc(choices, func(f problem.Form) bool { return spanOf(f) == everywhere })
	return i >= 0 && m.become(table, choices[i], 0, false)
}
