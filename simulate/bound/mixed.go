package bound

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// mixed.go bounds the cost of placements that use a given set of operator classes: slices
// on single devices, blocks and replicas on all devices, and blocks on the devices of
// hosts. classes.go counts what a table takes in each class.
//
// Let U be the cost of a plan without fixed times. Let S be the time that every device
// spends on blocks and replicas on all devices, and on all exchanges except the
// all-to-alls. Let X be the number of columns on the device with the most, and e the time
// of the all-to-alls for one column, so the all-to-alls take e X. Let t_i be the time of
// the slices on device i, and d_i the number of their columns. Since d_i <= X,
//
//	t_i + e d_i <= U - S - x_i
//
// where x_i is the extra fixed time of the device's mode. The rows and the bytes of device
// i have limits, too. Choose prices for a device in mode k: a_k for its time, b_k for its
// rows, by the number of sort passes, and m_k for its bytes. Add the prices of all that the
// devices take. The sum is at most
//
//	sum over devices of a (U - S) + rest
//	rest = sum over devices of b times the limits of rows + m times the budget of bytes - a x
//
// where a, b, m and x are those of the mode of the device. S is at least a sum over the
// tables in the other classes, by a tangent of the norms of each class. So S moves to the
// side of the tables. Let tau be the sum of a over the devices, and let s be the part of
// S that a table adds in a class. Then each table adds to the left side the least of
//
//	columns   tau s + the price of the cheapest cut
//	blocks    tau s + the sum of m over the devices, times the bytes on a device
//	replicas  tau s + the sum of m over the devices, times the bytes on a device
//	by host   tau s + the least a times the time on a device, and the least m times the bytes on a
//	          device, for each device of the host
//
// and U >= (sum over tables - rest)/tau. The number of devices in each mode is unknown.
// But tau, rest and the sum of m are linear in these numbers, and the least over the ways
// of a table is concave in tau and the sum of m. So the bound is lowest if all devices
// are in one mode, and the least bound over the modes holds for all numbers. An empty
// device counts as one in any mode with one operator.
//
// If devices differ in memory, rest has the sum over the devices of m B, where B is the device's
// own budget and m that of its mode. Let l be the least m of all modes. The sum is at most l times
// the sum of all budgets, plus the sum of m-l, times the largest budget. So each device counts as
// the largest one, less l times the difference between the largest budget and the mean.
//
// The prices come from the shares of each table in its ways. The shares move towards the
// cheapest ways as in node.go. Any prices give a valid bound; better prices give a higher
// one.

// mixed holds the placements that use a set of classes, as the shares of each table in
// its ways in these classes, and the bound of the placements.
type mixed struct {
	*relaxation
	*otherClasses
	in set
	// may is, by table, the classes that the table may have.
	may        []set
	n, perHost float64
	// rounds is the most rounds of work.
	rounds int
	// u is a lower bound on the cost without fixed times, in ms.
	u float64
	// sharp is the power of the norms that stand for maxima, and steps the number of
	// sweeps made.
	sharp, steps int
	// leastTime is the least weight of time.
	leastTime float64
	// busy is the part of u for a device's own slices and their all-to-alls. common is
	// the time that every device spends in addition, at the shares. Both are in ms.
	busy, common float64
	// shortage is the number of devices that the shares need, divided by the number of
	// devices of the cluster.
	shortage float64
	// mix is the load of each operator, and then of each other class: the sum of parts, which
	// has the load for each portion of the tables, and of the rest of start.
	mix, parts, start []load
	// at is the place in mix of each class except ClassColumns.
	at [exchanging]int
	// tau[k], memory[k] and rest[k] hold the values for a cluster whose devices are all
	// in mode k, and reach[k] the sum over the tables at these values.
	tau, memory, rest, reach []float64
	// lowest is the mode that had the lowest bound in the last round.
	lowest int
	// blockPrices and replicaPrices are the prices of the classes of blocks and replicas.
	blockPrices, replicaPrices load
	// blockSizes, replicaSizes and hostSizes are the norms of the loads of the three classes.
	blockSizes, replicaSizes, hostSizes sizes
	// exchange is, by table, the least time of its exchanges, and leastExchange the sum
	// over all tables.
	exchange      []float64
	leastExchange float64
	// need is, by mode, the number of devices that the shares need, and weights the
	// weights of time, rows and bytes.
	need    []float64
	weights []shares
	// round is the number of rounds made. A slice that alone takes longer than u (1 + ahead)
	// is left out, and idle is the number of rounds since ahead was set, or since u last
	// reached that limit.
	round, idle int
	ahead       float64
}

