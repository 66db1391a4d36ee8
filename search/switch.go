package search

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Some starts of the race have tables in other forms where that pays, set by set of forms:
//
//	base         slices in HBM
//	switched     + replicated | + by rows | + by rows of hosts | + host memory | + all
//	prefixes     the tables that a set of forms costs least, some more each time
//	descended    of few tables: all in one form, and from there a descent by cost
//	combined     + by rows + replicated, on several hosts or with host memory
//
// Switching one table to a form seldom pays, because the first table of an operator
// class adds a kernel launch and an exchange; switching ten together may. So the search
// first switches the table for which the switch costs least, then every other table for
// which it then pays, and then switches back what no longer pays. It keeps the result if all the
// switches together pay. During the switches only all devices together need to have room;
// afterwards the tables that were not switched are placed again.
//
// The time of a piece that all devices hold is counted once, so a change takes the same
// time for any number of devices.

const (
	// switchedStarts is the number of starts, beside those with combined forms. Of the prefixes of a set of forms, the
	// keptPrefixes cheapest ones may be starts.
	switchedStarts, keptPrefixes = 6, 3
	// On several hosts, or with host memory, mostCombined starts have some tables by rows and others
	// replicated, if tables times devices are at most combinedPairs.
	mostCombined, combinedPairs = 4, 20_000
	// With flat exchanges and more than severalTables tables, the search goes further: up to moreDescended tables
	// have descents by cost, and there are moreCombined starts with combined forms. Of the switched starts and of
	// the combined starts each, the cheapest one of each of the mostSets cheapest sets of forms is a start, too.
	severalTables, moreDescended, moreCombined, mostSets = 2, 48, 6, 8
	// Of up to moreDescended tables, for each pair of forms, up to moreSwitched tables change from one to the other,
	// by each of two measures. Of the tables whose blocks lie on hosts, mostRehosted lie across other numbers of
	// hosts.
	moreSwitched, mostRehosted = 4, 4
)

// switcher switches tables of a layout to other forms.
type switcher struct{ *annealing }

// eachSet returns the cheapest start of each set of forms from the sorted starts, at most the given number.
func (w switcher) eachSet(starts []start, most int) (chosen []start) {
	var sets []map[problem.Form]bool
	for _, s := range starts {
		forms := map[problem.Form]bool{}
		for _, p := range s.parts {
			form := *w.c.pieces[p.piece].form
			form.Operator = 0
			forms[form] = true
		}
		same := func(other map[problem.Form]bool) bool { return maps.Equal(forms, other) }
		if len(chosen) < most && !slices.ContainsFunc(sets, same) {
			sets, chosen = append(sets, forms), append(chosen, s)
		}
	}
	return chosen
}

// neighbour returns placements with one table in another form: the tables for which the switch pays
// most or costs least, and the tables for which the switch does so relative to the time that the
// table takes alone; one of each, or up to moreSwitched of each where the stage goes further and there are
// few tables. The latter measure can choose large tables. For each table, neighbour returns two placements:
// with the other slices where they are, and with all slices placed again.
func (w switcher) neighbour(from, to problem.Form) (starts []start) {
	parts := w.placement.placed()
	if !w.uses(parts, from) || !w.uses(parts, to) {
		return nil
	}
	w.reset(parts)
	most := 1
	if w.searchesFurther() && len(w.c.whole()) <= moreDescended {
		most = moreSwitched
	}
	for _, table := range w.switchable(from, to, most) {
		if w.reset(parts); w.become(table, to, 0, true) {
			w.try()
			w.accept()
			starts = append(starts, w.taken()...)
		}
	}
	return starts
}

// switchable returns the tables in a form for which the switch to another form pays most or costs least, and
// those for which it does so relative to the time that the table takes alone, at most the given number of each.
func (w switcher) switchable(from, to problem.Form, most int) []int {
	type candidate struct {
		table            int
		change, relative float64
	}
	var candidates []candidate
	for _, t := range w.order() {
		if w.formOf(t) != from {
			continue
		}
		if change, ok := w.worthOf(t, to); ok {
			candidates = append(candidates, candidate{t, change, change / w.c.pieces[w.forms.whole[t]].alone})
		}
	}
	var tables []int
	for _, compare := range []func(a, b candidate) int{
		func(a, b candidate) int { return cmp.Compare(a.change, b.change) },
		func(a, b candidate) int { return cmp.Compare(a.relative, b.relative) },
	} {
		for _, c := range slices.SortedStableFunc(slices.Values(candidates), compare)[:min(most, len(candidates))] {
			if !slices.Contains(tables, c.table) {
				tables = append(tables, c.table)
			}
		}
	}
	return tables
}

