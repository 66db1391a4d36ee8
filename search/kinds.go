package search

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// The search among all pieces sets out from the best placement of column slices, or,
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
	// Beyond so many slices there is one round, of kindStarts.
	manySlices = 30_000
)

// dearShares are the shares of a device's mean compute that a table takes which is cut
// by rows in some starts.
var dearShares = []float64{1, .5, .25}

// narrowed returns the problem as the pieces allow it to be cut by columns: not at all
// where tables on single devices stay whole.
func narrowed(p *problem.Problem, pieces []problem.Kind) *problem.Problem {
	if slices.Contains(pieces, problem.ColumnWise) || !slices.Contains(pieces, problem.TableWise) {
		return p
	}
	whole := *p
	whole.Tables = slices.Clone(p.Tables)
	for i := range whole.Tables {
		whole.Tables[i].Constraint.MinWidth = whole.Tables[i].Dim
	}
	return &whole
}

// pieces is the search among all forms.
func (s *run) pieces() error {
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
	f.scorer = s.workers[0].scorer
	s.event.Phase = "kinds"
	r := newRefiner(s.catalog, s.workers[0].scorer, s.opt.Seed)
	r.f = f
	r.scorer.Reset()
	for t, choices := range f.choices {
		if len(choices) > 0 {
			s.catalog.price(f.whole[t])
		}
	}
	hottest := s.hottest(r)
	for _, parts := range hottest {
		s.offerParts(parts)
	}
	if s.best.division == nil {
		parts, ok := s.fitForms()
		switch {
		case !ok && infeasible == nil:
			return f.noRoom(s.catalog)
		case !ok:
			infeasible.Tried = f.tried()
			return infeasible
		}
		s.offerParts(parts)
	}
	if s.status == Complete {
		s.spread(r, hottest)
	}
	r.scorer.Reset()
	return nil
}

// NoKind is the error of a search whose pieces, none of which places tables on single
// devices, leave some tables none, or do not fit.
type NoKind struct {
	// Tables are the names of those that no piece can place, in the problem's order: their
	// rows are fewer than devices, or their constraints forbid it. Where all have a piece
	// and do not fit, it is the one that takes most.
	Tables []string
	// Kinds are those tried, where tables do not fit. Need is what Tables takes of a
	// device, Sum what all tables take of each, or of those of a host, in the piece that
	// takes least, and Have what there is.
	Kinds           []string
	Need, Sum, Have unit.Bytes
}

