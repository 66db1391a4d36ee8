package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// layout is a placement that changes piece by piece, with its estimates: placed pieces
// in slots, the bytes and times of the devices, and the goal (goal.go). A change takes
// some slots out (gone) and brings some placed pieces in (come). It is proposed, tried
// in the scorer, and then accepted or undone:
//
//	propose -> fits -> try -> accept
//	                       -> undo
//
// Most changes touch two devices, so a change is estimated in about a microsecond,
// whatever the size of the problem.
type layout struct {
	c      *catalog
	scorer Scorer
	// hiding is the scorer if it hides a part of the exchanges.
	hiding Hiding
	// hierarchy is the scorer if the exchange is hierarchical.
	hierarchy Hierarchical
	ledger
	// forms are the forms that tables may take. mixed says that pieces may be in forms
	// other than the zero form.
	forms forms
	mixed bool
	// parts are by slot. A slot whose part was removed is free and used again.
	parts  []placed
	free   []int32
	live   []int32 // slots in use
	place  []int32 // index in live of a slot in use
	held   [][]int32
	tables [][]int32 // slots of the slices of each table

	objective

	// gone and come are the change that is being tried.
	gone []int32
	come []placed
	// touched are the devices of that change, and before is what each of them held before
	// it.
	touched []int32
	before  []loaded
	// touchedHosts are the hosts of a hierarchical exchange that these devices are on, and
	// beforeHosts the columns that each of them had before.
	touchedHosts []int32
	beforeHosts  []int64

	// movedOf are the bytes that move of each table, if devices held tables before, and
	// changedMoves those of the tables of the change. slicesOf and partsOf are scratch.
	movedOf      []int64
	changedMoves []movedTable
	slicesOf     []columnSlice
	partsOf      []placed

	// crowding is the price in the goal of a byte by which a device exceeds its HBM, in ms; 0 says
	// that none may, and that a change leaves no device empty, if the engine needs that (beyond).
	crowding float64
	// crowdsHosts says that bytes beyond host memory have that price, too.
	crowdsHosts bool

	// exact says that the goal is the cost, and softWeight times the goal of soft maxima. Costs
	// of large problems take too long.
	exact bool

	// evaluations counts the work since the caller last set evaluations to 0.
	evaluations int64
	// best is the cost of the cheapest placement since the last reset, with the price of
	// moved bytes.
	best float64
}

// movedTable is a table with the bytes that move of it.
type movedTable struct {
	table int
	bytes int64
}

// loaded is what a device held before a change.
type loaded struct {
	compute float64
	dims    int64
}

func newLayout(c *catalog, scorer Scorer, f forms) *layout {
	n := len(c.all)
	l := &layout{
		c: c, scorer: scorer, hiding: hidingOf(scorer), ledger: newLedger(c), forms: f, mixed: f.any(),
		held: make([][]int32, n), tables: make([][]int32, len(c.problem.Tables)), objective: objective{compute: make([]float64, n), dims: make([]int64, n)},
	}
	const few = 2 // slices of most tables
	room := make([]int32, few*len(l.tables))
	for t := range l.tables {
		l.tables[t], room = room[:0:few], room[few:]
	}
	if l.hides = l.hiding != nil; !l.mixed {
		l.hiddenWeight = hiddenColumnWeight
	}
	if l.hierarchy = hierarchyOf(scorer); l.hierarchy != nil {
		l.hostDims = make([]int64, (n+l.hierarchy.HostSize()-1)/l.hierarchy.HostSize())
	}
	if c.former != nil {
		l.movedOf = make([]int64, len(c.problem.Tables))
	}
	return l
}

// clear removes all parts.
func (l *layout) clear() {
	l.gone, l.come = l.gone[:0], l.come[:0]
	l.parts, l.free, l.live, l.place = l.parts[:0], l.free[:0], l.live[:0], l.place[:0]
	for t := range l.tables {
		l.tables[t] = l.tables[t][:0]
	}
	l.ledger.clear(l.c.ownBudget)
	for d := range l.held {
		l.held[d] = l.held[d][:0]
	}
	clear(l.dims)
	clear(l.hostDims)
	copy(l.compute, l.c.base)
	clear(l.movedOf)
	l.moved = 0
	l.scorer.Reset()
}

