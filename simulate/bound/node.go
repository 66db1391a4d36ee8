package bound

import (
	"math"
	"slices"
)

// node.go bounds one part of the placements, by convex optimisation.
//
// A way of a table is a cut, with an operator of some mode for each slice. Divide every
// table over its ways, in any fractions. Let x_o be the sum of all loads in operator o. Mode
// k needs
//
//	n_k = the maximum of time/u, rows/(limit of rows), columns/X, bytes/budget, large slices
//
// devices, where time, rows, columns and bytes are sums over the operators of the mode.
// Rows have a limit for each number of passes. (In the mode of several operators, time has the
// fixed times of operators, and the number of operators has a limit instead of rows. Large slices
// have several limits, see large.go.) Let psi be the sum of all n_k, divided by the number of devices
// of the cluster. (If devices differ in memory, each memory class has its own modes, and psi is the
// largest of the sums over the modes of a class, divided by the number of its devices.) psi is smoothed, and
// its gradient gives the prices, weights and worths of the package comment. The cheapest ways at
// these prices have two uses: they prove that u is too low, and they are the direction in which to
// move the fractions (the method of Frank and Wolfe):
//
//	fractions -> loads -> psi and gradient = prices -> cheapest ways
//	    ^                                                    |
//	    +----------------- a step towards them --------------+
//
// A sweep moves the fractions of all tables once. Sweeps that set new prices for each of
// a few portions of the tables need many fewer rounds than sweeps with the same prices
// for all tables. But only prices that are the same for all tables prove a bound. So a
// round is two sweeps with new prices for each portion, and then one sweep with the same
// prices for all tables. The method starts with the u of relaxation.floor. A round may
// raise u or leave it as it is, so the caller sets the number of rounds.
//
// Maxima are smoothed by norms. A norm of a higher power proves a higher bound in the end, but the
// fractions need more rounds to settle. So the power starts low, and rises when the fractions have
// settled for it: when a round finds that the cheapest ways would hardly lower psi, compared with
// what the norms add to the maxima.

// node is a part of the placements: those with at least lo and at most hi devices in each
// mode, and with at least from and at most to columns on the device with the most columns.
type node struct {
	lo, hi   []int
	from, to int
	// u is a lower bound on the longest compute of a device without the fixed time of an
	// operator, in ms; +Inf if the part has no placements.
	u float64
	// ended is true if the part can neither be divided nor improved.
	ended bool

	// mix is the load of each operator: the sum of parts, which has the load by portion and
	// operator, and of the rest of start.
	mix, parts, start []load
	// steps is the number of sweeps made, and rounds the number of rounds.
	steps, rounds int
	// sharp is the power of the norms that stand for maxima, before it is rounded down.
	sharp float64
	// A slice that alone takes longer than u (1 + ahead) is left out. idle is the number
	// of rounds since ahead was set, or since u last reached that limit.
	ahead float64
	idle  int
	// counted is true if the mix counts large slices.
	counted bool
	// stalled is the number of bouts that did not raise u by much.
	stalled int
}

const (
	// portions is the number of portions of the tables that get new prices in turn.
	portions = 8
	// Large slices count from round largeFrom on. Before that, u is low, so slices would count that
	// are not large in the end, and their counts would fade slowly from the mix.
	largeFrom = 8
)

// prover raises the bounds of nodes.
type prover struct {
	*relaxation
	// limit is the longest time for which the argument of guests.go holds, in ms; +Inf without guests.
	limit float64
	// visited is the number of prices of tables that were computed so far.
	visited int
	// sharp is the power of the norms that stand for maxima, and small limits the shares that
	// count in them.
	sharp int
	small float64
	// psi is the smoothed psi for which the prices were last set. raise reads it when the prices are
	// the same for all tables.
	psi float64
	// By mode: the number of devices that the mode needs, the weights of the shares, and
	// the worth of a device.
	need    []float64
	weights []shares
	worth   []float64
	// usage is, by memory class, the devices that its modes need, divided by its devices.
	usage []float64
}

// shares are shares of the limits of devices in a mode, or weights of these shares.
type shares [rowsShare + maxPasses + 1]float64

// The places in shares. From largeShare on, there is a share of each limit of large slices. From
// rowsShare on, there is a share of rows for each number of sort passes. Modes with several operators have
// a share of the number of operators instead.
const (
	timeShare = iota
	columnsShare
	bytesShare
	operatorsShare
	largeShare
	rowsShare = largeShare + largeLimits
)

// The powers of the norms that stand for maxima. The power of a node starts at leastSharp. It rises
// by the factor sharpen, up to mostSharp, when the fractions have settled for it: when the share of
// psi that the cheapest ways would save is less than settledTimes times the share that the norms
// add to the worth of all devices.
const (
	leastSharp, mostSharp = 10, 160
	sharpen               = 1.2
	settledTimes          = 2
)

