package bound

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// relax.go finds the cheapest way to cut and place a table, given prices.
//
//	            mode 0        mode 1        mode 2
//	            8 lanes       16 lanes      32 lanes      ...
//	 4 columns  price         price         price
//	 8 columns  price         price         price
//	 ...
//	64 columns  -             price         price
//
// A slice's price is linear in what the slice takes, so it is one inner product for
// each width and mode. The price of a width is the least over the modes, and the
// cheapest cut of g granules follows from the cheapest cuts of fewer granules:
//
//	best(g) = least over w of best(g-w) + price(w)
//
// With k modes, that takes O(k g + g^2) for a table of g granules.

// mode is how a device runs an operator: with the lanes of a lane class, and with a
// number of sort passes.
type mode struct {
	operator, lanes, passes int
	// rows is the most rows on a device in the mode, +Inf for any number.
	rows float64
	// forwards is how often the norm of the forward counts: once, and again in the
	// backward of weighted operators.
	forwards float64
}

// load is what slices take of the devices in one mode: the three times of each norm and
// the time of sorting, in ms, and the other limited resources of a device.
type load [10]float64

const (
	forward  = 0 // and 1 and 2: memory, cache, issue
	backward = 3 // and 4 and 5
	sorting  = 6
	rows     = 7
	columns  = 8
	bytes    = 9
)

// time returns the operator's time without the fixed part, in ms.
func (k *mode) time(l *load) float64 {
	return k.forwards*norm(l[forward], l[forward+1], l[forward+2]) + norm(l[backward], l[backward+1], l[backward+2]) + l[sorting]
}

// relaxation is a problem as tables that are divided over modes.
type relaxation struct {
	devices int
	tables  []table
	modes   []mode
	// of lists the modes of each operator.
	of [][]int
	// budget is the bytes of a device, +Inf if bytes do not count.
	budget float64
	// single is true if the problem has one operator.
	single bool

	// The input of choose: the prices by mode, which modes are open, and the longest
	// time that a slice may take alone.
	prices  []load
	open    []bool
	longest float64
	// The results of choose, by width in granules: the cheapest price and mode of one
	// slice, and the best price of a cut of the width with the first slice of that cut.
	price, best [maxGranules + 2]float64
	which       [maxGranules + 2]int
	first       [maxGranules + 2]int
}

// newRelaxation returns the tables of the problem that have lookups, with equal tables
// joined, and the modes of their operators.
func newRelaxation(p *problem.Problem, counts *simulate.Pricer) *relaxation {
	type key struct {
		operator             problem.Operation
		rows                 int64
		dim, least, features int
		pooling              float64
		access               access.Distribution
	}
	r := &relaxation{devices: p.Topology.Devices, budget: math.Inf(1)}
	d := simulate.NewDevice(p.Topology.Profile).Rates
	operators := map[problem.Operation]int{}
	var weighted []bool // by operator
	known := map[key]int{}
	for i := range p.Tables {
		c := counts.Counts(i)
		if !(c.Lookups > 0) {
			continue
		}
		t := &p.Tables[i]
		k := key{operator: p.Operation(i), rows: t.Rows, dim: t.Dim, least: t.MinWidth(), features: len(t.Features), pooling: t.PoolingFactor(), access: t.Access}
		if at, ok := known[k]; ok {
			r.tables[at].count++
			continue
		}
		known[k] = len(r.tables)
		if _, ok := operators[k.operator]; !ok {
			operators[k.operator] = len(operators)
			weighted = append(weighted, t.Weighted)
		}
		added := newTable(&d, p, i, c)
		added.index, added.operator = i, operators[k.operator]
		r.tables = append(r.tables, added)
	}
	r.single = len(operators) == 1
	if budget := float64(p.ShardBudget()); r.single && budget > 0 {
		r.budget = budget
	}
	r.of = make([][]int, len(operators))
	for o := range weighted {
		r.addModes(o, weighted[o])
	}
	r.prices, r.open = make([]load, len(r.modes)), make([]bool, len(r.modes))
	return r
}

