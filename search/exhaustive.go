package search

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Stage exhaustive tries all placements of a tiny problem, with undivided operators: every
// way to distribute the columns of each table over the devices. A device may hold several slices of a table:
// they read the same indices several times, but an operator runs as wide as its widest
// slice, so narrow slices of a wide table leave the lanes to the narrow tables beside
// them. Devices of equal memory without constraints are interchangeable, so of the empty ones
// among them only the first one is tried. If the exchange is hierarchical and there are several
// hosts, or if the slices of a table must stay on one host, it matters which devices share a host,
// and all empty devices are tried.
//
//	wide 128       two slices of 64        four slices of 32
//	[device 0]     [device 0][device 0]    [device 0][device 0][device 1][device 1] ...
//
// This takes too long for all but tiny problems, so the number of placements is counted
// before any cost is estimated. If there are too many, but few with at most one slice of
// a table on each device, the search tries those few, and goes on from the cheapest of them.

// exhaustivePlacements is the largest number of placements for which the search tries
// them all.
const exhaustivePlacements = 100_000

// lookAgain is the number of placements tried between two looks at the clock.
const lookAgain = 64

// tryAll tries all placements if their number is small enough, and then sets complete
// in the state: no placement with undivided operators is cheaper under the scorer than the
// best one. Otherwise it tries
// the placements with at most one slice of a table on each device, if their number is
// small enough.
func tryAll(r *run, s *state) {
	c := r.catalog
	whole := c.whole()
	if slices.ContainsFunc(whole, func(k int32) bool { return c.pieces[k].devices != nil || len(c.pieces[k].members) != 1 }) {
		return
	}
	scorer, used := r.scorer(), 0
	apart := hostsDiffer(c, scorer)
	if apart || c.problem.Topology.Uneven() {
		used = len(c.all)
	}
	several := !c.rules.OneSlice && placements(c, whole, used, true) <= exhaustivePlacements
	if !several && !(placements(c, whole, used, false) <= exhaustivePlacements) {
		return
	}
	e := enumeration{
		r: r, c: c, scorer: scorer, whole: whole, several: several,
		cost: math.Inf(1), apart: apart,
	}
	for d := range c.all {
		e.room = append(e.room, c.free(int32(d)))
	}
	if s.best.parts != nil {
		e.cost = s.best.cost
	}
	e.scorer.Reset()
	ended := !e.table(0, used)
	r.stats.Evaluations += e.evaluations
	if e.best != nil {
		s.best = r.offer(s.best, e.best)
	}
	e.scorer.Reset()
	if ended {
		r.cutShort()
	}
	s.complete = (several || c.rules.OneSlice) && !c.rules.NoIdle && !ended
}

// hostsDiffer reports whether it matters which devices share a host: for exchanges, or for tables
// that must stay on one host.
func hostsDiffer(c *catalog, scorer Scorer) bool {
	h := hierarchyOf(scorer)
	return c.onHost != nil || h != nil && h.HostSize() < len(c.all)
}

// placements returns the number of placements that an enumeration visits if all of them
// fit, or a number above exhaustivePlacements if they are more than that. It counts table
// by table: ways[u] is the number of ways to place the tables so far on the first u
// devices with none of these empty, where the first inUse devices never count as empty. The sum of ways never falls, so the count ends early.
func placements(c *catalog, whole []int32, inUse int, several bool) float64 {
	ways, next, sum := make([]float64, inUse+1), []float64(nil), 1.0
	ways[inUse] = 1
	for _, k := range whole {
		m := c.pieces[k].members[0]
		n := newDistributions(m.width/problem.ColumnGranule, c.least(m.table)/problem.ColumnGranule, several)
		if n.on(1, 0) > exhaustivePlacements {
			return math.Inf(1)
		}
		most := min(len(c.all), len(ways)-1+n.most)
		next, sum = make([]float64, most+1), 0
		for used, before := range ways {
			for opened := 0; before > 0 && used+opened <= most && opened <= n.most; opened++ {
				more := before * n.on(used, opened)
				next[used+opened] += more
				if sum += more; sum > exhaustivePlacements {
					return sum
				}
			}
		}
		ways = next
	}
	return sum
}

// distributions counts the ways to distribute the columns of a table over devices. The
// counts are coefficients of power series, where the exponent is the number of granules.
type distributions struct {
	units int
	// most is the largest number of devices that can hold slices of the table.
	most int
	// one is the series of one device that holds at least a slice: the number of multisets
	// of slices, or 1 for each width if a device holds at most one slice.
	one []float64
	// opened[k] is the series of k devices that all hold a slice.
	opened [][]float64
}

// newDistributions counts slices of a table of the given granules that have at least the
// least number of granules each. The unsplit table counts even if it is narrower than
// least. If several is true, a device may hold several slices.
func newDistributions(units, least int, several bool) *distributions {
	d := &distributions{units: units, most: max(1, units/least), one: make([]float64, units+1)}
	if least > units {
		least = units
	}
	if !several {
		for width := least; width <= units; width++ {
			d.one[width] = 1
		}
	} else {
		d.one[0] = 1
		for width := least; width <= units && d.one[units] <= exhaustivePlacements; width++ {
			for sum := width; sum <= units; sum++ {
				d.one[sum] += d.one[sum-width]
			}
		}
		d.one[0] = 0
	}
	d.opened = [][]float64{make([]float64, units+1)}
	d.opened[0][0] = 1
	return d
}