// smallOf returns the fraction of the largest share below which shares count as 0 in p-norms. Its
// p-th power is 1e-12.
func smallOf(p int) float64 { return math.Exp(-27.6 / float64(p)) }

// normalize returns the p-norm of the shares, and replaces them with the gradient of the
// norm: weights of the shares. Shares below small times the largest one count as 0.
func (w *shares) normalize(p int, small float64) float64 {
	most, sum, count := 0.0, 0.0, 0
	for _, v := range w {
		if v > most {
			most = v
		}
	}
	if most == 0 {
		*w = shares{timeShare: 1}
		return 0
	}
	for i, v := range w {
		if v < small*most {
			w[i] = 0
			continue
		}
		w[i] /= most
		sum += power(w[i], p)
		count++
	}
	if count == 1 {
		return most // and the weights are 1 and 0
	}
	size := root(sum, p)
	for i, v := range w {
		if v > 0 {
			w[i] = power(v/size, p-1)
		}
	}
	return most * size
}

// newProver returns a prover for the tables of r.
func newProver(r *relaxation) *prover {
	n := len(r.modes)
	return &prover{relaxation: r, limit: math.Inf(1), need: make([]float64, n), weights: make([]shares, n), worth: make([]float64, n), usage: make([]float64, len(r.memories))}
}

// root returns the node of all placements, with at least the given columns on the device
// with the most columns.
func (s *prover) root(columns int) *node {
	n := &node{
		lo: make([]int, len(s.modes)), hi: make([]int, len(s.modes)), from: columns, to: math.MaxInt, u: s.floor(), ahead: 0.2, sharp: leastSharp,
		mix: make([]load, len(s.operators)), parts: make([]load, portions*len(s.operators)),
	}
	for k := range n.hi {
		n.hi[k] = s.modes[k].devices
	}
	// The start is a little of every table in every operator. In an operator that no table
	// uses yet, it decides which of the times has the highest price.
	for i := range s.tables {
		t := &s.tables[i]
		for _, k := range s.of[t.operation] {
			if o := &s.operators[k]; s.admits(t, o) {
				l := t.load(&t.slices[min(len(t.slices), o.widest)-1], o)
				accumulate(&n.mix[k], &l, 0.01*t.count)
			}
		}
	}
	n.start = slices.Clone(n.mix)
	return n
}

// clone returns a copy that shares nothing with n.
func (n *node) clone() *node {
	c := *n
	c.lo, c.hi = slices.Clone(n.lo), slices.Clone(n.hi)
	c.mix, c.parts, c.start = slices.Clone(n.mix), slices.Clone(n.parts), slices.Clone(n.start)
	return &c
}

// accumulate adds scale times l to sum.
func accumulate(sum, l *load, scale float64) {
	for j := range sum {
		sum[j] += scale * l[j]
	}
}

// improve spends the given number of rounds on raising the bound of the node.
func (s *prover) improve(n *node, rounds int) {
	for k := range s.open {
		s.open[k] = n.hi[k] > 0
	}
	for range rounds {
		s.longest = min(n.u*(1+n.ahead), s.limit)
		s.sharp = int(n.sharp)
		s.small = smallOf(s.sharp)
		s.countLarge = n.rounds >= largeFrom
		if n.rounds > 0 {
			for range 2 {
				s.sweep(n, true)
			}
		}
		s.raise(n, s.sweep(n, false))
		if n.rounds++; n.u >= s.limit {
			return
		}
	}
}

// raise raises the bound of the node, given the price of all tables together, at prices
// that were the same for all tables. The price is +Inf if some table has no way.
func (s *prover) raise(n *node, price float64) {
	if math.IsInf(price, 1) {
		if !s.placeable(n) {
			n.u = s.longest
			if s.longest = s.limit; !s.placeable(n) {
				n.u = s.longest
			}
		}
		return
	}
	// If u rises by a factor, the price falls by at most that factor. So every u up to
	// reached is refuted, but only up to s.longest: slices that alone take longer were
	// left out.
	available := s.available(n)
	reached := n.u * price / (available * (1 + rounding))
	if 1-price/s.psi < settledTimes*(available-1) {
		n.sharp = min(n.sharp*sharpen, mostSharp)
	}
	if reached >= s.longest {
		n.u, n.idle = s.longest, 0
		return
	}
	if reached > n.u {
		n.u = reached
	}
	if n.idle++; n.idle >= 4 {
		n.ahead, n.idle = max(n.ahead/2, 0.001), 0
	}
}

