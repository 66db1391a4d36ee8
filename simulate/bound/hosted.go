package bound

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// hosted.go counts what slices in the memory of hosts take. Such a slice takes the time of the same
// slice in HBM, or more, and the time of the host link comes on top. It takes less HBM:
//
//	rows in      time                                        HBM
//	HBM          t                                           rows, buffers
//	host         t + (lookups + distinct rows) / link        buffers
//	host_cached  t + missed rows both ways / link            cached rows, buffers
//
// A cache of k rows holds the rows that are used most, so each row more saves at most as much as
// the rows before: the missed rows M(k) are convex, and straight between three points (see
// access.Counts.Uncached):
//
//	M(k) | U distinct rows: nothing is cached
//	     |  \
//	     |   \ rows used once are left: S rows that are used more often are cached
//	     |      ` - . _
//	     +---------------` all rows are cached
//
// A slice at prices of time and of bytes costs the least at one of the three points. So three points
// stand for all shares of a cache. HBM and all rows in a cache take the same time, and the cache takes
// more HBM.
//
// Host slices are in operators of their own, so a device may have an operator for each tier. So the
// devices have one mode, with all operators and without limits of sorted rows. The slices of a lane
// class and a number of passes count as one operator, because the norm of a sum is at most the sum of
// the norms.

// hosted is what a slice of a table takes in host memory, with one cache: once, and for each granule.
type hosted struct {
	// link is the time of the host link, in ms, and bytes are those of HBM.
	link, linkEach   float64
	bytes, bytesEach float64
}

// hostedOf returns what slices of table i take in the tiers of host memory that the table may lie in, at the
// three points of a cache. c counts a batch's accesses to the table. all says that a cache of all rows
// counts, too: it takes no less than HBM, so it matters only if the table may not lie there.
func hostedOf(p *problem.Problem, i int, c access.Counts, all bool) (list []hosted) {
	t := &p.Tables[i]
	perMS := p.Topology.Device().HostLinkGBps() * 1e6
	element := float64(problem.ColumnGranule * t.Precision.Bytes())
	once, each := float64(t.Optimizer.StateBytes(1, problem.ColumnGranule)), 0.0
	if t.Optimizer != problem.RowwiseAdagrad {
		once, each = 0, once
	}
	add := func(tier problem.Tier, share float64, h hosted) {
		h.bytes, h.bytesEach = hostedBytes(p, i, tier, share)
		list = append(list, h)
	}
	if p.PermitsTier(i, problem.Host) {
		// Rows are read and written without rounding up, and state crosses the link once each way.
		h := hosted{linkEach: (c.Lookups*element + c.Unique*(element+each)) / perMS}
		if t.Optimizer == problem.RowwiseAdagrad {
			h.link = c.Unique * simulate.RowwiseState / 2 / perMS
		}
		add(problem.Host, 0, h)
	}
	if !p.PermitsTier(i, problem.HostCached) {
		return list
	}
	often := 0.0
	for _, share := range c.Reuse[1:] {
		often += share * c.Unique
	}
	seldom := c.Reuse[0] * c.Unique
	points := []struct{ cached, missed float64 }{{0, often + seldom}, {math.Floor(often), seldom}, {float64(t.Rows), 0}}
	if _, torchRec := p.Accounting.TorchRec(); !all && !torchRec {
		points = points[:2] // HBM is cheaper than a cache of all rows
	}
	for _, at := range points {
		share := max(at.cached-0.5, 0) / float64(t.Rows) // CachedRows rounds up
		add(problem.HostCached, share, hosted{link: 2 * at.missed * once / perMS, linkEach: 2 * at.missed * (element + each) / perMS})
	}
	return list
}

// hostedBytes returns the bytes of HBM of slices of table i in a tier of host memory, with a cache share:
// once, and for each granule. TorchRec's count of a cache rounds up several times, so its bytes count as 0.
func hostedBytes(p *problem.Problem, i int, tier problem.Tier, share float64) (once, each float64) {
	if _, ok := p.Accounting.TorchRec(); ok {
		return 0, 0
	}
	s := p.Whole(i)
	s.Tier, s.Cache = tier, share
	return heldBytes(p, s)
}

// tieredOf returns the tables of r on devices whose slices may lie in the memory of hosts: with one mode,
// which has all operators.
func tieredOf(r *relaxation) *relaxation {
	h := &relaxation{devices: r.devices, tables: r.tables, lanes: r.lanes, budget: r.budget, short: r.short, tiered: true}
	h.addOperators()
	return h
}

// inTier returns the least price, over the tiers, of the bytes and of the host link that a slice of t of the
// given granules takes at the prices p; without tiered, HBM is the one tier. tier is 0 for HBM, and
// otherwise the place in t.hosted plus 1.
func inTier(t *table, tiered bool, p *load, granules float64) (price float64, tier int) {
	price = p[bytes] * (t.bytesOnce + t.bytes*granules)
	if !tiered {
		return price, 0
	}
	if !t.forms.hbm.has(problem.ClassColumns) {
		price = math.Inf(1)
	}
	for j := range t.hosted {
		h := &t.hosted[j]
		if v := p[sorting]*(h.link+h.linkEach*granules) + p[bytes]*(h.bytes+h.bytesEach*granules); v < price {
			price, tier = v, j+1
		}
	}
	return price, tier
}

// moveTo changes what a slice in HBM takes to what it takes in the tier that inTier numbers.
func moveTo(t *table, tier int, granules float64, l *load) {
	if tier > 0 {
		h := &t.hosted[tier-1]
		l[sorting] += h.link + h.linkEach*granules
		l[bytes] = h.bytes + h.bytesEach*granules
	}
}
