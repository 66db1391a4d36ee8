package search

import (
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
// The choice is the device with the least predicted compute before the piece joins, and does not look at communication, which depends on
// the balance of the dim sums. A cap forces that balance: a threshold times the mean dim sum. A grid of thresholds is tried, and the
// cheapest complete placement wins (NeuroShard, section 4). One run places P pieces with P evaluations, and looks at each device for
// each piece.

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

// outcome is the result of a grid of inner searches on a division.
type outcome struct {
	division *division
	// parts are the pieces on devices, the most expensive first; nil if no search placed all pieces. The cost is infinite then.
	parts []placed
	cost  float64
	// evaluations and runs count the work.
	evaluations int64
	runs        int
}

// worker runs inner searches with a Scorer of its own.
type worker struct {
	catalog *catalog
	scorer  Scorer
	// load is the predicted compute of each device, and dims its columns.
	load []float64
	dims []int64
	// steps are those of the last run.
	steps []step
}

// step is a piece on a device, and the predicted compute and the columns of the device after it.
type step struct {
	placed
	load float64
	dims int64
}

// evaluate runs inner searches on a division under each of some thresholds, which descend. If
// ctx ends, it returns the best outcome so far.
func (w *worker) evaluate(ctx context.Context, d *division, thresholds []float64) outcome {
	best := outcome{division: d, cost: math.Inf(1)}
	w.steps = w.steps[:0]
	sum := 0.0
	for _, k := range d.pieces {
		sum += float64(w.catalog.pieces[k].dims)
	}
	for _, threshold := range thresholds {
		limit := int64(threshold * sum / float64(len(w.dims)))
		// A cap from the most columns of the last run up allows all choices of that run and adds no others.
		if best.runs > 0 && limit >= slices.Max(w.dims) {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		best.runs++
		if !w.place(d, limit, &best.evaluations) {
			continue
		}
		// Of placements with equal costs, the last one wins. It has the lowest threshold, as in
		// the prototype, whose thresholds rise and which replaces the best placement only by a cheaper one.
		if cost := w.scorer.Cost(); cost <= best.cost {
			best.cost, best.parts = cost, best.parts[:0]
			for _, s := range w.steps {
				best.parts = append(best.parts, s.placed)
			}
		}
	}
	return best
}

// place places the pieces in their order, with at most limit columns on a device, and reports whether all pieces find one.
// It takes the steps of the last run, whose limit was higher, up to the first one beyond its limit. It counts the
// evaluations as if it took none: estimates of a device, where scansPerEvaluation scans of devices count as one.
func (w *worker) place(d *division, limit int64, evaluations *int64) bool {
	c, n := w.catalog, 0
	w.scorer.Reset()
	copy(w.load, c.base)
	clear(w.dims)
	_, failed := placeInOrder(c, d.pieces, d.order, func(i int32, l *ledger, room []int32) int32 {
		k := &c.pieces[d.pieces[i]]
		known := n < len(w.steps) && w.steps[n].dims <= limit
		if !known {
			to := int32(none)
			for _, d := range room {
				if w.dims[d]+k.dims <= limit && (to == none || c.lighter(w.load, l, d, to)) {
					to = d
				}
			}
			if w.steps = w.steps[:n]; to == none {
				return none
			}
			w.steps = append(w.steps, step{placed: placed{d.pieces[i], to}, dims: w.dims[to] + k.dims})
		}
		s := &w.steps[n]
		for _, m := range k.members {
			w.scorer.Add(int(s.device), m.item)
		}
		if !known {
			s.load = w.scorer.Compute(int(s.device))
		}
		w.load[s.device], w.dims[s.device] = s.load, s.dims
		n++
		return s.device
	})
	*evaluations += int64(n)
	if failed == none {
		*evaluations += int64(n) * int64(len(c.all)) / scansPerEvaluation
	}
	return failed == none
}
