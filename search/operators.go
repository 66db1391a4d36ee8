package search

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The search may decide which tables of a device share an operator. All tables of an
// operator run in the lanes of the widest one, so narrow tables beside a wide one are slow.
// Apart from it they are fast, and the device pays for one more kernel launch and one more
// sort:
//
//	device 0   wide 128, narrow 8, narrow 8      one operator of 32 lanes
//	numbered   wide 128 | narrow 8, narrow 8     operator 0 of 32 lanes, operator 1 of 8
//
// The number belongs to the table (problem.Operator), so a table that is cut over several
// devices ties the operators of these devices together. What can pay is to keep lane classes
// apart, so some starts of the race have a number for each lane class, or for each set of a partition
// of the lane classes. Runs of annealing give tables other numbers on the way. Two steps follow the race:
//
//	descent    the slowest device takes the best partition for each of its operators, or one table
//	           another number, while the plan becomes cheaper
//	cleaning   a device whose numbers make nothing faster takes number 0

const (
	// A search of numbers may add 1/numberingShare of the evaluations so far, but at
	// least leastNumbering evaluations.
	numberingShare, leastNumbering = 20, 2_000
	// wideColumns is the widest slice of operators whose kernels give all tables the lanes of
	// the widest one, in columns. Kernels of wider operators are of a class of their own.
	wideColumns = 1024
	// noticeable is the least relative gain that counts, above rounding.
	noticeable = 1e-9
)

// mayNumber reports whether the search may give tables numbers of operators, and whether
// that can pay at all: it cannot where each table has the lanes of its own width.
func mayNumber(r *run) bool {
	return r.opt.Divides(r.catalog.problem) && numbersOperators(r.scorer())
}

// renumbered returns the placement with numbers that make it cheaper, if the search finds any, and without those that gain
// nothing.
func renumbered(r *run, best placement) placement {
	if n := newNumbering(r, best.parts); n.mixed() {
		n.limit = min(r.end(), r.stats.Evaluations+max(leastNumbering, r.stats.Evaluations/numberingShare))
		best = n.improve(best)
	}
	return tidied(r, best)
}

// tidied returns a placement without the numbers that gain nothing. The lower numbers have
// more tables.
func tidied(r *run, best placement) placement {
	n := newNumbering(r, best.parts)
	n.start()
	n.clean()
	n.relabel()
	if n.cost > best.cost*(1+noticeable) {
		return best
	}
	n.scorer.Reset()
	return placement{parts: r.catalog.expensiveFirst(n.parts), cost: n.cost}
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
	return n.r.offer(best, n.parts)
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

// over reports whether the search of numbers has used up its evaluations, or the run has ended.
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

// classOf returns the lane class of a piece's widest member. ok is false if the piece is in
// no operator, because its tables are never looked up.
func classOf(c *catalog, k int32) (class uint8, ok bool) {
	for _, m := range c.pieces[k].members {
		class = max(class, laneClass(&c.problem.Topology.Profile, m.width))
		ok = ok || c.problem.Tables[m.table].PoolingFactor() > 0
	}
	return class, ok
}

// classesOf returns the lane classes that some pieces have.
func classesOf(c *catalog, pieces []int32) (present [laneClasses]bool) {
	for _, k := range pieces {
		if class, ok := classOf(c, k); ok {
			present[class] = true
		}
	}
	return present
}

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

// severalClasses reports whether the unsplit tables have several lane classes.
func severalClasses(c *catalog) bool {
	n := 0
	for _, present := range classesOf(c, c.whole()) {
		if present {
			n++
		}
	}
	return n > 1
}
