package search

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Stage switch takes tables into other forms where that pays, set by set of forms:
//
//	start        slices in HBM
//	switched     + replicated | + by rows | + by rows of hosts | + host memory | + all
//	annealed     each shortly, with changes of a table's form among the changes
//	             the best one goes on
//	one more     the best placement with one table more, or fewer, in a form: annealed shortly
//
// Switching one table to a form seldom pays, because the first table of an operator
// class adds a kernel launch and an exchange; switching ten together may. So the stage
// first switches the table for which the switch costs least, then every other table for
// which it then pays, and keeps the result if all the switches together pay. During the
// switches only all devices together need to have room; afterwards the tables that were
// not switched are placed again.
//
// The time of a piece that all devices hold is counted once, so a change takes the same
// time for any number of devices.

const (
	// A switched start is annealed for formEvaluations evaluations, or for
	// formEvaluationsASlice for each slice, whichever is more; in the second round, for
	// twice that number.
	formEvaluations, formEvaluationsASlice = 12_000, 3
	// switchedStarts and secondStarts are the numbers of starts in the first and in the
	// second round.
	switchedStarts, secondStarts = 6, 3
	// If switching tables makes the placement cheaper than clearlyCheaper times its cost,
	// slices of columns are not annealed first.
	clearlyCheaper = .95
	// If the placement in other forms costs more than annealedSaving times the slices of
	// columns that were not annealed, and the slices are few, they are annealed last as if no
	// other form were allowed: they may become cheaper.
	annealedSaving = .8
	// If there are more than manySlices slices, there is one round only, with secondStarts
	// starts.
	manySlices = 30_000
)

// expensiveShares are shares of a device's mean compute. In some starts, tables that
// cost more than the share are cut by rows.
var expensiveShares = []float64{1, .5, .25}

// switchForms is the stage that switches tables to other forms and anneals among all
// forms.
type switchForms struct{}

func (switchForms) apply(r *run, s state) (state, error) {
	if r.status != Complete {
		return s, nil
	}
	w := switcher{newAnnealing(r, s.best, r.forms)}
	base, unannealed := s.best.placed(), s.best
	columns := s.infeasible == nil && !r.formed(base)
	var starts []start
	if !columns || len(s.coarse) == 0 {
		starts = w.starts(base)
	}
	if columns && w.placement.cost > clearlyCheaper*s.best.cost {
		// Other forms save little so far, or the problem is large: slices of columns are annealed first.
		onHalf(r, func() { s.best = annealColumns(r, s.best, s.coarse, false) })
		s.columns = s.best
		base = s.best.placed()
		w = switcher{newAnnealing(r, cheaper(s.best, w.placement), r.forms)}
		starts = w.starts(base)
	}
	for _, parts := range s.further {
		if w.reset(parts); !known(starts, w.best) {
			starts = append(starts, start{parts, w.best})
		}
	}
	same := slices.Clone(starts)
	w.annealStarts(base, starts)
	w.refine(base, len(s.coarse) > 0)
	if (r.formed(base) || w.hierarchy != nil) && fewSlices(s.best) {
		w.placement = cheaper(w.placement, w.second(s.best, base, same))
	}
	s.best = w.placement
	if columns && fewSlices(unannealed) && s.best.cost > annealedSaving*unannealed.cost {
		s.best = cheaper(s.best, annealColumns(r, unannealed, s.coarse, true))
	}
	return s, nil
}

// switcher switches tables of a layout to other forms.
type switcher struct{ *annealing }

// annealStarts anneals from the starts in rounds. If the best start with other forms is
// worth more than the best placement, it anneals from that start once more.
func (w switcher) annealStarts(base []placed, starts []start) {
	evaluations := max(formEvaluations, formEvaluationsASlice*int64(len(base)))
	// If slices of columns alone do not fit, few changes are possible and a run may end in
	// any of many local optima, so a start is annealed several times.
	for i := 0; w.r.formed(base) && len(starts) < switchedStarts; i++ {
		starts = append(starts, starts[i])
	}
	rounds := 2
	if len(base) > manySlices {
		starts, rounds = starts[:min(len(starts), secondStarts)], 1
	}
	for round := range rounds {
		for i := range starts {
			w.annealStart(&starts[i], evaluations<<round)
		}
		slices.SortStableFunc(starts, cheapestFirst)
		if round == 0 {
			starts = w.contest(starts)
		}
	}
	// The base had a long run, and the other starts had none. A start that is worth more
	// may become cheaper than the base in a long run.
	i := slices.IndexFunc(starts, func(s start) bool { return w.r.formed(s.parts) })
	if i < 0 || w.r.formed(w.placement.placed()) {
		return
	}
	w.reset(starts[i].parts)
	worth := w.worth()
	if w.reset(w.placement.placed()); worth < w.worth() {
		w.annealStart(&starts[i], w.longRun())
	}
	w.mixed = w.r.formed(w.placement.placed()) // otherwise no other form pays
}

