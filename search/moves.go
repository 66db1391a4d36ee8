package search

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// The changes that the annealing draws:
//
//	move       a slice to another device
//	swap       two slices of two devices
//	split      a slice in two, of any widths; one part to another device
//	regroup    columns of a slice, or all of them, to another slice of its table
//	reform     a table into another form
//
// A part that comes to a device with a slice of its table widens that slice. What does
// not fit a device's memory, or is not allowed there, is not tried.

const (
	// reformEvery is how many changes there are for each change of a table's form.
	reformEvery = 6
	// reformLooks is how many devices are looked at for one that takes the least.
	reformLooks = 3
)

// propose draws a change into gone and come and reports whether it can be made.
func (a *annealer) propose() bool {
	a.gone, a.come = a.gone[:0], a.come[:0]
	slot := a.live[a.draw.IntN(len(a.live))]
	if on := a.held[a.slowest]; a.draw.IntN(2) == 0 && len(on) > 0 {
		slot = on[a.draw.IntN(len(on))]
	}
	if a.mixed && a.draw.IntN(reformEvery) == 0 {
		return a.reform(slot)
	}
	switch a.draw.IntN(8) {
	case 0, 1, 2:
		return a.move(slot)
	case 3, 4, 5:
		return a.swap(slot)
	case 6:
		return a.split(slot)
	}
	return a.regroup(slot)
}

// move puts a slice on another device.
func (a *annealer) move(slot int32) bool {
	p := a.parts[slot]
	to, ok := a.other(p)
	if !ok {
		return false
	}
	a.gone = append(a.gone, slot)
	a.bring(p.piece, to)
	return a.fits(false)
}

// other draws an allowed device other than a part's own.
func (a *annealer) other(p placed) (int32, bool) {
	if a.c.pieces[p.piece].span != oneDevice {
		return a.otherHost(p)
	}
	allowed := a.c.allowed(&a.c.pieces[p.piece])
	if len(allowed) < 2 {
		return 0, false
	}
	i := a.draw.IntN(len(allowed) - 1)
	if allowed[i] == p.device || allowed[i] > p.device {
		i++ // the devices are ascending
	}
	return allowed[i], allowed[i] != p.device
}

// otherHost draws a full host other than a part's own, and returns its first device.
func (a *annealer) otherHost(p placed) (int32, bool) {
	if a.c.pieces[p.piece].span != oneHost {
		return 0, false
	}
	hosts := a.fullHosts()
	if hosts < 2 {
		return 0, false
	}
	h := int32(a.draw.IntN(int(hosts - 1)))
	if h >= a.hostOf[p.device] {
		h++
	}
	return h * a.local, true
}

// bring lets a piece come to a device, where it widens the slices of its table that
// stay there.
func (a *annealer) bring(piece, device int32) {
	if table, ok := a.table(piece); ok {
		for _, slot := range a.tables[table] {
			if a.parts[slot].device == device && !slices.Contains(a.gone, slot) {
				a.gone = append(a.gone, slot)
				piece = a.c.slice(piece, a.c.pieces[piece].members[0].width+a.width(slot))
			}
		}
	}
	a.come = append(a.come, placed{piece, device})
}

// swap exchanges two slices of two devices.
func (a *annealer) swap(slot int32) bool {
	p := a.parts[slot]
	other := a.live[a.draw.IntN(len(a.live))]
	q := a.parts[other]
	if a.c.pieces[p.piece].span != oneDevice || a.c.pieces[q.piece].span != oneDevice {
		return false
	}
	if q.device == p.device || q.piece == p.piece || !a.allows(p.piece, q.device) || !a.allows(q.piece, p.device) {
		return false
	}
	a.gone = append(a.gone, slot, other)
	a.bring(p.piece, q.device)
	a.bring(q.piece, p.device)
	return a.fits(false)
}

func (a *annealer) allows(piece, device int32) bool {
	devices := a.c.pieces[piece].devices
	return devices == nil || slices.Contains(devices, device)
}

// split cuts a slice in two and puts one part on another device.
func (a *annealer) split(slot int32) bool {
	p := a.parts[slot]
	left, ok := a.cut(slot)
	if !ok {
		return false
	}
	to, ok := a.other(p)
	if !ok {
		return false
	}
	a.gone = append(a.gone, slot)
	a.come = append(a.come, placed{a.c.slice(p.piece, left), p.device})
	a.bring(a.c.slice(p.piece, a.c.pieces[p.piece].members[0].width-left), to)
	return a.fits(false)
}

// cut draws the width that is left of a slice when another part is cut off: half of
// the slice in one case of two, else any width.
func (a *annealer) cut(slot int32) (left int, ok bool) {
	const g = problem.ColumnGranule
	table, single := a.table(a.parts[slot].piece)
	if !single || !a.mayCut(slot) {
		return 0, false
	}
	least := a.c.least(table) / g
	width := a.width(slot) / g
	if width < 2*least {
		return 0, false
	}
	if a.draw.IntN(2) == 0 {
		return width / 2 * g, true
	}
	return (least + a.draw.IntN(width-2*least+1)) * g, true
}