// reset replaces all parts by those of a placement.
func (l *layout) reset(parts []placed) {
	l.clear()
	for _, p := range parts {
		l.c.register(&l.c.pieces[p.piece])
		l.insert(p)
		l.score(p, l.scorer.Add)
	}
	l.countMoved(parts)
	l.over = l.excesses()
	l.begin()
}

// countMoved counts the bytes that move of all parts.
func (l *layout) countMoved(parts []placed) {
	if l.c.former == nil {
		return
	}
	for _, p := range parts {
		table, single := l.table(p.piece)
		if !single {
			l.moved += l.c.movedTogether(p)
		} else if slots := l.tables[table]; l.parts[slots[0]] == p && l.movedOf[table] == 0 {
			l.movedOf[table] = l.movedAfter(table)
			l.moved += l.movedOf[table]
		}
	}
}

// changeMoved counts the bytes that move after the change.
func (l *layout) changeMoved() {
	l.changedMoves = l.changedMoves[:0]
	for _, slot := range l.gone {
		l.changeMovedOf(l.parts[slot], -1)
	}
	for _, p := range l.come {
		l.changeMovedOf(p, 1)
	}
}

// changeMovedOf counts the bytes that move of the table of a part that comes, or goes if sign
// is -1.
func (l *layout) changeMovedOf(p placed, sign int64) {
	table, single := l.table(p.piece)
	if !single {
		l.moved += sign * l.c.movedTogether(p)
		return
	}
	if slices.ContainsFunc(l.changedMoves, func(m movedTable) bool { return m.table == table }) {
		return
	}
	now := l.movedAfter(table)
	l.moved += now - l.movedOf[table]
	l.changedMoves = append(l.changedMoves, movedTable{table, now})
}

// movedAfter returns the bytes that move of a table after the change.
func (l *layout) movedAfter(table int) int64 {
	l.slicesOf = l.slicesOf[:0]
	for _, p := range l.partsAfter(table) {
		l.slicesOf = append(l.slicesOf, l.c.columnSlice(p.piece, p.device))
	}
	if len(l.slicesOf) == 0 {
		return 0
	}
	return l.c.former.arrange(table, l.slicesOf, l.c.problem.Tables[table].Rows)
}

// partsAfter returns the parts of a table after the change. The next call overwrites them.
func (l *layout) partsAfter(table int) []placed {
	l.partsOf = l.partsOf[:0]
	for _, slot := range l.tables[table] {
		if !slices.Contains(l.gone, slot) {
			l.partsOf = append(l.partsOf, l.parts[slot])
		}
	}
	for _, p := range l.come {
		if other, single := l.table(p.piece); single && other == table {
			l.partsOf = append(l.partsOf, p)
		}
	}
	return l.partsOf
}

// goal returns the value that an annealing minimises, with the price of moved bytes.
func (l *layout) goal() float64 {
	goal := l.objective.goal()
	if l.exact {
		goal = l.scorer.Cost() + softWeight*goal
	}
	if l.c.former != nil {
		goal += l.c.former.toll(l.c.former.steer, l.moved)
	}
	return goal + l.crowding*float64(l.over)
}

// softWeight is the weight of the soft maxima beside a cost.
const softWeight = .02

// priced returns a predicted cost with the price of moved bytes; infinity beyond the budget.
func (l *layout) priced(cost float64) float64 {
	if l.c.former != nil {
		cost += l.c.former.priced(l.moved)
	}
	return cost + l.crowding*float64(l.over)
}

// all returns a copy of the parts.
func (l *layout) all() []placed {
	parts := make([]placed, len(l.live))
	for i, slot := range l.live {
		parts[i] = l.parts[slot]
	}
	return parts
}

// score calls do, which is the scorer's Add or Remove, for each item of a part.
func (l *layout) score(p placed, do func(device, item int)) {
	k := &l.c.pieces[p.piece]
	if k.single {
		do(int(p.device), int(k.item))
		return
	}
	for i := range k.members {
		do(int(p.device), k.members[i].item)
	}
}

