package bound

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// guests.go divides the placements by the number of slices of the hottest tables:
//
//	all placements
//	  |- table 6 in 1 slice
//	  |     |- table 2 in 1 slice
//	  |     `- table 2 in 2 slices, or more
//	  |- table 6 in 2 slices
//	  `- table 6 in 3 slices, or more
//
// The relaxation of node.go spreads a slice over the devices of a mode in fractions, so the slice
// fills none of them and overlaps with other tables on all of them. A slice of a hot table fills
// most of one device. A table is a guest if no device has room for two slices of it, in the
// times that the bound is about. If a guest is cut into m slices, exactly m devices hold one each.
// These devices are a class of their own, as in memories.go: slices of the guest lie in the modes
// of this class only, and slices of other guests in no mode of it. So the class has exactly the
// time of m devices for m slices of the guest and for what lies beside them, and m fewer
// devices are left for the rest.
//
// Two slices of hot tables take at least the norms of the sums of their least loads (together).
// Below that time, the limit of a tree, the argument holds. So no part of the tree gets a higher
// bound than its limit by this argument.
//
// A table of G granules in m slices has a slice of G/m granules or more. So placements with m
// slices take at least the time of that slice.

const (
	// The work on guests follows the work on the tree without guests, which ends after
	// fruitlessBefore prices of tables that do not raise the bound. The work on guests ends after
	// guestVisits prices, each counted once for each class of devices, or after guestTimes times the
	// prices of the tree without guests if these are fewer. The work on one number of slices of a
	// guest ends after guestShare prices, or after fruitlessGuest that do not raise its bound.
	guestVisits, guestShare, fruitlessGuest = 60_000, 40_000, 14_000
	// With one operator on each device fruitlessOfOne takes the place of fruitlessBefore, because
	// the prices settle later.
	guestTimes, fruitlessBefore, fruitlessOfOne = 10, 10_000, 20_000
	// A table is a guest only if the limit is at least the bound on the longest compute times
	// guestRoom.
	guestRoom = 1.1
	// mostPieces is the number of slices, above the fewest with short enough slices, from which
	// on placements with more slices count together.
	mostPieces = 4
	// Problems with more than mostGuestTables different tables, or more than mostGuestDevices devices,
	// have no guests.
	mostGuestTables, mostGuestDevices = 250, 64
)

// cutter finds the cheapest cut into a number of slices. It holds the results by the number of slices.
type cutter []cuts

// cuts holds, by granules, the least price of a cut into a number of slices, and the first slice of
// that cut.
type cuts struct {
	price [maxGranules + 1]float64
	first [maxGranules + 1]int
}

// least returns the least price of cutting t into exactly t.pieces slices, or into at least
// these if t is no guest. single has the prices of single slices, by granules.
func (k *cutter) least(t *table, single []float64) float64 {
	for len(*k) <= t.pieces {
		*k = append(*k, cuts{})
	}
	for n := 1; n <= t.pieces; n++ {
		c, rest := &(*k)[n], &(*k)[n-1]
		if n == 1 {
			rest = c
		}
		for g := 1; g <= t.granules; g++ {
			best, first := math.Inf(1), 0
			if n == 1 {
				best, first = single[g], g
			}
			if n > 1 || t.guest == 0 {
				for w := t.least; w < g; w++ {
					if v := rest.price[g-w] + single[w]; v < best {
						best, first = v, w
					}
				}
			}
			c.price[g], c.first[g] = best, first
		}
	}
	return (*k)[t.pieces].price[t.granules]
}

// each calls give with the granules of each slice of the cut that least found.
func (k cutter) each(t *table, give func(granules int)) {
	for n, g := t.pieces, t.granules; g > 0; {
		w := k[n].first[g]
		give(w)
		g -= w
		n = max(n-1, 1)
	}
}

// together returns the least time, in ms, of a device with a slice of each of two tables, or with
// two slices of one table.
func together(r *relaxation, a, b *table) float64 {
	x, y := leastLoad(r, a), leastLoad(r, b)
	accumulate(&x, &y, 1)
	size := x.sizes()
	return size.forward + size.backward + x[sorting]
}

