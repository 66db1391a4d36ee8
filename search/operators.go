package search

import (
	"context"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// Stage operators decides which tables of a device share an operator. All tables of an
// operator run in the lanes of the widest one, so narrow tables beside a wide one are slow.
// Apart from it they are fast, and the device pays for one more kernel launch and one more
// sort:
//
//	device 0   wide 128, narrow 8, narrow 8      one operator of 32 lanes
//	numbered   wide 128 | narrow 8, narrow 8     operator 0 of 32 lanes, operator 1 of 8
//
// The number belongs to the table (problem.Operator), so a table that is cut over several
// devices ties the operators of these devices together. What can pay is to keep lane classes
// apart, so the stage knows the partitions of the lane classes into at most
// problem.Operators sets, 5 of them for three classes. It numbers in steps:
//
//	all tables     by each partition, and the cheapest partition is a start
//	descent        from that start and from no numbers: the slowest device takes the best
//	               partition for each of its operators, or one table another number, while
//	               the plan becomes cheaper
//	cleaning       a device whose numbers make nothing faster takes number 0
//	annealing      in rounds, from the numbers found, from lane classes kept apart, from
//	               tables that are not cut (uncut.go), and, at a low temperature, from the
//	               placement without numbers; tables take other numbers, too
//
// A step of a descent computes the cost a few times for each operator of the device and, at
// the end, for each of its tables. Plans of one lane class are only annealed, and not if all
// placements were tried.

const (
	// The descents of the stage may add 1/numberingShare of the evaluations so far, but at
	// least leastNumbering evaluations.
	numberingShare, leastNumbering = 20, 2_000
	// 1/finalShare of the caller's budget is kept for the stage.
	finalShare = 20
	// wideColumns is the widest slice of operators whose kernels give all tables the lanes of
	// the widest one, in columns. Kernels of wider operators are of a class of their own.
	wideColumns = 1024
	// noticeable is the least relative gain that counts, above rounding.
	noticeable = 1e-9
	// The hot rounds of annealing take place if the best start costs less than hopefulNumbers
	// times the placement without numbers.
	hopefulNumbers = 1.03
	// If numbers make the placement cheaper than numbersPay times the cost without them, at most
	// furtherRounds further rounds follow, while each makes it cheaper by the share furtherGain.
	numbersPay, furtherRounds, furtherGain = .97, 6, .005
	// warmRound follows if the best result of coolRound costs less than nearNumbered times the
	// cheapest placement.
	nearNumbered = 1.005
	// Runs begin at placements without numbers of at most mostUnnumbered slices. For more slices, these
	// runs take a large share of the time of the search.
	mostUnnumbered = 1_000
	// fewestNumbered is the least share of the cost of slices of columns that numbers are expected to
	// leave.
	fewestNumbered = .6
	// worthwhile is the least share of the cost that numbers must save, or else the plan has
	// none.
	worthwhile = 1e-4
)

// finally applies stages, and then a last one, also if the stages tried all placements or
// used up their budget: it keeps a part of the caller's budget for the last stage.
type finally struct {
	stages []stage
	last   stage
}

func (f finally) apply(r *run, s state) (state, error) {
	if !mayNumber(r) {
		return r.apply(f.stages, s)
	}
	most, limit, ctx := r.most, r.limit, r.ctx
	if most > 0 {
		r.most = most - most/finalShare
		r.limit = r.most
	}
	if r.opt.Budget > 0 {
		var cancel context.CancelFunc
		r.ctx, cancel = sooner(ctx, r.opt.Budget/finalShare)
		defer cancel()
	}
	s, err := r.apply(f.stages, s)
	r.most, r.limit, r.ctx = most, limit, ctx
	if err != nil || s.best.division == nil || r.ended() {
		return s, err
	}
	status := r.status
	r.status = Complete
	s, err = f.last.apply(r, s)
	if status != Complete {
		r.status = status
	}
	return s, err
}

// mayNumber reports whether the search may give tables numbers of operators, and whether
// that can pay at all: it cannot where each table has the lanes of its own width.
func mayNumber(r *run) bool {
	return r.opt.Divides(r.catalog.problem) && numbersOperators(r.scorer())
}

// operators is the stage that gives tables numbers of operators. In a search among all forms it also
// numbers the best slices of columns, and takes the cheaper placement: not if some table may not be in
// slices of columns, nor under a budget of evaluations.
type operators struct{}

func (operators) apply(r *run, s state) (state, error) {
	s = numberTables(r, s)
	if r.most > 0 || r.ended() || s.columns.division == nil || slices.Contains(r.forms.barred, true) || s.best.cost < s.columns.cost*fewestNumbered {
		return s, nil
	}
	s.best = cheaper(s.best, numberedColumns(r, s))
	return s, nil
}

// numberedColumns returns the best slices of columns, numbered as in a search among slices of columns
// alone.
func numberedColumns(r *run, s state) placement {
	alone := *r
	alone.forms = r.forms.none()
	alone.stats = Stats{Evaluations: s.columnsWork} // the share of the numbers depends on it
	alone.aside.Evaluations += r.stats.Evaluations - s.columnsWork
	alone.asideCost = min(r.asideCost, s.best.cost)
	found := numberTables(&alone, state{best: s.columns, forced: s.forced})
	r.workers, r.finalists, r.status = alone.workers, alone.finalists, alone.status
	alone.stats.Evaluations -= s.columnsWork
	r.stats.add(alone.stats)
	return found.best
}

// numberTables returns the state with the tables of the best placement numbered.
func numberTables(r *run, s state) state {
	n, several := newNumbering(r, s.best.placed()), severalClasses(r.catalog)
	classes, cool := several || n.several(), len(s.best.devices) <= mostUnnumbered
	if !classes && !cool {
		return s
	}
	r.event.Phase = "operators"
	first := s.best
	if classes {
		s.best = numberClasses(r, s, n, several)
	}
	if cool {
		s.best = annealUnnumbered(r, s.best, first)
	}
	if s.best.cost > first.cost*(1-worthwhile) {
		s.best = first
	} else {
		s.best = tidied(r, s.best)
	}
	r.scorer().Reset()
	return s
}

// numberClasses numbers the tables of a placement, n, by their lane classes, or begins from other
// placements with such numbers, and returns the cheapest placement. several says that the unsplit
// tables have several lane classes.
func numberClasses(r *run, s state, n *numbering, several bool) placement {
	n.limit = min(r.end(), r.stats.Evaluations+max(leastNumbering, r.stats.Evaluations/numberingShare))
	first, byClass := s.best, n.apart()
	var starts []start
	if n.mixed() {
		if s.best = n.improve(s.best); s.best.cost < first.cost*(1-noticeable) {
			starts = append(starts, start{s.best.placed(), s.best.cost})
		}
	}
	if n.several() {
		starts = append(starts, start{parts: byClass})
	}
	if s.columns.division != nil && r.formed(first.placed()) {
		if n := newNumbering(r, s.columns.placed()); n.several() {
			starts = append(starts, start{parts: n.apart()})
		}
	}
	if several {
		best, uncut := uncutStarts(r, s.best)
		s.best, starts = best, append(starts, uncut...)
	}
	if dealsTables(r, s) {
		best, dealt := dealtStarts(r, s)
		s.best, starts = best, append(starts, dealt...)
	}
	s.best = annealNumbered(r, s.best, starts, first.cost)
	return numberReplicated(r, s, first.cost)
}

// numberReplicated numbers the tables of the placement that replicates all of them, if there is one, and anneals
// from it if it then costs little more than the best placement. These runs are apart from those of the other
// starts: many small tables may cost least all replicated, or half of them, and neither is near the other.
func numberReplicated(r *run, s state, undivided float64) placement {
	if s.replicated.division == nil {
		return s.best
	}
	alone := *r
	alone.forms = r.forms.replicas()
	alone.asideCost = min(r.asideCost, s.best.cost)
	found := state{best: s.replicated}
	for before := math.Inf(1); found.best.cost < before*(1-furtherGain); {
		before = found.best.cost
		found = numberTables(&alone, found)
	}
	r.workers, r.finalists, r.status, r.stats = alone.workers, alone.finalists, alone.status, alone.stats
	best := cheaper(s.best, found.best)
	if found.best.cost >= hopefulNumbers*s.best.cost {
		return best
	}
	return annealNumbered(r, best, []start{{found.best.placed(), found.best.cost}}, undivided)
}

// tidied returns a placement without the numbers that gain nothing. The lower numbers have
// more tables.
func tidied(r *run, best placement) placement {
	n := newNumbering(r, best.placed())
	n.start()
	n.clean()
	n.relabel()
	if n.cost > best.cost {
		return best
	}
	n.scorer.Reset()
	pieces, devices := apart(n.parts)
	return placement{division: r.catalog.divide(pieces), devices: devices, cost: n.cost}
}

// annealNumbered anneals from placements whose tables have numbers, in rounds, and returns
// the cheapest placement. undivided is the cost without numbers. If numbers then save much, and the
// slices are few, further rounds follow while the placement becomes cheaper.
func annealNumbered(r *run, best placement, starts []start, undivided float64) placement {
	for _, round := range numberedRounds {
		slices.SortStableFunc(starts, cheapestFirst)
		if len(starts) == 0 || starts[0].cost >= round.below*undivided {
			return best
		}
		starts = round.of(starts)
		best = round.annealEach(r, best, starts)
	}
	for n := 0; n < furtherRounds && best.cost < numbersPay*undivided && fewSlices(best); n++ {
		before := best.cost
		slices.SortStableFunc(starts, cheapestFirst)
		starts = furtherRound.of(starts)
		if best = furtherRound.annealEach(r, best, starts); best.cost > before*(1-furtherGain) {
			break
		}
	}
	return best
}

// annealUnnumbered anneals from a placement without numbers, whose tables take numbers on the way, and
// returns the cheapest placement. Near a good placement, numbers may pay only if several tables take
// them and slices move as well: no step of a descent finds these. They may pay in one lane class, too:
// apart from tables of many rows, a device sorts the indices of tables of few rows in fewer passes. Two
// warmer runs follow from the result if it costs little more than the cheapest placement.
func annealUnnumbered(r *run, best, unnumbered placement) placement {
	starts := coolRound.of([]start{{unnumbered.placed(), unnumbered.cost}})
	best = coolRound.annealEach(r, best, starts)
	slices.SortStableFunc(starts, cheapestFirst)
	if starts[0].cost < min(nearNumbered*best.cost, (1-worthwhile)*unnumbered.cost) {
		best = warmRound.annealEach(r, best, warmRound.of(starts))
	}
	return best
}

// numberedRound is a round of annealing from placements whose tables have numbers.
type numberedRound struct {
	// keep is the number of starts, the cheapest ones. The round takes place if one of these
	// costs less than below times the placement without numbers.
	keep  int
	below float64
	// runs is the least number of runs: with fewer starts, several runs begin at a start.
	runs int
	// share is the inverse of the share of a long run's evaluations that each start has.
	share int64
	heat  float64
	// uncut says that no change cuts a slice, and lastUncut that none of the last run does.
	uncut, lastUncut bool
}

// The first round is cool and short, because most placements gain nothing by numbers. The
// next ones are hot: two good ways to number tables may have only expensive ones between
// them.
var (
	numberedRounds = []numberedRound{
		{keep: 5, below: math.Inf(1), share: 10, heat: formHot},
		{keep: 2, runs: 2, below: hopefulNumbers, share: 6, heat: 1},
		{keep: 1, runs: 2, below: hopefulNumbers, share: 4, heat: 1, lastUncut: true},
	}
	uncutRound = numberedRound{share: 4, heat: 1, uncut: true}
	// coolRound begins at the placement without numbers, and warmRound at its best result.
	coolRound = numberedRound{keep: 1, runs: 2, share: 5, heat: .05}
	warmRound = numberedRound{keep: 1, runs: 2, share: 4, heat: .15}
	// furtherRound is repeated where numbers save much.
	furtherRound = numberedRound{keep: 2, runs: 2, share: 1, heat: 1}
)

// of returns the starts of the round, from sorted starts: the cheapest ones, and some of them again
// if they are fewer than the runs.
func (n numberedRound) of(starts []start) []start {
	starts = starts[:min(len(starts), n.keep)]
	for i := 0; len(starts) < n.runs; i++ {
		starts = append(starts, starts[i])
	}
	return starts
}

// annealEach anneals from each start, numbers the tables again, and replaces the start by the
// result. It returns the cheapest placement of the results and best.
func (n numberedRound) annealEach(r *run, best placement, starts []start) placement {
	evaluations := (&annealing{r: r, placement: best}).longRun() / n.share
	inputs, found := describeStarts(r.catalog, starts), make([]describedStart, len(starts))
	inParallel(r, len(starts), func(on *run, i int) {
		round := n
		round.uncut = n.uncut || n.lastUncut && i == len(starts)-1
		numbered := round.anneal(on, best.cost, start{find(on, inputs[i].parts), inputs[i].cost}, evaluations, uint64(i))
		found[i] = describedStart{describe(on.catalog, numbered.parts), numbered.cost}
	})
	for i, s := range found {
		if s.parts != nil {
			starts[i] = start{find(r, s.parts), s.cost}
			best = r.offerPlaced(best, starts[i].parts)
		}
	}
	return best
}

// anneal anneals from a start and returns the result with the tables numbered again. Numbers are
// tidied if the result costs less than the cost best.
func (n numberedRound) anneal(r *run, best float64, from start, evaluations int64, number uint64) start {
	f := r.forms
	if !r.formed(from.parts) {
		f = f.none()
	}
	a := newAnnealing(r, placement{}, f)
	a.heat, a.renumbers, a.uncut, a.trades, a.drawn = n.heat, true, n.uncut, f.any(), number
	if found := a.from(from.parts, evaluations); found.parts != nil {
		from = found
	}
	again := newNumbering(r, from.parts)
	again.limit = min(r.end(), r.stats.Evaluations+evaluations/4)
	again.improve(placement{division: &division{}, cost: best})
	return start{again.parts, again.cost}
}

// numbering is a placement whose tables take numbers of operators.
type numbering struct {
	r      *run
	scorer Scorer
	parts  []placed
	// tables are the sets of parts that have one number: the slices of a table, or a
	// co-location.
	tables []numbered
	// sharing are the tables of each device that could share an operator, in the order of the
	// devices; those that all devices hold come last. first holds where the lists of each
	// device begin.
	sharing [][]int32
	first   []int
	cost    float64
	// limit is the number of evaluations at which the search of numbers ends.
	limit int64
}

// numbered are the parts of one number, with the lane class of the widest.
type numbered struct {
	parts  []int32
	number problem.Operator
	lanes  uint8
}

// laneClass returns the lane class of a slice of the width, from 0 on; laneClasses is the
// number of classes.
func laneClass(profile *hardware.Profile, width int) uint8 {
	switch lanes := profile.Lanes(width); {
	case width > wideColumns:
		return 3
	case lanes <= 8:
		return 0
	case lanes <= 16:
		return 1
	}
	return 2
}

const laneClasses = 4

func newNumbering(r *run, parts []placed) *numbering {
	c := r.catalog
	n := &numbering{r: r, scorer: r.scorer(), parts: slices.Clone(parts)}
	index := map[int]int32{}
	type place struct {
		device int32
		key    problem.OperatorKey
	}
	at, members := map[place]int{}, make([][]place, len(c.all)+1)
	lists := map[place][]int32{}
	for i, p := range n.parts {
		k := &c.pieces[p.piece]
		if !slices.ContainsFunc(k.members, func(m member) bool { return c.problem.Tables[m.table].PoolingFactor() > 0 }) {
			continue // in no operator
		}
		t, ok := index[k.members[0].table]
		if !ok {
			t = int32(len(n.tables))
			index[k.members[0].table] = t
			n.tables = append(n.tables, numbered{number: k.form.Operator})
		}
		of := &n.tables[t]
		of.parts = append(of.parts, int32(i))
		key := c.operator(p.piece)
		key.Operator = 0
		for _, m := range k.members {
			of.lanes = max(of.lanes, laneClass(&c.problem.Topology.Profile, m.width))
		}
		join := func(device int32) {
			to := place{device, key}
			if _, ok := at[to]; !ok {
				at[to] = len(at)
				members[device] = append(members[device], to)
			}
			if list := lists[to]; !slices.Contains(list, t) {
				lists[to] = append(list, t)
			}
		}
		if k.span == everywhere {
			join(int32(len(c.all)))
		} else {
			c.eachOf(k.span, p.device, func(_ int, d int32) { join(d) })
		}
	}
	for _, places := range members {
		n.first = append(n.first, len(n.sharing))
		for _, p := range places {
			n.sharing = append(n.sharing, lists[p])
		}
	}
	n.first = append(n.first, len(n.sharing))
	return n
}

// several reports whether there are several lane classes among the tables.
func (n *numbering) several() bool {
	return slices.ContainsFunc(n.tables, func(t numbered) bool { return t.lanes != n.tables[0].lanes })
}

// apart returns the parts with a number for each lane class.
func (n *numbering) apart() []placed {
	var present [laneClasses]bool
	for _, t := range n.tables {
		present[t.lanes] = true
	}
	numbers := eachApart(present)
	parts := slices.Clone(n.parts)
	for _, t := range n.tables {
		for _, i := range t.parts {
			parts[i].piece = n.r.catalog.numbered(parts[i].piece, numbers[t.lanes])
		}
	}
	return parts
}

// mixed reports whether some list holds several lane classes, or already several numbers.
func (n *numbering) mixed() bool {
	return slices.ContainsFunc(n.sharing, func(list []int32) bool {
		first := n.tables[list[0]]
		return slices.ContainsFunc(list, func(t int32) bool {
			return n.tables[t].lanes != first.lanes || n.tables[t].number != first.number
		})
	})
}

// improve takes the cheapest numbers that it finds, and returns the placement with them, or
// best if that is not cheaper.
func (n *numbering) improve(best placement) placement {
	n.start()
	base := n.numbers()
	n.descend()
	least, cheapest := n.cost, n.numbers()
	if p := n.uniform(base); p != nil {
		n.assign(p)
		n.descend()
		if n.cost < least*(1-noticeable) {
			least, cheapest = n.cost, n.numbers()
		}
	}
	n.assign(cheapest)
	if !(least < best.cost*(1-noticeable)) {
		n.r.tell(best)
		return best
	}
	n.clean()
	n.relabel()
	return n.r.offerPlaced(best, n.parts)
}

// start puts all parts into the scorer.
func (n *numbering) start() {
	n.scorer.Reset()
	for _, p := range n.parts {
		n.score(p, n.scorer.Add)
	}
	n.cost = n.scorer.Cost()
	n.r.stats.Evaluations += int64(len(n.parts))
}

func (n *numbering) score(p placed, do func(device, item int)) {
	k := &n.r.catalog.pieces[p.piece]
	n.r.catalog.register(k)
	for i := range k.members {
		do(int(p.device), k.members[i].item)
	}
}

// set gives a table a number, in the scorer too; the cost is not computed.
func (n *numbering) set(table int32, number problem.Operator) {
	of := &n.tables[table]
	if of.number == number {
		return
	}
	of.number = number
	for _, i := range of.parts {
		n.score(n.parts[i], n.scorer.Remove)
		n.parts[i].piece = n.r.catalog.numbered(n.parts[i].piece, number)
		n.score(n.parts[i], n.scorer.Add)
	}
	n.r.stats.Evaluations += int64(len(of.parts))
}

// assign gives all tables their numbers.
func (n *numbering) assign(numbers []problem.Operator) {
	for t, number := range numbers {
		n.set(int32(t), number)
	}
	n.cost = n.scorer.Cost()
}

func (n *numbering) numbers() []problem.Operator {
	numbers := make([]problem.Operator, len(n.tables))
	for t := range n.tables {
		numbers[t] = n.tables[t].number
	}
	return numbers
}

// over reports whether the stage has used up its evaluations, or the run has ended.
func (n *numbering) over() bool { return n.r.stats.Evaluations >= n.limit || n.r.ended() }

// uniform returns the cheapest numbers among those that follow from one partition of the
// lane classes for all tables; nil if there is one partition only.
func (n *numbering) uniform(base []problem.Operator) (best []problem.Operator) {
	all := make([]int32, len(n.tables))
	for t := range all {
		all[t] = int32(t)
	}
	least := 0.0
	for _, p := range n.partitions(all) {
		if p == (partition{}) || n.over() {
			continue
		}
		for t := range n.tables {
			n.set(int32(t), p[n.tables[t].lanes])
		}
		if cost := n.scorer.Cost(); best == nil || cost < least {
			least, best = cost, n.numbers()
		}
	}
	n.assign(base)
	return best
}

// descend numbers the tables of the slowest device, and those that all devices hold, while
// the plan becomes cheaper.
func (n *numbering) descend() {
	for !n.over() {
		slowest, most := 0, -1.0
		for d := range n.r.catalog.all {
			if t := n.scorer.Compute(d); t > most {
				slowest, most = d, t
			}
		}
		if !n.renumber(slowest) && !n.renumber(len(n.r.catalog.all)) {
			return
		}
	}
}

// renumber looks for numbers of a device's tables that make the plan cheaper: first a
// partition of each list, then a number of each table. It reports whether it found some.
func (n *numbering) renumber(device int) bool {
	found := false
	lists := n.sharing[n.first[device]:n.first[device+1]]
	for _, list := range lists {
		for _, p := range n.partitions(list) {
			found = n.try(list, func(t int32) problem.Operator { return p[n.tables[t].lanes] }) || found
		}
	}
	if found {
		return true
	}
	for _, list := range lists {
		for i := range list {
			for number := range problem.Operator(problem.Operators) {
				found = n.try(list[i:i+1], func(int32) problem.Operator { return number }) || found
			}
		}
	}
	return found
}

// try gives tables numbers, and takes these back unless the plan becomes cheaper.
func (n *numbering) try(tables []int32, number func(t int32) problem.Operator) bool {
	if n.over() {
		return false
	}
	before, changed := make([]problem.Operator, len(tables)), false
	for i, t := range tables {
		before[i] = n.tables[t].number
		changed = changed || before[i] != number(t)
		n.set(t, number(t))
	}
	if !changed {
		return false
	}
	if cost := n.scorer.Cost(); cost < n.cost*(1-noticeable) {
		n.cost = cost
		return true
	}
	for i, t := range tables {
		n.set(t, before[i])
	}
	return false
}

// clean gives number 0 to the tables of each device whose numbers make neither the plan
// cheaper nor the device faster.
func (n *numbering) clean() {
	for device := range n.r.catalog.all {
		for _, list := range n.sharing[n.first[device]:n.first[device+1]] {
			before := make([]problem.Operator, len(list))
			compute := n.scorer.Compute(device)
			for i, t := range list {
				before[i] = n.tables[t].number
				n.set(t, 0)
			}
			if cost := n.scorer.Cost(); cost <= n.cost && n.scorer.Compute(device) <= compute {
				n.cost = cost
				continue
			}
			for i, t := range list {
				n.set(t, before[i])
			}
		}
	}
}

// relabel exchanges the numbers so that lower numbers have more tables.
func (n *numbering) relabel() {
	var count [problem.Operators]int
	for _, t := range n.tables {
		count[t.number]++
	}
	order := make([]problem.Operator, problem.Operators)
	for i := range order {
		order[i] = problem.Operator(i)
	}
	slices.SortStableFunc(order, func(a, b problem.Operator) int { return count[b] - count[a] })
	numbers := n.numbers()
	for t, was := range numbers {
		numbers[t] = problem.Operator(slices.Index(order, was))
	}
	n.assign(numbers)
}

// partition holds the number of each lane class. The zero partition keeps nothing apart.
type partition [laneClasses]problem.Operator

// partitions returns the partitions of the lane classes of some tables into at most
// problem.Operators sets, each once, the zero partition first.
func (n *numbering) partitions(tables []int32) []partition {
	var present [laneClasses]bool
	for _, t := range tables {
		present[n.tables[t].lanes] = true
	}
	all := []partition{{}}
	seen := false // whether a class before was present: the first class has number 0
	for class := range present {
		if !present[class] {
			continue
		}
		if !seen {
			seen = true
			continue
		}
		for _, p := range slices.Clone(all) {
			for number := problem.Operator(1); number <= slices.Max(p[:])+1 && number < problem.Operators; number++ {
				q := p
				q[class] = number
				all = append(all, q)
			}
		}
	}
	return all
}

// eachApart returns the partition that keeps all lane classes apart, the highest class first.
// If there are more classes than numbers, the lowest classes share one.
func eachApart(present [laneClasses]bool) (numbers partition) {
	next := problem.Operator(0)
	for class := laneClasses - 1; class >= 0; class-- {
		if present[class] {
			numbers[class] = min(next, problem.Operators-1)
			next++
		}
	}
	return numbers
}
