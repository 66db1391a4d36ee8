package search

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// The inner search places the pieces of one state, dearest first, each on the
// best device that has room for it.
//
//	pieces     9  7  4  4  3  1
//	           |  |  |  |  |  |
//	           v  v  v  v  v  v
//	device 0   9  .  .  .  .  1
//	device 1   .  7  .  .  3  .      for each piece: the devices with enough
//	device 2   .  .  4  4  .  .      bytes and columns left, the best by rule
//
// Communication does not appear in the choice. Balance of the dim sums, which
// it depends on, is forced instead by a cap: a threshold times their mean.
// Which threshold is best is unknown, so a grid of them is tried and the
// cheapest whole placement wins (NeuroShard, section 4).
//
// Two rules choose among the devices with room:
//
//	leastSoFar   the least predicted compute before the piece joins: the paper's
//	leastAfter   the least predicted compute after it has joined. A fused kernel
//	             runs as wide as its widest shard, so a narrow shard read often
//	             is dear beside a wide one, and only this rule sees it
//
// One run places P pieces on D devices with P pricings for leastSoFar, and up to
// P * shortlist more for leastAfter. Up to shortlist devices are simply scanned.
// Of more, each width class is kept ranked by load, and its first with room is
// met after few steps: O(P log D), and moves of 4-byte numbers, for all but the
// tightest caps. (A heap would lose: devices without room for one piece would
// have to be put back for the next.)

// rule is how the inner search chooses among the devices with room.
type rule uint8

const (
	leastSoFar rule = iota
	leastAfter
)

// uncapped is the threshold that allows any dim sum.
var uncapped = math.Inf(1)

// shortlist is the largest number of devices that are all compared for a piece;
// of a larger cluster, only the lightest of each width class are.
const shortlist = 16

// classes is the number of width classes: empty, and up to 2^i columns.
const classes = 16

// scansPerEvaluation is about how many devices are scanned in the time that
// one is priced: 1 ns each against 100 to 200 ns.
const scansPerEvaluation = 128

// thresholds returns n thresholds from 1.5 down to 1, evenly.
func thresholds(n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[n-1-i] = 1 + 0.5*float64(i)/float64(max(1, n-1))
	}
	return list
}

// grid is the set of inner searches to run on a state.
type grid struct {
	rules []rule
	// thresholds are descending.
	thresholds []float64
	// rescue adds memory-driven orders where everything else fails.
	rescue bool
}

// outcome is what a grid of inner searches found for a state.
type outcome struct {
	placement
	// lack is 0 where a placement was found, else the least bytes that an
	// uncapped inner search left unplaced.
	lack int64
	// rule and threshold are those of the cheapest placement.
	rule      rule
	threshold float64
	// evaluations and runs count the work.
	evaluations int64
	runs        int
}

// compareOutcomes orders placements by cost, before failures by what they lack.
func compareOutcomes(a, b outcome) int {
	return cmp.Or(cmp.Compare(a.lack, b.lack), cmp.Compare(a.cost, b.cost))
}

// worker runs inner searches with a Scorer of its own.
type worker struct {
	catalog *catalog
	scorer  Scorer
	// What each device holds: bytes, dim sum, predicted compute, width class.
	used, dims []int64
	load       []float64
	class      []uint8
	// ranks lists the devices of each width class, lightest first.
	ranks [classes][]int32
	// assigned is the device of each piece by its index, none where it has none.
	assigned []int32
	// evaluations counts pricings of a device, and scans in their measure.
	evaluations int64
	scanned     int
	room        []int32   // scratch: the devices with room
	after       []float64 // scratch: their costs with the piece
}

func newWorker(c *catalog, scorer Scorer) *worker {
	n := len(c.all)
	return &worker{
		catalog: c, scorer: scorer,
		used: make([]int64, n), dims: make([]int64, n), load: make([]float64, n), class: make([]uint8, n),
		room: make([]int32, 0, n), after: make([]float64, n),
	}
}

