package bound

import (
	"math"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// exchange.go bounds the all-to-alls. Let n be the number of ranks, B the global batch, b
// the bytes of an element, and X the pooled columns of the rank with the most. That rank
// sends (n-1)/n B X b bytes, so the largest transfer has at least these bytes. It has no
// more if ranks hold X columns each until no columns are left:
//
//	X  X  X  rest  0  0
//
// because any rank receives at most B/n (n-1) X b bytes. So no placement with this X has
// shorter all-to-alls on the simulated device. Its packing is the shortest, too: the
// packing of the forward grows with X, and that of the backward is the same for all
// placements.

// Some device has the narrowest slice that a table may have, so X is at least the columns of that slice.

// A hierarchical exchange (problem.Hierarchy) takes the time of X columns inside hosts, and
// then the time of the host with the most columns between hosts. Slices of columns are all
// different, so that host has at least X columns, and at least the mean over the hosts.

// If the engine hides a part of the exchanges, that part is subtracted from each direction, or
// all of it if it takes less. What is left grows with X, too.

// exchange holds the least all-to-alls of a problem.
type exchange struct {
	device simulate.Device
	comm   simulate.Comm
	// all is the least number of pooled columns of all tables together, for any cuts. The pooled columns
	// of every slice are a multiple of granule. least is the fewest columns that the device with the most
	// columns may have.
	all, granule, least int
	// known holds results of times, by columns.
	known map[int][2]unit.Millis
	// hidden is what the engine hides.
	hidden plan.Hidden
	// hierarchy is that of the problem, and network the problem's.
	hierarchy problem.Hierarchy
	network   simulate.Network
}

// newExchange returns the all-to-alls of the problem, if all tables are slices of the sharding types
// allowed, without what the engine hides. It fails if the devices span hosts and the profile has no
// network.
func newExchange(p *problem.Problem, allowed Allowed) (*exchange, error) {
	n := p.Topology.Devices
	narrowest := 0
	e := &exchange{
		hidden: allowed.Hidden,
		device: simulate.NewDevice(p.Topology.Device()),
		comm:   simulate.Comm{PerHost: p.Topology.PerHost(), Domain: p.Topology.NVLinkDomain, Batch: p.Batch, ElementBytes: p.CommBytes(), DimSums: make([]int, n)},
		known:  map[int][2]unit.Millis{}, hierarchy: p.Hierarchy,
	}
	for i := range p.Tables {
		t := &p.Tables[i]
		each := leastColumns(t)
		e.all += allColumns(t, each)
		narrowest = max(narrowest, problem.Columns(narrowestSlice(p, i, allowed.ShardingTypes), t.Bags()))
		if whole := math.Trunc(each); whole == t.Bags()*problem.ColumnGranule {
			e.granule = divisor(e.granule, int(whole))
		} else {
			e.granule = 1
		}
	}
	e.granule = max(1, e.granule)
	e.least = max(e.mean(n), narrowest/e.granule*e.granule)
	var err error
	e.network, err = networkOf(p)
	return e, err
}

// mean returns the fewest columns that the device with the most has if all columns are on the
// given number of devices.
func (e *exchange) mean(devices int) int {
	step := devices * e.granule
	return (e.all + step - 1) / step * e.granule
}

// allColumns returns the least pooled columns of all slices of the table, with the given columns or
// more for each granule. Rounding errors of the product must not make it larger.
func allColumns(t *problem.Table, each float64) int {
	const ulps = 1e-9
	return int(math.Ceil(each * float64(t.Dim/problem.ColumnGranule) * (1 - ulps)))
}

// times returns what is not hidden of the least forward and backward all-to-all of placements
// with the given columns or more, at least e.least, on some device.
func (e *exchange) times(columns int) (forward, backward unit.Millis) {
	if t, ok := e.known[columns]; ok {
		return t[0], t[1]
	}
	f, b := e.full(columns)
	least := plan.StepTimes{ForwardComm: f, BackwardComm: b}
	e.hidden.Hide(&least, 0)
	e.known[columns] = [2]unit.Millis{least.ForwardComm, least.BackwardComm}
	return least.ForwardComm, least.BackwardComm
}

// full returns the times with nothing hidden.
func (e *exchange) full(columns int) (forward, backward unit.Millis) {
	if e.hierarchy.On() {
		domains := e.network.Domains()
		inside, between := e.network.Hierarchical(e.hierarchy, float64(columns), float64(max(columns, (e.all+domains-1)/domains)))
		return inside.Time() + between.Time(), inside.Time() + between.Time()
	}
	left := e.all
	for r := range e.comm.DimSums {
		e.comm.DimSums[r] = min(columns, left)
		left -= e.comm.DimSums[r]
	}
	f, b, err := e.device.Comm(e.comm)
	if err != nil {
		panic("bound: " + err.Error()) // newExchange checked the same network
	}
	return f[0], b[0]
}

// networkOf returns the simulated device's network. It fails if the devices span hosts and the
// profile has no network.
func networkOf(p *problem.Problem) (simulate.Network, error) {
	t := p.Topology
	return simulate.NewDevice(t.Device()).Network(simulate.Cluster{Devices: t.Devices, PerHost: t.PerHost(), Domain: t.NVLinkDomain, Replicas: t.Replicas, ReplicasPerDomain: t.ReplicasPerDomain, Batch: p.Batch, ElementBytes: p.CommBytes()})
}

// total returns both times together, in ms.
func (e *exchange) total(columns int) float64 {
	forward, backward := e.times(columns)
	return float64(forward + backward)
}

// divisor returns the greatest common divisor.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
