package search

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// join makes one slice of the slices of a table that met on one device, where
// the device and the plan do not get dearer by it. The wider slice needs one set
// of index buffers instead of several, so bytes only fall. The candidates are
// the slices that were split apart and placed together again after all; there
// are few, and each costs a few pricings.
func (s *run) join() {
	c, w := s.catalog, s.workers[0]
	pieces, devices := s.best.division.pieces(), slices.Clone(s.best.devices)
	order := make([]int32, len(pieces))
	for i := range order {
		order[i] = int32(i)
	}
	table := func(i int32) int { return c.pieces[pieces[i]].members[0].table }
	compare := func(a, b int32) int {
		return cmp.Or(cmp.Compare(devices[a], devices[b]), cmp.Compare(table(a), table(b)), cmp.Compare(a, b))
	}
	slices.SortFunc(order, compare)
	// Slices can only meet whose table was split, so no co-location group does.
	together := func(a, b int32) bool { return devices[a] == devices[b] && table(a) == table(b) }

	w.assign(s.best.division, devices)
	cost := w.scorer.Cost()
	joined := false
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && together(order[from], order[to]) {
			to++
		}
		met := order[from:to]
		from = to
		if len(met) < 2 {
			continue
		}
		width := 0
		for _, i := range met {
			width += c.pieces[pieces[i]].members[0].width
		}
		whole := c.slice(pieces[met[0]], width)
		item := c.scorer.Item(c.pieces[whole].members[0].table, width, problem.Form{})
		device := int(devices[met[0]])
		before := w.scorer.Compute(device)
		for _, i := range met {
			w.scorer.Remove(device, c.pieces[pieces[i]].members[0].item)
		}
		w.scorer.Add(device, item)
		after := w.scorer.Cost()
		s.stats.Evaluations += 2
		if after <= cost && w.scorer.Compute(device) <= before {
			cost, joined = after, true
			pieces[met[0]] = whole
			for _, i := range met[1:] {
				pieces[i] = none
			}
			continue
		}
		w.scorer.Remove(device, item)
		for _, i := range met {
			w.scorer.Add(device, c.pieces[pieces[i]].members[0].item)
		}
	}
	w.scorer.Reset()
	if !joined {
		return
	}
	var left, at []int32
	for i, k := range pieces {
		if k != none {
			left, at = append(left, k), append(at, devices[i])
		}
	}
	s.best = placement{c.newDivision(left), at, cost}
}