// evaluate runs the grid on a state. When ctx ends it returns what it has.
func (w *worker) evaluate(ctx context.Context, s *state, g grid) outcome {
	best := outcome{placement: placement{state: s, cost: math.Inf(1)}, lack: math.MaxInt64}
	start := w.evaluations
	for _, r := range g.rules {
		// A run whose dim sums peak at some value goes the same way under any cap
		// from there up: its choices stay allowed, and no others appear.
		peak := int64(math.MaxInt64)
		for _, threshold := range g.thresholds {
			limit := w.catalog.dimCap(s, threshold)
			if limit >= float64(peak) {
				continue
			}
			if ctx.Err() != nil {
				break
			}
			var lack int64
			peak, lack = w.place(s, s.pieces, r, limit)
			w.keep(&best, lack, r, threshold)
		}
	}
	if g.rescue && best.lack > 0 {
		for _, pieces := range [][]piece{w.catalog.bulkyFirst(s, bulkyShare), w.catalog.bulkyFirst(s, math.MaxInt64)} {
			if best.lack == 0 || ctx.Err() != nil {
				break
			}
			_, lack := w.place(s, pieces, leastAfter, uncapped)
			w.keep(&best, lack, leastAfter, uncapped)
		}
		if devices, failed := w.catalog.firstFit(s.kinds()); best.lack > 0 && failed == none && ctx.Err() == nil {
			w.assign(s, devices)
			w.keep(&best, 0, leastAfter, uncapped)
		}
	}
	best.evaluations = w.evaluations - start
	return best
}

// bulkyShare: pieces above this fraction of a device's budget are bulky.
const bulkyShare = 8

// bulkyFirst returns the pieces of s in an order that packs better: those of
// more than 1/share of a device's budget by falling bytes, then the others,
// dearest first.
func (c *catalog) bulkyFirst(s *state, share int64) []piece {
	pieces := slices.Clone(s.pieces)
	bulky := func(p piece) bool { return c.kinds[p.kind].bytes > c.budget/share }
	slices.SortStableFunc(pieces, func(a, b piece) int {
		switch x, y := bulky(a), bulky(b); {
		case x && y:
			return c.largestFirst(a, b)
		case x:
			return -1
		case y:
			return 1
		}
		return 0
	})
	return pieces
}

// keep makes the worker's placement the best if it is complete and not dearer.
// Among equals the later wins, which has the lower threshold, as in the
// prototype: that one climbs and replaces only by what is cheaper.
func (w *worker) keep(best *outcome, lack int64, r rule, threshold float64) {
	best.runs++
	if lack > 0 {
		best.lack = min(best.lack, lack)
		return
	}
	if cost := w.scorer.Cost(); best.lack > 0 || cost <= best.cost {
		best.lack, best.cost, best.rule, best.threshold = 0, cost, r, threshold
		best.devices = append(best.devices[:0], w.assigned...)
	}
}

// place runs one inner search over the pieces of s in the given order, under a
// cap on dim sums. It returns the highest dim sum of a device, and the bytes it
// could not place: 0 if it placed all, and math.MaxInt64 for a capped search,
// which gives up at the first piece without a device.
func (w *worker) place(s *state, pieces []piece, r rule, limit float64) (peak, lack int64) {
	w.clear(len(s.pieces))
	for _, p := range pieces {
		k := &w.catalog.kinds[p.kind]
		var d int32
		if r == leastSoFar {
			d = w.leastSoFar(k, limit)
		} else {
			d = w.leastAfter(k, limit)
		}
		if d == none {
			if limit < uncapped {
				return peak, math.MaxInt64
			}
			lack += k.bytes
			continue
		}
		if w.ranked() {
			w.unrank(d)
		}
		w.add(d, p, k)
		w.load[d] = w.scorer.Compute(int(d))
		w.evaluations++
		if w.ranked() {
			w.rank(d)
		}
		peak = max(peak, w.dims[d])
	}
	w.evaluations += int64(w.scanned / scansPerEvaluation)
	return peak, lack
}

// hasRoom reports whether device d has the bytes and columns left for a piece.
func (w *worker) hasRoom(d int32, k *kind, limit float64) bool {
	return w.used[d] <= w.catalog.budget-k.bytes && float64(w.dims[d]+k.dims) <= limit
}

// lighter orders devices by their cost so far, then by bytes, then by number.
func (w *worker) lighter(a, b int32) int {
	return cmp.Or(cmp.Compare(w.load[a], w.load[b]), cmp.Compare(w.used[a], w.used[b]), cmp.Compare(a, b))
}

