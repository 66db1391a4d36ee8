package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// A table, or a co-location, has one variant for each form that it may take. What fits is a choice of
// a variant of each table, and a cut of each into slices:
//
//	variant         its slices lie on
//	slices in HBM   devices
//	host memory     devices, with all rows in host memory and no cache; with the smallest cache
//	                if the table must have one
//	blocks          hosts: table_row_wise, or grid
//	on all devices  one slice on all devices: row_wise or data_parallel
//
// If an engine runs equal slices only, each width that these may have is a variant of its own.
// A form needs no variant if another one takes fewer bytes of the same places. So only the smallest cache may have one: a cache
// takes HBM, and saves no host memory.
//
// A table whose slices may lie in two tiers has a pair of variants for each number of its columns in HBM, too.

// variant is a way to hold a table. Its widths are in units: granules of columns, or equal slices.
type variant struct {
	// piece is the unsplit piece in HBM, and form the form of the variant.
	piece int32
	form  problem.Form
	span  span
	// devices are the allowed devices, ascending; nil allows all.
	devices []int32
	// unit is the number of columns of a unit. width is the width of the table, narrowest that of the
	// narrowest slice allowed, and widest the most that one place may hold.
	unit                     int
	width, narrowest, widest int32
	// own, first and last are the bytes of HBM that a slice takes of a middle, of the first and of the last device that holds
	// it. It takes hostFixed + hostEach * w bytes of host memory if it is w units wide. Every device takes shared because of it.
	own, first, last, shared byWidth
	hostFixed, hostEach      int64
	// beside is the variant of the other columns of a table in two tiers; nil if there are none.
	beside *variant
	// slices is the smallest number of places that have room for the table, 0 if there are too few, and hbm and host are the bytes
	// that it then takes of all devices together, with beside, in the catalog's phase: no placement takes fewer.
	slices    int32
	hbm, host int64
}

func (v *variant) hostBytes(width int32) int64 { return v.hostFixed + v.hostEach*int64(width) }

// byWidth is fixed + each * w bytes of a slice of w units.
type byWidth struct{ fixed, each perPhase }

func (b *byWidth) of(width int32) perPhase { return b.fixed.plus(b.each, int64(width)) }

// atMost reports whether b are at most the other bytes, for any width.
func (b *byWidth) atMost(other *byWidth) bool {
	for f := range b.fixed {
		if b.fixed[f] > other.fixed[f] || b.each[f] > other.each[f] {
			return false
		}
	}
	return true
}

// on returns what slices take of device d of the span from first to last.
func (v *variant) on(d, first, last int32) *byWidth {
	switch d {
	case first:
		return &v.first
	case last:
		return &v.last
	}
	return &v.own
}

// least returns the width of the widest slice that cannot be cut, in units.
func (v *variant) least() int32 { return min(v.width, 2*v.narrowest-1) }

// variantsOf returns the variants of each table or co-location that fit empty devices, those that take the fewest
// bytes of HBM first. The list of a table without such a variant is empty. Variants that take more bytes than another one of the
// same places are left out, unless those that cost less time are wanted, too.
func variantsOf(c *catalog, f *forms, timed bool) [][]variant {
	whole := c.whole()
	all := make([][]variant, len(whole))
	for i, k := range whole {
		table := c.pieces[k].members[0].table
		var choices []problem.Form
		if !f.barred[table] {
			choices = append(choices, problem.Form{})
		}
		if len(c.pieces[k].members) == 1 {
			choices = append(choices, f.choices[table]...)
		}
		var list []variant
		for _, form := range choices {
			list = append(list, variantsIn(c, f, k, form)...)
		}
		list = slices.DeleteFunc(list, func(v variant) bool { return v.places(c) == 0 })
		if !timed {
			list = unbeaten(list)
		}
		list = append(list, inTwoTiers(c, list, len(whole) <= pairTables)...)
		list = slices.DeleteFunc(list, func(v variant) bool { return v.slices == 0 })
		slices.SortStableFunc(list, func(a, b variant) int { return cmp.Compare(a.hbm, b.hbm) })
		all[i] = list
	}
	return all
}

// unbeaten returns the variants that no other one beats. Only variants on the same devices beat each other, and a table that
// stays on one host has some for each host.
func unbeaten(list []variant) (left []variant) {
	first := func(v *variant) int32 {
		if len(v.devices) == 0 {
			return none
		}
		return v.devices[0]
	}
	alike := map[int32][]int{}
	for i := range list {
		alike[first(&list[i])] = append(alike[first(&list[i])], i)
	}
	for i := range list {
		v := &list[i]
		if !slices.ContainsFunc(alike[first(v)], func(k int) bool { return list[k].beats(v) }) {
			left = append(left, *v)
		}
	}
	return left
}