// leastLoad returns the least that a slice of t takes, number by number.
func leastLoad(r *relaxation, t *table) load {
	var least load
	for j := range least {
		least[j] = math.Inf(1)
	}
	for g := t.narrowest(); g <= len(t.slices); g++ {
		for lanes := range r.lanes[t.operation] {
			l := t.load(&t.slices[g-1], &operator{lanes: lanes, passes: t.passes})
			for j := range least {
				least[j] = min(least[j], l[j])
			}
		}
	}
	return least
}

// inPieces returns the least time, in ms, of some device of a placement in which t is cut into at most
// n slices.
func inPieces(r *relaxation, t *table, n int) float64 {
	least := math.Inf(1)
	for g := (t.granules + n - 1) / n; g <= t.granules; g++ {
		for l := range r.lanes[t.operation] {
			if g <= r.lanes[t.operation][l].widest {
				least = min(least, t.slices[g-1].alone[l])
			}
		}
	}
	return least
}

// division divides the placements of a tree by the slices of a guest.
type division struct{ *tree }

// guest returns the place of the table that is to be the next guest of the tree's placements and
// the longest time for which it is a guest; ok is false if there is none.
func (t division) guest() (at int, limit float64, ok bool) {
	least := guestRoom * t.parts[t.lowest()].u
	hottest := 0.0
	for i := range t.tables {
		a := &t.tables[i]
		if a.pieces > 0 || a.granules > maxGranules {
			continue
		}
		upTo := min(t.limit, together(t.relaxation, a, a))
		for j := range t.tables {
			if b := &t.tables[j]; b.guest > 0 {
				upTo = min(upTo, together(t.relaxation, a, b))
			}
		}
		if v := t.leastAlone(a); upTo >= least && v > hottest {
			at, limit, hottest, ok = i, upTo, v, true
		}
	}
	return at, limit, ok
}

// byPieces returns trees that together have all placements of t that take less than the limit: one for
// each number of slices of the table at the given place, and one for more slices. The table is a
// guest in times up to the limit.
func (t division) byPieces(at int, limit float64) (all []*tree) {
	g, u := &t.tables[at], t.parts[t.lowest()].u
	left := t.devices
	for _, m := range t.memories {
		if m.guest > 0 {
			left -= m.devices
		}
	}
	if left < 1 || g.count > 1 && int(g.count) > left {
		return nil
	}
	most, enough := min(left, g.granules/g.least), 1
	for enough < most && inPieces(t.relaxation, g, enough) > guestRoom*u {
		enough++
	}
	if g.count > 1 {
		return t.ofEqual(at, enough, left, limit)
	}
	for n := 1; n <= most; n++ {
		if n > enough+mostPieces {
			return append(all, t.withPieces(at, n, left, limit, false))
		}
		all = append(all, t.withPieces(at, n, left, limit, true))
	}
	return all
}

// ofEqual returns trees that together have all placements of t, for several equal tables at the given
// place: one in which each of them is cut into n slices, and others in which one of them is cut
// into fewer or more.
func (t division) ofEqual(at, n, left int, limit float64) (all []*tree) {
	g := &t.tables[at]
	fits := int(g.count)*n <= left
	if fits {
		all = append(all, t.withPieces(at, n, left, limit, true))
	}
	apart := *t.tree
	apart.prover = &prover{limit: t.limit, relaxation: &relaxation{
		devices: t.devices, tables: slices.Clone(t.tables), lanes: t.lanes, budget: t.budget, memories: t.memories, divided: t.divided,
	}}
	one := *g
	one.count = 1
	apart.tables[at].count--
	apart.tables = append(apart.tables, one)
	last := len(apart.tables) - 1
	for fewer := 1; fewer < min(n, left+1); fewer++ {
		all = append(all, division{&apart}.withPieces(last, fewer, left, limit, true))
	}
	if n < g.granules/g.least {
		all = append(all, division{&apart}.withPieces(last, n+1, left, limit, false))
	}
	for _, c := range all {
		// Without room for n slices of each table, those placements are in no tree, and take the limit
		// at least.
		if !fits {
			c.limit = min(c.limit, limit)
		}
	}
	return all
}

