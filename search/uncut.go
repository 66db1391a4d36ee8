package search

import (
	"cmp"
	"slices"
)

// Stage operators also begins from tables that are not cut. The stages before it estimate
// undivided operators. In these, wide tables slow down the narrow tables beside them, so the
// earlier stages cut wide tables into slices of the lowest lane class. In an operator of its
// own, a wide table is cheaper as a whole:
//
//	before     wide 4 x 32, narrow 8, narrow 8   one operator of 8 lanes
//	uncut      wide 128 | narrow 8, narrow 8     operator 0 of 32 lanes, operator 1 of 8
//
// So each table gets the number of its lane class, and all tables are placed greedily, as
// for a shape (shapes.go): with each table in the fewest slices that find room, and also cut;
// in two orders; and for several targets of a device's compute. One of the starts with the
// fewest slices is first annealed without further cuts, as a search among whole tables would
// anneal it.
//
// Two tests decide whether a start is annealed. Before the tables are placed, the cost of
// whole tables in divided operators with all devices at the mean compute is compared with
// that of the best placement; this takes an evaluation for each slice of both. After that,
// the cost of the start is compared with that of the best placement.

const (
	// Tables are placed if the cost of whole tables in divided operators is below hopeful
	// times that of the best placement, both with all devices at the mean compute. A start
	// is annealed if it costs less than hopefulStart times the best placement.
	hopeful, hopefulStart = 1.2, 1.3
	// Placing the tables may add 1/placingShare of the evaluations so far, but at least
	// leastNumbering.
	placingShare = 4
)

// uncutTargets are the longest computes that the starts aim at, relative to the mean of all
// devices. Under a lower target, more tables are cut.
var uncutTargets = []float64{1, .9, .8, .7}

// classOf returns the lane class of a piece's widest member. ok is false if the piece is in
// no operator, because its tables are never looked up.
func classOf(c *catalog, k int32) (class uint8, ok bool) {
	for _, m := range c.pieces[k].members {
		class = max(class, laneClass(&c.problem.Topology.Profile, m.width))
		ok = ok || c.problem.Tables[m.table].PoolingFactor() > 0
	}
	return class, ok
}

// classesOf returns the lane classes that some pieces have.
func classesOf(c *catalog, pieces []int32) (present [laneClasses]bool) {
	for _, k := range pieces {
		if class, ok := classOf(c, k); ok {
			present[class] = true
		}
	}
	return present
}

// severalClasses reports whether the unsplit tables have several lane classes.
func severalClasses(c *catalog) bool {
	n := 0
	for _, present := range classesOf(c, c.whole()) {
		if present {
			n++
		}
	}
	return n > 1
}

// uncutStarts returns starts of tables that are not cut, or cut in operators of their own
// lane class, and the cheapest placement.
func uncutStarts(r *run, best placement) (placement, []start) {
	u := uncutStarter{r: r, best: best, limit: r.stats.Evaluations + max(leastNumbering, r.stats.Evaluations/placingShare)}
	if !slices.Contains(r.forms.barred, true) {
		u.add(r.catalog.whole(), nil)
	}
	if parts := best.placed(); r.formed(parts) {
		u.add(unsplit(r.catalog, parts))
	}
	return u.best, u.starts
}

// uncutStarter makes starts of tables that are not cut.
type uncutStarter struct {
	r      *run
	best   placement
	starts []start
	// Placing tables ends when the run has made limit evaluations. The evaluations of annealing
	// do not count: they raise limit.
	limit int64
}

