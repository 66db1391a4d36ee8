package search

import (
	"cmp"
	"context"
	"math"
	"math/bits"
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
// One run places P pieces on D devices in O(P D) comparisons and P pricings, or
// up to P * shortlist for leastAfter. A plain scan beats a heap: devices without
// room for one piece would have to be put back for the next.

// rule is how the inner search chooses among the devices with room.
type rule uint8

const (
	leastSoFar rule = iota
	leastAfter
)

// uncapped is the threshold that allows any dim sum.
var uncapped = math.Inf(1)

// shortlist is the largest number of devices that leastAfter prices for one
// piece. Where more have room, it prices the least loaded of each width class.
const shortlist = 16

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
	// What each device holds: bytes, dim sum, predicted compute, widest slice.
	used, dims []int64
	load       []float64
	widest     []int32
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
		used: make([]int64, n), dims: make([]int64, n), load: make([]float64, n), widest: make([]int32, n),
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
		w.add(d, p, k)
		w.load[d] = w.scorer.Compute(int(d))
		w.evaluations++
		peak = max(peak, w.dims[d])
	}
	w.evaluations += int64(w.scanned / scansPerEvaluation)
	return peak, lack
}

// leastSoFar returns the device with room that costs least now; among equals
// that with fewer bytes, then the lowest number; none if none has room.
func (w *worker) leastSoFar(k *kind, limit float64) int32 {
	devices := w.catalog.allowed(k)
	w.scanned += len(devices)
	most := w.catalog.budget - k.bytes
	best := int32(none)
	for _, d := range devices {
		if w.used[d] > most || float64(w.dims[d]+k.dims) > limit {
			continue
		}
		if best == none || w.load[d] < w.load[best] || w.load[d] == w.load[best] && w.used[d] < w.used[best] {
			best = d
		}
	}
	return best
}

// leastAfter returns the device with room that costs least with the piece
// added; ties as in leastSoFar.
func (w *worker) leastAfter(k *kind, limit float64) int32 {
	devices := w.catalog.allowed(k)
	w.scanned += len(devices)
	most := w.catalog.budget - k.bytes
	w.room = w.room[:0]
	for _, d := range devices {
		if w.used[d] <= most && float64(w.dims[d]+k.dims) <= limit {
			w.room = append(w.room, d)
		}
	}
	w.shorten()
	if len(w.room) == 0 {
		return none
	}
	after := w.after[:len(w.room)]
	w.price(k, w.room, after)
	best := 0
	for i := 1; i < len(after); i++ {
		if after[i] < after[best] || after[i] == after[best] && w.used[w.room[i]] < w.used[w.room[best]] {
			best = i
		}
	}
	return w.room[best]
}

// shorten cuts a long list of devices with room to the least loaded of each
// width class: empty, up to 4 columns, 8, 16, and so on. Within a class a
// shard costs about the same on top of any device.
func (w *worker) shorten() {
	if len(w.room) <= shortlist {
		return
	}
	var least [32]int32
	for i := range least {
		least[i] = none
	}
	for _, d := range w.room {
		class := 0
		if w.widest[d] > 0 {
			class = bits.Len32(uint32(w.widest[d] - 1))
		}
		if l := least[class]; l == none || w.load[d] < w.load[l] || w.load[d] == w.load[l] && w.used[d] < w.used[l] {
			least[class] = d
		}
	}
	w.room = w.room[:0]
	for _, d := range least {
		if d != none {
			w.room = append(w.room, d)
		}
	}
	slices.Sort(w.room)
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
	clear(w.widest)
	w.scanned = 0
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
	w.widest[d] = max(w.widest[d], k.widest)
	w.assigned[p.index] = d
}