// onOtherHosts returns placements in which tables whose blocks lie on hosts lie across other numbers of hosts, by
// equal slices of columns. Only the mostRehosted most expensive of these tables take part. Each of them lies
// across the next larger and across the next smaller number; and the first one, the first two, and so on
// share all hosts, while the others become slices of columns. For each such change, onOtherHosts returns two placements,
// as neighbour does.
func (w switcher) onOtherHosts() (starts []start) {
	parts := w.placement.placed()
	w.reset(parts)
	tables := slices.DeleteFunc(w.order(), func(t int) bool {
		return spanOf(w.formOf(t)) != oneHost || !w.forms.sliced[t]
	})
	first := tables[:min(len(tables), mostRehosted)]
	add := func(change func() bool) {
		if w.reset(parts); change() {
			starts = append(starts, w.taken()...)
		}
	}
	for i, t := range first {
		now := len(w.tables[t])
		larger, smaller := w.hostsBeside(t, now)
		for _, n := range []int{larger, smaller} {
			if n > 0 {
				add(func() bool { return w.across(t, n) })
			}
		}
		share := int(w.fullHosts()) / (i + 1)
		add(func() bool { return w.shareHosts(tables[:i+1], tables[i+1:], share) })
		w.reset(parts)
	}
	return starts
}

// hostsBeside returns the least number of equal slices of a table that is larger than n, and the largest
// number that is smaller than n, both not larger than the number of full hosts; 0 if there is none.
func (w switcher) hostsBeside(table, n int) (larger, smaller int) {
	t := &w.c.problem.Tables[table]
	for _, width := range w.c.equalWidths[table] { // from the widest, so that the numbers of slices rise
		switch slices := t.Dim / width; {
		case slices > int(w.fullHosts()):
			return larger, smaller
		case slices < n:
			smaller = slices
		case slices > n && larger == 0:
			larger = slices
		}
	}
	return larger, smaller
}

// shareHosts lays each of some tables across at most the given number of hosts, and makes the others slices of
// columns. It returns false if that is impossible or changes nothing.
func (w switcher) shareHosts(blocks, others []int, most int) bool {
	changed := len(others) > 0
	for _, t := range others {
		if w.forms.barred[t] || !w.become(t, problem.Form{}, 0, true) {
			return false
		}
		w.try()
		w.accept()
	}
	for _, t := range blocks {
		_, n := w.hostsBeside(t, most+1)
		changed = changed || n != len(w.tables[t])
		if n == 0 || !w.across(t, n) {
			return false
		}
	}
	return changed
}

// across lays the blocks of a table in equal slices of columns on the given number of hosts, those with the
// least compute without the table. It reports whether all devices together have room.
func (w switcher) across(table, hosts int) bool {
	whole := w.forms.whole[table]
	inBlocks := w.c.inForm(whole, w.c.pieces[whole].members[0].width, w.formOf(table))
	parts := w.all()
	w.reset(slices.DeleteFunc(slices.Clone(parts), func(p placed) bool {
		return w.c.pieces[p.piece].members[0].table == table
	}))
	sums := w.hostSums()
	w.reset(parts)
	idlest := make([]int32, len(sums))
	for h := range idlest {
		idlest[h] = int32(h)
	}
	slices.SortStableFunc(idlest, func(g, h int32) int { return cmp.Compare(sums[g], sums[h]) })
	w.gone, w.come = append(w.gone[:0], w.tables[table]...), w.come[:0]
	for i, k := range w.equalSlices(inBlocks, hosts) {
		w.come = append(w.come, placed{k, idlest[i] * w.local})
	}
	if !w.fits(true) {
		return false
	}
	w.try()
	w.accept()
	return true
}

// uses reports whether some part has the form, whatever its operator.
func (w switcher) uses(parts []placed, form problem.Form) bool {
	return slices.ContainsFunc(parts, func(p placed) bool {
		f := *w.c.pieces[p.piece].form
		f.Operator = 0
		return f == form
	})
}

