package search

import (
	"cmp"
	"math"
	"slices"
)

// The exhaustive search for room tries all placements of a small problem, by bytes
// alone. First it lists the choices of a variant for each table. Then, for each choice,
// it places table by table: on one device, on any two devices with any widths, and so
// on. It leaves out
//
//	choices that take more bytes than all devices have
//	devices that have the same room as the device before them
//	states with the same room as a state that it tried before, devices in any order
//
// The search leaves a choice after some steps. When it has left all choices, it tries each
// of them again, with more steps.

const (
	// mostChoices is the largest number of choices of variants that are tried, and
	// choiceLooks the most steps for listing the choices.
	mostChoices, choiceLooks = 1 << 14, 1 << 18
	// roomSteps is the most steps of the exhaustive search; a step looks at
	// one place for a slice.
	roomSteps = 4_000_000
	// firstSteps is the number of steps for each choice in the first round; each round has
	// stepsGrow times the number of the round before it.
	firstSteps, stepsGrow = 2_000, 8
)

// roomSearch is the exhaustive search for room.
type roomSearch struct {
	spare
	// items are the variants to place, and hbm and needHost the bytes of items[i:] at
	// least.
	items         []*variant
	hbm, needHost []int64
	// slices are placed so far.
	slices []placedSlice
	// failed holds the states that have no placement, by hash.
	failed map[uint64]bool
	// alike is false if tables are limited to devices, so that these are no longer alike.
	alike bool
	// steps are left for this choice; all counts the steps of the search.
	steps, all int
	// scratch is for hashes.
	scratch [][2]int64
}

// roomFor searches all placements of a small problem. known is true if it tried all of
// them, or found one that fits.
func roomFor(c *catalog, variants [][]variant, ended func() bool) (found []placedSlice, known bool) {
	choices, all := choicesOfVariants(c, variants)
	if !all {
		return nil, false
	}
	e := &roomSearch{spare: newSpare(c), alike: true}
	for _, v := range slices.Concat(variants...) {
		e.alike = e.alike && v.devices == nil
	}
	for steps := firstSteps; len(choices) > 0; steps *= stepsGrow {
		var open [][]*variant
		for _, choice := range choices {
			if e.all >= roomSteps || ended() {
				return nil, false
			}
			e.begin(choice, steps)
			if e.place(0) {
				return e.slices, true
			}
			if e.steps < 0 {
				open = append(open, choice)
			}
		}
		choices = open
	}
	return nil, true
}

// choicesOfVariants lists the choices of a variant for each table that do not take more
// than all devices have, the ones that leave most room first. all is false if there are
// more than mostChoices.
func choicesOfVariants(c *catalog, variants [][]variant) (choices [][]*variant, all bool) {
	n := len(variants)
	room, hostRoom := int64(c.room()), c.hostRoom()
	hbm, host := make([]int64, n+1), make([]int64, n+1) // the least of the tables from i on
	for i := n - 1; i >= 0; i-- {
		hbm[i], host[i] = math.MaxInt64, math.MaxInt64
		for _, v := range variants[i] {
			hbm[i], host[i] = min(hbm[i], hbm[i+1]+v.hbm), min(host[i], host[i+1]+v.host)
		}
	}
	full := map[*[]*variant]float64{}
	var lists []*[]*variant
	choice := make([]*variant, n)
	looks := 0
	var choose func(i int, taken, takenHost int64) bool
	choose = func(i int, taken, takenHost int64) bool {
		if looks++; looks > choiceLooks {
			return false
		}
		if taken+hbm[i] > room || takenHost+host[i] > hostRoom {
			return true
		}
		if i == n {
			list := slices.Clone(choice)
			lists, full[&list] = append(lists, &list), max(float64(taken)/float64(room), float64(takenHost)/float64(max(1, hostRoom)))
			return len(lists) <= mostChoices
		}
		for k := range variants[i] {
			v := &variants[i][k]
			if choice[i] = v; !choose(i+1, taken+v.hbm, takenHost+v.host) {
				return false
			}
		}
		return true
	}
	all = choose(0, 0, 0)
	slices.SortStableFunc(lists, func(a, b *[]*variant) int { return cmp.Compare(full[a], full[b]) })
	for _, list := range lists {
		choices = append(choices, *list)
	}
	return choices, all
}

