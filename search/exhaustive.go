package search

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Stage exhaustive tries all placements of a tiny problem: every way to distribute the
// columns of each table over the devices, with at most one slice of a table on a
// device, because two slices of it would only read the same indices twice. Devices
// without constraints are interchangeable, so of the empty devices only the first one
// is tried.
//
// This takes too long for all but tiny problems, so the number of placements is bounded
// before any cost is estimated.

// exhaustivePlacements is the largest number of placements for which the stage tries
// them all.
const exhaustivePlacements = 40_000

// lookAgain is the number of placements tried between two looks at the clock.
const lookAgain = 64

// exhaustive is the stage that tries all placements if their number is small.
type exhaustive struct{}

func (exhaustive) apply(r *run, s state) (state, error) {
	if r.most == 0 {
		tryAll(r, &s)
	}
	return s, nil
}

// tryAll tries all placements if their number is small enough, and then sets complete
// in the state: the best placement is then optimal under the scorer.
func tryAll(r *run, s *state) {
	c := r.catalog
	whole := c.whole()
	if slices.ContainsFunc(whole, func(k int32) bool { return c.pieces[k].devices != nil || len(c.pieces[k].members) != 1 }) {
		return
	}
	n := len(c.all)
	if !(logWays(c, whole) <= math.Log(exhaustivePlacements)) {
		return
	}
	e := enumeration{r: r, c: c, scorer: r.scorer(), whole: whole, room: slices.Repeat([]int64{c.budget}, n), cost: math.Inf(1)}
	if s.best.division != nil {
		e.cost = s.best.cost
	}
	e.scorer.Reset()
	ended := !e.table(0, 0)
	r.stats.Evaluations += e.evaluations
	if e.best != nil {
		s.best = r.offerPlaced(s.best, e.best)
	}
	e.scorer.Reset()
	if ended {
		r.cutShort()
	}
	s.complete = !ended
}

// logWays returns the logarithm of the number of placements, because the number itself
// overflows for thousands of tables. Placements that differ only by the order of the
// devices are counted about once.
func logWays(c *catalog, whole []int32) float64 {
	n, sum := len(c.all), 0.0
	for _, k := range whole {
		m := c.pieces[k].members[0]
		sum += math.Log(ways(m.width/problem.ColumnGranule, c.least(m.table)/problem.ColumnGranule, n))
	}
	for i := 2; i <= n && i <= len(whole); i++ {
		sum -= math.Log(float64(i))
	}
	return sum
}

// ways returns the number of ways to distribute units over n devices, with none or at
// least least on each. The unsplit table counts even if it is narrower than least.
func ways(units, least, n int) float64 {
	sum, choose := 0.0, 1.0
	for used := 1; used <= n; used++ {
		choose *= float64(n-used+1) / float64(used)
		left := units - used*least
		if used == 1 {
			left = max(0, left)
		}
		if left < 0 {
			break
		}
		sum += choose * binomial(left+used-1, used-1)
	}
	return sum
}

func binomial(n, k int) float64 {
	v := 1.0
	for i := 1; i <= k; i++ {
		v *= float64(n-k+i) / float64(i)
	}
	return v
}

// enumeration is a walk through all placements.
type enumeration struct {
	r      *run
	c      *catalog
	scorer Scorer
	whole  []int32
	room   []int64
	placed []placed
	// best is the cheapest placement found, or nil if none is cheaper than the first cost.
	best        []placed
	cost        float64
	evaluations int64
}

// table places the tables from i on, with that number of devices in use. It returns
// false if the search was ended.
func (e *enumeration) table(i, used int) bool {
	if i == len(e.whole) {
		e.evaluations += int64(len(e.room))
		if cost := e.scorer.Cost(); cost < e.cost {
			e.cost, e.best = cost, append(e.best[:0], e.placed...)
		}
		return !(len(e.placed) > 0 && e.evaluations%(lookAgain*int64(len(e.room))) == 0 && e.r.ended())
	}
	return e.slice(i, e.c.pieces[e.whole[i]].members[0].width, 0, used)
}

// slice places the remaining columns of table i on the devices from number from on.
func (e *enumeration) slice(i, columns, from, used int) bool {
	if columns == 0 {
		return e.table(i+1, used)
	}
	whole := e.whole[i]
	m := e.c.pieces[whole].members[0]
	least := e.c.least(m.table)
	// The first empty device stands for all empty devices.
	for d := from; d < min(used+1, len(e.room)); d++ {
		for width := columns; width > 0; width -= problem.ColumnGranule {
			rest := columns - width
			if width != m.width && (width < least || rest > 0 && rest < least) {
				continue
			}
			piece := e.c.slice(whole, width)
			if e.c.pieces[piece].bytes > e.room[d] {
				continue
			}
			e.c.register(&e.c.pieces[piece])
			item, bytes := e.c.pieces[piece].members[0].item, e.c.pieces[piece].bytes
			e.room[d] -= bytes
			e.scorer.Add(d, item)
			e.placed = append(e.placed, placed{piece, int32(d)})
			going := e.slice(i, rest, d+1, max(used, d+1))
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