// mayCut reports whether a part may be cut by columns in the form it has.
func (a *annealer) mayCut(slot int32) bool {
	switch a.c.pieces[a.parts[slot].piece].span {
	case oneHost:
		return a.forms.sliced
	case everywhere:
		return false
	}
	return true
}

// regroup brings columns of a slice to another slice of its table: all of them, or
// some.
func (a *annealer) regroup(slot int32) bool {
	p := a.parts[slot]
	table, ok := a.table(p.piece)
	if !ok {
		return false
	}
	of := a.tables[table]
	if len(of) < 2 {
		return false
	}
	other := of[a.draw.IntN(len(of))]
	to := a.parts[other].device
	if other == slot {
		return false
	}
	a.gone = append(a.gone, slot)
	if to == p.device || a.draw.IntN(2) == 0 {
		a.bring(p.piece, to)
		return a.fits(false)
	}
	left, ok := a.cut(slot)
	if !ok {
		return false
	}
	a.come = append(a.come, placed{a.c.slice(p.piece, left), p.device})
	a.bring(a.c.slice(p.piece, a.width(slot)-left), to)
	return a.fits(false)
}

// reform takes a table, a slice of which is given, into another form.
func (a *annealer) reform(slot int32) bool {
	p := a.parts[slot]
	table, ok := a.table(p.piece)
	if !ok || len(a.forms.choices[table]) == 0 {
		return false
	}
	choices := a.forms.choices[table]
	now := a.c.pieces[p.piece].form
	n := len(choices)
	if a.forms.columns {
		n++ // the zero form
	}
	to := problem.Form{}
	if i := a.draw.IntN(n); i < len(choices) {
		to = choices[i]
	}
	if to == now {
		return false
	}
	if spanOf(to) == oneDevice && spanOf(now) == oneDevice && a.draw.IntN(2) == 0 {
		return a.remain(table, to)
	}
	return a.become(table, to, int64(a.draw.IntN(2)), false)
}

// remain proposes that the slices of a table take another form where they are.
func (a *annealer) remain(table int, to problem.Form) bool {
	a.gone, a.come = append(a.gone[:0], a.tables[table]...), a.come[:0]
	for _, slot := range a.gone {
		p := a.parts[slot]
		a.come = append(a.come, placed{a.c.inForm(p.piece, a.width(slot), to), p.device})
	}
	return a.fits(false)
}

// become proposes that a table takes a form: in slices if that is of columns and a
// slice is larger than a device takes, and in twice that number for each finer. If
// together is true, only all devices together need have room.
func (a *annealer) become(table int, to problem.Form, finer int64, together bool) bool {
	a.gone, a.come = append(a.gone[:0], a.tables[table]...), a.come[:0]
	whole := a.forms.whole[table]
	width := a.c.pieces[whole].members[0].width
	switch spanOf(to) {
	case everywhere:
		a.come = append(a.come, placed{a.c.inForm(whole, width, to), 0})
	case oneHost:
		if !a.onHosts(a.c.inForm(whole, width, to)) {
			return false
		}
	case oneDevice:
		if !a.slices(whole, to, finer) {
			return false
		}
	}
	return a.fits(together)
}

// onHosts proposes blocks of rows on a full host that is drawn, or slices of columns of
// such blocks on hosts of their own where one host has no room for them.
func (a *annealer) onHosts(whole int32) bool {
	hosts := a.fullHosts()
	host := int32(a.draw.IntN(int(hosts)))
	pieces := []int32{whole}
	if a.forms.sliced {
		pieces = a.c.above(pieces, a.c.budget)
	}
	if len(pieces) > int(hosts) {
		return false
	}
	for i, k := range pieces {
		a.come = append(a.come, placed{k, (host + int32(i)) % hosts * a.local})
	}
	return true
}

// slices proposes slices of a whole table, on devices that take little.
func (a *annealer) slices(whole int32, form problem.Form, finer int64) bool {
	const g = problem.ColumnGranule
	k := &a.c.pieces[a.c.inForm(whole, a.c.pieces[whole].members[0].width, form)]
	m := k.members[0]
	n := (k.bytes + a.c.budget - 1) / max(1, a.c.budget)
	if a.hostBudget > 0 {
		n = max(n, (k.hostBytes+a.hostBudget-1)/a.hostBudget)
	}
	n <<= finer
	granules := int64(m.width / g)
	n = max(1, min(n, int64(len(a.c.allowed(k))), granules*g/int64(a.c.least(m.table))))
	if a.c.problem.Tables[m.table].MinWidth() == m.width {
		n = 1
	}
	allowed := a.c.allowed(k)
	for i := range n {
		piece := a.c.inForm(whole, int((granules+i)/n)*g, form)
		best := int32(none)
		for range reformLooks {
			d := allowed[a.draw.IntN(len(allowed))]
			used := slices.ContainsFunc(a.come, func(p placed) bool { return p.device == d })
			if !used && (best == none || a.compute[d] < a.compute[best]) {
				best = d
			}
		}
		if best == none {
			return false
		}
		a.come = append(a.come, placed{piece, best})
	}
	return true
}
