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
// Of the devices with room, the best is the one with the least predicted compute before the piece
// joins. So one run places P pieces on D devices with P evaluations, and looks at each device for
// each piece. The runs of a grid share their first choices (trail.go).

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

// outcome is the result of a grid of inner searches on a division. Its cost is infinite if none
// of them placed all pieces.
type outcome struct {
	division *division
	// devices are those of the entries, by index.
	devices []int32
	cost    float64
	// evaluations and runs count the work.
	evaluations int64
	runs        int
}

// placed returns the pieces with their devices, the most expensive first.
func (o *outcome) placed() []placed {
	all := make([]placed, 0, len(o.devices))
	for _, e := range o.division.entries {
		all = append(all, placed{e.piece, o.devices[e.index]})
	}
	return all
}

// compareOutcomes orders outcomes by cost.
func compareOutcomes(a, b outcome) int { return cmp.Compare(a.cost, b.cost) }

// holding is what a device of a worker holds: the predicted compute, the bytes and the dim sum.
type holding struct {
	load       float64
	used, dims int64
}

// worker runs inner searches with a Scorer of its own.
type worker struct {
	catalog *catalog
	scorer  Scorer
	devices []holding
	// assigned is the device of each piece by its index, or none.
	assigned []int32
	trail    trail
	// holders are the devices of each table, if a rule needs them.
	holders holders
	// evaluations counts the estimates of a device. scansPerEvaluation scans of devices
	// count as one.
	evaluations int64
	open        []int32 // scratch: the devices that holders.open returns
}

func newWorker(c *catalog, scorer Scorer) *worker {
	return &worker{catalog: c, scorer: scorer, holders: newHolders(c), devices: make([]holding, len(c.all))}
}

// evaluate runs inner searches on a division under each of some thresholds, which descend. If
// ctx ends, it returns the best outcome so far.
func (w *worker) evaluate(ctx context.Context, s *division, thresholds []float64) outcome {
	best := outcome{division: s, cost: math.Inf(1)}
	start := w.evaluations
	// Let a run's dim sums peak at some value. Every cap from that value up allows all
	// choices of the run and adds no others, so a run under such a cap would be the
	// same.
	peak, ran := int64(0), false
	w.clear(len(s.entries))
	for _, threshold := range thresholds {
		limit := columns(threshold * float64(s.dims) / float64(len(w.catalog.all)))
		if ran && limit >= peak {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		w.rewind(s.entries, limit)
		complete := w.place(s.entries, limit)
		peak, ran = w.trail.totals().peak, true
		w.keep(&best, complete)
	}
	best.evaluations = w.evaluations - start
	return best
}

// keep makes the worker's placement the best if it is complete and not more expensive.
// Of placements with equal costs, the last one wins. It has the lowest threshold, as in
// the prototype, whose thresholds rise and which replaces the best placement only by a
// cheaper one.
func (w *worker) keep(best *outcome, complete bool) {
	best.runs++
	if !complete {
		return
	}
	if cost := w.scorer.Cost(); cost <= best.cost {
		best.cost = cost
		best.devices = append(best.devices[:0], w.assigned...)
	}
}

// place continues the run with the pieces in the given order, with at most limit
// columns on a device. It gives up at the first piece without a device, and reports whether it
// placed all pieces.
func (w *worker) place(entries []entry, limit int64) bool {
	for i := len(w.trail.steps); i < len(entries); i++ {
		p := &entries[i]
		c := w.leastSoFar(p, limit)
		if c.device == none {
			w.evaluations += w.trail.totals().evaluations
			return false
		}
		h := &w.devices[c.device]
		w.trail.record(p, &c, h)
		w.add(c.device, p)
		h.load = w.scorer.Compute(int(c.device))
	}
	t := w.trail.totals()
	w.evaluations += t.evaluations + t.scanned/scansPerEvaluation
	return true
}

// leastSoFar chooses the device with room that costs least so far. Of devices with
// equal costs, it takes the one with fewer bytes, then the one with the lowest number.
func (w *worker) leastSoFar(p *entry, limit int64) choice {
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

func (w *worker) clear(entries int) {
	w.scorer.Reset()
	for d := range w.devices {
		w.devices[d] = holding{used: w.catalog.short[d], load: w.catalog.base[d]}
	}
	w.holders.clear()
	w.trail.reset()
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
	r.steps = r.steps[:kept]
}