// beats reports whether the slices of a variant take fewer bytes than equal slices of another one on the same places.
func (v *variant) beats(other *variant) bool {
	if v.span != other.span || v.unit != other.unit || !slices.Equal(v.devices, other.devices) || v.hostFixed > other.hostFixed || v.hostEach > other.hostEach {
		return false
	}
	if !v.own.atMost(&other.own) || !v.first.atMost(&other.first) || !v.last.atMost(&other.last) || !v.shared.atMost(&other.shared) {
		return false
	}
	return v.own.of(1) != other.own.of(1)
}

// variantsIn returns the variants of an unsplit piece in a form: one, or one for each width of equal slices. If the slices of
// the table must stay on one host, each host has a variant of its own.
func variantsIn(c *catalog, f *forms, k int32, form problem.Form) (list []variant) {
	m, span := c.pieces[k].members[0], spanOf(form)
	stays := c.onHost != nil && c.onHost[m.table] && span == oneDevice && c.least(m.table) < m.width
	units := []int{problem.ColumnGranule}
	switch {
	case len(c.pieces[k].members) > 1 || span == everywhere || span == oneHost && !f.sliced[m.table]:
		units = []int{m.width}
	case c.rules.EqualSlices:
		units = c.equalWidths[m.table]
	case stays:
		units = []int{m.width, problem.ColumnGranule}
	}
	for _, unit := range units {
		v := variantOf(c, k, form, unit)
		if !stays || v.width == 1 {
			list = append(list, v)
			continue
		}
		for h := range c.problem.Topology.Hosts() {
			v.devices = onHostOf(c, int32(h), c.allowed(&c.pieces[k]))
			list = append(list, v)
		}
	}
	for i := range list {
		list[i].count(c)
	}
	return list
}

// pairTables is the most tables of a problem whose tables in one slice have pairs. To try all placements of more tables would take
// too long, and no pair takes fewer bytes than one of its variants if both need one slice.
const pairTables = 8

// inTwoTiers returns the pairs of variants of a table in two tiers. Of a table that must stay on one host, both lie there.
func inTwoTiers(c *catalog, list []variant, few bool) (pairs []variant) {
	var onHost []*variant
	for i := range list {
		if list[i].form.Tier.OnHost() {
			onHost = append(onHost, &list[i])
		}
	}
	for i := range list {
		a := &list[i]
		for _, b := range onHost {
			if c.rules.OneTier || a.form != (problem.Form{}) || a.unit != b.unit || !few && a.slices == 1 && b.slices == 1 || !slices.Equal(a.devices, b.devices) {
				continue
			}
			for w := a.narrowest; w <= a.width-b.narrowest; w++ {
				v, rest := a.part(c, w), b.part(c, b.width-w)
				if v.slices > 0 && rest.slices > 0 {
					v.beside, v.hbm, v.host = &rest, v.hbm+rest.hbm, v.host+rest.host
					pairs = append(pairs, v)
				}
			}
		}
	}
	return pairs
}

// part returns the variant of that many units of a table.
func (v variant) part(c *catalog, width int32) variant {
	v.width, v.widest = width, min(v.widest, width)
	v.count(c)
	return v
}

// variantOf returns the variant of an unsplit piece in a form, in units of that many columns.
func variantOf(c *catalog, k int32, form problem.Form, unit int) variant {
	m := c.pieces[k].members[0]
	v := variant{piece: k, form: form, span: spanOf(form), devices: c.pieces[k].devices, unit: unit, width: int32(m.width / unit), narrowest: 1}
	v.widest = v.width
	wide, narrow := k, k
	if len(c.pieces[k].members) == 1 {
		wide, narrow = c.inForm(k, m.width, form), c.inForm(k, unit, form)
	}
	whole, one := &c.pieces[wide], &c.pieces[narrow]
	v.hostEach = one.hostBytes
	units := int32(1)
	if !c.rules.EqualSlices {
		units = v.width
	}
	v.own = byWidthOf(one.own, whole.own, units)
	v.first = byWidthOf(one.own.plus(one.first, 1), whole.own.plus(whole.first, 1), units)
	v.last = byWidthOf(one.own.plus(one.last, 1), whole.own.plus(whole.last, 1), units)
	v.shared = byWidthOf(c.sharedWith(one), c.sharedWith(whole), units)
	if c.rules.EqualSlices {
		if c.rules.OneSlice || v.span != oneDevice {
			v.widest = 1
		}
		return v
	}
	if v.width > 1 {
		v.narrowest = int32(c.least(m.table) / unit)
		v.hostEach = (whole.hostBytes - one.hostBytes) / int64(v.width-1)
		v.hostFixed = one.hostBytes - v.hostEach
	}
	return v
}