// newMixed returns the placements of r's tables that use the classes in, where each table has one
// of the classes that it may have, before any work on their bound.
func newMixed(r *relaxation, s *otherClasses, in set, may []set, t hardware.Topology) *mixed {
	operators, modes := len(r.operators), len(r.modes)
	m := &mixed{
		relaxation: r, otherClasses: s, in: in, may: may, rounds: mixedRounds, n: float64(t.Devices), perHost: float64(t.PerHost()),
		mix: make([]load, operators+exchanging-1),
		tau: make([]float64, modes), memory: make([]float64, modes), rest: make([]float64, modes), reach: make([]float64, modes),
		need: make([]float64, modes), weights: make([]shares, modes), ahead: 0.2,
	}
	m.parts = make([]load, portions*len(m.mix))
	m.at = [exchanging]int{problem.ClassBlocks: operators, problem.ClassHostBlocks: operators + 1, problem.ClassReplicas: operators + 2}
	for i := range r.tables {
		m.begin(i)
	}
	m.start = slices.Clone(m.mix)
	m.exchanges()
	m.u = m.floor()
	// If the tables do not fit, no plan uses exactly these classes.
	if m.leastBytes()*(1-rounding) > m.n*(r.budget-r.short) {
		m.u = math.Inf(1)
	}
	return m
}

// prepare sets the parts of the relaxation that depend on the set of classes: a slice with
// nothing else in its operator takes the least time of the exchanges, too.
func (m *mixed) prepare() {
	for k := range m.open {
		m.open[k] = true
	}
	m.countLarge = false // a tree of the same relaxation may have set it
	m.restore(m.relaxation)
	for i := range m.tables {
		t := &m.tables[i]
		for j := range t.slices {
			// The entry for slices of more than maxGranules has the columns of the narrowest of them.
			least := max(m.leastExchange, m.own*t.columns*min(t.slices[j].granules, maxGranules))
			for l := range t.slices[j].alone {
				t.slices[j].alone[l] += least
			}
		}
	}
}

// begin adds a little of table i to the mix, in each of its ways.
func (m *mixed) begin(i int) {
	t := &m.tables[i]
	if m.has(i, problem.ClassColumns) {
		for _, k := range m.relaxation.of[t.operation] {
			if o := &m.operators[k]; t.passes <= o.passes {
				l := t.load(&t.slices[min(len(t.slices), o.widest)-1], o)
				accumulate(&m.mix[k], &l, 0.01*t.count)
			}
		}
	}
	if e := m.blockOf(i); e != nil {
		accumulate(&m.mix[m.at[problem.ClassBlocks]], &e.load, 0.01*t.count)
	}
	if e := m.replicaOf(i); e != nil {
		accumulate(&m.mix[m.at[problem.ClassReplicas]], &e.load, 0.01*t.count)
	}
	if !m.hostOf(i) {
		return
	}
	h := &m.hosts.tables[i]
	for _, k := range m.hosts.of[h.operation] {
		if o := &m.hosts.operators[k]; len(h.slices) <= o.widest && h.passes <= o.passes {
			l := h.load(&h.slices[len(h.slices)-1], o)
			m.host(&l, k, 0.01*t.count, nil)
			return
		}
	}
}

// has reports whether table i may have the class in these placements.
func (m *mixed) has(i int, class problem.OperatorClass) bool { return (m.in & m.may[i]).has(class) }

// blockOf and replicaOf return what table i takes as blocks on all devices and as
// replicas; nil if it has no such way in these placements.
func (m *mixed) blockOf(i int) *everywhere {
	if !m.has(i, problem.ClassBlocks) {
		return nil
	}
	return m.otherClasses.blocks[i]
}

func (m *mixed) replicaOf(i int) *everywhere {
	if !m.has(i, problem.ClassReplicas) {
		return nil
	}
	return m.replicas[i]
}

// hostOf reports whether the rows of table i may be cut over the devices of a host.
func (m *mixed) hostOf(i int) bool { return m.has(i, problem.ClassHostBlocks) && m.byRows[i] }

// host adds the load of a slice of a host's blocks to the mix, and to parts if they are given.
func (m *mixed) host(l *load, k int, scale float64, parts []load) {
	for j := forward; j < backward; j++ {
		l[j] *= m.hosts.operators[k].forwards
	}
	l[linear], l[columns] = l[columns]*m.otherClasses.host, 0
	m.give(m.at[problem.ClassHostBlocks], l, scale, parts)
}

