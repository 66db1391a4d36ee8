package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// A table has one packable for each form that it may take: its variants. The stage fill
// chooses a variant of each table so that all tables fit:
//
//	variant         its slices lie on
//	slices in HBM   devices
//	host memory     devices, with all rows in host memory and no cache; with the smallest cache
//	                if the table must have one
//	blocks          hosts: table_row_wise, or grid
//	on all devices  one slice on all devices: row_wise or data_parallel
//
// Other forms need no variant. A cache takes HBM, and saves no host memory. Of the forms
// on all devices, the form with the fewest bytes leaves most room to all other tables.
// The stage gives each table one form, because no known engine runs slices of a table in
// several tiers (problem.EngineRules). Later stages may change the tier of single slices.

// variant is a packable in one form. fixed, each and the widths mean what they mean in
// the packable; the bytes are those of each device that holds the slice.
type variant struct {
	packable
	form problem.Form
	span span
	// A slice of w granules takes hostFixed + hostEach * w bytes of host memory.
	hostFixed, hostEach int64
	// slices is the smallest number of slices that fit, and hbm and host are the bytes
	// that these slices take of all devices together: no placement takes fewer.
	slices    int32
	hbm, host int64
}

func (v *variant) hostBytes(width int32) int64 { return v.hostFixed + v.hostEach*int64(width) }

// variantsOf returns the variants of each table or co-location that fit empty devices.
// The list of a table without such a variant is empty.
func variantsOf(c *catalog, f *forms) [][]variant {
	whole := c.whole()
	all := make([][]variant, len(whole))
	for i, k := range whole {
		var list []variant
		add := func(v variant) {
			if c.rules.EqualSlices {
				v.narrowest = v.width // the slices would have any width
			}
			for _, v := range hostVariants(c, v) {
				if v.count(c) {
					list = append(list, v)
				}
			}
		}
		if !f.barred[c.pieces[k].members[0].table] {
			add(variant{packable: packableOf(c, k)})
		}
		if members := c.pieces[k].members; len(members) == 1 {
			choices := f.choices[members[0].table]
			cached := slices.Contains(choices, problem.Form{Tier: problem.Host})
			for _, form := range choices {
				if form.Tier != problem.HostCached || !cached {
					add(variantIn(c, f, k, form))
				}
				cached = cached || form.Tier == problem.HostCached
			}
		}
		slices.SortStableFunc(list, func(a, b variant) int { return cmp.Compare(a.hbm, b.hbm) })
		shared := 0
		all[i] = slices.DeleteFunc(list, func(v variant) bool {
			if v.span == everywhere {
				shared++
			}
			return v.span == everywhere && shared > 1
		})
	}
	return all
}

// hostVariants returns a variant as it is. If the slices of its table must stay on one host, it
// returns instead a variant that is not cut, and one on the devices of each host.
func hostVariants(c *catalog, v variant) []variant {
	members := c.pieces[v.piece].members
	if c.onHost == nil || !c.onHost[members[0].table] || v.span != oneDevice || v.narrowest == v.width {
		return []variant{v}
	}
	whole := v
	whole.narrowest = v.width
	list := []variant{whole}
	for h := range int32(c.problem.Topology.Hosts()) {
		on := v
		on.devices = onHostOf(c, h, c.allowed(&c.pieces[v.piece]))
		list = append(list, on)
	}
	return list
}

// variantIn returns the variant of an unsplit piece of one table in a form other than
// the zero form.
func variantIn(c *catalog, f *forms, k int32, form problem.Form) variant {
	const g = problem.ColumnGranule
	m := c.pieces[k].members[0]
	v := variant{form: form, span: spanOf(form), packable: packable{piece: k, width: int32(m.width / g), devices: c.pieces[k].devices}}
	v.narrowest = int32(c.least(m.table) / g)
	if v.span == everywhere || v.span == oneHost && !f.sliced[m.table] {
		v.narrowest = v.width
	}
	// Both pieces are registered before either is looked at: registering moves pieces.
	wide, least := c.inForm(k, m.width, form), c.inForm(k, g, form)
	whole, narrow := &c.pieces[wide], &c.pieces[least]
	v.each, v.hostEach = whole.bytes, whole.hostBytes
	if v.width > 1 {
		v.each = (whole.bytes - narrow.bytes) / int64(v.width-1)
		v.hostEach = (whole.hostBytes - narrow.hostBytes) / int64(v.width-1)
	}
	v.fixed, v.hostFixed = narrow.bytes-v.each, narrow.hostBytes-v.hostEach
	return v
}

