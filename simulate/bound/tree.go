package bound

import (
	"context"
	"math"

	"github.com/neuroshard/neuroshard/unit"
)

// tree.go divides the placements into parts until its budget of work is spent. The least
// bound of all parts is the bound of all placements, so the part with that bound is the
// next one to work on:
//
//	all placements
//	  |- at most 2400 columns on any device
//	  |     |- at most one device in mode 3
//	  |     `- two devices in mode 3, or more
//	  `- 2404 columns on some device, or more
//
// The bound of a part counts the all-to-alls at its fewest columns, and the compute at
// its most. So a part is divided by columns if its relaxed solution has many more columns
// on some device than its all-to-alls count. Otherwise it is divided by the mode whose
// number of devices is farthest from a whole number.

// The rules of the division.
const (
	// The work ends after visits prices of tables, or after minRounds rounds if these
	// need more prices. It ends earlier after fruitless prices that do not raise the bound, or after
	// fewFruitless of them if the tables and devices are few enough for guests (hosting).
	visits       = 150_000
	fruitless    = 60_000
	fewFruitless = 30_000
	minRounds    = 4
	// A bout is the number of rounds of work on a part at a time. Few different tables need more
	// rounds, so on up to mostGuestDevices devices, a bout has the rounds of boutVisits prices if these
	// are more. A bout that does not raise the bound by the share progress has stalled. Then the part
	// is divided if its mix needs at most fits times the devices, or if stalls bouts in a row have
	// stalled.
	// A part that cannot be divided ends if its mix needs less than ends times the
	// devices and its longest time exceeds its bound by at most the share near (until then, few slices count
	// as large), or if 3 stalls bouts in a row have stalled.
	bout       = 12
	boutVisits = 200
	progress   = 0.0005
	fits       = 1.05
	ends       = 1.003
	near       = 0.002
	stalls     = 2
	// A part is divided by columns only if its all-to-alls can rise by more than the
	// share columnRise of its bound, and by a mode only if the mode's number of devices
	// is more than the share broken of all devices from a whole number: on many devices, the
	// bounds of both parts would hardly be higher, and the fractions would have to settle again. So
	// on more than 12 devices no part is divided by a mode.
	columnRise = 0.004
	broken     = 0.04
	// A new part counts at most freshSteps steps as done, so that its mix still moves.
	freshSteps = 150
)

// tree is the parts that all placements are divided into.
type tree struct {
	*prover
	comm  *exchange
	parts []*node
	// visits and fruitless are the constants, or fewer.
	visits, fruitless int
	// reached is the bound when it last rose, in ms, and at the number of prices until then.
	reached float64
	at      int
	// byMemory is the tree of the same placements with modes for each memory class; nil unless
	// devices differ in memory. The work on this tree comes first, and that on byMemory after it. The higher
	// of the two bounds holds. If memory hardly limits the placements, this tree has the sharper
	// bound for the same work, because it has fewer modes.
	byMemory *tree
}

// newTree returns the tree with all placements of r's tables as its one part. memories are the
// memory classes of the devices.
func newTree(r *relaxation, comm *exchange, memories []memoryClass) *tree {
	s := newProver(r)
	t := &tree{prover: s, comm: comm, parts: []*node{s.root(comm.least)}, visits: visits, fruitless: fruitless}
	if hosting(t) {
		t.fruitless = fewFruitless
	}
	if u := byMemory(r, memories); u != nil {
		t.byMemory = newTree(u, comm, nil)
	}
	return t
}

// total returns the bound of a part without the fixed time of an operator, in ms.
func (t *tree) total(n *node) float64 { return n.u + t.comm.total(n.from) }

// lowest returns the place of the part with the least bound.
func (t *tree) lowest() int {
	at := 0
	for i := range t.parts {
		if t.total(t.parts[i]) < t.total(t.parts[at]) {
			at = i
		}
	}
	return at
}

// bound returns the bound of all placements so far, in its parts.
func (t *tree) bound() Bound {
	b := t.own()
	if t.byMemory != nil {
		if of := t.byMemory.own(); of.Total > b.Total {
			return of
		}
	}
	return b
}

// own returns the bound of the tree without that of byMemory.
func (t *tree) own() (b Bound) {
	columns, busy := t.comm.least, 0.0
	if len(t.tables) > 0 {
		n := t.parts[t.lowest()]
		columns, busy = n.from, fixedMS+n.u
	}
	b.ForwardComm, b.BackwardComm = t.comm.times(columns)
	b.Compute = unit.Millis(busy * (1 - rounding))
	b.Total = (b.Compute + b.ForwardComm + b.BackwardComm) * (1 - rounding)
	return b
}

// least returns the total of own, in ms.
func (t *tree) least() float64 { return float64(t.own().Total) }

// raise works until the bound of all placements is at least the limit, in ms. It reports whether the
// work ended before that, and returns early if ctx ends.
func (t *tree) raise(ctx context.Context, limit float64) (ended bool) {
	if ended = t.work(ctx, limit); ended && t.byMemory != nil {
		ended = t.byMemory.work(ctx, limit)
	}
	return ended
}

