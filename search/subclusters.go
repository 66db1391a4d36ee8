package search

import (
	"cmp"
	"slices"
)

// On hundreds of devices, a change of two devices does not depend on what most other devices
// hold. So a long run of annealing is divided: the devices are dealt to subclusters of about equal
// loads, and each subcluster is annealed alone, at the same time on the threads of the search:
//
//	devices by load   9 8 8 7 7 6 6 5
//	subclusters       A B B A A B B A
//	round 1           A: 9 7 7 5 -> 7 7 7 7     B: 8 8 6 6 -> 7 7 7 7
//	round 2           other subclusters, because the loads have changed
//
// A subcluster has less data than the cluster, and caches hold more of that data, so a change takes
// less time, too. The runs of a round minimise the soft maxima of their subclusters, whose powers
// add up over all devices, and not the longest compute plus the all-to-alls for the most columns:
// one subcluster would pay for less compute with more columns, and another one for fewer columns
// with more compute, and the cluster would have more of both.

const (
	// A subcluster has leastDevices devices or more, and there are mostSubclusters or fewer.
	leastDevices, mostSubclusters = 64, 8
)

// subclusterHeats are the heats of the rounds, relative to the heat of the run that is divided.
var subclusterHeats = []float64{.7, .3, .1}

// subcluster is a part of the devices, which is annealed alone.
type subcluster struct {
	// devices are the numbers of its devices in the cluster.
	devices []int32
	// parts are what these hold, on devices that are numbered within the subcluster.
	parts []placed
}

// divides reports whether a run over all devices can be divided: all slices lie on single devices,
// tables keep their forms and numbers, no exchange is hidden, no rule ties devices together, and all
// have the same fixed compute.
func (a *annealing) divides() bool {
	c := a.c
	free := a.hiding == nil && a.hierarchy == nil && c.former == nil && c.kept == nil && c.onHost == nil &&
		!c.rules.EqualSlices && !c.rules.OneSlice && slices.Min(c.base) == slices.Max(c.base)
	return free && !a.mixed && !a.renumbers && len(c.all) >= 2*leastDevices &&
		!slices.ContainsFunc(c.whole(), func(k int32) bool { return c.pieces[k].devices != nil })
}

// inSubclusters anneals from the best placement, in rounds of subclusters that make the evaluations
// together.
func (a *annealing) inSubclusters(evaluations int64) {
	parts := a.placement.placed()
	for _, heat := range subclusterHeats {
		if a.r.ended() || a.left() == 0 {
			return
		}
		a.reset(parts)
		dealt := a.deal()
		found := a.annealAlone(dealt, heat*a.heat, evaluations/int64(len(subclusterHeats)*len(dealt)))
		parts = parts[:0]
		for i, s := range dealt {
			for _, p := range found[i] {
				parts = append(parts, placed{p.piece, s.devices[p.device]})
			}
		}
		before := a.placement.cost
		a.placement = a.r.offerPlaced(a.placement, parts)
		if a.placement.cost == before { // the round made the placement more expensive
			parts = a.placement.placed()
		}
		a.r.tell(a.placement)
	}
}

// annealAlone anneals each subcluster for a number of evaluations, and returns the parts of the
// subclusters afterwards. The layout must hold the parts of all of them.
func (a *annealing) annealAlone(dealt []subcluster, heat float64, evaluations int64) [][]placed {
	before, after := make([][]described, len(dealt)), make([][]described, len(dealt))
	for i, s := range dealt {
		before[i] = describe(a.c, s.parts)
	}
	column, first := a.column, a.drawn
	a.drawn += uint64(len(dealt))
	inParallel(a.r, len(dealt), func(on *run, i int) {
		if len(before[i]) == 0 {
			return
		}
		defer only(on.catalog, dealt[i].devices)()
		b := a.on(on, first+uint64(i), heat)
		b.reset(find(on, before[i]))
		b.column, b.alone = column, true
		b.best = b.cost()
		best, ended := b.anneal(min(evaluations, on.end()), on.ended)
		if best != nil {
			after[i] = describe(on.catalog, best)
		}
		if ended {
			on.cutShort()
		}
		on.stats.Evaluations += b.evaluations
	})
	found := make([][]placed, len(dealt))
	for i, s := range dealt {
		if found[i] = s.parts; after[i] != nil {
			found[i] = find(a.r, after[i])
		}
	}
	return found
}

// deal deals the devices to subclusters, by their computes in the layout.
func (a *annealing) deal() []subcluster {
	order := inOrder(len(a.c.all))
	slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(a.compute[y], a.compute[x]) })
	dealt := make([]subcluster, min(mostSubclusters, len(order)/leastDevices))
	of, number := make([]int, len(order)), make([]int32, len(order))
	for i, d := range order {
		at := i % (2 * len(dealt))
		of[d] = min(at, 2*len(dealt)-1-at)
		s := &dealt[of[d]]
		number[d] = int32(len(s.devices))
		s.devices = append(s.devices, d)
	}
	for _, slot := range a.live {
		p := a.parts[slot]
		s := &dealt[of[p.device]]
		s.parts = append(s.parts, placed{p.piece, number[p.device]})
	}
	return dealt
}

// only leaves some devices in the catalog, numbered from 0 on, and returns a function that undoes
// that.
func only(c *catalog, devices []int32) (undo func()) {
	all, short, hostShort := c.all, c.short, c.hostShort
	c.all, c.short, c.hostShort = all[:len(devices)], make([]int64, len(devices)), make([]int64, len(devices))
	for i, d := range devices {
		c.short[i], c.hostShort[i] = short[d], hostShort[d]
	}
	return func() { c.all, c.short, c.hostShort = all, short, hostShort }
}