// insert adds a part to the lists and returns its slot; remove removes one. Neither
// changes the scorer.
func (l *layout) insert(p placed) int32 {
	slot := int32(len(l.parts))
	if n := len(l.free); n > 0 {
		slot, l.free = l.free[n-1], l.free[:n-1]
		l.parts[slot] = p
	} else {
		l.parts, l.place = append(l.parts, p), append(l.place, 0)
	}
	l.place[slot] = int32(len(l.live))
	l.live = append(l.live, slot)
	k := &l.c.pieces[p.piece]
	if k.span == oneDevice {
		l.held[p.device] = append(l.held[p.device], slot)
		l.dims[p.device] += k.dims
	}
	l.count(k, p.device, 1)
	if table, ok := l.table(p.piece); ok {
		l.tables[table] = append(l.tables[table], slot)
	}
	return slot
}

func (l *layout) remove(slot int32) {
	p := l.parts[slot]
	last := l.live[len(l.live)-1]
	l.live[l.place[slot]], l.place[last] = last, l.place[slot]
	l.live = l.live[:len(l.live)-1]
	k := &l.c.pieces[p.piece]
	if k.span == oneDevice {
		l.held[p.device] = without(l.held[p.device], slot)
		l.dims[p.device] -= k.dims
	}
	l.count(k, p.device, -1)
	if table, ok := l.table(p.piece); ok {
		l.tables[table] = without(l.tables[table], slot)
	}
	l.free = append(l.free, slot)
}

// table returns the only table of a piece. ok is false for a co-location, which
// is never split.
func (l *layout) table(k int32) (int, bool) {
	p := &l.c.pieces[k]
	return int(p.table), p.single
}

func (l *layout) width(slot int32) int { return int(l.c.pieces[l.parts[slot].piece].width) }

// formAt returns the form of a slot's part.
func (l *layout) formAt(slot int32) problem.Form { return *l.c.pieces[l.parts[slot].piece].form }

// order returns the tables that have a choice of forms, the most expensive first.
func (l *layout) order() []int {
	var tables []int
	for t, choices := range l.forms.choices {
		if len(choices) > 0 && len(l.tables[t]) > 0 {
			tables = append(tables, t)
		}
	}
	alone := func(t int) float64 { return l.c.pieces[l.forms.whole[t]].alone }
	slices.SortStableFunc(tables, func(a, b int) int { return cmp.Compare(alone(b), alone(a)) })
	return tables
}

// formOf returns the form that a table has now. If its slices have several forms, formOf
// returns the form of the first slice in the lists.
func (l *layout) formOf(table int) problem.Form { return l.formAt(l.tables[table][0]) }

// fits reports whether the rules allow the change and there is room for it, and registers
// its pieces with the scorer. If together is true, only all devices together need to have
// room in HBM.
func (l *layout) fits(together bool) bool {
	if changeBreaks(l) {
		return false
	}
	if l.widely() {
		if !l.hasRoom(together) {
			return false
		}
	} else if l.crowding == 0 {
		if !l.fitsAlone(together) {
			return false
		}
	}
	for _, p := range l.come {
		l.c.register(&l.c.pieces[p.piece])
	}
	return true
}

// fitsAlone reports whether all devices have room after a change of pieces on single devices.
func (l *layout) fitsAlone(together bool) bool {
	shared := l.changeShared()
	if l.raises(&shared) {
		return l.hasRoom(together)
	}
	for _, p := range l.come {
		change := l.change(p.device, shared)
		if l.ledger.beyond(p.device, &change) > 0 {
			return false
		}
	}
	for _, slot := range l.gone {
		d := l.parts[slot].device
		if change := l.change(d, perPhase{}); l.c.rules.NoIdle && l.empty(d, &change) {
			return false
		}
	}
	return true
}

// changeShared returns the bytes that every device gets because of the change of pieces on single devices.
func (l *layout) changeShared() (all perPhase) {
	counts := func(k *piece, sign int64) {
		all.add(k.shared, sign)
		if l.pieces[k.table] += int32(sign); l.pieces[k.table] == max(0, int32(sign)) {
			all.add(k.aside, -sign)
		}
	}
	for _, slot := range l.gone {
		counts(&l.c.pieces[l.parts[slot].piece], -1)
	}
	for _, p := range l.come {
		counts(&l.c.pieces[p.piece], 1)
	}
	for _, p := range l.come {
		l.pieces[l.c.pieces[p.piece].table]--
	}
	for _, slot := range l.gone {
		l.pieces[l.c.pieces[l.parts[slot].piece].table]++
	}
	return all
}