// add adds the starts in which pieces, whole tables on single devices, are placed beside
// fixed parts, if these can pay.
func (u *uncutStarter) add(pieces []int32, fixed []placed) {
	c := u.r.catalog
	present := classesOf(c, pieces)
	for _, p := range fixed {
		if class, ok := classOf(c, p.piece); ok {
			present[class] = true
		}
	}
	numbers := eachApart(present)
	number := func(k int32) int32 {
		class, _ := classOf(c, k)
		return c.numbered(k, numbers[class])
	}
	for i, k := range pieces {
		pieces[i] = number(k)
	}
	fixed = slices.Clone(fixed)
	for i, p := range fixed {
		fixed[i].piece = number(p.piece)
	}
	now := u.balanced(u.best.placed())
	target := u.balanced(append(inSnakeOrder(c, pieces), fixed...))
	if !(target < hopeful*now) {
		return
	}
	var placings []uncutPlacing
	for i, share := range uncutTargets {
		for _, widest := range []bool{true, false} {
			for _, wideFirst := range []bool{false, true} {
				placings = append(placings, uncutPlacing{share * target, widest, wideFirst, widest && !wideFirst && i == 0})
			}
		}
	}
	u.place(pieces, fixed, placings)
}

// uncutPlacing says how a start is placed: the longest compute that it aims at, whether each
// table is cut into the fewest slices that find room, whether the widest tables are placed first,
// and whether the start is annealed without further cuts.
type uncutPlacing struct {
	target                    float64
	widest, wideFirst, anneal bool
}

// place adds the starts in which pieces are placed by the builder of shapes.
func (u *uncutStarter) place(pieces []int32, fixed []placed, placings []uncutPlacing) {
	r := u.r
	each := int64(len(pieces)) * int64(len(r.catalog.all)) * eachShape
	if affords := (min(u.limit, r.end()) - r.stats.Evaluations) / max(1, each); affords < int64(len(placings)) {
		placings = placings[:max(0, affords)]
	}
	free, beside := make([]placed, len(pieces)), describe(r.catalog, fixed)
	for i, k := range pieces {
		free[i].piece = k
	}
	whole, found := describe(r.catalog, free), make([]describedStart, len(placings))
	inParallel(r, len(placings), func(on *run, i int) {
		how := placings[i]
		pieces, _ := apart(find(on, whole))
		b := newBuilder(newLayout(on.catalog, on.scorer(), on.forms), pieces, find(on, beside), how.target)
		b.widest = how.widest
		if parts, ok := b.beside(on, noLimit, how.wideFirst); ok && !on.ended() {
			found[i] = describedStart{describe(on.catalog, parts), on.scorer().Cost()}
		}
	})
	for i, s := range found {
		if s.parts == nil || known(u.starts, s.cost) || !(s.cost < hopefulStart*u.best.cost) {
			continue
		}
		from := []start{{find(r, s.parts), s.cost}}
		u.best = r.offerPlaced(u.best, from[0].parts)
		if placings[i].anneal {
			from = append(from, from[0])
			before := r.stats.Evaluations
			u.best = uncutRound.annealEach(r, u.best, from)
			u.limit += r.stats.Evaluations - before
		}
		u.starts = append(u.starts, from...)
	}
}

// balanced returns the cost of a placement if all devices had the mean compute, in ms.
func (u *uncutStarter) balanced(parts []placed) float64 {
	n := newNumbering(u.r, parts)
	n.start()
	longest, sum := 0.0, 0.0
	for d := range u.r.catalog.all {
		compute := n.scorer.Compute(d)
		longest, sum = max(longest, compute), sum+compute
	}
	n.scorer.Reset()
	return n.cost - longest + sum/float64(len(u.r.catalog.all))
}

// inSnakeOrder deals pieces to the devices, the most expensive first, from the first device to the
// last and back again.
func inSnakeOrder(c *catalog, pieces []int32) []placed {
	c.scorer.Reset()
	order, devices := slices.Clone(pieces), len(c.all)
	for _, k := range order {
		c.time(k)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(c.pieces[b].alone, c.pieces[a].alone) })
	parts := make([]placed, len(order))
	for i, k := range order {
		d := i % (2 * devices)
		parts[i] = placed{k, int32(min(d, 2*devices-1-d))}
	}
	return parts
}
