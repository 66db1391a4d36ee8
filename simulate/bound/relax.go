package bound

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// relax.go finds the cheapest way to cut and place a table, given prices.
//
//	            operator 0    operator 1    operator 2
//	            8 lanes       16 lanes      32 lanes      ...
//	 4 columns  price         price         price
//	 8 columns  price         price         price
//	 ...
//	64 columns  -             price         price
//
// A slice's price is linear in what the slice takes, so it is one inner product for
// each width and operator. The price of a width is the least over the operators, and the
// cheapest cut of g granules follows from the cheapest cuts of fewer granules:
//
//	best(g) = least over w of best(g-w) + price(w)
//
// With k operators, that takes O(k g + g^2) for a table of g granules.

// operator is one of the operators that a device may run: in a lane class, and with a
// number of sort passes.
type operator struct {
	// operation, mode and lanes are the places of its operation, its mode and its lane
	// class in a relaxation.
	operation, mode, lanes int
	passes                 int
	// widest is the widest slice that the operator may hold, in granules.
	widest int
	// forwards is how often the norm of the forward counts: once, and again in the
	// backward of weighted operators.
	forwards float64
}

// mode is the operators that a device runs: one in a lane class and with a number of sort
// passes, or several of them. Operators of one lane class and one number of passes count
// as one, because the norm of sums is at most the sum of norms.
type mode struct {
	// first and end are the places of the mode's operators in a relaxation: first to
	// end-1.
	first, end int
	// extra is a fixed time, in ms, that a device in the mode takes in addition to the
	// fixed time of one operator.
	extra float64
	// rows[n] is the largest number of rows that operators with n sort passes can have on a
	// device; +Inf means that there is no limit.
	rows [maxPasses + 1]float64
	// several is the most operators of a device in the mode if it may have more than one, and
	// otherwise 0.
	several float64
	// devices is the largest number of devices that can be in the mode.
	devices int
	// memory is the place of the mode's memory class in a relaxation.
	memory int
}

// shortMS is the longest time, in ms, up to which the fixed time of a second operator counts more than
// the number of operators.
const shortMS = 8 * fixedMS

// load is what slices take of the devices in one operator: the three times of each norm
// and the time of sorting, in ms, and the other limited resources of a device.
type load [large + largeLimits]float64

const (
	forward  = 0 // and 1 and 2: memory, cache, issue
	backward = 3 // and 4 and 5
	sorting  = 6
	rows     = 7
	columns  = 8
	bytes    = 9
	large    = 10 // and the next places: the shares of the limits of large slices (large.go)
)

// sizes are the norms of an operator's load, forward and backward, in ms.
type sizes struct{ forward, backward float64 }

func (l *load) sizes() sizes {
	return sizes{norm(l[forward], l[forward+1], l[forward+2]), norm(l[backward], l[backward+1], l[backward+2])}
}

// time returns the time, without the fixed part, of an operator whose load has the given
// norms, in ms.
func (o *operator) time(l *load, s sizes) float64 {
	return o.forwards*s.forward + s.backward + l[sorting]
}

// relaxation is a problem as tables that are divided over the operators of modes.
type relaxation struct {
	devices   int
	tables    []table
	operators []operator
	modes     []mode
	// lanes lists the lane classes of each operation, and of the operators that serve it.
	lanes [][]laneClass
	of    [][]int
	// budget is the bytes of the device with the most memory, +Inf if bytes do not count. short
	// is the difference between budget and the mean budget of the devices.
	budget, short float64
	// memories are the memory classes of the devices: there is one unless devices differ in
	// memory and byMemory divided them.
	memories []memoryClass

	// divided is the most operators of an operation on a device, and tiered says that slices may lie
	// in the memory of hosts.
	divided int
	tiered  bool

	// The input of choose: the prices by operator, which modes are open, and the longest
	// time that a slice may take alone.
	prices  []load
	open    []bool
	longest float64
	// directions are tangents of the times of the operators: the time of an operator is at least the
	// sum of its loads times its direction. If countLarge is true, choose and chosen count large
	// slices and leave out those without room, by the rooms of the modes (rooms.go). The rooms hold
	// for the tangents judges, which are directions of makeRooms.
	directions []load
	countLarge bool
	rooms      []room
	judges     []load
	// sizes holds the norms of each operator's load when prices are set.
	sizes []sizes
	// The results of choose, by width in granules: the cheapest price, operator and tier of one
	// slice, and the best price of a cut of the width with the first slice of that cut.
	price, best [maxGranules + 2]float64
	which, tier [maxGranules + 2]int
	first       [maxGranules + 2]int
	// cuts cuts tables with pieces.
	cuts cutter
}