// raises reports whether bytes that every device gets may exceed the HBM of any device.
func (l *layout) raises(shared *perPhase) bool {
	if *shared == (perPhase{}) {
		return false
	}
	for f, bytes := range shared {
		if l.taken[f].Max()+l.everywhere[f]+bytes > l.budget[f] {
			return true
		}
	}
	return false
}

// change returns the bytes that a device gets by the change, beside those that every device gets.
func (l *layout) change(device int32, shared perPhase) perPhase {
	for _, slot := range l.gone {
		if l.parts[slot].device == device {
			shared.add(l.c.pieces[l.parts[slot].piece].own, -1)
		}
	}
	for _, q := range l.come {
		if q.device == device {
			shared.add(l.c.pieces[q.piece].own, 1)
		}
	}
	return shared
}

// widely reports whether the change affects bytes other than the HBM of single devices.
func (l *layout) widely() bool {
	if !l.mixed {
		return false
	}
	other := func(k int32) bool {
		p := &l.c.pieces[k]
		return p.span != oneDevice || p.hostBytes > 0 || p.form.Blocks > 0
	}
	for _, slot := range l.gone {
		if other(l.parts[slot].piece) {
			return true
		}
	}
	return slices.ContainsFunc(l.come, func(p placed) bool { return other(p.piece) })
}

// excess returns the bytes by which a device exceeds its HBM.
func (l *layout) excess(d int32) int64 { return max(0, l.ledger.beyond(d, &perPhase{})) }

// excesses returns the bytes by which all devices exceed their HBM, where empty ones count if the engine does not run them.
func (l *layout) excesses() (bytes int64) {
	for d := range l.own {
		if bytes += l.beyond(int32(d), &perPhase{}); l.crowdsHosts {
			bytes += max(0, l.host[d]-l.hostBudget)
		}
	}
	return bytes
}

// beyond returns the bytes by which a device exceeds its HBM with further bytes of its own. An empty device
// counts as one that exceeds it by all HBM of the largest device, if the engine does not run that.
func (l *layout) beyond(d int32, more *perPhase) int64 {
	if l.c.rules.NoIdle && l.empty(d, more) {
		return l.c.budget[l.c.phase]
	}
	return max(0, l.ledger.beyond(d, more))
}

// changeOver counts the bytes by which devices exceed their HBM after the change, if these have a price.
func (l *layout) changeOver() {
	switch {
	case l.crowding == 0:
		return
	case l.widely():
		l.counted(func() { l.over = l.excesses() })
		return
	}
	shared := l.changeShared()
	if shared != (perPhase{}) && (l.over > 0 || l.raises(&shared)) {
		l.counted(func() { l.over = l.excesses() })
		return
	}
	crowded := l.over > 0
	for _, d := range l.touched {
		change := l.change(d, shared)
		if l.over += l.beyond(d, &change); crowded {
			l.over -= l.beyond(d, &perPhase{})
		}
	}
}

// hasRoom reports whether all devices have room after the change. If bytes beyond HBM have a price,
// only host memory counts.
func (l *layout) hasRoom(together bool) (fits bool) {
	l.counted(func() {
		if fits = l.lack(together) == 0; l.crowding > 0 {
			fits = l.crowdsHosts || l.hostTaken.Max() <= l.hostBudget
		} else if l.c.rules.NoIdle && !together {
			fits = fits && l.excesses() == 0
		}
	})
	return fits
}

// counted calls do while the bytes are those after the change.
func (l *layout) counted(do func()) {
	goes := func(sign int64) {
		for _, slot := range l.gone {
			p := l.parts[slot]
			l.count(&l.c.pieces[p.piece], p.device, sign)
		}
	}
	comes := func(sign int64) {
		for _, p := range l.come {
			l.count(&l.c.pieces[p.piece], p.device, sign)
		}
	}
	goes(-1)
	comes(1)
	do()
	comes(-1)
	goes(1)
}