// give adds a load to the mix, and to parts if they are given.
func (m *mixed) give(at int, l *load, scale float64, parts []load) {
	accumulate(&m.mix[at], l, scale)
	if parts != nil {
		accumulate(&parts[at], l, scale)
	}
}

// step is a way to place a table. The way is possible only if the longest compute of a
// device is at least alone. exchange is the time of the way's exchanges. Both are in ms.
type step struct {
	table           int
	alone, exchange float64
}

// least returns the least of what the ways of table i take: slices on single devices, blocks on hosts, and
// blocks and replicas everywhere.
func (m *mixed) least(i int, columns, hosts func() float64, everywhereTakes func(e *everywhere) float64) float64 {
	least := math.Inf(1)
	if m.has(i, problem.ClassColumns) {
		least = columns()
	}
	if m.hostOf(i) {
		least = min(least, hosts())
	}
	for _, e := range []*everywhere{m.blockOf(i), m.replicaOf(i)} {
		if e != nil {
			least = min(least, everywhereTakes(e))
		}
	}
	return least
}

// exchanges sets the least time of the exchanges of each table, and their sum.
func (m *mixed) exchanges() {
	m.exchange, m.leastExchange = make([]float64, len(m.tables)), 0
	for i := range m.tables {
		m.exchange[i] = m.least(i,
			func() float64 { return m.columns[i] },
			func() float64 { return m.hostColumns[i] },
			func(e *everywhere) float64 { return e.exchange })
		m.leastExchange += m.tables[i].count * m.exchange[i]
	}
}

// leastBytes returns the least bytes of HBM that the tables take of all devices together.
func (m *mixed) leastBytes() float64 {
	sum := 0.0
	for i := range m.tables {
		t := &m.tables[i]
		sum += t.count * m.least(i,
			func() float64 {
				held, _ := inTier(t, m.tiered, &load{bytes: 1}, float64(t.granules))
				return held
			},
			func() float64 {
				h := &m.hosts.tables[i]
				return m.perHost * (h.bytesOnce + h.bytes*float64(h.granules))
			},
			func(e *everywhere) float64 { return m.n * e.bytes })
	}
	return sum
}

// floor returns a bound from the time that each table computes alone, in ms. If the
// longest compute of a device takes c, each table adds at least the shortest exchange of
// its ways with a compute of at most c. The bound is the least sum of c and these
// exchanges, over all c.
func (m *mixed) floor() float64 {
	var steps []step
	for i := range m.tables {
		offer := func(alone, exchange float64) {
			if !math.IsInf(alone, 1) {
				steps = append(steps, step{i, alone, exchange})
			}
		}
		if m.has(i, problem.ClassColumns) {
			offer(m.shortest[i], m.columns[i])
		}
		if m.hostOf(i) {
			offer(m.hostShortest[i], m.hostColumns[i])
		}
		for _, e := range []*everywhere{m.blockOf(i), m.replicaOf(i)} {
			if e != nil {
				offer(e.alone, e.exchange)
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.alone, b.alone) })
	exchange, missing := make([]float64, len(m.tables)), len(m.tables)
	for i := range exchange {
		exchange[i] = math.Inf(1)
	}
	least, sum := math.Inf(1), 0.0
	for _, s := range steps {
		was, count := exchange[s.table], m.tables[s.table].count
		switch {
		case math.IsInf(was, 1):
			missing--
			sum += count * s.exchange
		case s.exchange < was:
			sum -= count * (was - s.exchange)
		default:
			continue
		}
		exchange[s.table] = s.exchange
		if missing == 0 {
			least = min(least, s.alone+sum*(1-rounding))
		}
	}
	return least
}

// longestAlone returns the longest, over the tables, of the time that the table's shortest way takes
// alone, with its exchanges and the least exchanges of the other tables, in ms. Slices on single
// devices must be prepared. Their exchanges are those of their own columns if these take longer.
func (m *mixed) longestAlone() float64 {
	longest := 0.0
	for i := range m.tables {
		longest = max(longest, m.least(i,
			func() float64 { return m.leastAlone(&m.tables[i]) },
			func() float64 { return m.hostShortest[i] + m.leastExchange },
			func(e *everywhere) float64 { return e.alone + m.leastExchange + e.exchange - m.exchange[i] }))
	}
	return longest * (1 - rounding)
}