// withPieces returns the placements of t in which the table at the given place is cut into n slices
// and is a guest, or if exactly is false, into n slices or more. left is the number of devices
// without guests.
func (t division) withPieces(at, n, left int, limit float64, exactly bool) *tree {
	r := &relaxation{devices: t.devices, tables: slices.Clone(t.tables), lanes: t.lanes, budget: t.budget}
	g := &r.tables[at]
	g.pieces = n
	shortest := 0.0
	for _, m := range t.memories {
		if m.guest > 0 {
			r.memories = append(r.memories, m)
		}
	}
	if exactly {
		g.guest = len(r.memories) + 1
		r.memories = append(r.memories, memoryClass{devices: n * int(g.count), budget: t.budget, guest: g.guest})
		// Placements in more slices than there are devices without guests are in no tree. They take
		// the limit at least, so no tree of exactly n slices has a higher bound.
		shortest = min(limit, inPieces(r, g, n))
		left -= n * int(g.count)
	}
	if left > 0 {
		r.memories = append(r.memories, memoryClass{devices: left, budget: t.budget})
	}
	r.addModes(t.divided)
	s := newProver(r)
	if s.limit = t.limit; exactly {
		s.limit = limit
	}
	c := &tree{prover: s, comm: t.comm, visits: guestShare / len(r.memories), fruitless: fruitlessGuest / len(r.memories)}
	root := s.root(t.comm.least)
	for _, of := range t.byColumns() {
		part := root.clone()
		part.from, part.to, part.u = of.from, of.to, max(of.u, shortest)
		c.parts = append(c.parts, part)
	}
	return c
}

// byColumns returns the tree's bounds u by columns, as nodes that divide the placements by columns
// alone.
func (t division) byColumns() (all []*node) {
	for _, n := range t.parts {
		all = append(all, &node{from: n.from, to: n.to, u: n.u})
	}
	slices.SortStableFunc(all, func(a, b *node) int { return cmp.Compare(a.from, b.from) })
	// The columns of two parts are equal or have none in common, unless one was divided from the other.
	for i := 1; i < len(all); {
		if a, b := all[i-1], all[i]; b.from <= a.to {
			a.to, a.u = max(a.to, b.to), min(a.u, b.u)
			all = slices.Delete(all, i, i+1)
			continue
		}
		i++
	}
	return all
}

// hosting reports whether the placements of t are divided by guests.
func hosting(t *tree) bool {
	return len(t.tables) > 0 && len(t.tables) <= mostGuestTables && t.devices <= mostGuestDevices
}

// byGuests divides the placements of t by the number of slices of guests, if t is small, and returns a
// bound of all of them. The work on t has ended.
func byGuests(ctx context.Context, t *tree) Bound {
	open := []*tree{t}
	ended := map[*tree]bool{t: true}
	most := min(guestVisits, guestTimes*t.visited)
	for visited := 0; hosting(t) && visited < most && ctx.Err() == nil; {
		lowest := open[0]
		if !ended[lowest] {
			next := math.Inf(1)
			if len(open) > 1 {
				next = open[1].least() * (1 + progress)
			}
			before := lowest.visited
			ended[lowest] = lowest.raise(ctx, next)
			visited += (lowest.visited - before) * len(lowest.memories)
		} else if more, ok := (division{lowest}).byGuest(); ok {
			open = append(open[1:], more...)
		} else {
			break
		}
		slices.SortStableFunc(open, func(a, b *tree) int { return cmp.Compare(a.least(), b.least()) })
	}
	least := open[0].own()
	if t.byMemory != nil {
		if of := t.byMemory.own(); of.Total > least.Total {
			return of
		}
	}
	return least
}

// byGuest returns trees that together have all placements of t; ok is false if there is no guest
// to divide them by.
func (t division) byGuest() (all []*tree, ok bool) {
	at, limit, ok := t.guest()
	if !ok {
		return nil, false
	}
	if all = t.byPieces(at, limit); len(all) > 0 {
		return all, true
	}
	// All devices have other guests, so no placement takes less than the limit.
	for _, n := range t.parts {
		n.u = max(n.u, limit)
	}
	return []*tree{t.tree}, true
}
