package search

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
)

// The search among all kinds sets out from the best placement of column slices, or,
// where none fits, from one that is made to fit by cutting the largest tables by rows
// and putting the coldest ones into host memory. From there tables are switched to
// other forms where that pays, by lots:
//
//	start        slices in HBM
//	switched     + replicated | + by rows | + by rows of hosts | + host memory | + all
//	annealed     each shortly, with changes of a table's form among the changes
//	             the best one goes on
//
// One table in a form alone seldom pays, as the first of a lot brings an operator and
// an exchange of its own, and ten may. So a lot is opened by the table that does it
// best, then each table is switched for which it pays, and what that was worth as a
// whole decides. Only all devices together need have room in this: the tables that
// are left are then placed afresh, where there is.
//
// Tables that all devices hold alike add to all that there is, and are counted once;
// so a change takes the same time whatever the number of devices.

const (
	// leastScale is the least compute that soft maxima are relative to, as a share of
	// the cost.
	leastScale = .02
	// rescaleEvery is how many changes are tried between two settings of the scale of
	// soft maxima.
	rescaleEvery = 1024
	// The evaluations of the annealing of a switched start: as many, or so many for a
	// slice; and twice as many in the second round.
	kindEvaluations, kindEvaluationsASlice = 12_000, 3
	// switchedStarts and kindStarts are how many of them go into the first and into the
	// second round.
	switchedStarts, kindStarts = 6, 2
)

// dearShares are the shares of a device's mean compute that a table takes which is cut
// by rows in some starts.
var dearShares = []float64{1, .5, .25}

// narrowed returns the problem as the kinds allow it to be cut by columns: not at all
// where tables on single devices stay whole.
func narrowed(p *problem.Problem, kinds []problem.Kind) *problem.Problem {
	if slices.Contains(kinds, problem.ColumnWise) || !slices.Contains(kinds, problem.TableWise) {
		return p
	}
	whole := *p
	whole.Tables = slices.Clone(p.Tables)
	for i := range whole.Tables {
		whole.Tables[i].Constraint.MinWidth = whole.Tables[i].Dim
	}
	return &whole
}

// kinds is the search among all forms.
func (s *searcher) kinds() error {
	f := s.forms
	var infeasible *Infeasible
	if f.columns {
		all := s.opt.MaxEvaluations
		s.opt.MaxEvaluations, s.limit = (all+1)/2, (all+1)/2
		failed := s.columns()
		s.opt.MaxEvaluations, s.limit = all, all
		if s.status == OutOfBudget {
			s.status = Complete // the other half is left
		}
		if failed != nil && !errors.As(failed, &infeasible) {
			return failed
		}
	} else if err := f.possible(s.catalog); err != nil {
		return err
	}
	s.optimal = false
	f.scorer = s.workers[0].scorer.(Spreader)
	s.event.Phase = "kinds"
	r := newRefiner(s.catalog, s.workers[0].scorer, s.opt.Seed)
	r.f = f
	r.scorer.Reset()
	for t, choices := range f.choices {
		if len(choices) > 0 {
			s.catalog.price(f.whole[t])
		}
	}
	if parts, ok := s.hottest(r); ok {
		s.offerParts(parts)
	}
	if s.best.state == nil {
		parts, ok := s.fitForms()
		if !ok {
			if infeasible == nil {
				infeasible = s.noRoom()
			}
			infeasible.Reason += "; with " + f.tried() + " they do not fit either"
			return infeasible
		}
		s.offerParts(parts)
	}
	if s.status == Complete {
		s.spread(r)
	}
	r.scorer.Reset()
	return nil
}

// NoKind is the error of a search whose kinds leave some tables none: their rows are
// fewer than devices, or their constraints forbid it.
type NoKind struct {
	// Tables are their names, in the problem's order.
	Tables []string
}

// Error names the first of the tables.
func (e *NoKind) Error() string {
	const most = 5
	var names []string
	for _, name := range e.Tables[:min(most, len(e.Tables))] {
		names = append(names, fmt.Sprintf("%q", name))
	}
	more := ""
	if n := len(e.Tables) - most; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("none of the kinds allowed can place %s%s: they have fewer rows than there are devices, or constraints against it", strings.Join(names, ", "), more)
}

