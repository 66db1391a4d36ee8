package search

import (
	"cmp"
	"math"
	"slices"
)

// A walk tries all placements of the variants of some tables (variants.go): table by table each variant, and for each of these all
// widths of slices on all places. It leaves out
//
//	variants that take more bytes than all devices have left
//	devices that another device stands for, because both have the same room and are alike
//
// A walk by bytes alone (roomFor) also leaves out states with the same room as one that it tried before. The exhaustive search counts
// placements by one walk, and estimates their costs by another one.
//
//	wide 128       two slices of 64        four slices of 32
//	[device 0]     [device 0][device 0]    [device 0][device 0][device 1][device 1] ...

// lookAgain is the number of steps between two looks at the clock.
const lookAgain = 64

// walk is a walk through all placements. Each step places a slice.
type walk struct {
	spare
	variants [][]variant
	// visit is called for each placement, which are the slices; the walk ends if it returns false.
	visit  func() bool
	slices []placedSlice
	// several says that a device may hold several slices of a table.
	several bool
	// class is the same for devices that are alike: they may change places with all that they hold.
	class []int32
	// bounds say what variants[i:] take at least: of HBM, of host memory, and of both together.
	bounds []bound
	// failed holds the states that have no placement, by hash; nil if more than bytes matters.
	failed map[uint64]bool
	// put, if it is not nil, is called for each slice that comes (sign 1) or goes (sign -1).
	put func(s placedSlice, sign int)
	// steps are left. ended ends the walk, too.
	steps int
	ended func() bool
}

// newWalk returns a walk of some steps. alike reports whether two devices are alike, if no table is limited to devices.
func newWalk(c *catalog, variants [][]variant, steps int, ended func() bool, alike func(a, b int32) bool) *walk {
	w := &walk{spare: newSpare(c, variants), variants: variants, steps: steps, ended: ended, class: slices.Clone(c.all)}
	_, rate, _ := balanced(c, variants, 1)
	for _, b := range []bound{{hbm: 1}, {host: 1}, {hbm: 1, host: rate}} {
		b.least = make([]float64, len(variants)+1)
		for i, list := range slices.Backward(variants) {
			cheapest := math.Inf(1)
			for k := range list {
				cheapest = min(cheapest, b.of(list[k].hbm, list[k].host))
			}
			b.least[i] = b.least[i+1] + cheapest
		}
		w.bounds = append(w.bounds, b)
	}
	limited := func(list []variant) bool {
		return slices.ContainsFunc(list, func(v variant) bool { return v.devices != nil })
	}
	if slices.ContainsFunc(variants, limited) {
		return w
	}
	for d := range w.class {
		w.class[d] = int32(slices.IndexFunc(c.all, func(other int32) bool { return other == int32(d) || alike(other, int32(d)) }))
	}
	return w
}

// bound is a bound on the weighted bytes of HBM and host memory: variants[i:] take least[i] such bytes at least.
type bound struct {
	hbm, host float64
	least     []float64
}

func (b bound) of(hbm, host int64) float64 { return b.hbm*float64(hbm) + b.host*float64(host) }

// full reports whether a variant of table i and the tables after it take more bytes than all devices have left.
func (w *walk) full(i int, v *variant) bool {
	hbm, host := w.total()-v.hbm, sum(w.host)-v.host
	return slices.ContainsFunc(w.bounds, func(b bound) bool { return b.least[i+1] > b.of(hbm, host)+rounding*b.least[0] })
}

// table places variants[i:]. It returns false if the walk ended before it tried all placements.
func (w *walk) table(i int) bool {
	if i == len(w.variants) {
		return !w.holds() || w.visit()
	}
	w.shared.add(w.coming[i], -1)
	defer w.shared.add(w.coming[i], 1)
	state := uint64(0)
	if w.failed != nil {
		if state = w.state(i); w.failed[state] {
			return true
		}
	}
	for k := range w.variants[i] {
		if v := &w.variants[i][k]; !w.full(i, v) && !w.share(i, v, v.width, 0, v.widest) {
			return false
		}
	}
	if w.failed != nil {
		w.failed[state] = true
	}
	return true
}