// byWidthOf returns the bytes of slices of any width by those of one unit and of width; for a width of one, the same for each
// unit. Those of width are exact. Where the allocator's bytes are rounded up, narrower slices count for up to two bytes a unit
// less, and never more, so that a proof that they do not fit is right.
func byWidthOf(one, all perPhase, width int32) (b byWidth) {
	if width == 1 {
		return byWidth{each: one}
	}
	for f := range one {
		n := int64(width - 1)
		if b.each[f] = (all[f] - one[f]) / n; b.each[f]*n < all[f]-one[f] {
			b.each[f]++
		}
		b.fixed[f] = all[f] - b.each[f]*int64(width)
	}
	return b
}

// count sets the smallest number of places, and the bytes that the table then takes.
func (v *variant) count(c *catalog) {
	widest := int32(0) // any of the devices may have the least memory
	for _, on := range []*byWidth{&v.own, &v.first, &v.last} {
		widest = max(widest, v.widestIn(c.freeOn(v.span), c.hostBudget, on))
	}
	if v.slices = 0; widest < v.narrowest {
		return
	}
	n := (v.width + widest - 1) / widest
	if n*v.narrowest > v.width || int(n) > v.places(c) {
		return
	}
	v.slices = n
	all := func(b *byWidth) int64 { return b.of(v.width).plus(b.fixed, int64(n-1))[c.phase] }
	v.hbm = all(&v.first) + all(&v.last) + int64(c.devicesOf(v.span)-2)*all(&v.own)
	v.host = v.hostBytes(v.width) + int64(n-1)*v.hostFixed
}

// widestIn returns the width of the widest slice that takes at most that many bytes of a device, on which it takes those of on.
func (v *variant) widestIn(free perPhase, host int64, on *byWidth) int32 {
	widest := v.widest
	for f := range free {
		widest = min(widest, widestOf(free[f], on.fixed[f], on.each[f], widest))
	}
	if v.hostEach > 0 {
		widest = min(widest, widestOf(host, v.hostFixed, v.hostEach, v.widest))
	}
	return widest
}

// widestOf returns the width of the widest slice that takes at most budget bytes, up to
// most.
func widestOf(budget, fixed, each int64, most int32) int32 {
	if budget < fixed+each {
		return 0
	}
	if each == 0 {
		return most
	}
	return int32(min((budget-fixed)/each, int64(most)))
}

// places returns the number of places that a slice may lie on: devices, full hosts, or
// one place that is all devices.
func (v *variant) places(c *catalog) int {
	switch v.span {
	case oneHost:
		return len(c.all) / c.problem.Topology.PerHost()
	case everywhere:
		return 1
	}
	if v.devices != nil {
		return len(v.devices)
	}
	return len(c.all)
}

// place returns the device that names place i: the device, or the first one of the host.
func (v *variant) place(c *catalog, i int) int32 {
	switch {
	case v.span == oneHost:
		return int32(i * c.problem.Topology.PerHost())
	case v.devices != nil:
		return v.devices[i]
	}
	return int32(i)
}

// placedSlice is what a place holds of a variant: its width in units and the device that names
// the place.
type placedSlice struct {
	variant       *variant
	device, width int32
}

// spare counts the bytes that each device has left, in HBM and in host memory. They are
// below 0 where slices take more than a device has.
type spare struct {
	c *catalog
	// free are the bytes of HBM beside shared, which every device takes because of the slices, or will take at
	// least for tables that have none yet: coming says how much for each.
	free   []perPhase
	shared perPhase
	coming []perPhase
	host   []int64
}

