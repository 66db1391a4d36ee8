package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Some starts of the race have tables in other forms where that pays, set by set of forms:
//
//	base         slices in HBM
//	switched     + replicated | + by rows | + by rows of hosts | + host memory | + all
//	prefixes     the tables that a set of forms costs least, some more each time
//	combined     the most expensive tables by rows, some more each time, and then others replicated
//
// Switching one table to a form seldom pays, because the first table of an operator class adds a kernel launch and an exchange;
// switching ten together may. So the search first switches the table for which the switch costs least, then every other table for
// which it then pays, and then switches back what no longer pays. During the switches only all devices together need to have room;
// afterwards the tables that were not switched are placed again.

// keptPrefixes is the number of prefixes of a set of forms that are starts: the cheapest ones.
const keptPrefixes = 3

// switcher switches tables of a layout to other forms.
type switcher struct{ *annealing }

// neighbour returns placements with one table in another form: the table for which the switch pays
// most or costs least, and the one for which it does so relative to the time that the
// table takes alone, which can be a large one. For each table, neighbour returns two placements:
// with the other slices where they are, and with all slices placed again.
func (w switcher) neighbour(from, to problem.Form) (starts []placement) {
	parts := w.placement.parts
	if !w.uses(parts, from) || !w.uses(parts, to) {
		return nil
	}
	w.reset(parts)
	for _, table := range w.switchable(from, to) {
		if w.reset(parts); w.turn(table, to) {
			starts = append(starts, w.taken()...)
		}
	}
	return starts
}

// switchable returns the table in a form for which the switch to another form pays most or costs least, and the
// one for which it does so relative to the time that the table takes alone; none if no table can switch.
func (w switcher) switchable(from, to problem.Form) (tables []int) {
	least, relative := math.Inf(1), math.Inf(1)
	absolutely, relatively := none, none
	for _, t := range w.order() {
		if w.formOf(t) != from {
			continue
		}
		if change, ok := w.worthOf(t, to); ok {
			if change < least {
				least, absolutely = change, t
			}
			if of := change / w.c.pieces[w.forms.whole[t]].alone; of < relative {
				relative, relatively = of, t
			}
		}
	}
	if absolutely != none {
		tables = append(tables, absolutely)
	}
	if relatively != none && relatively != absolutely {
		tables = append(tables, relatively)
	}
	return tables
}

// uses reports whether some part has the form, whatever its operator.
func (w switcher) uses(parts []placed, form problem.Form) bool {
	return slices.ContainsFunc(parts, func(p placed) bool {
		f := *w.c.pieces[p.piece].form
		f.Operator = 0
		return f == form
	})
}

// starts returns the placements with tables switched from the base.
func (w switcher) starts(base []placed) []placement {
	var tasks []func(on switcher) []placement
	combines := (w.c.problem.Topology.Hosts() > 1 || w.hostBudget > 0) && w.pairs() <= combinedPairs
	for i, forms := range w.forms.sets() {
		tasks = append(tasks, func(on switcher) []placement { return on.switchedStarts(i) }, func(on switcher) []placement { return on.prefixStarts(i) })
		if len(forms) == 1 && forms[0].ShardingType.ByRows() && combines {
			for _, hosts := range w.hostCounts(forms[0]) {
				tasks = append(tasks, func(on switcher) []placement { return on.combinedStarts(i, hosts) })
			}
		}
	}
	return slices.Concat(inParallel(w.r, slices.Repeat([][]placed{base}, len(tasks)), func(on *run, i int, base []placed) []placement {
		other := switcher{newAnnealing(on, placement{}, w.forms)}
		other.reset(base)
		found := tasks[i](other)
		on.stats.Evaluations += other.evaluations
		return found
	})...)
}

// pairs returns the number of tables times devices.
func (w switcher) pairs() int { return len(w.c.whole()) * len(w.c.all) }

// combinedPairs is the most tables times devices on which some starts have combined forms: on several hosts, and with host memory.
// Such clusters have the most forms to combine, and small changes do not lead from one combination to another.
const combinedPairs = 20_000

// switchedStarts returns the placements with tables switched to a set of forms.
func (w switcher) switchedStarts(set int) []placement {
	if w.r.ended() || !w.switchTo(w.forms.sets()[set]) {
		return nil
	}
	return w.taken()
}