// addModes adds the modes of an operator.
func (r *relaxation) addModes(operator int, weighted bool) {
	first, forwards := 0, 1.0
	if weighted {
		// Weighted operators have no small groups.
		first, forwards = laneClasses-1, 1+simulate.WeightedShare
	}
	total, least := 0.0, maxPasses
	for i := range r.tables {
		if t := &r.tables[i]; t.operator == operator {
			total += t.rows * t.count
			least = min(least, t.passes)
		}
	}
	most := sortPasses(total)
	for lanes := first; lanes < laneClasses; lanes++ {
		for passes := least; passes <= most; passes++ {
			k := mode{operator: operator, lanes: lanes, passes: passes, rows: maxRows(passes), forwards: forwards}
			if passes == most || !r.single {
				// A device with two slices of a table counts its rows twice and may need more
				// sort passes. More passes take longer, so the time of this mode is a bound.
				k.rows = math.Inf(1)
			}
			r.of[operator] = append(r.of[operator], len(r.modes))
			r.modes = append(r.modes, k)
		}
	}
}

// load returns what one slice takes of a device in a mode.
func (t *table) load(s *slice, k *mode) load {
	n := s.steps[k.lanes]
	return load{
		s.memory, s.cache, t.issue * n,
		s.memoryBack, s.cacheBack, t.issueBack * n,
		t.sorted[k.passes], t.rows, t.columns * s.granules, t.bytesOnce + t.bytes*s.granules,
	}
}

// choose returns the least price of cutting and placing one table, at r.prices,
// over the open modes, with no slice that alone takes longer than r.longest. It
// is +Inf if the table has no way. chosen gives the slices of that way.
func (r *relaxation) choose(t *table) float64 {
	for g := range t.slices {
		r.price[g+1] = math.Inf(1)
	}
	for _, k := range r.of[t.operator] {
		if r.open[k] && t.passes <= r.modes[k].passes {
			r.offer(t, k)
		}
	}
	if t.granules > maxGranules {
		return r.fraction(t)
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

// narrowest returns the place, from 1, of the narrowest slice.
func (t *table) narrowest() int { return min(t.least, len(t.slices)) }

// offer lowers the price of each width to the price in mode k.
func (r *relaxation) offer(t *table, k int) {
	mode, p := &r.modes[k], &r.prices[k]
	fixed := p[sorting]*t.sorted[mode.passes] + p[rows]*t.rows + p[bytes]*t.bytesOnce
	step := p[forward+2]*t.issue + p[backward+2]*t.issueBack
	granule := p[columns]*t.columns + p[bytes]*t.bytes
	for g := t.narrowest(); g <= min(len(t.slices), widest(mode.lanes)); g++ {
		s := &t.slices[g-1]
		v := fixed + step*s.steps[mode.lanes] + granule*s.granules +
			p[forward]*s.memory + p[forward+1]*s.cache + p[backward]*s.memoryBack + p[backward+1]*s.cacheBack
		if v < r.price[g] && s.alone[mode.lanes] <= r.longest {
			r.price[g], r.which[g] = v, k
		}
	}
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

// chosen calls add with each slice that choose chose, the mode and the number of such
// slices.
func (r *relaxation) chosen(t *table, add func(s *slice, mode int, count float64)) {
	if t.granules > maxGranules {
		s := &t.slices[r.first[0]-1]
		add(s, r.which[r.first[0]], t.count*float64(t.granules)/s.granules)
		return
	}
	for g := t.granules; g > 0; g -= r.first[g] {
		add(&t.slices[r.first[g]-1], r.which[r.first[g]], t.count)
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
	for _, k := range r.of[t.operator] {
		lanes := r.modes[k].lanes
		for g := t.narrowest(); g <= min(len(t.slices), widest(lanes)); g++ {
			least = min(least, t.slices[g-1].alone[lanes])
		}
	}
	return least
}