// newRelaxation returns the tables of the problem that have lookups, with equal tables
// joined, on a number of devices, and the modes of devices that have at most the allowed number
// of operators for each operation.
func newRelaxation(p *problem.Problem, counts *simulate.Pricer, devices int, allowed Allowed) *relaxation {
	type key struct {
		operation         problem.OperatorKey
		rows              int64
		dim, least        int
		bags, lists       float64
		pooling, lengthCV float64
		access            access.Distribution
		forms             forms
	}
	r := &relaxation{devices: devices, budget: math.Inf(1)}
	if budget := largestBudget(p); budget > 0 {
		r.budget = budget
	}
	r.memories = []memoryClass{{devices: r.devices, budget: r.budget}}
	if p.Topology.UnevenMemory() && !math.IsInf(r.budget, 1) {
		r.short = shortOf(p)
	}
	in, onHosts := allowed.classes(), allowed.onHosts(p.Topology)
	operations := map[problem.OperatorKey]int{}
	widest := map[problem.OperatorKey]int{}
	for i := range p.Tables {
		if counts.Counts(i).Lookups > 0 {
			o := operationOf(p, i)
			widest[o] = max(widest[o], p.Tables[i].Dim/problem.ColumnGranule)
		}
	}
	d := simulate.NewDevice(p.Topology.Device())
	known := map[key]int{}
	for i := range p.Tables {
		c := counts.Counts(i)
		if !(c.Lookups > 0) {
			continue
		}
		t := &p.Tables[i]
		least := narrowestSlice(p, i, allowed.ShardingTypes)
		f := formsOf(p, i, in, onHosts)
		k := key{forms: f, operation: operationOf(p, i), rows: t.Rows, dim: t.Dim, least: least, bags: t.Bags(), lists: t.Lists(), pooling: t.PoolingFactor(), lengthCV: t.LengthCV(), access: t.Access}
		if at, ok := known[k]; ok {
			r.tables[at].count++
			continue
		}
		known[k] = len(r.tables)
		if _, ok := operations[k.operation]; !ok {
			operations[k.operation] = len(operations)
			r.lanes = append(r.lanes, laneClassesOf(p.Topology.Profile, k.operation.Operation, widest[k.operation]))
		}
		added := newTable(&d, p, i, c, r.lanes[operations[k.operation]])
		added.index, added.operation, added.forms = i, operations[k.operation], f
		added.least = granulesOf(least)
		if f.hosts {
			added.hosted = hostedOf(p, i, c, f.hbm == 0)
		}
		for l := range r.lanes[added.operation] {
			added.lean[l] = leanestOf(&added, l, &r.lanes[added.operation][l])
		}
		r.tables = append(r.tables, added)
	}
	r.addModes(allowed.operators(p))
	return r
}

// operationOf returns the key of the operator with the whole of table i.
func operationOf(p *problem.Problem, i int) problem.OperatorKey {
	return p.OperatorKey(i, p.Tables[i].Dim, problem.Form{})
}

// addModes adds the modes of devices that have at most the given number of operators for
// each operation. If the tables have one operation, a device with one operator is in a mode
// with this operator. All other devices are in a mode with all operators.
func (r *relaxation) addModes(divided int) {
	r.of, r.divided = make([][]int, len(r.lanes)), divided
	for memory := range r.memories {
		var extra float64
		if len(r.lanes) == 1 {
			for l := range r.lanes[0] {
				for passes := r.leastPasses(0); passes <= r.mostPasses(0); passes++ {
					r.addOperator(0, l, passes)
					r.closeMode(memory, 1, r.wider(l))
				}
			}
			extra = fixedMS
		}
		if several := divided * len(r.lanes); several > 1 {
			r.addAll()
			r.closeMode(memory, several, r.devices)
			k := &r.modes[len(r.modes)-1]
			k.extra, k.several = extra, float64(several)
		}
	}
	r.makeRoom()
}

// launches returns times such that, if the longest time is u, a device in the mode takes at most u plus
// more ms for its operators and for each ms for each of them. Let f be the fixed time of an operator, N
// the number of operators of a device, at least 1 or 2, and y a lower bound on it that is linear in the
// loads. N is at least the mean of y and of 1 or 2. So the fixed times beyond the first, f (N-1),
// are at least f (y-1)/2 or f y/2. They are also at least 0 or f, which counts more if u is short.
func (k *mode) launches(u float64) (each, more float64) {
	switch {
	case k.several == 0:
		return 0, 0
	case u < shortMS:
		return 0, -k.extra
	}
	return fixedMS / 2, (fixedMS - k.extra) / 2
}