// try applies the proposed change to the scorer and the sums.
func (l *layout) try() { l.tryWithin(math.Inf(1)) }

// tryWithin is try, and reports whether the goal is at most limit. It stops as soon as the goal is above the limit: the
// change must be undone then. The devices that get slices are estimated first.
func (l *layout) tryWithin(limit float64) bool {
	widely := l.exchangeParts()
	l.changeOver()
	bounded := !widely && !l.exact && l.c.former == nil && !math.IsInf(limit, 1)
	for i, d := range slices.Backward(l.touched) {
		if bounded && l.goal() > limit {
			l.evaluations += max(0, int64(len(l.touched)-2-i))
			return false
		}
		l.compute[d] = l.scorer.Compute(int(d))
		l.sumCompute(d, 1)
	}
	if widely {
		l.alike = l.scorer.Shared()
		if l.hides {
			_, l.hidden = l.hiding.AllToAlls()
		}
	}
	if l.c.former != nil {
		l.changeMoved()
	}
	l.evaluations += max(0, int64(len(l.touched))-1)
	return l.goal() <= limit
}

// exchangeParts applies the proposed change to what the devices hold in the scorer, and to the sums of columns. It reports
// whether several devices hold some part of the change.
func (l *layout) exchangeParts() (widely bool) {
	l.touched, l.before = l.touched[:0], l.before[:0]
	l.touchedHosts, l.beforeHosts = l.touchedHosts[:0], l.beforeHosts[:0]
	for _, slot := range l.gone {
		p := l.parts[slot]
		widely = l.touchSpan(p) || widely
		l.score(p, l.scorer.Remove)
		l.dims[p.device] -= l.c.pieces[p.piece].dims
	}
	for _, p := range l.come {
		widely = l.touchSpan(p) || widely
		l.score(p, l.scorer.Add)
		l.dims[p.device] += l.c.pieces[p.piece].dims
	}
	l.countColumns()
	for _, d := range l.touched {
		l.sumColumns(d, 1)
	}
	for _, h := range l.touchedHosts {
		l.sumHost(h, 1)
	}
	return widely
}

// touchSpan touches the devices of a part's span, unless these are all, and reports
// whether several devices hold the part.
func (l *layout) touchSpan(p placed) bool {
	switch s := l.c.pieces[p.piece].span; s {
	case oneDevice:
		l.touch(p.device)
		return false
	case oneHost:
		l.c.eachOf(s, p.device, func(d int32) { l.touch(d) })
	}
	return true
}

// touch saves what a device and its host hold, and takes them out of the sums.
func (l *layout) touch(device int32) {
	if !slices.Contains(l.touched, device) {
		l.touched = append(l.touched, device)
		l.before = append(l.before, loaded{l.compute[device], l.dims[device]})
		l.sum(device, -1)
		if l.hierarchy == nil {
			return
		}
		if host := device / int32(l.hierarchy.HostSize()); !slices.Contains(l.touchedHosts, host) {
			l.touchedHosts = append(l.touchedHosts, host)
			l.beforeHosts = append(l.beforeHosts, l.hostDims[host])
			l.sumHost(host, -1)
		}
	}
}

// countColumns sets the columns of the touched devices and hosts to those of a hierarchical
// exchange, in which pieces that a host's devices hold together count, too.
func (l *layout) countColumns() {
	if l.hierarchy == nil {
		return
	}
	for _, d := range l.touched {
		l.dims[d] = l.hierarchy.Columns(int(d))
	}
	for _, h := range l.touchedHosts {
		l.hostDims[h] = l.hierarchy.HostColumns(int(h))
	}
}

// undo reverses the tried change. before are the sums from before the change.
func (l *layout) undo(before softSums) {
	for _, p := range l.come {
		l.score(p, l.scorer.Remove)
	}
	for _, slot := range l.gone {
		l.score(l.parts[slot], l.scorer.Add)
	}
	for i, d := range l.touched {
		l.compute[d], l.dims[d] = l.before[i].compute, l.before[i].dims
	}
	for i, h := range l.touchedHosts {
		l.hostDims[h] = l.beforeHosts[i]
	}
	l.softSums = before
}