// prefixStarts returns placements in which the first tables are in forms of a set, in the order of what that costs.
func (w switcher) prefixStarts(set int) (starts []placement) {
	type switched struct {
		table  int
		form   problem.Form
		change float64
	}
	var order []switched
	forms := w.forms.sets()[set]
	for _, t := range w.order() {
		best := switched{t, problem.Form{}, math.Inf(1)}
		for _, form := range forms {
			if change, ok := w.worthOf(t, form); ok && change < best.change {
				best = switched{t, form, change}
			}
		}
		if best.form != (problem.Form{}) {
			order = append(order, best)
		}
	}
	slices.SortStableFunc(order, func(a, b switched) int { return cmp.Compare(a.change, b.change) })
	var prefixes [][]placed
	for i, next := 0, 1; i < len(order) && !w.r.ended(); i++ {
		w.turn(order[i].table, order[i].form)
		if i+1 == next || i+1 == len(order) {
			prefixes = append(prefixes, w.all())
			next *= 2
		}
	}
	for _, parts := range prefixes {
		if w.r.ended() {
			break
		}
		w.reset(parts)
		if built, ok := w.rebuild(parts); ok {
			starts = append(starts, placement{parts: built, cost: w.scorer.Cost()})
		}
	}
	slices.SortStableFunc(starts, cheapestFirst)
	return starts[:min(len(starts), keptPrefixes)]
}

// combinedStarts returns placements with the most expensive tables switched to the only form of a
// set, which is by rows, and then other tables replicated where that pays. Blocks of rows on one
// host make its devices slower than those of other hosts, so each table may be spread over a number of hosts. Neither
// step alone leads to such a placement: without replicas, tables by rows cost too much, and beside replicas no switch of one
// table pays.
func (w switcher) combinedStarts(set, hosts int) (starts []placement) {
	w.acrossHosts = hosts
	base, form := w.all(), w.forms.sets()[set][0]
	for n, again := 1, true; again && !w.r.ended(); n *= 2 {
		w.reset(base)
		again = w.switchFirst(form, n) == n
		w.switchTo([]problem.Form{{ShardingType: problem.DataParallel}})
		starts = append(starts, w.taken()...)
	}
	return starts
}

// hostCounts returns the numbers of hosts that the starts with combined forms spread the blocks of a table
// over: 1 and, for blocks on one host, the powers of two up to the number of full hosts.
func (w switcher) hostCounts(form problem.Form) []int {
	numbers := []int{1}
	if spanOf(form) == oneHost && slices.Contains(w.forms.sliced, true) {
		for n := 2; n <= int(w.fullHosts()); n *= 2 {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// taken returns two placements: the layout's placement, if all of it fits, and the same with the
// tables that were not switched placed again.
func (w switcher) taken() (starts []placement) {
	found := w.all()
	if w.lack(false) == 0 {
		starts = append(starts, placement{parts: found, cost: w.scorer.Cost()})
		w.reset(found)
	}
	if built, ok := w.rebuild(found); ok {
		starts = append(starts, placement{parts: built, cost: w.scorer.Cost()})
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
// form of its last part and in operator 0, and the parts that several devices hold, or blocks of rows on chosen devices.
func unsplit(c *catalog, parts []placed) (pieces []int32, fixed []placed) {
	forms := map[int]problem.Form{}
	for _, p := range parts {
		k := &c.pieces[p.piece]
		form := *k.form
		form.Operator = 0
		forms[k.members[0].table] = form
		if c.blocks(&form) > 1 || k.span != oneDevice {
			fixed = append(fixed, p)
		}
	}
	for _, k := range c.whole() {
		m := c.pieces[k].members[0]
		switch form := forms[m.table]; {
		case form == (problem.Form{}):
			pieces = append(pieces, k)
		case spanOf(form) == oneDevice && form.Blocks == 0:
			pieces = append(pieces, c.inForm(k, m.width, form))
		}
	}
	return pieces, fixed
}

// switchTo switches tables to the forms for which that pays, and reports whether it
// switched any. For each form, it first switches the table for which the switch pays
// most or costs least. Last, it switches tables back to slices of columns where that pays, because
// the table that was switched first often stays alone in its form.
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
		if opener != none && w.formOf(opener) == (problem.Form{}) && w.turn(opener, form) {
			switched = true
		}
	}
	for range 2 {
		if !switched || !w.switchWhatPays(tables, forms) {
			break
		}
	}
	if switched && w.pairs() <= combinedPairs {
		w.switchWhatPays(tables, []problem.Form{{}})
	}
	return switched
}

// switchWhatPays switches each table to the form of a set for which the switch pays
// most, and reports whether it switched any.
func (w switcher) switchWhatPays(tables []int, forms []problem.Form) (changed bool) {
	for _, t := range tables {
		best, least := none, -1e-9*w.best
		for i, form := range forms {
			if change, ok := w.worthOf(t, form); ok && change < least {
				best, least = i, change
			}
		}
		if best != none && w.turn(t, forms[best]) {
			changed = true
		}
	}
	return changed
}

// switchFirst switches the given number of tables to a form that they may take, the most expensive ones first, and returns the number
// of tables switched.
func (w switcher) switchFirst(form problem.Form, most int) (n int) {
	for _, t := range w.order() {
		if n < most && slices.Contains(w.forms.choices[t], form) && w.formOf(t) != form && w.turn(t, form) {
			n++
		}
	}
	return n
}

// turn gives a table a form, and reports whether it could.
func (w switcher) turn(table int, to problem.Form) bool {
	if !w.become(table, to, 0, true) {
		return false
	}
	w.try()
	w.accept()
	return true
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