// starts returns the base, the cheapest placements with tables switched, and the cheapest with
// combined forms if the stage combines.
func (w switcher) starts(base []placed) []start {
	w.reset(base)
	starts := []start{{base, w.best}}
	sets := w.forms.sets()
	var switched, combined []func(on switcher) []start
	for i := range sets {
		switched = append(switched, func(on switcher) []start { return on.switchedStarts(i) })
	}
	for i := range sets {
		switched = append(switched, func(on switcher) []start { return on.prefixStarts(i) })
	}
	if n := len(w.c.whole()); w.searchesFurther() && n <= moreDescended {
		for _, forms := range sets {
			for _, hosts := range w.descentHosts(forms) {
				switched = append(switched, func(on switcher) []start { return on.descendedStarts(forms, hosts) })
			}
		}
	}
	for i, forms := range sets {
		if len(forms) == 1 && forms[0].ShardingType.ByRows() && w.combines() {
			for _, hosts := range w.hostCounts(forms[0]) {
				combined = append(combined, func(on switcher) []start { return on.combinedStarts(i, hosts) })
			}
		}
	}
	found := w.startsOf(base, slices.Concat(switched, combined))
	starts = w.cheapestOf(starts, found[:len(switched)], switchedStarts)
	most := mostCombined
	if w.searchesFurther() {
		most = moreCombined
	}
	for _, s := range w.cheapestOf(nil, found[len(switched):], most) {
		if !known(starts, s.cost) {
			starts = append(starts, s)
		}
	}
	slices.SortStableFunc(starts, cheapestFirst)
	return starts
}

// startsOf returns the starts of each task. All tasks begin at the base.
func (w switcher) startsOf(base []placed, tasks []func(on switcher) []start) [][]describedStart {
	parts, found := describe(w.c, base), make([][]describedStart, len(tasks))
	inParallel(w.r, len(tasks), func(on *run, i int) {
		other := switcher{newAnnealing(on, placement{}, on.forms)}
		other.reset(find(on, parts))
		found[i] = describeStarts(on.catalog, tasks[i](other))
		on.stats.Evaluations += other.evaluations
	})
	return found
}

// cheapestOf adds the found starts to the given ones, offers each as the best placement, and returns
// the cheapest ones, at most the given number. If the stage searches further, it adds the cheapest start of
// each of the mostSets cheapest sets of forms.
func (w switcher) cheapestOf(starts []start, found [][]describedStart, most int) []start {
	for _, s := range slices.Concat(found...) {
		if !known(starts, s.cost) {
			starts = append(starts, start{find(w.r, s.parts), s.cost})
			w.placement = w.r.offerPlaced(w.placement, starts[len(starts)-1].parts)
		}
	}
	slices.SortStableFunc(starts, cheapestFirst)
	chosen := slices.Clone(starts[:min(len(starts), most)])
	if w.searchesFurther() {
		for _, s := range w.eachSet(starts, mostSets) {
			if !known(chosen, s.cost) {
				chosen = append(chosen, s)
			}
		}
	}
	return chosen
}

// pairs returns the number of tables times devices.
func (w switcher) pairs() int { return len(w.c.whole()) * len(w.c.all) }

// combines reports whether the stage tries more combinations of forms, and anneals longer: on
// several hosts, and with host memory. Such clusters have the most forms to combine, and small
// changes do not lead from one combination to another.
func (w switcher) combines() bool {
	return (w.c.problem.Topology.Hosts() > 1 || w.hostBudget > 0) && w.pairs() <= combinedPairs
}

// searchesFurther reports whether the stage combines, exchanges are flat, and there are more than fewTables
// tables. Then the stage anneals from more starts, and more often. Under a hierarchical exchange, these runs made
// plans of DLRM-DCNv2 on 64 and 128 h100-80 1.5 to 1.8 % more expensive, and on 64 a100-80 0.7 % cheaper.
func (w switcher) searchesFurther() bool {
	return w.combines() && w.hierarchy == nil && len(w.c.whole()) > severalTables
}

// switchedStarts returns the placements with tables switched to a set of forms.
func (w switcher) switchedStarts(set int) []start {
	if w.r.ended() || !w.switchTo(w.forms.sets()[set]) {
		return nil
	}
	return w.taken()
}

// prefixStarts returns placements in which the first tables are in forms of a set, in the order of what that costs.
func (w switcher) prefixStarts(set int) (starts []start) {
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
		if w.become(order[i].table, order[i].form, 0, true) {
			w.try()
			w.accept()
		}
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
			starts = append(starts, start{built, w.scorer.Cost()})
		}
	}
	slices.SortStableFunc(starts, cheapestFirst)
	return starts[:min(len(starts), keptPrefixes)]
}

// descendedStarts returns the placements that a descent by cost finds from the placement with every table
// in a form of a set. Blocks of rows on hosts lie across the given number of hosts. The worth that the other starts
// go by says what a form saves if the devices are equally busy, which the devices of few tables are not.
func (w switcher) descendedStarts(forms []problem.Form, hosts int) []start {
	w.acrossHosts = hosts
	if w.allIn(forms); w.lack(false) > 0 {
		return nil
	}
	w.descend()
	return w.taken()
}