// work works on the parts until the tree's own bound is at least the limit, as raise does.
func (t *tree) work(ctx context.Context, limit float64) (ended bool) {
	if len(t.tables) == 0 {
		return true
	}
	most, bouts := max(t.visits, 3*minRounds*len(t.tables)), bout
	if hosting(t) {
		bouts = max(bout, boutVisits/(3*len(t.tables)))
	}
	for {
		at := t.lowest()
		n := t.parts[at]
		before := n.u
		least := t.least()
		if n.ended || before >= t.limit || t.spent(least, most) {
			return true
		}
		if least >= limit || ctx.Err() != nil {
			return false
		}
		t.improve(n, min(bouts, 1+(most-t.visited)/(3*len(t.tables))))
		if n.u > before*(1+progress) {
			n.stalled = 0
			continue
		}
		n.stalled++
		if t.shortage(n) > fits && n.stalled < stalls || t.visited >= most {
			continue
		}
		if parts := t.divide(n); len(parts) > 0 {
			t.parts[at] = parts[0]
			t.parts = append(t.parts, parts[1:]...)
		} else {
			n.ended = t.settled(n) || n.stalled >= 3*stalls
		}
	}
}

// settled reports whether work on a part that cannot be divided would hardly raise its bound.
func (t *tree) settled(n *node) bool { return t.shortage(n) < ends && n.ahead <= near }

// spent reports whether most prices were computed, or fruitless ones since the bound, least
// now, rose.
func (t *tree) spent(least float64, most int) bool {
	if least > t.reached {
		t.reached, t.at = least, t.visited
	}
	return t.visited >= most || t.visited-t.at >= t.fruitless
}

// shortage returns the number of devices that the node's mix needs, divided by the number
// of devices that the node has. The modes at their limit hi count, too.
func (t *tree) shortage(n *node) float64 {
	most := 0.0
	devices := make([]float64, len(t.memories))
	for k := range t.modes {
		need := t.devicesOf(n, k)
		devices[t.modes[k].memory] += max(need, float64(n.lo[k]))
		if n.hi[k] > 0 {
			most = max(most, need/float64(n.hi[k]))
		}
	}
	for j, need := range devices {
		most = max(most, need/float64(t.memories[j].devices))
	}
	return most
}

// divide returns parts that together make up n; none if no division helps.
func (t *tree) divide(n *node) []*node {
	if mid, ok := t.divideColumns(n); ok {
		a, b := n.part(), n.part()
		a.to, b.from = mid, mid+t.comm.granule
		return []*node{a, b}
	}
	if len(t.modes) == len(t.memories) {
		return nil // all devices of a class are in its mode
	}
	at, far := -1, broken*float64(t.devices)
	for k := range t.modes {
		need := t.devicesOf(n, k)
		if need <= float64(n.lo[k]) || need >= float64(n.hi[k]) {
			continue
		}
		if f := need - math.Floor(need); min(f, 1-f) > far {
			at, far = k, min(f, 1-f)
		}
	}
	if at < 0 {
		return nil
	}
	need := int(t.devicesOf(n, at))
	a, b := n.part(), n.part()
	a.hi[at], b.lo[at] = need, need+1
	var parts []*node
	for _, part := range []*node{a, b} {
		lo, hi := 0, 0
		for k := range part.lo {
			if t.modes[k].memory == t.modes[at].memory {
				lo, hi = lo+part.lo[k], hi+part.hi[k]
			}
		}
		if size := t.size(at); lo <= size && size <= hi {
			parts = append(parts, part)
		}
	}
	return parts
}

// divideColumns returns the number of columns at which to divide n; ok is false if that
// does not help.
func (t *tree) divideColumns(n *node) (mid int, ok bool) {
	widest := 0.0
	for k := range t.modes {
		if need := max(t.devicesOf(n, k), float64(n.lo[k])); need > 0.01 {
			held := 0.0
			for j := t.modes[k].first; j < t.modes[k].end; j++ {
				held += n.mix[j][columns]
			}
			widest = max(widest, held/need)
		}
	}
	top := int(min(widest, float64(n.to), float64(t.comm.all)))
	if top <= n.from || t.comm.total(top)-t.comm.total(n.from) <= columnRise*t.total(n) {
		return 0, false
	}
	mid = n.from + (top-n.from)/2/t.comm.granule*t.comm.granule
	return mid, mid < n.to
}

// devicesOf returns the number of devices in mode k that the node's mix needs.
func (t *tree) devicesOf(n *node, k int) float64 {
	need := 0.0
	for _, share := range t.sharesOf(n, k) {
		need = max(need, share)
	}
	return need
}

// part returns a copy of the node that the caller narrows.
func (n *node) part() *node {
	c := n.clone()
	c.ahead, c.idle = 0.02, 0
	c.steps = min(c.steps, freshSteps)
	c.stalled = 0
	return c
}