// on returns the number of distributions over two sets of devices: used devices that may
// stay without a slice of the table, and opened devices that all hold one.
func (d *distributions) on(used, opened int) float64 {
	sum, choose := 0.0, 1.0
	for k := 0; k <= used && k+opened <= d.most; k++ {
		sum += choose * d.over(k+opened)
		choose *= float64(used-k) / float64(k+1)
	}
	return sum
}

// over returns the number of distributions over n devices that all hold slices.
func (d *distributions) over(n int) float64 {
	for len(d.opened) <= n {
		last, next := d.opened[len(d.opened)-1], make([]float64, d.units+1)
		for i, ways := range last {
			if ways == 0 {
				continue
			}
			for j, more := range d.one[:d.units-i+1] {
				next[i+j] += ways * more
			}
		}
		d.opened = append(d.opened, next)
	}
	return d.opened[n][d.units]
}

// enumeration is a walk through all placements.
type enumeration struct {
	r      *run
	c      *catalog
	scorer Scorer
	whole  []int32
	// several says that a device may hold several slices of a table.
	several bool
	// apart says that each empty device is tried, and not only the first of equal ones.
	apart  bool
	room   []int64
	placed []placed
	// best is the cheapest placement found, or nil if none is cheaper than the first cost.
	best        []placed
	cost        float64
	evaluations int64
}

// table places the tables from i on, with that number of devices that are in use or count as
// in use. It returns
// false if the search was ended.
func (e *enumeration) table(i, used int) bool {
	if i == len(e.whole) {
		e.evaluations += int64(len(e.room))
		if cost := e.scorer.Cost(); cost < e.cost {
			e.cost, e.best = cost, append(e.best[:0], e.placed...)
		}
		return !(len(e.placed) > 0 && e.evaluations%(lookAgain*int64(len(e.room))) == 0 && e.r.ended())
	}
	width := e.c.pieces[e.whole[i]].members[0].width
	return e.slice(i, width, 0, width, used)
}

// slice places the remaining columns of table i on the devices from number from on. On
// the first of these, a slice has at most widest columns: slices of a table on one device
// come in falling order, so that each set of slices is tried once.
func (e *enumeration) slice(i, columns, from, widest, used int) bool {
	if columns == 0 {
		return e.table(i+1, used)
	}
	whole := e.whole[i]
	m := e.c.pieces[whole].members[0]
	least := e.c.least(m.table)
	for d := e.next(from); d < min(used+1, len(e.room)); d = e.next(d + 1) {
		first := columns
		if d == from {
			first = min(columns, widest)
		}
		for width := first; width > 0; width -= problem.ColumnGranule {
			rest := columns - width
			if width != m.width && (width < least || rest > 0 && rest < least) {
				continue
			}
			if !e.even(m, columns, width) {
				continue
			}
			if rest > 0 && !e.several && d == len(e.room)-1 {
				break // no device is left for the rest
			}
			piece := e.c.slice(whole, width)
			if !e.takes(piece, d, columns < m.width) {
				continue
			}
			e.c.register(&e.c.pieces[piece])
			item, bytes := e.c.pieces[piece].members[0].item, e.c.pieces[piece].bytes
			e.room[d] -= bytes
			e.scorer.Add(d, item)
			e.placed = append(e.placed, placed{piece, int32(d)})
			going := e.slice(i, rest, d, e.after(width), max(used, d+1))
			e.placed = e.placed[:len(e.placed)-1]
			e.scorer.Remove(d, item)
			e.room[d] += bytes
			if !going {
				return false
			}
		}
	}
	return true
}

// takes reports whether device d has room for a piece. If further is true, the slice placed last is
// of the same table, and the piece must be allowed on d beside this slice.
func (e *enumeration) takes(piece int32, d int, further bool) bool {
	k := &e.c.pieces[piece]
	return k.bytes <= e.room[d] && !(further && strays(e.c, k, int32(d), e.placed[len(e.placed)-1].device))
}

// next returns the first device, counted from number from, that must be tried.
func (e *enumeration) next(from int) int {
	for !e.apart && from < len(e.room) && e.stoodFor(from) {
		from++
	}
	return from
}

// stoodFor reports whether a device is empty and need not be tried, because a device before it is
// empty and has the same memory and the same fixed compute.
func (e *enumeration) stoodFor(device int) bool {
	c := e.c
	empty := func(d int) bool { return e.room[d] == c.free(int32(d)) }
	for d := range device {
		if empty(d) && c.short[d] == c.short[device] && c.base[d] == c.base[device] {
			return empty(device)
		}
	}
	return false
}

// even reports whether a table whose remaining columns are given may get a slice of that
// width: if all its slices must have the same width, the first slice decides.
func (e *enumeration) even(m member, columns, width int) bool {
	switch {
	case !e.c.rules.EqualSlices:
		return true
	case columns == e.c.problem.Tables[m.table].Dim:
		return e.c.problem.Tables[m.table].AllowsWidth(width)
	}
	last := e.placed[len(e.placed)-1].piece
	return width == e.c.pieces[last].members[0].width
}

// after returns the most columns of the next slice of a table on a device that got a
// slice of the given width, 0 if the device may hold no other.
func (e *enumeration) after(width int) int {
	if e.several {
		return width
	}
	return 0
}
