package bound

import (
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

// If the engine hides a part of the exchanges, that part is subtracted from each direction, or
// all of it if it takes less. What is left grows with X, too.

// exchange holds the least all-to-alls of a problem.
type exchange struct {
	device simulate.Device
	comm   simulate.Comm
	// all is the pooled columns of all tables. The pooled columns of every slice are a
	// multiple of granule. least is the fewest columns that the device with the most
	// columns may have.
	all, granule, least int
	// known holds results of times, by columns.
	known map[int][2]unit.Millis
	// hidden is what the engine hides.
	hidden plan.Hidden
}

// newExchange returns the all-to-alls of the problem, without what the engine hides. It fails
// if the devices span hosts and the profile has no network.
func newExchange(p *problem.Problem, hidden plan.Hidden) (*exchange, error) {
	n := p.Topology.Devices
	e := &exchange{
		hidden: hidden,
		device: simulate.NewDevice(p.Topology.Device()),
		comm:   simulate.Comm{PerHost: p.Topology.PerHost(), Domain: p.Topology.NVLinkDomain, Batch: p.Batch, ElementBytes: p.CommBytes(), DimSums: make([]int, n)},
		known:  map[int][2]unit.Millis{},
	}
	for i := range p.Tables {
		t := &p.Tables[i]
		e.all += t.Dim * len(t.Features)
		e.granule = divisor(e.granule, problem.ColumnGranule*len(t.Features))
	}
	step := n * e.granule
	e.least = (e.all + step - 1) / step * e.granule
	_, _, err := e.device.Comm(e.comm)
	return e, err
}

// times returns what is not hidden of the least forward and backward all-to-all of placements
// with the given columns or more, at least e.least, on some device.
func (e *exchange) times(columns int) (forward, backward unit.Millis) {
	if t, ok := e.known[columns]; ok {
		return t[0], t[1]
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
	least := plan.StepTimes{ForwardComm: f[0], BackwardComm: b[0]}
	e.hidden.Hide(&least, 0)
	e.known[columns] = [2]unit.Millis{least.ForwardComm, least.BackwardComm}
	return least.ForwardComm, least.BackwardComm
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