// placeable reports whether every table can be placed in the open modes, in slices
// that by themselves take at most s.longest, and fit the rooms of the node's devices.
func (s *prover) placeable(n *node) bool {
	clear(s.prices)
	if s.countLarge {
		makeRooms(s.relaxation, float64(n.to))
	}
	for i := range s.tables {
		if math.IsInf(s.choose(&s.tables[i]), 1) {
			return false
		}
	}
	return true
}

// sweep moves each table's fractions a step towards its cheapest way, with new prices
// for each portion of the tables if fresh is true. It returns the price of all tables.
func (s *prover) sweep(n *node, fresh bool) float64 {
	total, operators := 0.0, len(s.operators)
	step := 2 / float64(n.steps+3)
	size := (len(s.tables) + portions - 1) / portions
	var parts []load
	first := s.countLarge && !n.counted
	n.counted = s.countLarge
	add := func(l *load, k int, count float64) {
		if first {
			for i := range largeLimits {
				l[large+i] /= step // the mix has no large slices yet, so all of its slices count anew
			}
		}
		accumulate(&n.mix[k], l, step*count)
		accumulate(&parts[k], l, step*count)
	}
	for i := range s.tables {
		if i%size == 0 {
			if i == 0 || fresh {
				s.differentiate(n)
			}
			if i == 0 && s.countLarge {
				makeRooms(s.relaxation, float64(n.to))
			}
			at := i / size * operators
			parts = n.parts[at : at+operators]
			n.shrink(parts, step)
		}
		t := &s.tables[i]
		price := s.choose(t)
		if math.IsInf(price, 1) {
			return price
		}
		total += t.count * price
		s.chosen(t, add)
	}
	n.shrink(n.start, step)
	n.steps++
	s.visited += len(s.tables)
	return total
}

// shrink lowers the parts by the given share of them, and the mix by the same loads.
func (n *node) shrink(parts []load, share float64) {
	for k := range parts {
		mix, part := &n.mix[k], &parts[k]
		for j := range part {
			less := -share * part[j]
			mix[j] += less
			part[j] += less
		}
	}
}

// differentiate sets s.prices to the gradient of psi at the node's mix, and s.worth to
// the worth of a device in each mode at that gradient.
func (s *prover) differentiate(n *node) {
	p := s.sharp
	clear(s.usage)
	for k := range s.modes {
		if n.hi[k] == 0 {
			continue
		}
		s.need[k] = s.needed(n, k)
		s.usage[s.modes[k].memory] += pair(float64(n.lo[k]), s.need[k], p)
	}
	most := 0.0
	for j := range s.usage {
		s.usage[j] /= float64(s.memories[j].devices)
		most = max(most, s.usage[j])
	}
	for k, h := range n.hi {
		if 0 < h && h < s.size(k) {
			most = max(most, s.need[k]/float64(h))
		}
	}
	sum := 0.0
	for _, u := range s.usage {
		sum += power(u/most, p)
	}
	for k, h := range n.hi {
		if 0 < h && h < s.size(k) {
			sum += power(s.need[k]/float64(h)/most, p)
		}
	}
	s.psi = most * root(sum, p)
	for k, h := range n.hi {
		s.worth[k] = 0
		if h == 0 {
			continue
		}
		m := power(s.usage[s.modes[k].memory]/s.psi, p-1) / float64(s.size(k))
		if n.lo[k] > 0 {
			m *= power(s.need[k]/pair(float64(n.lo[k]), s.need[k], p), p-1)
		}
		if h < s.size(k) {
			m += power(s.need[k]/float64(h)/s.psi, p-1) / float64(h)
		}
		s.setPrices(n, k, m)
	}
}

// size returns the number of devices in the memory class of mode k.
func (r *relaxation) size(k int) int { return r.memories[r.modes[k].memory].devices }

// needed returns the smoothed number of devices that mode k needs, and sets the weights
// of the mode's shares.
func (s *prover) needed(n *node, k int) float64 {
	s.weights[k] = s.sharesOf(n, k)
	return s.weights[k].normalize(s.sharp, s.small)
}

// sharesOf returns the number of devices that the node's mix needs in mode k, by limit, and
// sets the sizes of the mode's operators.
func (r *relaxation) sharesOf(n *node, k int) shares {
	var w shares
	mode := &r.modes[k]
	for j := mode.first; j < mode.end; j++ {
		l := &n.mix[j]
		for i := range l {
			// Loads that were added and subtracted may leave a sum slightly below 0.
			if l[i] < 0 {
				l[i] = 0
			}
		}
		o := &r.operators[j]
		r.sizes[j] = l.sizes()
		w[timeShare] += o.time(l, r.sizes[j])
		w[columnsShare] += l[columns]
		w[bytesShare] += l[bytes]
		for i := range largeLimits {
			w[largeShare+i] += l[large+i]
		}
		if mode.several == 0 {
			w[rowsShare+o.passes] += l[rows]
		} else {
			w[operatorsShare] += mode.numberOf(o, l, float64(n.to))
		}
	}
	each, more := mode.launches(n.u)
	w[timeShare] = (w[timeShare] + each*w[operatorsShare]) / (n.u + max(more, 0))
	if mode.several > 0 {
		w[operatorsShare] /= mode.several
	}
	w[columnsShare] /= float64(n.to)
	w[bytesShare] /= r.memories[mode.memory].budget
	for passes := range mode.rows {
		w[rowsShare+passes] /= mode.rows[passes]
	}
	return w
}