const (
	// The work on a set of classes ends after mixedRounds rounds, or after mixedVisits
	// prices of tables and at least minMixedRounds rounds. It ends earlier if the shares
	// need at most the share enough more than the bound.
	mixedRounds, mixedVisits = 200, 60_000
	// mixedBout is the least number of rounds at a time.
	mixedBout      = 4
	minMixedRounds = 6
	// firstRounds is the number of rounds on each of several ways in which exchanges count.
	firstRounds = 24
	enough      = 0.0005
	// settled is the number of rounds after which the start no longer shows in the shares.
	settled = 5
	// The weights of a mode that needs the share unused of the devices are halfway between
	// its own and the usual ones.
	unused = 5e-3
)

// leastTimes and leastTimesOnHosts list the values of leastTime, which the rounds use in turn. If slices
// may lie in the memory of hosts, bytes of HBM often have the highest price.
var (
	leastTimes        = []float64{0.3, 0.7, 0.95}
	leastTimesOnHosts = []float64{0.02, 0.3}
)

// raise raises u until it reaches the limit, at least some rounds. It reports whether the
// work on the set of classes ended, and returns early if ctx ends.
func (m *mixed) raise(ctx context.Context, limit float64) (ended bool) {
	m.prepare()
	m.u = max(m.u, m.longestAlone())
	rounds := min(m.rounds, max(minMixedRounds, mixedVisits/(3*len(m.tables))))
	for made := 0; m.round < rounds && !math.IsInf(m.u, 1); made++ {
		if m.u >= limit && made >= mixedBout || ctx.Err() != nil {
			return false
		}
		if m.improve(); m.converged() {
			return true
		}
	}
	return true
}

// improve makes one more round.
func (m *mixed) improve() {
	round := m.round
	m.round++
	m.longest = m.u * (1 + m.ahead)
	m.hosts.longest = m.longest - m.leastExchange
	m.sharp = min(10+round/3, 40)
	times := leastTimes
	if m.tiered {
		times = leastTimesOnHosts
	}
	m.leastTime = times[round%len(times)]
	if round > 0 {
		m.sweep(true)
		m.sweep(true)
	}
	if !m.sweep(false) {
		// Some table has no way without a slice that alone takes longer than m.longest.
		m.u = m.longest
		return
	}
	reached := m.reached()
	if reached >= m.longest {
		m.u, m.idle = m.longest, 0
		return
	}
	m.u = max(m.u, reached)
	if m.idle++; m.idle >= 4 {
		m.ahead, m.idle = max(m.ahead/2, 0.001), 0
	}
}

// converged reports whether the shares need hardly more than the bound.
func (m *mixed) converged() bool {
	return m.round > settled && m.shortage <= 1+enough && m.common+m.busy <= m.u*(1+enough)
}

// reached returns the lower bound on u of the last sweep.
func (m *mixed) reached() float64 {
	least := math.Inf(1)
	for k := range m.reach {
		if v := (m.reach[k]*(1-rounding) - m.rest[k]) / m.tau[k]; v < least {
			least, m.lowest = v, k
		}
	}
	return least
}

// sweep moves each table's shares a step towards its cheapest way, as prover.sweep
// does, with new prices for each portion of the tables if fresh is true. It reports
// whether all tables have a way.
func (m *mixed) sweep(fresh bool) bool {
	size := (len(m.tables) + portions - 1) / portions
	step := 2 / float64(m.steps+3)
	var parts []load
	clear(m.reach)
	for i := range m.tables {
		if i%size == 0 {
			if i == 0 || fresh {
				m.differentiate()
			}
			at := i / size * len(m.mix)
			parts = m.parts[at : at+len(m.mix)]
			m.shrink(parts, step)
		}
		if !m.move(i, step, parts) {
			return false
		}
	}
	m.shrink(m.start, step)
	m.steps++
	return true
}

// shrink lowers the parts by the given share of them, and the mix by the same loads.
func (m *mixed) shrink(parts []load, share float64) {
	for k := range parts {
		accumulate(&m.mix[k], &parts[k], -share)
		accumulate(&parts[k], &parts[k], -share)
	}
}