// share places the last units of a variant of table i on the places from number from on, at most widest of them on the first
// of these, and then the tables after it. Slices on one device come in falling order, so that each set is tried once.
func (w *walk) share(i int, v *variant, rest int32, from int, widest int32) bool {
	if rest == 0 && v.beside != nil {
		return w.share(i, v.beside, v.beside.width, 0, v.beside.widest)
	} else if rest == 0 {
		return w.table(i + 1)
	}
	for at := from; at < v.places(w.c); at++ {
		device := v.place(w.c, at)
		if w.stoodFor(v, from, at) {
			continue
		}
		most := min(w.widest(v, device), rest)
		next, then := at+1, v.widest
		if at == from {
			most = min(most, widest)
		}
		for width := most; width >= v.narrowest; width-- {
			if left := rest - width; left > 0 && left < v.narrowest {
				continue
			}
			if w.several {
				next, then = at, width
			}
			w.count(placedSlice{v, device, width}, 1)
			going := w.steps > 0 && w.share(i, v, rest-width, next, then)
			w.count(placedSlice{v, device, width}, -1)
			if !going {
				return false
			}
		}
	}
	return true
}

// count places a slice if sign is 1, and takes off the slice that was placed last if sign is -1.
func (w *walk) count(s placedSlice, sign int) {
	w.take(s, int64(sign))
	if w.put != nil {
		w.put(s, sign)
	}
	if sign < 0 {
		w.slices = w.slices[:len(w.slices)-1]
		return
	}
	w.slices = append(w.slices, s)
	if w.steps--; w.steps%lookAgain == 0 && w.ended() {
		w.steps = 0
	}
}

// stoodFor reports whether a place need not be tried for a slice, because one of the places from number from on is alike. If more
// than bytes matters, both must be empty.
func (w *walk) stoodFor(v *variant, from, at int) bool {
	d := v.place(w.c, at)
	if v.span != oneDevice || w.failed == nil && w.free[d] != w.c.free(d) {
		return false
	}
	for at--; at >= from; at-- {
		e := v.place(w.c, at)
		if w.class[e] == w.class[d] && w.free[e] == w.free[d] && w.host[e] == w.host[d] && (w.failed != nil || w.free[e] == w.c.free(e)) {
			return true
		}
	}
	return false
}

// state returns a hash of what is left to place and of the room for it. The order of devices that are alike does not change it.
func (w *walk) state(i int) uint64 {
	rooms := make([]room, len(w.free))
	for d := range rooms {
		rooms[d] = room{w.class[d], w.free[d], w.host[d]}
	}
	slices.SortFunc(rooms, func(a, b room) int {
		return cmp.Or(cmp.Compare(a.class, b.class), slices.Compare(a.free[:], b.free[:]), cmp.Compare(a.host, b.host))
	})
	hash := uint64(i)
	mix := func(x int64) {
		hash = (hash ^ uint64(x)) * 0x9e3779b97f4a7c15
		hash ^= hash >> 29
	}
	for _, bytes := range w.shared {
		mix(bytes)
	}
	for _, r := range rooms {
		mix(int64(r.class))
		for _, bytes := range r.free {
			mix(bytes)
		}
		mix(r.host)
	}
	return hash
}

// room is what a device has left.
type room struct {
	class int32
	free  perPhase
	host  int64
}

// total returns the bytes of HBM that all devices have left in the catalog's phase.
func (w *walk) total() (sum int64) {
	for d := range w.free {
		sum += w.free[d][w.c.phase]
	}
	return sum
}

// roomSteps is the most steps of a walk by bytes alone on few devices (stepsOn).
const roomSteps = 4_000_000

// stepsOn returns the most steps of a walk on a number of devices: a share of those on up to fewDevices, because a step may
// compare each pair of devices.
func stepsOn(devices, most int) int {
	const fewDevices = 8
	times := max(1, devices/fewDevices)
	return most / (times * times)
}

// roomFor tries all placements of a small problem by bytes alone, the tables with the largest slices first. known is true if it
// tried all of them, or found one that fits.
func roomFor(c *catalog, variants [][]variant, ended func() bool) (found []placedSlice, known bool) {
	steps := stepsOn(len(c.all), roomSteps)
	if steps == 0 {
		return nil, false
	}
	size := func(list []variant) int64 {
		return list[0].own.of(list[0].least())[c.phase] + list[0].hostBytes(list[0].least())
	}
	largest := slices.Clone(variants)
	slices.SortStableFunc(largest, func(a, b []variant) int { return cmp.Compare(size(b), size(a)) })
	uneven := slices.ContainsFunc(slices.Concat(variants...), func(v variant) bool { return v.first != v.own || v.last != v.own })
	w := newWalk(c, largest, steps, ended, func(a, b int32) bool {
		// The first and the last block of rows take other bytes of the first and the last device of a host.
		first, last := c.endsOf(oneHost, a)
		return hostOf(c, a) == hostOf(c, b) && !(uneven && (a == first || a == last || b == first || b == last))
	})
	w.failed = map[uint64]bool{}
	w.visit = func() bool {
		found = slices.Clone(w.slices)
		return false
	}
	known = w.table(0) || found != nil
	return found, known
}