// numberOf returns the least number of operators on a device, among those that operator o stands for, if
// the load of o is l and a device has at most the given columns: by rows, or by columns if rows
// have no limit. It is linear in the load.
func (k *mode) numberOf(o *operator, l *load, most float64) float64 {
	if limit := k.rows[o.passes]; !math.IsInf(limit, 1) {
		return k.several * l[rows] / limit
	}
	return l[columns] / most
}

// setPrices sets the prices of the operators of mode k. m is the rise of psi if the mode
// needs one more device.
func (s *prover) setPrices(n *node, k int, m float64) {
	w, mode := &s.weights[k], &s.modes[k]
	each, more := mode.launches(n.u)
	time, number := m*w[timeShare]/(n.u+max(more, 0)), 0.0
	if mode.several > 0 {
		number = time*each + m*w[operatorsShare]/mode.several
	}
	for j := mode.first; j < mode.end; j++ {
		l, o, g := &n.mix[j], &s.operators[j], &s.prices[j]
		d := &s.directions[j]
		tangent(d, l, forward, o.forwards, s.sizes[j].forward)
		tangent(d, l, backward, 1, s.sizes[j].backward)
		d[sorting] = 1
		for i := range sorting + 1 {
			g[i] = time * d[i]
		}
		for i := range largeLimits {
			g[large+i] = m * w[largeShare+i]
		}
		g[columns] = m * w[columnsShare] / float64(n.to)
		switch limit := mode.rows[o.passes]; {
		case mode.several == 0:
			g[rows] = m * w[rowsShare+o.passes] / limit
		case math.IsInf(limit, 1):
			g[rows] = 0
			g[columns] += number / float64(n.to)
		default:
			g[rows] = number * mode.several / limit
		}
		g[bytes] = m * w[bytesShare] / s.memories[mode.memory].budget
	}
	// If more is below 0, a device has u+more for its operators. As u is at most s.longest here, that is
	// at most the share 1 + more/s.longest of u.
	sum := w[timeShare] * max(1+min(more, 0)/s.longest, 0)
	for _, v := range w[columnsShare:] {
		sum += v
	}
	s.worth[k] = m * sum
}

// tangent sets the three terms of g from place at on to scale times the gradient of the
// norm of the same three terms of l. The norm is size.
func tangent(g, l *load, at int, scale, size float64) {
	for j := at; j < at+3; j++ {
		g[j] = 0
		if size > 0 {
			v := l[j] / size
			g[j] = scale * v * v * v * v * v
		}
	}
}

// available returns the highest worth that the devices of the node can have together.
func (s *prover) available(n *node) float64 {
	worth := 0.0
	for memory := range s.memories {
		worth += s.availableOf(n, memory)
	}
	return worth
}

// availableOf returns the highest worth that the devices of a memory class can have together.
func (s *prover) availableOf(n *node, memory int) float64 {
	left, worth := s.memories[memory].devices, 0.0
	order := make([]int, 0, len(s.modes))
	for k, lo := range n.lo {
		if s.modes[k].memory != memory {
			continue
		}
		left -= lo
		worth += float64(lo) * s.worth[k]
		if n.hi[k] > lo {
			order = append(order, k)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case s.worth[a] > s.worth[b]:
			return -1
		case s.worth[a] < s.worth[b]:
			return 1
		}
		return a - b
	})
	for _, k := range order {
		take := min(left, n.hi[k]-n.lo[k])
		worth += float64(take) * s.worth[k]
		left -= take
	}
	return worth
}

// pair returns the p-norm of two numbers that are not negative.
func pair(a, b float64, p int) float64 {
	if a == 0 {
		return b
	}
	most := max(a, b)
	return most * root(power(a/most, p)+power(b/most, p), p)
}

// power returns x^p, for x of at least 0 and p of at least 1.
func power(x float64, p int) float64 {
	y := 1.0
	for ; p > 0; p >>= 1 {
		if p&1 == 1 {
			y *= x
		}
		x *= x
	}
	return y
}

// root returns the p-th root of x, above 0.
func root(x float64, p int) float64 { return math.Exp(math.Log(x) / float64(p)) }
