package search

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// The inner search places the pieces of one division, the most expensive first, each on
// the best device that has room for it.
//
//	pieces     9  7  4  4  3  1
//	           |  |  |  |  |  |
//	           v  v  v  v  v  v
//	device 0   9  .  .  .  .  1
//	device 1   .  7  .  .  3  .      for each piece: the devices with enough
//	device 2   .  .  4  4  .  .      bytes and columns left, the best by rule
//
// The choice does not look at communication. Communication depends on the balance of
// the dim sums, so a cap forces that balance: a threshold times the mean dim sum. The
// best threshold is not known beforehand, so a grid of thresholds is tried and the
// cheapest complete placement wins (NeuroShard, section 4).
//
// Two rules choose among the devices with room:
//
//	leastSoFar   the least predicted compute before the piece joins: the paper's
//	leastAfter   the least predicted compute after the piece has joined. A fused
//	             kernel runs as wide as its widest shard, so a narrow shard that is
//	             read often is expensive beside a wide one: only this rule sees that
//
// One run places P pieces on D devices with P evaluations for leastSoFar, and up to P *
// shortlist for leastAfter. A cluster of up to shortlist devices is scanned device by
// device. In a larger cluster, each width class is kept in order of load, and the
// search for its first device with room takes few steps (ranks.go). The runs of a grid
// share their first choices (trail.go).

// rule is how the inner search chooses among the devices with room.
type rule uint8

const (
	leastSoFar rule = iota
	leastAfter
)

// uncapped is the threshold that allows every dim sum.
var uncapped = math.Inf(1)

// shortlist is the largest number of devices that are all compared for a piece. In a
// larger cluster, only the lightest device of each width class is compared.
const shortlist = 16

// scansPerEvaluation is the number of devices scanned in about the time of one
// evaluation: 1 ns for a scan, 100 to 200 ns for an evaluation.
const scansPerEvaluation = 128

// thresholds returns n thresholds from 1.5 down to 1, evenly.
func thresholds(n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[n-1-i] = 1 + 0.5*float64(i)/float64(max(1, n-1))
	}
	return list
}

// grid says which inner searches to run on a division.
type grid struct {
	rules []rule
	// thresholds are descending.
	thresholds []float64
	// rescue adds orders by memory if all other inner searches fail.
	rescue bool
}

// outcome is the result of a grid of inner searches on a division.
type outcome struct {
	placement
	// lack is 0 if a placement was found, else the least number of bytes that an uncapped
	// inner search left unplaced.
	lack int64
	// rule and threshold are those that found the cheapest placement.
	rule      rule
	threshold float64
	// evaluations and runs count the work.
	evaluations int64
	runs        int
}

// compareOutcomes orders outcomes: placements first, by cost, then failures, by the
// bytes that they lack.
func compareOutcomes(a, b outcome) int {
	return cmp.Or(cmp.Compare(a.lack, b.lack), cmp.Compare(a.cost, b.cost))
}

// worker runs inner searches with a Scorer of its own.
type worker struct {
	catalog *catalog
	scorer  Scorer
	devices []holding
	// ordered keeps the devices in order; it is nil in a small cluster.
	ordered *deviceOrder
	// assigned is the device of each piece by its index, or none.
	assigned []int32
	trail    trail
	// holders are the devices of each table, if a rule needs them.
	holders holders
	// evaluations counts the estimates of a device. scansPerEvaluation scans of devices
	// count as one.
	evaluations int64
	room        []int32   // scratch: the devices with room
	after       []float64 // scratch: their costs with the piece
	open        []int32   // scratch: the devices that holders.open returns
}

func newWorker(c *catalog, scorer Scorer) *worker {
	n := len(c.all)
	w := &worker{catalog: c, scorer: scorer, holders: newHolders(c), devices: make([]holding, n), room: make([]int32, 0, n), after: make([]float64, n)}
	if n > shortlist {
		w.ordered = &deviceOrder{}
	}
	return w
}

// evaluate runs the grid on a division. If ctx ends, it returns the best outcome so
// far.
func (w *worker) evaluate(ctx context.Context, s *division, g grid) outcome {
	best := outcome{placement: placement{division: s, cost: math.Inf(1)}, lack: math.MaxInt64}
	start := w.evaluations
	for _, r := range g.rules {
		// Let a run's dim sums peak at some value. Every cap from that value up allows all
		// choices of the run and adds no others, so a run under such a cap would be the
		// same.
		peak, ran := int64(0), false
		w.clear(len(s.entries))
		for _, threshold := range g.thresholds {
			limit := columns(w.catalog.dimCap(s, threshold))
			if ran && limit >= peak {
				continue
			}
			if ctx.Err() != nil {
				break
			}
			w.rewind(s.entries, limit)
			lack := w.place(s.entries, r, limit)
			peak, ran = w.trail.totals().peak, true
			w.keep(&best, lack, r, threshold)
		}
	}
	if g.rescue && best.lack > 0 {
		for _, entries := range [][]entry{bulkyFirst(w.catalog, s, bulkyShare), bulkyFirst(w.catalog, s, math.MaxInt64)} {
			if best.lack == 0 || ctx.Err() != nil {
				break
			}
			w.clear(len(entries))
			lack := w.place(entries, leastAfter, noLimit)
			w.keep(&best, lack, leastAfter, uncapped)
		}
		if devices, failed := firstFit(w.catalog, s.pieces()); best.lack > 0 && failed == none && ctx.Err() == nil {
			w.assign(s, devices)
			w.keep(&best, 0, leastAfter, uncapped)
		}
	}
	best.evaluations = w.evaluations - start
	return best
}