// addOperators adds one mode with all operators, without limits.
func (r *relaxation) addOperators() {
	r.memories = []memoryClass{{devices: r.devices, budget: r.budget}}
	r.of = make([][]int, len(r.lanes))
	r.addAll()
	r.closeMode(0, 0, r.devices)
	for passes := range r.modes[0].rows {
		r.modes[0].rows[passes] = math.Inf(1)
	}
	r.makeRoom()
}

// addAll adds the operators of all operations in all lane classes to the next mode.
func (r *relaxation) addAll() {
	for o := range r.lanes {
		for l := range r.lanes[o] {
			for passes := r.leastPasses(o); passes <= r.mostPasses(o); passes++ {
				r.addOperator(o, l, passes)
			}
		}
	}
}

// makeRoom makes room for prices and for what they are computed from.
func (r *relaxation) makeRoom() {
	r.prices, r.directions, r.sizes = make([]load, len(r.operators)), make([]load, len(r.operators)), make([]sizes, len(r.operators))
	r.open = make([]bool, len(r.modes))
	r.rooms, r.judges = make([]room, len(r.modes)), make([]load, len(r.operators))
}

// wider returns the most devices, up to all, that can hold a slice of the first operation
// that is too wide for the lane classes before class l.
func (r *relaxation) wider(l int) int {
	if l == 0 {
		return r.devices
	}
	slices := 0.0
	for i := range r.tables {
		t := &r.tables[i]
		slices += t.count * float64(t.granules/(r.lanes[0][l-1].widest+1))
	}
	return int(min(slices, float64(r.devices)))
}

// leastPasses and mostPasses return the least and the largest number of sort passes of an
// operator that serves the given operation.
func (r *relaxation) leastPasses(operation int) int {
	least := maxPasses
	for i := range r.tables {
		if t := &r.tables[i]; t.operation == operation {
			least = min(least, t.passes)
		}
	}
	return least
}

func (r *relaxation) mostPasses(operation int) int {
	total := 0.0
	for i := range r.tables {
		if t := &r.tables[i]; t.operation == operation {
			total += t.rows * t.count
		}
	}
	return sortPasses(total)
}

// addOperator adds an operator of the next mode.
func (r *relaxation) addOperator(operation, lanes, passes int) {
	class := &r.lanes[operation][lanes]
	o := operator{operation: operation, mode: len(r.modes), lanes: lanes, passes: passes, widest: class.widest, forwards: class.forwards}
	r.of[operation] = append(r.of[operation], len(r.operators))
	r.operators = append(r.operators, o)
}

// closeMode adds the mode of the operators that were added since the last mode, for the devices
// of a memory class. At most the given number of operators are on a device, and at most the given
// number of devices are in the mode.
func (r *relaxation) closeMode(memory, operators, devices int) {
	k := mode{end: len(r.operators), devices: min(devices, r.memories[memory].devices), memory: memory}
	if len(r.modes) > 0 {
		k.first = r.modes[len(r.modes)-1].end
	}
	for passes := range k.rows {
		k.rows[passes] = math.Inf(1)
	}
	for i := k.first; i < k.end; i++ {
		k.rows[r.operators[i].passes] = float64(operators) * maxRows(r.operators[i].passes)
	}
	for i := k.first; i < k.end; i++ {
		if o := &r.operators[i]; o.passes == r.mostPasses(o.operation) {
			// A device with two slices of a table counts its rows twice and may need more
			// sort passes. More passes take longer, so the time of this mode is a bound.
			k.rows[o.passes] = math.Inf(1)
		}
	}
	r.modes = append(r.modes, k)
}

// load returns what one slice takes of a device in an operator.
func (t *table) load(s *slice, o *operator) load {
	return load{
		s.memory, s.cache, s.issue[o.lanes],
		s.memoryBack, s.cacheBack, s.issueBack[o.lanes],
		t.sorted[o.passes], t.rows, t.columns * s.granules, t.bytesOnce + t.bytes*s.granules,
	}
}

// choose returns the least price of cutting and placing one table, at r.prices,
// over the open modes, with no slice that alone takes longer than r.longest or, if r.countLarge
// is true, has no room. It is +Inf if the table has no way. chosen gives the slices of that way.
func (r *relaxation) choose(t *table) float64 {
	for g := range t.slices {
		r.price[g+1] = math.Inf(1)
	}
	for _, k := range r.of[t.operation] {
		if o := &r.operators[k]; r.open[o.mode] && r.admits(t, o) {
			r.offer(t, k)
		}
	}
	if t.granules > maxGranules {
		return r.fraction(t)
	}
	if t.pieces > 0 {
		return r.cuts.least(t, r.price[:])
	}
	for g := 1; g <= t.granules; g++ {
		best, first := r.price[g], g
		// In a cut into several slices, the narrowest one has at most half of the width.
		for w := t.least; w <= g/2; w++ {
			if v := r.best[g-w] + r.price[w]; v < best {
				best, first = v, w
			}
		}
		r.best[g], r.first[g] = best, first
	}
	return r.best[t.granules]
}