// refine makes the long runs and tries the neighbours of their best placement. A large problem
// where no other form pays is annealed like one of slices alone.
func (w switcher) refine(base []placed, large bool) {
	heats, longer := longFormHeats, int64(1)
	if large && !w.mixed {
		heats, longer = []float64{coarseHot}, coarseLonger
	}
	w.long(longer*w.longRun(), heats, true)
	w.neighbours(max(formEvaluations, formEvaluationsASlice*int64(len(base))))
}

// second returns the placement that the same runs from the same starts find by other draws.
// Where slices of columns alone do not fit, few changes are possible, and one run in eight
// ends at a local optimum that costs up to 1.8 times as much; that both runs end there is rare.
// Under a hierarchical exchange, runs differ, too: with six seeds, plans of DLRM-DCNv2 on 64 GPUs
// (the command in docs/STEP.md, Stacks) cost 0.773 to 0.911 ms after one run, and 0.773 to
// 0.819 ms after both (SIMULATED).
func (w switcher) second(best placement, base []placed, starts []start) placement {
	other := switcher{newAnnealing(w.r, best, w.r.forms)}
	other.draw = w.draw
	other.annealStarts(base, starts)
	other.long(other.longRun(), longFormHeats, false)
	return other.placement
}

// annealStart anneals from a start, and replaces the start by the best placement found.
func (w switcher) annealStart(from *start, evaluations int64) {
	if w.left() == 0 {
		return
	}
	w.heat = formHot
	if best := w.from(from.parts, min(evaluations, w.left())); best != nil {
		*from = start{best, w.best}
	}
}

// contest returns the starts of the second round from the sorted starts: the cheapest
// ones, and at least one with other forms.
func (w switcher) contest(starts []start) []start {
	n := min(len(starts), secondStarts)
	if i := slices.IndexFunc(starts, func(s start) bool { return w.r.formed(s.parts) }); i >= n {
		starts[n-1] = starts[i]
	}
	return starts[:n]
}

// neighbours anneals from the best placement with one table more or one table fewer in a form
// in which several devices hold a table, for each such form of the placement, as long as that
// makes the placement cheaper. A run of the annealing seldom finds such a placement: a table that
// leaves a few devices makes their load uneven, and the placement becomes cheaper only after the
// other slices have changed places.
func (w switcher) neighbours(evaluations int64) {
	for _, forms := range w.forms.sets() {
		form := forms[0]
		if len(forms) > 1 || spanOf(form) == oneDevice {
			continue
		}
		for more, fewer := true, true; more || fewer; {
			more = w.neighbour(problem.Form{}, form, evaluations)
			fewer = w.neighbour(form, problem.Form{}, evaluations)
		}
	}
}

// neighbour anneals from the best placement with one table in another form: the table for which
// the switch pays most or costs least. It anneals twice: with the other slices where they are,
// and with all slices placed again. It reports whether the best placement became cheaper.
func (w switcher) neighbour(from, to problem.Form, evaluations int64) bool {
	parts, cost := w.placement.placed(), w.placement.cost
	if w.left() == 0 || !w.uses(parts, from) || !w.uses(parts, to) {
		return false
	}
	w.reset(parts)
	table, least := none, math.Inf(1)
	for _, t := range w.order() {
		if w.formOf(t) != from {
			continue
		}
		if change, ok := w.worthOf(t, to); ok && change < least {
			table, least = t, change
		}
	}
	if table == none || !w.become(table, to, 0, true) {
		return false
	}
	w.try()
	w.accept()
	switched := w.all()
	if w.lack(false) == 0 {
		w.annealStart(&start{parts: switched}, evaluations)
		w.reset(switched)
	}
	if built, ok := w.rebuild(switched); ok {
		w.annealStart(&start{parts: built}, evaluations)
	}
	return w.placement.cost < cost
}

// uses reports whether some part has the form, whatever its operator.
func (w switcher) uses(parts []placed, form problem.Form) bool {
	return slices.ContainsFunc(parts, func(p placed) bool {
		f := w.c.pieces[p.piece].form
		f.Operator = 0
		return f == form
	})
}

// starts returns the base and the cheapest placements with tables switched.
func (w switcher) starts(base []placed) []start {
	w.reset(base)
	starts := []start{{base, w.best}}
	going := func() bool { return !w.r.ended() && w.r.stats.Evaluations < w.r.end() }
	sets := w.forms.sets()
	for _, forms := range sets {
		if !going() {
			break
		}
		w.reset(base)
		starts = w.take(starts, w.switchTo(forms))
	}
	for _, forms := range sets {
		form := forms[0]
		if len(forms) > 1 || !form.ShardingType.ByRows() {
			continue
		}
		for last, i := 0, 0; i < len(expensiveShares) && going(); i++ {
			w.reset(base)
			n := w.switchExpensive(form, expensiveShares[i])
			starts = w.take(starts, n > last)
			last = n
		}
	}
	slices.SortStableFunc(starts, cheapestFirst)
	return starts[:min(len(starts), switchedStarts)]
}