// bulkyShare is the inverse of the share of a device's budget above which a piece is
// bulky.
const bulkyShare = 8

// bulkyFirst returns the pieces of s in an order that leaves fewer gaps: first the
// pieces of more than 1/share of a device's budget by falling bytes, then the others,
// the most expensive first.
func bulkyFirst(c *catalog, s *division, share int64) []entry {
	entries := slices.Clone(s.entries)
	bulky := func(p entry) bool { return c.pieces[p.piece].bytes > c.budget/share }
	slices.SortStableFunc(entries, func(a, b entry) int {
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
	return entries
}

// keep makes the worker's placement the best if it is complete and not more expensive.
// Of placements with equal costs, the last one wins. It has the lowest threshold, as in
// the prototype, whose thresholds rise and which replaces the best placement only by a
// cheaper one.
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

// place continues the run with the pieces in the given order, with at most limit
// columns on a device. It returns the number of bytes that it could not place: 0 if it
// placed all pieces, and math.MaxInt64 for a capped search, which gives up at the first
// piece without a device.
func (w *worker) place(entries []entry, r rule, limit int64) (lack int64) {
	for i := len(w.trail.steps); i < len(entries); i++ {
		p := &entries[i]
		var c choice
		if r == leastSoFar {
			c = w.leastSoFar(p, limit)
		} else {
			c = w.leastAfter(p, limit)
		}
		if c.device == none {
			if limit < noLimit {
				w.evaluations += w.trail.totals().evaluations
				return math.MaxInt64
			}
			lack += p.bytes
			w.trail.record(p, &c, nil)
			continue
		}
		h := &w.devices[c.device]
		w.trail.record(p, &c, h)
		if w.ordered != nil {
			w.ordered.remove(c.device, *h)
		}
		w.add(c.device, p)
		if h.load = c.after; r == leastSoFar {
			h.load = w.scorer.Compute(int(c.device))
		}
		if w.ordered != nil {
			w.ordered.insert(c.device, *h)
		}
	}
	t := w.trail.totals()
	w.evaluations += t.evaluations + t.scanned/scansPerEvaluation
	return lack
}

// lighter reports whether device a comes before device b: it costs less so far; or it
// costs the same and holds fewer bytes; or both are equal and its number is lower.
func (w *worker) lighter(a, b int32) bool {
	x, y := &w.devices[a], &w.devices[b]
	if x.load != y.load {
		return x.load < y.load
	}
	return x.used < y.used || x.used == y.used && a < b
}

// leastSoFar chooses the device with room that costs least so far. Of devices with
// equal costs, it takes the one with fewer bytes, then the one with the lowest number.
func (w *worker) leastSoFar(p *entry, limit int64) choice {
	if w.ordered != nil && !p.bound {
		c := w.lightest(p, limit)
		for _, d := range w.room {
			if c.device == none || w.lighter(d, c.device) {
				c.device = d
			}
		}
		return c
	}
	used, dims := w.catalog.budget-p.bytes, limit-p.dims
	allowed := w.allowed(p)
	c := choice{device: none, scanned: int32(len(allowed))}
	load, bytes := math.Inf(1), int64(0)
	devices := w.devices
	for _, d := range allowed {
		h := &devices[d]
		if h.load > load || h.used > used || h.dims > dims {
			continue
		}
		if h.load < load || h.used < bytes {
			c.device, load, bytes = d, h.load, h.used
		}
	}
	if c.device != none {
		c.stands = devices[c.device].dims + p.dims
	}
	return c
}

// leastAfter chooses the device with room that costs least after the piece is added.
// Equal costs are decided as in leastSoFar.
func (w *worker) leastAfter(p *entry, limit int64) choice {
	var c choice
	ranked := w.ordered != nil && !p.bound
	if ranked {
		c = w.lightest(p, limit)
	} else {
		used, dims := w.catalog.budget-p.bytes, limit-p.dims
		allowed := w.allowed(p)
		c = choice{device: none, scanned: int32(len(allowed))}
		w.room = w.room[:0]
		for _, d := range allowed {
			if h := &w.devices[d]; h.used <= used && h.dims <= dims {
				w.room = append(w.room, d)
			}
		}
	}
	if len(w.room) == 0 {
		return c
	}
	after := w.after[:len(w.room)]
	w.estimate(p, w.room, after)
	best := 0
	for i := 1; i < len(after); i++ {
		if after[i] > after[best] {
			continue
		}
		a, b := w.room[i], w.room[best]
		x, y := w.devices[a].used, w.devices[b].used
		if after[i] < after[best] || x < y || x == y && a < b {
			best = i
		}
	}
	c.device, c.after = w.room[best], after[best]
	for _, d := range w.room {
		w.trail.reached = append(w.trail.reached, w.devices[d].dims+p.dims)
	}
	if !ranked {
		c.stands = w.devices[c.device].dims + p.dims
	}
	return c
}

// lightest sets room to the lightest device with room of each width class. Within a
// class, a piece adds about the same time to every device. The returned choice names no
// device yet; it holds as long as these devices have room.
func (w *worker) lightest(p *entry, limit int64) choice {
	used, dims := w.catalog.budget-p.bytes, limit-p.dims
	c := choice{device: none}
	w.room = w.room[:0]
	for class := range w.ordered.classes {
		if d, passed := w.ordered.first(class, used, dims); d != none {
			c.scanned += int32(passed)
			c.stands = max(c.stands, w.devices[d].dims+p.dims)
			w.room = append(w.room, d)
		}
	}
	return c
}

// allowed returns the devices that a piece may be placed on.
func (w *worker) allowed(p *entry) []int32 {
	if !p.bound {
		return w.catalog.all
	}
	piece := &w.catalog.pieces[p.piece]
	devices := w.catalog.allowed(piece)
	if w.holders.needed() {
		w.open = slices.Grow(w.open[:0], len(devices))
		return w.holders.open(piece, devices, w.open, func(d int32) int64 { return w.catalog.budget - w.devices[d].used })
	}
	return devices
}

// estimate sets after[i] to the compute of devices[i] with the piece added.
func (w *worker) estimate(p *entry, devices []int32, after []float64) {
	if p.item != none {
		w.scorer.ComputeWith(int(p.item), devices, after)
		return
	}
	for i, d := range devices {
		w.load(d, p)
		after[i] = w.scorer.Compute(int(d))
		w.unload(d, p)
	}
}

// load puts the items of a piece on device d, and unload takes them off.
func (w *worker) load(d int32, p *entry) {
	if p.item != none {
		w.scorer.Add(int(d), int(p.item))
		return
	}
	for _, m := range w.catalog.pieces[p.piece].members {
		w.scorer.Add(int(d), m.item)
	}
}

func (w *worker) unload(d int32, p *entry) {
	if p.item != none {
		w.scorer.Remove(int(d), int(p.item))
		return
	}
	for _, m := range slices.Backward(w.catalog.pieces[p.piece].members) {
		w.scorer.Remove(int(d), m.item)
	}
}

// assign gives the worker's devices the pieces of s as a known assignment places them.
func (w *worker) assign(s *division, devices []int32) {
	w.clear(len(s.entries))
	for i := range s.entries {
		p := &s.entries[i]
		w.add(devices[p.index], p)
		w.evaluations++
	}
}

func (w *worker) clear(entries int) {
	w.scorer.Reset()
	for d := range w.devices {
		w.devices[d] = holding{used: w.catalog.short[d], load: w.catalog.base[d]}
	}
	w.holders.clear()
	w.trail.reset()
	if w.ordered != nil {
		w.ordered.fill(w.devices)
	}
	w.assigned = slices.Grow(w.assigned[:0], entries)[:entries]
	for i := range w.assigned {
		w.assigned[i] = none
	}
}

// add puts a piece on device d. The caller sets the device's predicted compute.
func (w *worker) add(d int32, p *entry) {
	w.load(d, p)
	h := &w.devices[d]
	h.used += p.bytes
	h.dims += p.dims
	h.class = max(h.class, p.class)
	w.assigned[p.index] = d
	w.holders.put(&w.catalog.pieces[p.piece], d)
}

// rewind undoes steps of the run over the entries: all steps from the first one that an
// inner search with a lower limit would not take.
func (w *worker) rewind(entries []entry, limit int64) {
	r := &w.trail
	kept := r.standing(limit)
	for i := len(r.steps) - 1; i >= kept; i-- {
		if s, p := &r.steps[i], &entries[i]; s.device != none {
			w.unload(s.device, p)
			w.devices[s.device] = s.before
			w.assigned[p.index] = none
			w.holders.drop(&w.catalog.pieces[p.piece])
		}
	}
	if w.ordered != nil && kept < len(r.steps) {
		w.ordered.fill(w.devices)
	}
	r.steps = r.steps[:kept]
	r.recount(limit)
}