// begin prepares the search of one choice: it takes the bytes of the variants that lie
// on all devices, and lists the others.
func (e *roomSearch) begin(choice []*variant, steps int) {
	e.slices, e.items, e.failed, e.steps = e.slices[:0], e.items[:0], map[uint64]bool{}, steps
	e.clear()
	for _, v := range choice {
		if v.span == everywhere {
			e.put(placedSlice{v, 0, v.width})
		} else {
			e.items = append(e.items, v)
		}
		if v.beside != nil {
			e.items = append(e.items, v.beside)
		}
	}
	slices.SortStableFunc(e.items, func(a, b *variant) int {
		return cmp.Or(
			cmp.Compare(b.span, a.span),
			cmp.Compare(a.places(e.c), b.places(e.c)),
			cmp.Compare(b.bytes(b.least())+b.hostBytes(b.least()), a.bytes(a.least())+a.hostBytes(a.least())),
		)
	})
	n := len(e.items)
	e.hbm, e.needHost = make([]int64, n+1), make([]int64, n+1)
	for i := n - 1; i >= 0; i-- {
		v := e.items[i]
		e.hbm[i], e.needHost[i] = e.hbm[i+1]+v.hbm, e.needHost[i+1]+v.host
		if v.beside != nil { // it is an item of its own
			e.hbm[i], e.needHost[i] = e.hbm[i]-v.beside.hbm, e.needHost[i]-v.beside.host
		}
	}
}

// put places a slice, and pull takes off the slice that was placed last.
func (e *roomSearch) put(s placedSlice) {
	e.take(s, 1)
	e.slices = append(e.slices, s)
}

func (e *roomSearch) pull() {
	last := len(e.slices) - 1
	e.take(e.slices[last], -1)
	e.slices = e.slices[:last]
}

// place places items[i:], and reports whether they fit.
func (e *roomSearch) place(i int) bool {
	if e.steps < 0 || !e.plausible(i) {
		return false
	}
	if i == len(e.items) {
		return true
	}
	state := e.state(i)
	if e.failed[state] {
		return false
	}
	v := e.items[i]
	for n := v.slices; n*v.narrowest <= v.width && int(n) <= v.places(e.c); n++ {
		if e.share(i, 0, v.width, n) {
			return true
		}
	}
	if e.steps >= 0 {
		e.failed[state] = true
	}
	return false
}

// plausible reports whether items[i:] take no more bytes than all devices have left.
func (e *roomSearch) plausible(i int) bool {
	hbm, host := -e.hbm[i], -e.needHost[i]
	for d := range e.free {
		if e.free[d] < 0 {
			return false
		}
		hbm, host = hbm+e.free[d], host+e.host[d]
	}
	return hbm >= 0 && host >= 0
}

// share places the last columns of items[i], width granules in n slices, on the places
// from number from on, and then the items after it.
func (e *roomSearch) share(i, from int, width, n int32) bool {
	v := e.items[i]
	if n == 0 {
		return e.place(i + 1)
	}
	for at := from; at <= v.places(e.c)-int(n) && e.steps >= 0; at++ {
		e.steps--
		e.all++
		device := v.place(e.c, at)
		if at > from && e.sameRoom(v, v.place(e.c, at-1), device) {
			continue
		}
		most := min(e.widest(v, device), width-(n-1)*v.narrowest)
		least := v.narrowest
		if n == 1 {
			least = width
		}
		for w := most; w >= least; w-- {
			e.put(placedSlice{v, device, w})
			if e.share(i, at+1, width-w, n-1) {
				return true
			}
			e.pull()
			if e.steps < 0 {
				return false
			}
		}
	}
	return false
}

// sameRoom reports whether two places have the same room for a slice and for all that
// comes later.
func (e *roomSearch) sameRoom(v *variant, a, b int32) bool {
	if !e.alike || v.span != oneDevice {
		return false
	}
	local := int32(e.c.problem.Topology.PerHost())
	return a/local == b/local && e.free[a] == e.free[b] && e.host[a] == e.host[b]
}

// state returns a hash of what is left to place and of the room for it. If the devices
// are alike, their order within a host does not change the hash. The last device of a host is not, while blocks are to be placed.
func (e *roomSearch) state(i int) uint64 {
	local := e.c.problem.Topology.PerHost()
	e.scratch = e.scratch[:0]
	for d := range e.free {
		e.scratch = append(e.scratch, [2]int64{e.free[d], e.host[d]})
	}
	if e.alike && (i == len(e.items) || e.items[i].span == oneDevice) {
		for host := range slices.Chunk(e.scratch, local) {
			slices.SortFunc(host, func(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
		}
	}
	hash := uint64(i)
	for _, room := range e.scratch {
		for _, bytes := range room {
			hash = (hash ^ uint64(bytes)) * 0x9e3779b97f4a7c15
			hash ^= hash >> 29
		}
	}
	return hash
}
