package search

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Stage join makes one slice of the slices of a table that lie on one device, if
// neither the device nor the plan becomes more expensive. The wider slice needs one set
// of index buffers instead of several, so it takes fewer bytes. Such slices were split
// apart and then placed together again; there are few of them, and each takes a few
// evaluations.

// join is the stage that joins slices of a table.
type join struct{}

func (join) apply(r *run, s state) (state, error) {
	if s.best.division == nil || r.catalog.rules.EqualSlices {
		return s, nil
	}
	c, w := r.catalog, r.workers[0]
	pieces, devices := s.best.division.pieces(), slices.Clone(s.best.devices)
	w.assign(s.best.division, devices)
	cost := w.scorer.Cost()
	joined := false
	for _, met := range meetings(c, pieces, devices) {
		r.stats.Evaluations += 2
		if whole, now, ok := joinSlices(w, pieces, met, int(devices[met[0]]), cost); ok {
			cost, joined = now, true
			pieces[met[0]] = whole
			for _, i := range met[1:] {
				pieces[i] = none
			}
		}
	}
	w.scorer.Reset()
	if !joined {
		return s, nil
	}
	var left, at []int32
	for i, k := range pieces {
		if k != none {
			left, at = append(left, k), append(at, devices[i])
		}
	}
	s.best = placement{division: c.divide(left), devices: at, cost: cost}
	return s, nil
}

// meetings returns the indices of pieces of one table that lie on one device, for each
// device and table with several such pieces. Only slices of a table that was split can
// meet, so no co-location does.
func meetings(c *catalog, pieces, devices []int32) (all [][]int32) {
	order := inOrder(len(pieces))
	table := func(i int32) int { return c.pieces[pieces[i]].members[0].table }
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(devices[a], devices[b]), cmp.Compare(table(a), table(b)), cmp.Compare(a, b))
	})
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && devices[order[from]] == devices[order[to]] && table(order[from]) == table(order[to]) {
			to++
		}
		if to-from > 1 {
			all = append(all, order[from:to])
		}
		from = to
	}
	return all
}

// joinSlices replaces slices that met on a device by one slice, unless the device or
// the plan becomes more expensive. cost is the plan's cost before. joinSlices returns
// the joined piece and the plan's cost with it; ok is false if it changed nothing.
func joinSlices(w *worker, pieces, met []int32, device int, cost float64) (whole int32, after float64, ok bool) {
	c := w.catalog
	width := 0
	for _, i := range met {
		width += c.pieces[pieces[i]].members[0].width
	}
	whole = c.slice(pieces[met[0]], width)
	item := c.scorer.Item(c.pieces[whole].members[0].table, width, problem.Form{})
	before := w.scorer.Compute(device)
	for _, i := range met {
		w.scorer.Remove(device, c.pieces[pieces[i]].members[0].item)
	}
	w.scorer.Add(device, item)
	after = w.scorer.Cost()
	if after <= cost && w.scorer.Compute(device) <= before {
		return whole, after, true
	}
	w.scorer.Remove(device, item)
	for _, i := range met {
		w.scorer.Add(device, c.pieces[pieces[i]].members[0].item)
	}
	return whole, cost, false
}