// take appends two placements to the starts, if tables were switched: the layout's
// placement, if all of it fits, and the same with the tables that were not switched
// placed again.
func (w switcher) take(starts []start, switched bool) []start {
	w.r.stats.Evaluations += w.evaluations
	w.evaluations = 0
	if !switched {
		return starts
	}
	add := func(parts []placed) {
		if cost := w.scorer.Cost(); !known(starts, cost) {
			starts = append(starts, start{parts, cost})
			w.placement = w.r.offerPlaced(w.placement, parts)
		}
	}
	found := w.all()
	if w.lack(false) == 0 {
		add(found)
		w.reset(found)
	}
	if built, ok := w.rebuild(found); ok {
		add(built)
	}
	return starts
}

// rebuild places the slices of columns on single devices again, beside the other parts.
// ok is false if they do not fit or the problem is too large.
func (w switcher) rebuild(parts []placed) ([]placed, bool) {
	pieces, fixed := unsplit(w.c, parts)
	total := 0.0
	for _, t := range w.compute {
		total += t
	}
	return buildBeside(w.r, w.layout, pieces, fixed, total/float64(len(w.c.all)), shapeEvaluations)
}

// unsplit returns the whole tables of the parts that lie on single devices, each in the
// form of its last part and in operator 0, and the parts that several devices hold.
func unsplit(c *catalog, parts []placed) (pieces []int32, fixed []placed) {
	forms := map[int]problem.Form{}
	for _, p := range parts {
		k := &c.pieces[p.piece]
		form := k.form
		form.Operator = 0
		forms[k.members[0].table] = form
		if k.span != oneDevice {
			fixed = append(fixed, p)
		}
	}
	for _, k := range c.whole() {
		m := c.pieces[k].members[0]
		switch form := forms[m.table]; {
		case form == (problem.Form{}):
			pieces = append(pieces, k)
		case spanOf(form) == oneDevice:
			pieces = append(pieces, c.inForm(k, m.width, form))
		}
	}
	return pieces, fixed
}

// switchTo switches tables to the forms for which that pays, and reports whether it
// switched any. For each form, it first switches the table for which the switch pays
// most or costs least.
func (w switcher) switchTo(forms []problem.Form) bool {
	tables := w.order()
	switched := false
	for _, form := range forms {
		opener, least := none, math.Inf(1)
		for _, t := range tables {
			if change, ok := w.worthOf(t, form); ok && change < least {
				opener, least = t, change
			}
		}
		if opener != none && w.formOf(opener) == (problem.Form{}) && w.become(opener, form, 0, true) {
			w.try()
			w.accept()
			switched = true
		}
	}
	for range 2 {
		if !switched || !w.switchWhatPays(tables, forms) {
			break
		}
	}
	return switched
}

// switchWhatPays switches each table to the form of a set for which the switch pays
// most, and reports whether it switched any.
func (w switcher) switchWhatPays(tables []int, forms []problem.Form) (changed bool) {
	for _, t := range tables {
		best, least := problem.Form{}, -1e-9*w.best
		for _, form := range forms {
			if change, ok := w.worthOf(t, form); ok && change < least {
				best, least = form, change
			}
		}
		if best != (problem.Form{}) && w.become(t, best, 0, true) {
			w.try()
			w.accept()
			changed = true
		}
	}
	return changed
}

// switchExpensive switches each table that alone takes more than a share of a device's
// mean compute to a form by rows, and returns the number of tables switched.
func (w switcher) switchExpensive(form problem.Form, share float64) (n int) {
	mean := w.computeSum / float64(len(w.compute))
	for _, t := range w.order() {
		if w.c.pieces[w.forms.whole[t]].alone <= share*mean {
			break
		}
		if slices.Contains(w.forms.choices[t], form) && w.formOf(t) != form && w.become(t, form, 0, true) {
			w.try()
			w.accept()
			n++
		}
	}
	return n
}

// worthOf returns the change of the worth if a table takes a form. ok is false if the
// table has the form already or cannot take it.
func (w switcher) worthOf(table int, form problem.Form) (change float64, ok bool) {
	may := slices.Contains(w.forms.choices[table], form) || form == (problem.Form{}) && !w.forms.barred[table]
	if !may || w.formOf(table) == form || !w.become(table, form, 0, true) {
		return 0, false
	}
	worth, before := w.worth(), w.softSums
	w.evaluations++
	w.try()
	change = w.worth() - worth
	w.undo(before)
	return change, true
}