// move finds the cheapest way of table i, adds its price to reach, and moves the shares
// of the table a step towards that way. It reports whether the table has a way.
func (m *mixed) move(i int, step float64, parts []load) bool {
	t := &m.tables[i]
	own, hosts := math.Inf(1), math.Inf(1)
	if m.has(i, problem.ClassColumns) {
		own = m.choose(t)
	}
	if m.hostOf(i) {
		hosts = m.hosts.choose(&m.hosts.tables[i])
	}
	base := min(own, hosts)
	best, to := base, (*everywhere)(nil)
	at := 0
	offer := func(e *everywhere, prices *load, class problem.OperatorClass) (time, held float64) {
		if e == nil || e.alone+m.leastExchange+e.exchange-m.exchange[i] > m.longest {
			return math.Inf(1), 0
		}
		for j := range prices {
			time += prices[j] * e.load[j]
		}
		held = e.bytes
		if v := m.tau[m.lowest]*time + m.memory[m.lowest]*held; v < best {
			best, to, at = v, e, m.at[class]
		}
		return time, held
	}
	block, blockBytes := offer(m.blockOf(i), &m.blockPrices, problem.ClassBlocks)
	replica, replicaBytes := offer(m.replicaOf(i), &m.replicaPrices, problem.ClassReplicas)
	if math.IsInf(best, 1) {
		return false
	}
	for k := range m.reach {
		m.reach[k] += t.count * min(base, m.tau[k]*block+m.memory[k]*blockBytes, m.tau[k]*replica+m.memory[k]*replicaBytes)
	}
	switch {
	case to != nil:
		l := to.load
		l[bytes] = to.bytes
		m.give(at, &l, step*t.count, parts)
	case hosts < own:
		m.hosts.chosen(&m.hosts.tables[i], func(l *load, k int, count float64) { m.host(l, k, step*count, parts) })
	default:
		m.chosen(t, func(l *load, k int, count float64) { m.give(k, l, step*count, parts) })
	}
	return true
}

// plain is an operator whose forward counts once.
var plain = operator{forwards: 1}

// differentiate sets all prices by the shares.
func (m *mixed) differentiate() {
	for k := range m.mix {
		for j := range m.mix[k] {
			// Loads that were added and subtracted may leave a sum slightly below 0.
			m.mix[k][j] = max(m.mix[k][j], 0)
		}
	}
	left := m.divideTime()
	devices := 0.0
	for k := range m.modes {
		m.need[k] = m.needed(k, left)
		devices += m.need[k]
	}
	m.shortage = devices / m.n
	m.setPrices(m.weigh(devices, left))
}

// divideTime sets common, busy and the sizes of all loads, and returns the bytes that blocks and replicas leave
// free on a device.
func (m *mixed) divideTime() (left float64) {
	blocks, hosts, replicas := &m.mix[m.at[problem.ClassBlocks]], &m.mix[m.at[problem.ClassHostBlocks]], &m.mix[m.at[problem.ClassReplicas]]
	dims := 0.0
	for k := range m.operators {
		dims += m.mix[k][columns]
	}
	m.blockSizes, m.replicaSizes, m.hostSizes = blocks.sizes(), replicas.sizes(), hosts.sizes()
	m.common = plain.time(blocks, m.blockSizes) + blocks[linear] + plain.time(replicas, m.replicaSizes) + replicas[linear] +
		m.perHost/m.n*plain.time(hosts, m.hostSizes) + hosts[linear] + m.shared*dims
	time := 0.0
	for k := range m.operators {
		m.sizes[k] = m.mix[k].sizes()
		time += m.operators[k].time(&m.mix[k], m.sizes[k]) + m.own*m.mix[k][columns]
	}
	time /= m.n
	// u is divided in the ratio of the time of the devices' own slices to common.
	m.busy = m.u * max(time/(time+m.common), 0.05)
	left = m.budget - m.short
	if !math.IsInf(left, 1) {
		left = max(left-blocks[bytes]-replicas[bytes]-m.perHost/m.n*hosts[bytes], 0.1*left)
	}
	return left
}