// Error names the first of the tables, or the one that takes most.
func (e *NoKind) Error() string {
	if len(e.Kinds) > 0 {
		return fmt.Sprintf("the tables do not fit in %s: each in the kind that takes least, they take %v of a device that has %v for them; %q takes most, %v",
			strings.Join(e.Kinds, ", "), e.Sum, e.Have, e.Tables[0], e.Need)
	}
	return fmt.Sprintf("none of the kinds allowed can place %s: they have fewer rows than there are devices, or constraints against it", words.Quoted(e.Tables, 5))
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

// InHostMemory is what Infeasible.Tried calls the tiers of host memory.
const InHostMemory = "host memory"

// tried lists the forms of any table.
func (f *forms) tried() []string {
	var names []string
	for _, choices := range f.choices {
		for _, form := range choices {
			name := string(form.Kind)
			if form.Tier.OnHost() {
				name = InHostMemory
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// noRoom is the error of a search without column slices that found no placement: of the
// table that takes most of a device in the form that takes least.
func (f *forms) noRoom(c *catalog) *NoKind {
	e := &NoKind{Kinds: f.tried(), Have: unit.Bytes(c.budget)}
	for i, choices := range f.choices {
		m := c.pieces[f.whole[i]].members[0]
		least := int64(math.MaxInt64)
		for _, form := range choices {
			least = min(least, c.pieces[c.inForm(f.whole[i], m.width, form)].bytes)
		}
		e.Sum += unit.Bytes(least)
		if need := unit.Bytes(least); need > e.Need {
			e.Need, e.Tables = need, []string{c.problem.Tables[i].Name}
		}
	}
	return e
}

// start is a placement to anneal from, and its cost.
type start struct {
	parts []placed
	cost  float64
}

func cheapestFirst(a, b start) int { return cmp.Compare(a.cost, b.cost) }

// spread switches tables to other forms, and refines; more are further placements to
// begin at.
func (s *run) spread(r *refiner, more [][]placed) {
	end := int64(math.MaxInt64)
	if s.opt.MaxEvaluations > 0 {
		end = s.opt.MaxEvaluations
	}
	base := s.parts()
	run := max(kindEvaluations, kindEvaluationsASlice*int64(len(base)))
	anneal := func(from *start, evaluations int64) {
		left := end - s.stats.Evaluations
		if s.status != Complete || left <= 0 {
			return
		}
		r.heat = hot
		r.reset(from.parts)
		if best := s.anneal(r, min(evaluations, left)); best != nil {
			*from = start{best, r.best}
		}
	}
	starts := s.switched(r, base, end)
	for _, parts := range more {
		r.reset(parts)
		if cost := r.best; !slices.ContainsFunc(starts, func(known start) bool { return known.cost == cost }) {
			starts = append(starts, start{parts, cost})
		}
	}
	// Where slices alone do not fit, few changes do, and a run may end at any of them: so
	// a start is annealed several times rather than once.
	for i := 0; s.formed(start{parts: base}) && len(starts) < switchedStarts; i++ {
		starts = append(starts, starts[i])
	}
	rounds := 2
	if len(base) > manySlices {
		starts, rounds = starts[:min(len(starts), kindStarts)], 1
	}
	for round := range rounds {
		for i := range starts {
			anneal(&starts[i], run<<round)
		}
		slices.SortStableFunc(starts, cheapestFirst)
		if round == 0 {
			starts = s.contest(starts)
		}
	}
	// The base had a long run, and the others have not. One that is worth more may do
	// better in the end.
	if i := slices.IndexFunc(starts, s.formed); i >= 0 && !s.formed(start{parts: s.parts()}) {
		r.reset(starts[i].parts)
		worth := r.worth()
		if r.reset(s.parts()); worth < r.worth() {
			anneal(&starts[i], s.longRun())
		}
		r.still = !s.formed(start{parts: s.parts()}) // no other form pays
	}
	s.goOn(r, end)
	s.recall(r)
}

// recall takes tables back from host memory, or into HBM whole, where that makes nothing
// dearer and there is room: small tables that the annealing put there, as it makes no
// difference to the goal where they are.
func (s *run) recall(r *refiner) {
	if r.f.hostBudget == 0 || s.status != Complete || !r.f.columns {
		return
	}
	r.reset(s.parts())
	cost, changed := r.best, false
	for _, t := range r.order() {
		if !r.formOf(t).Tier.OnHost() || !r.remain(t, problem.Form{}) {
			continue
		}
		all, sum := r.softSums, r.computeSum
		r.try()
		s.stats.Evaluations++
		if now := r.scorer.Cost(); now <= cost && r.computeSum <= sum {
			cost, changed = now, true
			r.accept()
			continue
		}
		r.undo()
		r.softSums = all
	}
	if changed {
		// As cheap is good enough here.
		s.best.cost = math.Inf(1)
		s.offerParts(r.all())
	}
}

// formed reports whether a placement has parts in other forms than the zero one.
func (s *run) formed(from start) bool {
	return slices.ContainsFunc(from.parts, func(p placed) bool { return s.catalog.pieces[p.piece].form != (problem.Form{}) })
}

// contest returns the starts of the second round, of all in order: the cheapest, and
// one with other forms.
func (s *run) contest(starts []start) []start {
	n := min(len(starts), kindStarts)
	if i := slices.IndexFunc(starts, s.formed); i >= n {
		starts[n-1] = starts[i]
	}
	return starts[:n]
}

// switched returns the base and the cheapest placements with tables switched.
func (s *run) switched(r *refiner, base []placed, end int64) []start {
	starts := []start{{base, s.best.cost}}
	try := func(switched bool) {
		s.stats.Evaluations += r.evaluations
		r.evaluations = 0
		if !switched {
			return
		}
		add := func(parts []placed) {
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
	for _, forms := range lots {
		form := forms[0]
		if len(forms) > 1 || !form.Kind.ByRows() {
			continue
		}
		for last, i := 0, 0; i < len(dearShares) && !s.ended() && s.stats.Evaluations < end; i++ {
			r.reset(base)
			n := r.switchDear(form, dearShares[i])
			try(n > last)
			last = n
		}
	}
	slices.SortStableFunc(starts, cheapestFirst)
	return starts[:min(len(starts), switchedStarts)]
}

// rebuild places the tables that are in slices on single devices afresh, beside the
// others, and reports whether they fit and the problem is small enough for that.
func (s *run) rebuild(r *refiner, parts []placed) ([]placed, bool) {
	c := s.catalog
	forms := map[int]problem.Form{}
	var fixed []placed
	for _, p := range parts {
		k := &c.pieces[p.piece]
		forms[k.members[0].table] = k.form
		if k.span != oneDevice {
			fixed = append(fixed, p)
		}
	}
	var pieces []int32
	for _, k := range c.whole() {
		m := c.pieces[k].members[0]
		switch form := forms[m.table]; {
		case form == (problem.Form{}):
			pieces = append(pieces, k)
		case spanOf(form) == oneDevice:
			pieces = append(pieces, c.inForm(k, m.width, form))
		}
	}
	total := 0.0
	for _, t := range r.compute {
		total += t
	}
	return s.build(r, pieces, fixed, total/float64(len(c.all)), shapeEvaluations)
}

// build places pieces beside fixed parts, aiming at a compute of each device, unless that
// takes more than so many pricings.
func (s *run) build(r *refiner, pieces []int32, fixed []placed, target float64, most int64) ([]placed, bool) {
	c := s.catalog
	b := newBuilder(r, pieces, fixed, target)
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
		if r.c.pieces[r.f.whole[t]].cost <= share*mean {
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
	cost := func(t int) float64 { return r.c.pieces[r.f.whole[t]].cost }
	slices.SortStableFunc(tables, func(a, b int) int { return cmp.Compare(cost(b), cost(a)) })
	return tables
}

// formOf returns the form that a table has.
func (r *refiner) formOf(table int) problem.Form {
	return r.c.pieces[r.parts[r.tables[table][0]].piece].form
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