// descend gives tables other forms as long as that makes the placement cheaper.
func (w switcher) descend() {
	for again := true; again && !w.r.ended(); {
		again = false
		for _, t := range w.order() {
			for _, form := range append([]problem.Form{{}}, w.forms.choices[t]...) {
				again = w.cheaperIn(t, form) || again
			}
		}
	}
}

// allIn gives each table the last of the forms that it may take.
func (w switcher) allIn(forms []problem.Form) {
	for _, form := range forms {
		for _, t := range w.order() {
			if slices.Contains(w.forms.choices[t], form) && w.formOf(t) != form && w.become(t, form, 0, true) {
				w.try()
				w.accept()
			}
		}
	}
}

// cheaperIn gives a table a form if that makes the placement cheaper, and reports whether it did.
func (w switcher) cheaperIn(table int, form problem.Form) bool {
	cost, before := w.scorer.Cost(), w.softSums
	if w.formOf(table) == form || form == (problem.Form{}) && w.forms.barred[table] || !w.become(table, form, 0, true) {
		return false
	}
	w.evaluations++
	if w.try(); w.scorer.Cost() < cost*(1-noticeable) {
		w.accept()
		return true
	}
	w.undo(before)
	return false
}

// combinedStarts returns placements with the most expensive tables switched to the only form of a
// set, which is by rows, and then other tables replicated where that pays. Blocks of rows on one
// host make its devices slower than those of other hosts, so a table for each host is switched
// at once, or each table is spread over a number of hosts. Neither step alone leads to such a placement:
// without replicas, tables by rows cost too much, and beside replicas no switch of one table pays.
func (w switcher) combinedStarts(set, hosts int) (starts []start) {
	w.acrossHosts = hosts
	base := w.all()
	form, each := w.forms.sets()[set][0], 1
	if spanOf(form) == oneHost && w.hierarchy == nil && hosts == 1 {
		each = w.c.problem.Topology.Hosts()
	}
	for n, again := each, true; again && !w.r.ended(); n *= 2 {
		w.reset(base)
		again = w.switchExpensive(form, 0, n) == n
		w.switchTo([]problem.Form{{ShardingType: problem.DataParallel}})
		starts = append(starts, w.taken()...)
	}
	return starts
}

// hostCounts returns the numbers of hosts that the starts with combined forms spread the blocks of a table
// over: 1 and, for blocks on one host, the powers of two up to the number of full hosts. Under a
// hierarchical exchange, the number is drawn for each table.
func (w switcher) hostCounts(form problem.Form) []int {
	numbers := []int{1}
	if spanOf(form) == oneHost && w.searchesFurther() && slices.Contains(w.forms.sliced, true) {
		for n := 2; n <= int(w.fullHosts()); n *= 2 {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// descentHosts returns the numbers of hosts that a descent spreads the blocks of a table over: 1, and all full hosts if
// the forms have such blocks and times add up. The latter blocks keep all devices equally busy.
func (w switcher) descentHosts(forms []problem.Form) []int {
	onHost := func(form problem.Form) bool { return spanOf(form) == oneHost }
	if hosts := int(w.fullHosts()); hosts > 1 && addsUp(w.scorer) && slices.ContainsFunc(forms, onHost) {
		return []int{1, hosts}
	}
	return []int{1}
}

// taken returns two placements: the layout's placement, if all of it fits, and the same with the
// tables that were not switched placed again.
func (w switcher) taken() (starts []start) {
	found := w.all()
	if w.lack(false) == 0 {
		starts = append(starts, start{found, w.scorer.Cost()})
		w.reset(found)
	}
	if built, ok := w.rebuild(found); ok {
		starts = append(starts, start{built, w.scorer.Cost()})
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
		form := *k.form
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
		if best != none && w.become(t, forms[best], 0, true) {
			w.try()
			w.accept()
			changed = true
		}
	}
	return changed
}

// switchExpensive switches the tables that alone take more than a share of a device's mean compute
// to a form by rows, at most the given number of them, the most expensive ones first. It returns
// the number of tables switched.
func (w switcher) switchExpensive(form problem.Form, share float64, most int) (n int) {
	mean := w.computeSum / float64(len(w.compute))
	for _, t := range w.order() {
		if n == most || w.c.pieces[w.forms.whole[t]].alone <= share*mean {
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