// weigh sets tau, memory and rest of each mode. devices is the number of devices that the shares need,
// and left the bytes of a device for its own slices. It returns the least tau.
func (m *mixed) weigh(devices, left float64) (leastTau float64) {
	var usual shares
	if devices > 0 {
		for k := range m.modes {
			for j := range usual {
				usual[j] += m.weights[k][j] * m.need[k] / devices
			}
		}
	} else {
		usual[timeShare] = 1
	}
	leastTau = math.Inf(1)
	for k := range m.modes {
		w, mode := &m.weights[k], &m.modes[k]
		m.settle(w, &usual, m.need[k]/(m.need[k]+unused*m.n), mode)
		m.tau[k], m.memory[k], m.rest[k] = w[timeShare], 0, -w[timeShare]*mode.extra
		for _, v := range w[rowsShare:] {
			m.rest[k] += v * m.busy
		}
		if w[bytesShare] > 0 {
			m.memory[k] = w[bytesShare] * m.busy / left
			m.rest[k] += m.memory[k] * m.budget
		}
		leastTau = min(leastTau, w[timeShare])
	}
	if m.short > 0 {
		least := slices.Min(m.memory)
		for k := range m.modes {
			m.rest[k] -= least * m.short
		}
	}
	if !m.in.has(problem.ClassColumns) {
		for k := range m.modes {
			m.tau[k], m.memory[k], m.rest[k] = 1, 0, 0
		}
		leastTau = 1
	}
	return leastTau
}

// setPrices sets the prices of slices in all operators, of blocks, of replicas, and of
// blocks of hosts.
func (m *mixed) setPrices(leastTau float64) {
	for k := range m.operators {
		o, g, l := &m.operators[k], &m.prices[k], &m.mix[k]
		a := m.tau[o.mode] / m.n
		tangent(g, l, forward, a*o.forwards, m.sizes[k].forward)
		tangent(g, l, backward, a, m.sizes[k].backward)
		g[sorting] = a
		g[rows] = 0
		if w := m.weights[o.mode][rowsShare+o.passes]; w > 0 {
			g[rows] = w * m.busy / (m.n * m.modes[o.mode].rows[o.passes])
		}
		g[columns] = a*m.own + leastTau*m.shared
		g[bytes] = m.memory[o.mode] / m.n
	}
	everywherePrices(&m.blockPrices, &m.mix[m.at[problem.ClassBlocks]], m.blockSizes)
	everywherePrices(&m.replicaPrices, &m.mix[m.at[problem.ClassReplicas]], m.replicaSizes)
	hosts := &m.mix[m.at[problem.ClassHostBlocks]]
	a := m.perHost * leastTau / m.n
	for k := range m.hosts.operators {
		g := &m.hosts.prices[k]
		tangent(g, hosts, forward, a*m.hosts.operators[k].forwards, m.hostSizes.forward)
		tangent(g, hosts, backward, a, m.hostSizes.backward)
		g[sorting] = a
		g[columns] = leastTau * m.otherClasses.host
		g[bytes] = m.perHost * slices.Min(m.memory) / m.n
	}
}

// settle replaces the weights w of a mode with a mean of w and the usual weights, in which
// w has the weight own, 0 to 1. own is low for a mode that few devices use. Then settle
// raises the weight of time to at least leastTime and lowers the others by the same
// amount. Rows have no weight if the mode has no limit of rows.
func (m *mixed) settle(w, usual *shares, own float64, k *mode) {
	for j := range w {
		w[j] = own*w[j] + (1-own)*usual[j]
	}
	for passes, limit := range k.rows {
		if math.IsInf(limit, 1) {
			w[timeShare] += w[rowsShare+passes]
			w[rowsShare+passes] = 0
		}
	}
	if less := m.leastTime - w[timeShare]; less > 0 {
		rest := 0.0
		for _, v := range w[columnsShare:] {
			rest += v
		}
		w[timeShare] = m.leastTime
		for j := columnsShare; j < len(w); j++ {
			w[j] *= max(rest-less, 0) / rest
		}
	}
}

// everywherePrices sets the prices g of blocks or replicas by a tangent at their load l.
func everywherePrices(g, l *load, s sizes) {
	tangent(g, l, forward, 1, s.forward)
	tangent(g, l, backward, 1, s.backward)
	g[sorting], g[linear] = 1, 1
}

// needed returns the smoothed number of devices that mode k needs, and sets the mode's
// weights of time, rows and bytes.
func (m *mixed) needed(k int, budget float64) float64 {
	w, mode := &m.weights[k], &m.modes[k]
	*w = shares{}
	for j := mode.first; j < mode.end; j++ {
		l, o := &m.mix[j], &m.operators[j]
		w[timeShare] += (o.time(l, m.sizes[j]) + m.own*l[columns]) / m.busy
		w[bytesShare] += l[bytes] / budget
		w[rowsShare+o.passes] += l[rows] / mode.rows[o.passes]
	}
	return w.normalize(m.sharp, smallOf(m.sharp))
}