// count sets the smallest number of slices and their bytes. It returns false if the
// slices do not fit empty devices.
func (v *variant) count(c *catalog) bool {
	widest := widestOf(c.freeOn(v.span), v.fixed, v.each, v.width)
	if v.hostEach > 0 {
		widest = min(widest, widestOf(c.hostBudget, v.hostFixed, v.hostEach, v.width))
	}
	if widest < v.narrowest {
		return false
	}
	v.slices = (v.width + widest - 1) / widest
	n := int64(v.slices)
	devices := int64(c.devicesOf(v.span))
	v.hbm = devices * (v.bytes(v.width) + (n-1)*v.fixed)
	v.host = v.hostBytes(v.width) + (n-1)*v.hostFixed
	return v.slices*v.narrowest <= v.width && int(v.slices) <= v.places(c)
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

// placedSlice is a slice of a variant: its width in granules and the device that names
// its place.
type placedSlice struct {
	variant       *variant
	device, width int32
}

// spare counts the bytes that each device has left, in HBM and in host memory. They are
// below 0 where slices take more than a device has.
type spare struct {
	c          *catalog
	free, host []int64
}

func newSpare(c *catalog) spare {
	s := spare{c: c, free: make([]int64, len(c.all)), host: make([]int64, len(c.all))}
	s.clear()
	return s
}

// clear takes all slices off the devices.
func (l *spare) clear() {
	for d := range l.free {
		l.free[d], l.host[d] = l.c.free(int32(d)), l.c.hostBudget-l.c.hostShort[d]
	}
}

// take counts sign times a slice.
func (l *spare) take(s placedSlice, sign int64) {
	bytes := sign * s.variant.bytes(s.width)
	l.c.eachOf(s.variant.span, s.device, func(_ int, d int32) { l.free[d] -= bytes })
	if s.variant.hostEach > 0 {
		l.host[s.device] -= sign * s.variant.hostBytes(s.width)
	}
}

// widest returns the width of the widest slice that a place has room for.
func (l *spare) widest(v *variant, device int32) int32 {
	free := l.free[device]
	l.c.eachOf(v.span, device, func(_ int, d int32) { free = min(free, l.free[d]) })
	widest := widestOf(free, v.fixed, v.each, v.width)
	if v.hostEach > 0 {
		widest = min(widest, widestOf(l.host[device], v.hostFixed, v.hostEach, v.width))
	}
	return widest
}

// partsOf returns the slices as placed pieces.
func partsOf(c *catalog, list []placedSlice) []placed {
	parts := make([]placed, len(list))
	for i, s := range list {
		piece := s.variant.piece
		if len(c.pieces[piece].members) == 1 {
			piece = c.inForm(piece, int(s.width)*problem.ColumnGranule, s.variant.form)
		}
		parts[i] = placed{piece, s.device}
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

// mostRate is a rate at which no table is in host memory if it has another variant.
const mostRate = 1e12

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
	proven := func(rate float64, hbm, host int64) bool {
		const rounding = 1e-9
		return float64(hbm)+rate*float64(host) > (room+rate*hostRoom)*(1+rounding)
	}
	low, high := 0.0, mostRate
	chosen, hbm, host := cheapestIn(variants, low)
	if proven(low, hbm, host) {
		return nil, 0, false
	}
	if float64(host) <= share*hostRoom {
		return chosen, 0, true
	}
	chosen, hbm, host = cheapestIn(variants, high)
	if proven(high, hbm, host) {
		return nil, 0, false
	}
	for range 60 {
		middle := math.Sqrt(max(low, 1e-12) * high)
		now, hbm, host := cheapestIn(variants, middle)
		if proven(middle, hbm, host) {
			return nil, 0, false
		}
		if float64(host) > share*hostRoom {
			low = middle
		} else {
			high, chosen = middle, now
		}
	}
	return chosen, high, true
}