func newSpare(c *catalog, variants [][]variant) spare {
	s := spare{c: c, free: make([]perPhase, len(c.all)), host: make([]int64, len(c.all)), coming: make([]perPhase, len(variants))}
	for d := range s.free {
		s.free[d], s.host[d] = c.free(int32(d)), c.hostBudget-c.hostShort[d]
	}
	for t, list := range variants {
		for i := range list {
			all := list[i].shared.of(list[i].width)
			if list[i].beside != nil {
				all.add(list[i].beside.shared.of(list[i].beside.width), 1)
			}
			for f := range all {
				if i == 0 || all[f] < s.coming[t][f] {
					s.coming[t][f] = all[f]
				}
			}
		}
		s.shared.add(s.coming[t], 1)
	}
	return s
}

// take counts sign times a slice.
func (l *spare) take(s placedSlice, sign int64) {
	first, last := l.c.endsOf(s.variant.span, s.device)
	for d := first; d <= last; d++ {
		l.free[d].add(s.variant.on(d, first, last).of(s.width), -sign)
	}
	l.shared.add(s.variant.shared.of(s.width), sign)
	if s.variant.hostEach > 0 {
		l.host[s.device] -= sign * s.variant.hostBytes(s.width)
	}
}

// left returns the bytes of HBM that a device has left in the phase where they are the fewest.
func (l *spare) left(device int32) int64 {
	least := int64(math.MaxInt64)
	for f, free := range l.free[device] {
		least = min(least, free-l.shared[f])
	}
	return least
}

// holds reports whether no device exceeds its HBM.
func (l *spare) holds() bool {
	for d := range l.free {
		if l.left(int32(d)) < 0 {
			return false
		}
	}
	return true
}

// widest returns the width of the widest slice that a place has room for.
func (l *spare) widest(v *variant, device int32) int32 {
	first, last := l.c.endsOf(v.span, device)
	widest := v.widest
	for d := first; d <= last; d++ {
		widest = min(widest, v.widestIn(l.free[d].plus(l.shared, -1), l.host[device], v.on(d, first, last)))
	}
	return widest
}

// partsOf returns the slices as placed pieces.
func partsOf(c *catalog, list []placedSlice) (parts []placed) {
	for _, s := range list {
		piece, columns, n := s.variant.piece, int(s.width)*s.variant.unit, 1
		if c.rules.EqualSlices {
			columns, n = s.variant.unit, int(s.width)
		}
		if len(c.pieces[piece].members) == 1 {
			piece = c.inForm(piece, columns, s.variant.form)
		}
		parts = append(parts, slices.Repeat([]placed{{piece, s.device}}, n)...)
	}
	return parts
}

// cheapestIn returns, for each table, the variant with the fewest bytes if a byte of
// host memory counts as much as rate bytes of HBM, and what all of them take. No
// placement takes fewer such bytes.
func cheapestIn(variants [][]variant, rate float64) (chosen []*variant, hbm, host int64) {
	chosen = make([]*variant, len(variants))
	for i, list := range variants {
		least := math.Inf(1)
		for k := range list {
			if bytes := float64(list[k].hbm) + rate*float64(list[k].host); bytes < least {
				chosen[i], least = &list[k], bytes
			}
		}
		hbm, host = hbm+chosen[i].hbm, host+chosen[i].host
	}
	return chosen, hbm, host
}

// rounding is the share of a sum of bytes that rounding errors may make up.
const rounding = 1e-9

const (
	// mostRate is a rate at which no table is in host memory if it has another variant.
	mostRate = 1e12
	// balanceSteps is the number of rates tried: 0, mostRate, and then means of two of them.
	balanceSteps = 62
)

// balanced returns variants of the tables that take few bytes of HBM, and of host memory
// at most a share of what all devices together have. ok is false if a bound proves that
// no placement fits: at some rate, the cheapest variants take more than all memory.
func balanced(c *catalog, variants [][]variant, share float64) (chosen []*variant, rate float64, ok bool) {
	for _, list := range variants {
		if len(list) == 0 {
			return nil, 0, false
		}
	}
	room, hostRoom := float64(c.room()), float64(c.hostRoom())
	low, high, rate := 0.0, mostRate, 0.0
	for step := range balanceSteps {
		now, hbm, host := cheapestIn(variants, rate)
		if float64(hbm)+rate*float64(host) > (room+rate*hostRoom)*(1+rounding) {
			return nil, 0, false
		}
		if float64(host) <= share*hostRoom || rate == mostRate {
			high, chosen = rate, now
		} else {
			low = rate
		}
		if high == 0 {
			break
		}
		if rate = math.Sqrt(max(low, 1e-12) * high); step == 0 {
			rate = mostRate
		}
	}
	return chosen, high, true
}