// admits reports whether operator o may hold slices of t.
func (r *relaxation) admits(t *table, o *operator) bool {
	return t.passes <= o.passes && (t.guest == 0 || t.guest == r.memories[r.modes[o.mode].memory].guest)
}

// narrowest returns the place, from 1, of the narrowest slice.
func (t *table) narrowest() int { return min(t.least, len(t.slices)) }

// offer lowers the price of each width to the price in operator k.
func (r *relaxation) offer(t *table, k int) {
	o, p := &r.operators[k], &r.prices[k]
	fixed := p[sorting]*t.sorted[o.passes] + p[rows]*t.rows
	granule := p[columns] * t.columns
	if !r.tiered {
		fixed += p[bytes] * t.bytesOnce
		granule += p[bytes] * t.bytes
	}
	longest, room := r.longest-r.modes[o.mode].extra, roomOf(r, o)
	for g := t.narrowest(); g <= min(len(t.slices), o.widest); g++ {
		s := &t.slices[g-1]
		held, tier := 0.0, 0
		if r.tiered {
			held, tier = inTier(t, true, p, s.granules)
		}
		v := fixed + granule*s.granules + held + p[forward]*s.memory + p[forward+1]*s.cache + p[forward+2]*s.issue[o.lanes] +
			p[backward]*s.memoryBack + p[backward+1]*s.cacheBack + p[backward+2]*s.issueBack[o.lanes]
		if v >= r.price[g] || s.alone[o.lanes] > longest {
			continue
		}
		if r.countLarge && g <= maxGranules {
			time := beyond(r, k, t, s)
			if time > room {
				continue
			}
			if v += priceOfClass(p, largeClassOf(time, room)); v >= r.price[g] {
				continue
			}
		}
		r.price[g], r.which[g], r.tier[g] = v, k, tier
	}
}

// of returns the least time, in ms, that slice s of t adds to operator o if l is the operator's
// direction.
func (l *load) of(t *table, s *slice, o *operator) float64 {
	return l[forward]*s.memory + l[forward+1]*s.cache + l[forward+2]*s.issue[o.lanes] +
		l[backward]*s.memoryBack + l[backward+1]*s.cacheBack + l[backward+2]*s.issueBack[o.lanes] + l[sorting]*t.sorted[o.passes]
}

// fraction returns the price of a table too wide for choose: as if it could be cut into
// slices of the width with the least price for a granule, even if the number of slices is
// not whole.
func (r *relaxation) fraction(t *table) float64 {
	least := math.Inf(1)
	for g := t.narrowest(); g <= len(t.slices); g++ {
		if v := r.price[g] / t.slices[g-1].granules; v < least {
			least, r.first[0] = v, g
		}
	}
	return least * float64(t.granules)
}

// chosen calls add with what each slice that choose chose takes, the operator and the number of such
// slices.
func (r *relaxation) chosen(t *table, add func(l *load, operator int, count float64)) {
	give := func(at int, count float64) {
		s, k := &t.slices[at-1], r.which[at]
		l := t.load(s, &r.operators[k])
		moveTo(t, r.tier[at], s.granules, &l)
		// A slice of more than maxGranules may be a part of the widest entry, so it counts as small.
		if o := &r.operators[k]; r.countLarge && at <= maxGranules {
			class := largeClassOf(beyond(r, k, t, s), roomOf(r, o))
			for i := range largeShares {
				l[large+i] = largeShares[i][class]
			}
		}
		add(&l, k, count)
	}
	if t.granules > maxGranules {
		at := r.first[0]
		give(at, t.count*float64(t.granules)/t.slices[at-1].granules)
		return
	}
	if t.pieces > 0 {
		r.cuts.each(t, func(g int) { give(g, t.count) })
		return
	}
	for g := t.granules; g > 0; g -= r.first[g] {
		give(r.first[g], t.count)
	}
}

// floor returns a lower bound on the longest time of a device, in ms: the longest, over
// the tables, of the time that the table's shortest slice takes alone.
func (r *relaxation) floor() float64 {
	longest := 0.0
	for i := range r.tables {
		longest = max(longest, r.leastAlone(&r.tables[i]))
	}
	return longest
}

// leastAlone returns the least time that any slice of t takes alone.
func (r *relaxation) leastAlone(t *table) float64 {
	least := math.Inf(1)
	for _, k := range r.of[t.operation] {
		o := &r.operators[k]
		for g := t.narrowest(); g <= min(len(t.slices), o.widest); g++ {
			least = min(least, t.slices[g-1].alone[o.lanes])
		}
	}
	return least
}
