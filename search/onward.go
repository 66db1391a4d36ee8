package search

import (
	"cmp"
	"math"
	"slices"
)

// A search goes on from an old placement (Options.From):
//
//	resume    what may stay stays (resume.go), and the other pieces find places (insert.go).
//	          If they find none, the method makes a placement
//	anneal    under the price of moved bytes and the budget, in runs. The first runs have a higher
//	          price, so that bytes move first where that pays most
//	return    each table that moved goes back to its old place, if the plan does not become more
//	          expensive by that
//
// The bytes that move in the placement that the annealing begins with had to move, as far as
// the search can tell; the budget comes on top of them.

const (
	// A run makes onwardASlice evaluations for each slice, but at least onwardEvaluations. Beyond
	// manyEvaluations it makes onwardMore for each slice.
	onwardEvaluations, onwardASlice = 10_000, 12
	manyEvaluations, onwardMore     = 50_000, 1
	// onwardHeat is the heat of the search for the fewest bytes, and allBytes the price in ms of all bytes together then.
	onwardHeat, allBytes = .015, 1e6
)

// onwardRuns are the runs. share is the least price: the share of the cost that moving all bytes of the
// tables adds to the goal. The heat is low at first, because the old placement is a good one. Later
// runs have the true price, and the exact cost in the goal, for up to a number of slices.
var onwardRuns = []struct {
	share, heat float64
	exact       bool
	most        int64
}{
	{share: .1, heat: .05, most: math.MaxInt64},
	{share: .01, heat: .01, most: math.MaxInt64},
	{heat: .015, exact: true, most: 1000},
	{heat: .3, exact: true, most: 1000},
	{heat: 1, exact: true, most: 100},
}

// onward goes on from the old placement.
func onward(r *run) (s state, err error) {
	f := newFormer(r.catalog.problem, r.opt.From)
	r.catalog.former = f
	f.price = allBytes / f.bytes(r.catalog.problem) // moved bytes count more than any cost
	f.steer = f.price
	old := resume(r)
	if err := r.forms.possible(r.catalog, old.parts); err != nil {
		return s, err
	}
	start, err := onwardFrom(r, old)
	if err != nil {
		return s, err
	}
	w := &returner{newAnnealing(r, start, r.forms)}
	w.heat = onwardHeat
	w.renumbers = slices.ContainsFunc(start.parts, func(p placed) bool { return r.catalog.pieces[p.piece].form.Operator > 0 })
	w.forced(old)
	w.search()
	s.best = w.placement
	r.scorer().Reset()
	return s, nil
}

// onwardFrom returns the placement that the annealing begins with.
func onwardFrom(r *run, old *resumer) (placement, error) {
	r.scorer().Reset()
	old.mean = r.catalog.meanTime(old.left)
	m := &inserter{newAnnealer(r.catalog, r.scorer(), r.opt.Seed, r.forms), old}
	m.heat = onwardHeat
	fits := m.place()
	r.stats.Evaluations += m.evaluations
	if fits {
		if best := r.offer(placement{}, m.all()); best.parts != nil {
			return occupy(r, best)
		}
	}
	f := r.catalog.former
	r.catalog.former = nil
	s, err := searchBy(r, r.opt.Method)
	err = r.placed(s, err)
	r.catalog.former = f
	if err != nil {
		return placement{}, err
	}
	return occupy(r, r.offer(placement{}, s.best.parts))
}

// returner anneals from an old placement and returns tables to their old places.
type returner struct{ *annealing }

// forced looks for the placement that moves the fewest bytes, and of these for the cheapest one:
// with the tables that had no place anywhere. It sets the limit.
func (w *returner) forced(old *resumer) {
	f := w.c.former
	w.back()
	f.limit = w.c.movedBytes(w.placement.parts)
	if len(old.left) > 0 || f.limit > 0 {
		for _, k := range old.left {
			w.focus = append(w.focus, w.c.pieces[k].members[0].table)
		}
		w.again(max(onwardEvaluations, onwardASlice*int64(min(len(w.placement.parts), len(old.left)))))
		w.back()
		w.focus = nil
		f.limit = w.c.movedBytes(w.placement.parts)
	}
	f.price, f.steer = w.r.opt.From.Price, w.r.opt.From.Price
	w.placement.toll = f.priced(f.limit)
}

// search anneals in runs under the price and the budget, and returns tables after each run.
func (w *returner) search() {
	from, f := w.r.opt.From, w.c.former
	if from.Limited && from.Most == 0 {
		return
	}
	if f.limit += int64(min(from.Most, math.MaxInt64/4)); !from.Limited {
		f.limit = math.MaxInt64
	}
	all := f.bytes(w.c.problem)
	n := int64(len(w.placement.parts))
	evaluations := max(onwardEvaluations, min(onwardASlice*n, manyEvaluations+onwardMore*n))
	w.r.event.Phase = "anneal"
	for _, run := range onwardRuns {
		if n > run.most {
			break
		}
		f.steer = max(from.Price, run.share*w.placement.cost/all)
		w.heat, w.exact = run.heat, run.exact
		w.again(evaluations)
		w.back()
	}
	w.exact = false
}

// back returns tables to their old places as long as fewer bytes move and the plan does not become
// more expensive, those that move the most bytes first.
func (w *returner) back() {
	w.reset(w.placement.parts)
	cost, changed := w.scorer.Cost(), false
	attempt := func(table int) bool {
		w.gone, w.come = append(w.gone[:0], w.slots(table)...), w.come[:0]
		for _, s := range w.home(table) {
			w.come = append(w.come, placed{s.key, s.first})
		}
		if !w.fits(false) {
			return false
		}
		before := w.softSums
		w.try()
		w.evaluations++
		if now := w.scorer.Cost(); w.layout.moved < before.moved && w.priced(now) <= cost+w.c.former.priced(before.moved) {
			cost, changed = now, true
			w.accept()
			return true
		}
		w.undo(before)
		return false
	}
	for again := true; again; {
		again = false
		for _, table := range w.away() {
			again = attempt(table) || again
		}
	}
	w.r.stats.Evaluations += w.evaluations
	w.evaluations = 0
	if changed {
		w.placement = w.r.offer(placement{}, w.all())
	}
}

// away returns the first tables of the pieces that are not at their old places and have bytes to
// move, those with the most bytes first.
func (w *returner) away() (tables []int) {
	bytes := map[int]int64{}
	for _, slot := range w.live {
		p := w.parts[slot]
		t, single := w.table(p.piece)
		if home := w.home(t); len(home) == 0 {
			continue
		} else if single {
			bytes[t] = w.movedOf[t] - w.c.former.tables[t].stays
		} else if home[0].key != p.piece || home[0].first != p.device {
			bytes[t] = w.c.movedTogether(p)
		}
	}
	for t, n := range bytes {
		if n > 0 {
			tables = append(tables, t)
		}
	}
	slices.SortFunc(tables, func(a, b int) int { return cmp.Or(cmp.Compare(bytes[b], bytes[a]), cmp.Compare(a, b)) })
	return tables
}

// home returns where a table lay, or the co-location whose first table it is; nil if it cannot lie there.
func (w *returner) home(table int) []columnSlice { return w.c.former.tables[table].home }

// slots returns the slots of a table, or of the co-location whose first table it is.
func (w *returner) slots(table int) []int32 {
	if slots := w.tables[table]; len(slots) > 0 {
		return slots
	}
	i := slices.IndexFunc(w.live, func(slot int32) bool { return w.c.pieces[w.parts[slot].piece].members[0].table == table })
	return w.live[i : i+1]
}