// accept makes the tried change permanent: it changes the lists.
func (l *layout) accept() {
	for i, d := range l.touched {
		l.dims[d] = l.before[i].dims // insert and remove count them again
	}
	for _, slot := range l.gone {
		l.remove(slot)
	}
	for _, p := range l.come {
		l.insert(p)
	}
	for _, m := range l.changedMoves {
		l.movedOf[m.table] = m.bytes
	}
	l.countColumns()
	l.slowest = busiest(l.slowest, l.touched, l.compute)
	if l.mixed {
		l.mostColumns = busiest(l.mostColumns, l.touched, l.dims)
	}
}

// scale sets the sums of the goal and the scales.
func (l *layout) scale() {
	if l.mixed {
		l.rescale(l.scorer.Shared(), leastScale*l.best, 1)
	} else {
		l.rescale(0, 0, 0)
	}
	if l.hides {
		_, l.hidden = l.hiding.AllToAlls()
	}
}

// begin prepares the layout for changes of the parts that are in it.
func (l *layout) begin() {
	for d := range l.compute {
		l.compute[d] = l.scorer.Compute(d)
		if l.hierarchy != nil {
			l.dims[d] = l.hierarchy.Columns(d)
		}
	}
	for h := range l.hostDims {
		l.hostDims[h] = l.hierarchy.HostColumns(h)
	}
	cost := l.scorer.Cost()
	l.best = l.priced(cost)
	l.scale()
	l.column, l.opening = 0, 0
	l.columns, l.openings = [2]float64{}, [2]float64{}
	if l.hierarchy != nil {
		l.rate()
	} else if l.mixed || l.hides {
		l.probe()
	} else if most := slices.Max(l.dims); most > 0 {
		l.column = max(0, cost-slices.Max(l.compute)-l.alike) / float64(most)
	}
	l.slowest, l.mostColumns = first(l.compute), first(l.dims)
}

// rate sets what a hierarchical exchange costs: the times for a column of the device and of the
// host with the most columns, and the fixed time.
func (l *layout) rate() {
	column, hostColumn, fixed := l.hierarchy.Rates()
	l.hostColumn = hostColumn
	time := column*float64(slices.Max(l.dims)) + hostColumn*float64(slices.Max(l.hostDims)) + fixed
	for i := range l.columns {
		l.columns[i], l.openings[i] = column, fixed
		if time > l.hidden[i] {
			l.column += column
		}
	}
}

// probe measures what the all-to-alls cost: the time for each column of the device with
// the most columns, and their fixed time. It adds two slices and removes them again.
func (l *layout) probe() {
	i := slices.IndexFunc(l.forms.whole, func(k int32) bool { return l.c.pieces[k].dims > 0 && len(l.c.pieces[k].members) == 1 })
	if i < 0 {
		return
	}
	probe := &l.c.pieces[l.forms.whole[i]]
	l.c.register(probe)
	device := 0
	for d, columns := range l.dims {
		if columns > l.dims[device] {
			device = d
		}
	}
	item, columns := probe.members[0].item, float64(probe.dims)
	var exchange [2]float64
	var hiding [2][2]float64
	for i := range exchange {
		l.scorer.Add(device, item)
		if l.hides {
			hiding[i], _ = l.hiding.AllToAlls()
			continue
		}
		longest := l.scorer.Compute(device)
		for d, t := range l.compute {
			if d != device {
				longest = max(longest, t)
			}
		}
		exchange[i] = l.scorer.Cost() - longest - l.scorer.Shared()
	}
	l.scorer.Remove(device, item)
	l.scorer.Remove(device, item)
	most := float64(l.dims[device])
	l.column, l.opening = linear(exchange[0], exchange[1], most+columns, columns)
	if !l.hides {
		return
	}
	for i := range l.columns {
		l.columns[i], l.openings[i] = linear(hiding[0][i], hiding[1][i], most+columns, columns)
		if l.columns[i]*most+l.openings[i] > l.hidden[i] {
			l.column += l.columns[i]
		}
	}
}

// linear returns the time of an all-to-all for each column, and its fixed time: with a number
// of columns it takes the time first, and with more columns the time second.
func linear(first, second, columns, more float64) (column, opening float64) {
	column = max(0, (second-first)/more)
	return column, max(0, first-column*columns)
}