// possible returns nil, or a *NoKind with the tables that can take no form.
func (f *forms) possible(c *catalog) error {
	e := &NoKind{}
	for i := range c.problem.Tables {
		if len(f.choices[i]) == 0 {
			e.Tables = append(e.Tables, c.problem.Tables[i].Name)
		}
	}
	if len(e.Tables) == 0 {
		return nil
	}
	return e
}

// tried lists the forms of any table.
func (f *forms) tried() string {
	var names []string
	for _, choices := range f.choices {
		for _, form := range choices {
			name := string(form.Kind)
			if form.Tier.OnHost() {
				name = "host memory"
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// noRoom is the error of a search without column slices that found no placement.
func (s *searcher) noRoom() *Infeasible {
	c := s.catalog
	kinds := c.whole()
	largest := int32(0)
	for i, k := range kinds {
		if c.kinds[k].bytes > c.kinds[kinds[largest]].bytes {
			largest = int32(i)
		}
	}
	return c.infeasible(s.opt.Method, kinds, nil, largest)
}

// spread switches tables to other forms, and refines.
func (s *searcher) spread(r *refiner) {
	end := int64(math.MaxInt64)
	if s.opt.MaxEvaluations > 0 {
		end = s.opt.MaxEvaluations
	}
	type start struct {
		parts []part
		cost  float64
	}
	base := s.parts()
	starts := []start{{base, s.best.cost}}
	try := func(switched bool) {
		s.stats.Evaluations += r.evaluations
		r.evaluations = 0
		if !switched {
			return
		}
		add := func(parts []part) {
			found := start{parts, r.scorer.Cost()}
			if !slices.ContainsFunc(starts, func(known start) bool { return known.cost == found.cost }) {
				starts = append(starts, found)
				s.offerParts(parts)
			}
		}
		found := r.all()
		fits := r.f.lack(r.bytes, s.catalog.budget) == 0
		if fits {
			add(found)
			r.reset(found)
		}
		if built, ok := s.rebuild(r, found); ok {
			add(built)
		}
	}
	lots := r.f.lots()
	for _, forms := range lots {
		if s.ended() || s.stats.Evaluations >= end {
			break
		}
		r.reset(base)
		try(r.switchTo(forms))
	}
	for _, form := range lots[0:min(len(lots), 2)] {
		if !form[0].Kind.ByRows() {
			continue
		}
		for last, i := 0, 0; i < len(dearShares) && !s.ended() && s.stats.Evaluations < end; i++ {
			r.reset(base)
			n := r.switchDear(form[0], dearShares[i])
			try(n > last)
			last = n
		}
	}
	slices.SortStableFunc(starts, func(a, b start) int { return cmp.Compare(a.cost, b.cost) })
	starts = starts[:min(len(starts), switchedStarts)]
	for round := range 2 {
		for i := range starts {
			left := end - s.stats.Evaluations
			if s.status != Complete || left <= 0 {
				break
			}
			r.heat = hot
			r.reset(starts[i].parts)
			if best := s.anneal(r, min(max(kindEvaluations, kindEvaluationsASlice*int64(len(base)))<<round, left)); best != nil {
				starts[i] = start{best, r.best}
			}
		}
		slices.SortStableFunc(starts, func(a, b start) int { return cmp.Compare(a.cost, b.cost) })
		starts = starts[:min(len(starts), kindStarts)]
	}
	if !slices.ContainsFunc(s.best.state.pieces, func(p piece) bool { return s.catalog.kinds[p.kind].form != (problem.Form{}) }) {
		r.still = true // no other form pays
	}
	s.goOn(r, end)
}

// rebuild places the tables that are in slices on single devices afresh, beside the
// others, and reports whether they fit and the problem is small enough for that.
func (s *searcher) rebuild(r *refiner, parts []part) ([]part, bool) {
	c := s.catalog
	forms := map[int]problem.Form{}
	var fixed []part
	for _, p := range parts {
		k := &c.kinds[p.kind]
		forms[k.members[0].table] = k.form
		if k.seat != oneDevice {
			fixed = append(fixed, p)
		}
	}
	var kinds []int32
	for _, k := range c.whole() {
		m := c.kinds[k].members[0]
		switch form := forms[m.table]; {
		case form == (problem.Form{}):
			kinds = append(kinds, k)
		case seatOf(form) == oneDevice:
			kinds = append(kinds, c.inForm(k, m.width, form))
		}
	}
	total := 0.0
	for _, t := range r.compute {
		total += t
	}
	return s.build(r, kinds, fixed, total/float64(len(c.all)), shapeEvaluations)
}

// build places kinds beside fixed parts, aiming at a compute of each device, unless that
// takes more than so many pricings.
func (s *searcher) build(r *refiner, kinds []int32, fixed []part, target float64, most int64) ([]part, bool) {
	c := s.catalog
	b := newBuilder(r, kinds, fixed, target)
	if b.each() > most || !b.build(shape{quarters: [6]int{0, 0, 0, 0, 0, 4}}) {
		return nil, false
	}
	s.stats.Evaluations += b.evaluations
	// The fixed parts alone may be too much for a device or host.
	return r.all(), r.f.lack(r.bytes, c.budget) == 0
}

// lots returns the sets of forms to switch tables to, one after the other: each seat
// or memory alone, and all together.
func (f *forms) lots() [][]problem.Form {
	var known, tiers []problem.Form
	for _, choices := range f.choices {
		for _, form := range choices {
			list := &known
			if form.Tier.OnHost() {
				list = &tiers
			}
			if !slices.Contains(*list, form) {
				*list = append(*list, form)
			}
		}
	}
	var sets [][]problem.Form
	for _, form := range known {
		sets = append(sets, []problem.Form{form})
	}
	if len(tiers) > 0 {
		sets = append(sets, tiers)
	}
	if len(sets) > 1 {
		sets = append(sets, append(known, tiers...))
	}
	return sets
}

// worth is what is looked at when tables are switched: the goal, and what it would be
// if all devices took the mean.
func (r *refiner) worth() float64 {
	n := float64(len(r.compute))
	return r.goal() + r.computeSum/n + r.column*r.dimSum/n + r.shared
}

// switchTo switches tables to the forms for which that pays, and reports whether there
// are any: for each form first the table for which it pays most or costs least.
func (r *refiner) switchTo(lots []problem.Form) bool {
	r.f.loose = true
	defer func() { r.f.loose = false }()
	tables := r.order()
	switched := false
	for _, form := range lots {
		opener, least := none, math.Inf(1)
		for _, t := range tables {
			if change, ok := r.worthOf(t, form); ok && change < least {
				opener, least = t, change
			}
		}
		if opener != none && r.formOf(opener) == (problem.Form{}) && r.become(opener, form, 0) {
			r.try()
			r.accept()
			switched = true
		}
	}
	if !switched {
		return false
	}
	for range 2 {
		changed := false
		for _, t := range tables {
			best, least := problem.Form{}, -1e-9*r.best
			for _, form := range lots {
				if change, ok := r.worthOf(t, form); ok && change < least {
					best, least = form, change
				}
			}
			if best != (problem.Form{}) && r.become(t, best, 0) {
				r.try()
				r.accept()
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	return true
}

// switchDear switches all tables to a form by rows that alone take more than a share of
// a device's mean compute, and returns their number.
func (r *refiner) switchDear(form problem.Form, share float64) (n int) {
	r.f.loose = true
	defer func() { r.f.loose = false }()
	mean := r.computeSum / float64(len(r.compute))
	for _, t := range r.order() {
		if r.c.kinds[r.f.whole[t]].cost <= share*mean {
			break
		}
		if slices.Contains(r.f.choices[t], form) && r.formOf(t) != form && r.become(t, form, 0) {
			r.try()
			r.accept()
			n++
		}
	}
	return n
}

// order returns the tables that have a choice of forms, the dearest first.
func (r *refiner) order() []int {
	var tables []int
	for t, choices := range r.f.choices {
		if len(choices) > 0 && len(r.tables[t]) > 0 {
			tables = append(tables, t)
		}
	}
	cost := func(t int) float64 { return r.c.kinds[r.f.whole[t]].cost }
	slices.SortStableFunc(tables, func(a, b int) int { return cmp.Compare(cost(b), cost(a)) })
	return tables
}

// formOf returns the form that a table has.
func (r *refiner) formOf(table int) problem.Form {
	return r.c.kinds[r.parts[r.tables[table][0]].kind].form
}

// worthOf returns by how much the worth changes if a table takes a form; ok is false
// where it cannot, or has it.
func (r *refiner) worthOf(table int, form problem.Form) (change float64, ok bool) {
	if !slices.Contains(r.f.choices[table], form) || r.formOf(table) == form || !r.become(table, form, 0) {
		return 0, false
	}
	before, all := r.worth(), r.softSums
	r.evaluations++
	r.try()
	change = r.worth() - before
	r.undo()
	r.softSums = all
	return change, true
}

// fitForms returns a placement that fits, where column slices alone have none: with as
// few of the largest tables cut by rows as will do, or of the coldest in host memory.
func (s *searcher) fitForms() (parts []part, ok bool) {
	c, f := s.catalog, s.forms
	whole := c.whole()
	rows := func(k int32) (problem.Form, bool) {
		return f.choice(c, k, func(form problem.Form) bool { return form.Kind.ByRows() })
	}
	largest := slices.Clone(whole)
	slices.SortStableFunc(largest, func(a, b int32) int { return cmp.Compare(c.kinds[b].bytes, c.kinds[a].bytes) })
	attempt := func(byRows, hosted map[int32]problem.Form) bool {
		parts, ok = f.fill(c, whole, byRows, hosted)
		return ok
	}
	// fewest finds the smallest number of tables of a list for which an attempt works.
	fewest := func(list []int32, form func(k int32) (problem.Form, bool), try func(taken map[int32]problem.Form) bool) bool {
		taken := func(n int) map[int32]problem.Form {
			m := map[int32]problem.Form{}
			for _, k := range list[:n] {
				if to, ok := form(k); ok {
					m[k] = to
				}
			}
			return m
		}
		low, high := -1, 0
		for ; !try(taken(high)); high = min(len(list), max(1, 2*high)) {
			if low = high; high == len(list) {
				return false
			}
		}
		for high-low > 1 {
			if middle := low + (high-low)/2; try(taken(middle)) {
				high = middle
			} else {
				low = middle
			}
		}
		return try(taken(high))
	}
	if fewest(largest, rows, func(taken map[int32]problem.Form) bool { return attempt(taken, nil) }) {
		return parts, true
	}
	if f.hostBudget == 0 {
		return nil, false
	}
	coldest := slices.Clone(whole)
	heat := func(k int32) float64 {
		t := &c.problem.Tables[c.kinds[k].members[0].table]
		return t.PoolingFactor() / float64(t.Rows)
	}
	slices.SortStableFunc(coldest, func(a, b int32) int { return cmp.Compare(heat(a), heat(b)) })
	for _, share := range cacheShares {
		hosted := func(k int32) (problem.Form, bool) {
			return f.choice(c, k, func(form problem.Form) bool { return form.Tier.OnHost() && form.Cache == share })
		}
		for _, all := range []bool{false, true} {
			if fewest(coldest, hosted, func(taken map[int32]problem.Form) bool {
				others := map[int32]problem.Form{}
				for _, k := range whole {
					if to, ok := rows(k); ok && all {
						if _, is := taken[k]; !is {
							others[k] = to
						}
					}
				}
				return attempt(others, taken)
			}) {
				return parts, true
			}
		}
	}
	return nil, false
}

// fillings are the shares of all devices' HBM that are filled by rows worth it.
var fillings = []float64{.96, .9, .8}

// hottestEvaluations bounds the pricings of devices that placing them may take.
const hottestEvaluations = 4 * shapeEvaluations

// hottest returns a placement with the rows that take most lookups in HBM, where that
// does not hold all: each table begins in host memory with the smallest cache, and step
// by step the table gets a larger one, or all of HBM it needs, that saves most time a
// byte (RecShard's idea, Sethi et al. 2022, for whole tables' caches).
func (s *searcher) hottest(r *refiner) ([]part, bool) {
	c, f := s.catalog, s.forms
	whole := c.whole()
	all := int64(0)
	for _, k := range whole {
		all += c.kinds[k].bytes
	}
	if room := float64(c.budget) * float64(len(c.all)); f.hostBudget == 0 || c.budget <= 0 || float64(all) <= fillings[0]*room {
		return nil, false
	}
	r.scorer.Reset()
	// Replicas of tables that take less on all devices than whole on one come first.
	var fixed []part
	everywhere := int64(0)
	whole = slices.DeleteFunc(whole, func(k int32) bool {
		replicated, ok := f.choice(c, k, func(form problem.Form) bool { return form.Kind == problem.DataParallel })
		if !ok {
			return false
		}
		copied := c.inForm(k, c.kinds[k].members[0].width, replicated)
		if c.kinds[copied].bytes*int64(len(c.all)) >= c.kinds[k].bytes {
			return false
		}
		c.items(&c.kinds[copied])
		fixed = append(fixed, part{copied, 0})
		everywhere += c.kinds[copied].bytes
		return true
	})
	// Each option of a table is a kind; they rise in bytes of HBM and fall in time.
	options := make([][]int32, len(whole))
	for i, k := range whole {
		kinds := []int32{k}
		m := c.kinds[k].members[0]
		if len(c.kinds[k].members) == 1 {
			for _, form := range f.choices[m.table] {
				if form.Tier.OnHost() {
					kinds = append(kinds, c.inForm(k, m.width, form))
				}
			}
		}
		for _, k := range kinds {
			c.price(k)
		}
		slices.SortStableFunc(kinds, func(a, b int32) int { return cmp.Compare(c.kinds[a].bytes, c.kinds[b].bytes) })
		for _, k := range kinds {
			if n := len(options[i]); n == 0 || c.kinds[k].cost < c.kinds[options[i][n-1]].cost {
				options[i] = append(options[i], k)
			}
		}
	}
	for _, place := range []func(chosen []int32, time float64) ([]part, bool){
		func(chosen []int32, time float64) ([]part, bool) {
			return s.build(r, chosen, fixed, time, hottestEvaluations)
		},
		func(chosen []int32, _ float64) ([]part, bool) {
			f.clear()
			f.everywhere = everywhere
			return f.level(c, fixed, chosen)
		},
	} {
		for _, filling := range fillings {
			chosen := c.worthiest(options, int64(filling*float64(c.budget-everywhere)*float64(len(c.all))))
			time := 0.0
			for _, k := range chosen {
				time += c.kinds[k].cost / float64(len(c.all))
			}
			if parts, ok := place(chosen, time); ok {
				return parts, true
			}
		}
	}
	return nil, false
}

// worthiest chooses one of each table's options, the first of each and then those that
// save most time a byte more, as long as all take no more than room.
func (c *catalog) worthiest(options [][]int32, room int64) []int32 {
	chosen := make([]int32, len(options))
	at := make([]int, len(options))
	for i := range options {
		chosen[i] = options[i][0]
		room -= c.kinds[chosen[i]].bytes
	}
	// step returns the best next option of a table that there is room for, and what it
	// saves a byte.
	step := func(i int) (to int, worth float64) {
		from := &c.kinds[chosen[i]]
		for j := at[i] + 1; j < len(options[i]); j++ {
			next := &c.kinds[options[i][j]]
			more := next.bytes - from.bytes
			if more > room {
				break
			}
			if w := (from.cost - next.cost) / float64(max(1, more)); w > worth {
				to, worth = j, w
			}
		}
		return to, worth
	}
	var queue upgrades
	push := func(i int) {
		if _, worth := step(i); worth > 0 {
			heap.Push(&queue, upgrade{i, worth})
		}
	}
	for i := range options {
		push(i)
	}
	for len(queue) > 0 {
		best := heap.Pop(&queue).(upgrade)
		to, worth := step(best.table)
		if worth == best.worth && worth > 0 {
			at[best.table] = to
			room -= c.kinds[options[best.table][to]].bytes - c.kinds[chosen[best.table]].bytes
			chosen[best.table] = options[best.table][to]
		}
		push(best.table) // with what there is room for now
	}
	return chosen
}

// upgrade is a table's best next option, by what it saves a byte; upgrades is a heap
// of them, the worthiest first.
type upgrade struct {
	table int
	worth float64
}

type upgrades []upgrade

func (u upgrades) Len() int { return len(u) }
func (u upgrades) Less(i, j int) bool {
	return u[i].worth > u[j].worth || u[i].worth == u[j].worth && u[i].table < u[j].table
}
func (u upgrades) Swap(i, j int) { u[i], u[j] = u[j], u[i] }
func (u *upgrades) Push(x any)   { *u = append(*u, x.(upgrade)) }
func (u *upgrades) Pop() any {
	last := (*u)[len(*u)-1]
	*u = (*u)[:len(*u)-1]
	return last
}

// choice returns the first form that an unsplit kind may have and that suits.
func (f *forms) choice(c *catalog, k int32, suits func(problem.Form) bool) (problem.Form, bool) {
	members := c.kinds[k].members
	if len(members) != 1 {
		return problem.Form{}, false
	}
	choices := f.choices[members[0].table]
	if i := slices.IndexFunc(choices, suits); i >= 0 {
		return choices[i], true
	}
	return problem.Form{}, false
}

// fill places tables by falling bytes: those by rows where they belong, the others in
// slices, each on the device with the most room. The host memory of devices is
// filled as well.
func (f *forms) fill(c *catalog, whole []int32, byRows, hosted map[int32]problem.Form) ([]part, bool) {
	f.clear()
	defer f.clear()
	var parts []part
	var rest []int32
	for _, k := range whole {
		m := c.kinds[k].members[0]
		form, ok := byRows[k]
		if to, is := hosted[k]; is {
			rest = append(rest, c.inForm(k, m.width, to))
			continue
		}
		if !ok && f.columns {
			rest = append(rest, k)
			continue
		}
		if !ok {
			form = f.choices[m.table][0]
		}
		kinds := []int32{c.inForm(k, m.width, form)}
		if seatOf(form) == oneHost && f.sliced {
			kinds = c.refine(kinds, func(k int32) bool { return c.kinds[k].bytes > c.budget })
		}
		for _, k := range kinds {
			p := part{k, 0}
			if seatOf(form) == oneHost { // the host with the most room
				least := int32(0)
				for h := range f.fullHosts(len(c.all)) {
					if f.onHost[h] < f.onHost[least] {
						least = h
					}
				}
				p.device = least * f.local
			}
			f.count(&c.kinds[k], p.device, 1)
			parts = append(parts, p)
		}
	}
	return f.level(c, parts, rest)
}

// level places kinds that are each on one device beside parts that are counted already,
// by falling bytes and each where there is most room, cut into halves as finely as that
// takes.
func (f *forms) level(c *catalog, parts []part, rest []int32) ([]part, bool) {
	bytes := make([]int64, len(c.all))
	free := c.budget - f.everywhere
	if len(f.onHost) > 0 {
		free -= slices.Max(f.onHost)
	}
	for divisor := int64(1); divisor <= 64; divisor *= 2 {
		if free <= 0 {
			break
		}
		placed := slices.Clone(parts)
		clear(bytes)
		clear(f.hostBytes)
		pieces := c.refine(rest, func(k int32) bool {
			kind := &c.kinds[k]
			return kind.bytes > free/divisor || kind.hostBytes > f.hostBudget/divisor
		})
		slices.SortStableFunc(pieces, func(a, b int32) int {
			return cmp.Compare(max(c.kinds[b].bytes, c.kinds[b].hostBytes), max(c.kinds[a].bytes, c.kinds[a].hostBytes))
		})
		fits := true
		for _, k := range pieces {
			kind := &c.kinds[k]
			best, room := int32(none), 0.0
			for _, d := range c.allowed(kind) {
				left := c.budget - bytes[d] - f.on(d) - kind.bytes
				leftHost := f.hostBudget - f.hostBytes[d] - kind.hostBytes
				if left < 0 || leftHost < 0 && kind.hostBytes > 0 {
					continue
				}
				score := float64(left) / float64(c.budget)
				if kind.hostBytes > 0 {
					score = float64(leftHost) / float64(f.hostBudget)
				}
				if best == none || score > room {
					best, room = d, score
				}
			}
			if best == none {
				fits = false
				break
			}
			bytes[best] += kind.bytes
			f.hostBytes[best] += kind.hostBytes
			placed = append(placed, part{k, best})
		}
		if fits && f.lack(bytes, c.budget) == 0 {
			return placed, true
		}
		if !slices.ContainsFunc(pieces, func(k int32) bool { _, _, ok := c.cut(k); return ok }) {
			break
		}
	}
	if len(rest) == 0 && f.lack(bytes, c.budget) == 0 {
		return parts, true
	}
	return nil, false
}