// choices sets room to the devices that need comparing: all with room where
// few are allowed; of an unconstrained piece on many devices, the lightest with
// room of each width class. Within a class, a piece adds about as much anywhere.
func (w *worker) choices(k *kind, limit float64) {
	w.room = w.room[:0]
	if k.devices == nil && w.ranked() {
		for _, devices := range w.ranks {
			for i, d := range devices {
				if w.hasRoom(d, k, limit) {
					w.scanned += i
					w.room = append(w.room, d)
					break
				}
			}
		}
		return
	}
	devices := w.catalog.allowed(k)
	w.scanned += len(devices)
	for _, d := range devices {
		if w.hasRoom(d, k, limit) {
			w.room = append(w.room, d)
		}
	}
}

// leastSoFar returns the device with room that costs least now; among equals
// that with fewer bytes, then the lowest number; none if none has room.
func (w *worker) leastSoFar(k *kind, limit float64) int32 {
	w.choices(k, limit)
	if len(w.room) == 0 {
		return none
	}
	return slices.MinFunc(w.room, w.lighter)
}

// leastAfter returns the device with room that costs least with the piece
// added; ties as in leastSoFar.
func (w *worker) leastAfter(k *kind, limit float64) int32 {
	w.choices(k, limit)
	if len(w.room) == 0 {
		return none
	}
	after := w.after[:len(w.room)]
	w.price(k, w.room, after)
	best := 0
	for i := 1; i < len(after); i++ {
		a, b := w.room[i], w.room[best]
		if after[i] < after[best] || after[i] == after[best] && cmp.Or(cmp.Compare(w.used[a], w.used[b]), cmp.Compare(a, b)) < 0 {
			best = i
		}
	}
	return w.room[best]
}

// ranked reports whether the worker keeps ranks.
func (w *worker) ranked() bool { return len(w.catalog.all) > shortlist }

// rank puts device d in its place among those of its width class; unrank takes
// it out, before anything of it changes.
func (w *worker) rank(d int32) {
	class := &w.ranks[w.class[d]]
	i, _ := slices.BinarySearchFunc(*class, d, w.lighter)
	*class = slices.Insert(*class, i, d)
}

func (w *worker) unrank(d int32) {
	class := &w.ranks[w.class[d]]
	i, _ := slices.BinarySearchFunc(*class, d, w.lighter)
	*class = slices.Delete(*class, i, i+1)
}

// price sets after[i] to the cost of devices[i] with the piece added.
func (w *worker) price(k *kind, devices []int32, after []float64) {
	w.evaluations += int64(len(devices))
	if len(k.members) == 1 {
		w.scorer.ComputeWith(k.members[0].item, devices, after)
		return
	}
	for i, d := range devices {
		for _, m := range k.members {
			w.scorer.Add(int(d), m.item)
		}
		after[i] = w.scorer.Compute(int(d))
		for _, m := range k.members {
			w.scorer.Remove(int(d), m.item)
		}
	}
}

// assign makes the worker's devices hold a known assignment of s.
func (w *worker) assign(s *state, devices []int32) {
	w.clear(len(s.pieces))
	for _, p := range s.pieces {
		w.add(devices[p.index], p, &w.catalog.kinds[p.kind])
		w.evaluations++
	}
}

func (w *worker) clear(pieces int) {
	w.scorer.Reset()
	clear(w.used)
	clear(w.dims)
	clear(w.load)
	clear(w.class)
	w.scanned = 0
	for i := range w.ranks {
		w.ranks[i] = w.ranks[i][:0]
	}
	w.ranks[0] = append(w.ranks[0], w.catalog.all...)
	w.assigned = slices.Grow(w.assigned[:0], pieces)[:pieces]
	for i := range w.assigned {
		w.assigned[i] = none
	}
}

func (w *worker) add(d int32, p piece, k *kind) {
	for _, m := range k.members {
		w.scorer.Add(int(d), m.item)
	}
	w.used[d] += k.bytes
	w.dims[d] += k.dims
	w.class[d] = max(w.class[d], k.class)
	w.assigned[p.index] = d
}
