package cost

import (
	"math"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// otherForms are the slices of a placement in other forms than the zero one. Each
// operator class has operators of its own, beside those of the slices in HBM.
//
// The times of these slices' exchanges are closed forms of plain collectives, with the
// constants that were fitted to all-to-alls, times the net's correction for an
// all-to-all of the same number of bytes (correction.go). No samples of such exchanges
// were measured.
type otherForms struct {
	estimates *Estimates
	penalty   float64
	// comm holds the scorer's all-to-alls; the exchanges use its corrections.
	comm *commMemo
	// classes holds the operators of each class; nil if no slice of the class was added
	// yet. The operators of blocks and replicas on all devices are kept for one device,
	// which stands for all; those of blocks on a host's devices are kept for one device of
	// each host.
	classes [problem.OperatorClasses]*operators
	// forward and backward are the times of each device's host link; backward also has the
	// times in which the places of rows in caches are sorted. columns holds the pooled columns
	// of each device's slices in host memory.
	forward, backward []ticks
	columns           []int
	// cached holds the sorted lookups of each device's operators of cached slices: those of
	// operator o are cached[device][o].
	cached [][]sortedPlaces
	// blockColumns is the number of pooled columns of blocks of rows on all devices,
	// blocksApart that of the busiest device if the blocks' lookups stay apart, and
	// hostColumns that of blocks on the devices of each host. weights is the number of
	// weights of all replicas, and update the time of their dense updates.
	blockColumns int
	blocksApart  int
	hostColumns  []int
	weights      int64
	update       ticks
}

// sortedPlaces are the lookups of the slices of one operator whose places in the cache the
// backward sorts, and the rows of the cache. The samples of the nets have no such sort, so the
// formulas of the simulated device estimate its time.
type sortedPlaces struct{ lookups, rows int64 }

// ticks are integer units of time of 2^-30 ms, so that sums do not depend on the order.
type ticks int64

const tick = 1.0 / (1 << 30)

func ticksOf(t unit.Millis) ticks { return ticks(math.Round(min(float64(t)/tick, 1<<52))) }

func (t ticks) ms() float64 { return float64(t) * tick }

func newOtherForms(p *Estimates, comm *commMemo, penalty float64) *otherForms {
	n := p.network.Devices
	return &otherForms{
		estimates: p, penalty: penalty, comm: comm,
		forward: make([]ticks, n), backward: make([]ticks, n), columns: make([]int, n), cached: make([][]sortedPlaces, n), hostColumns: make([]int, p.network.Hosts()),
	}
}

// reset removes all slices.
func (o *otherForms) reset() {
	for _, operators := range o.classes {
		if operators != nil {
			operators.reset()
		}
	}
	clear(o.forward)
	clear(o.backward)
	clear(o.columns)
	clear(o.cached)
	clear(o.hostColumns)
	o.blockColumns, o.blocksApart, o.weights, o.update = 0, 0, 0, 0
}

// add puts an item on a device, or on all devices that hold it.
func (o *otherForms) add(device, item int) {
	class, it := problem.OperatorClass(item>>classShift), o.estimates.other(item)
	operators, at := o.change(class, it, device, 1)
	operators.add(at, it.item)
}

// remove takes an item off a device, or off all devices that hold it.
func (o *otherForms) remove(device, item int) {
	class, it := problem.OperatorClass(item>>classShift), o.estimates.other(item)
	operators, at := o.change(class, it, device, -1)
	operators.remove(at, it.item)
}

// change adds an item to the sums (sign 1) or removes it (sign -1), except for its
// operator: change returns the operators of the item's class and the device of these
// operators.
func (o *otherForms) change(class problem.OperatorClass, it *otherItem, device, sign int) (*operators, int) {
	devices := o.estimates.network.Devices
	switch class {
	case problem.ClassBlocks:
		o.blockColumns += sign * it.columns
		o.blocksApart += sign * it.apart
		device, devices = 0, 1
	case problem.ClassHostBlocks:
		device, devices = device/o.estimates.network.PerHost, o.estimates.network.Hosts()
		o.hostColumns[device] += sign * it.columns
	case problem.ClassReplicas:
		o.weights += int64(sign) * it.weights
		o.update += ticks(sign) * it.backward
		device, devices = 0, 1
	case problem.ClassCached:
		o.sortPlaces(it, device, sign)
		fallthrough
	default:
		o.forward[device] += ticks(sign) * it.forward
		o.backward[device] += ticks(sign) * it.backward
		o.columns[device] += sign * it.columns
	}
	if o.classes[class] == nil {
		o.classes[class] = newOperators(o.estimates.classes[class], devices, o.penalty)
	}
	return o.classes[class], device
}

// sortPlaces adds the lookups of a cached slice to those that its operator sorts (sign 1), or
// removes them (sign -1), and changes the device's backward.
func (o *otherForms) sortPlaces(it *otherItem, device, sign int) {
	if it.lookups == 0 {
		return
	}
	operator := int(o.estimates.classes[problem.ClassCached].at(it.item).operator)
	for operator >= len(o.cached[device]) {
		o.cached[device] = append(o.cached[device], sortedPlaces{})
	}
	s := &o.cached[device][operator]
	time := func() ticks {
		return ticksOf(o.estimates.device.SortPlaces(float64(s.lookups), float64(s.rows)))
	}
	o.backward[device] -= time()
	s.lookups += int64(sign) * it.lookups
	s.rows += int64(sign) * it.cachedRows
	o.backward[device] += time()
}

// compute returns the time, in ms, of a device's operators and host link, without the
// slices that all devices hold.
func (o *otherForms) compute(device int) float64 {
	return o.of(problem.ClassHostBlocks, device/o.estimates.network.PerHost) +
		(o.of(problem.ClassHostMemory, device) + o.of(problem.ClassCached, device) + (o.forward[device] + o.backward[device]).ms())
}

// of returns the time, in ms, that a device spends in the operators of a class.
func (o *otherForms) of(class problem.OperatorClass, device int) float64 {
	if o.classes[class] == nil {
		return 0
	}
	return o.classes[class].compute(device)
}

// addTo adds the times of a device's operators and host link to d, without the slices
// that all devices hold.
func (o *otherForms) addTo(d *plan.StepTimes, device int) {
	o.addClass(d, problem.ClassHostBlocks, device/o.estimates.network.PerHost)
	o.addClass(d, problem.ClassHostMemory, device)
	o.addClass(d, problem.ClassCached, device)
	d.Forward += unit.Millis(o.forward[device].ms())
	d.Backward += unit.Millis(o.backward[device].ms())
}

func (o *otherForms) addClass(d *plan.StepTimes, class problem.OperatorClass, device int) {
	if o.classes[class] != nil {
		o.classes[class].addTo(d, device)
	}
}

// joint reports whether several devices together hold any slice.
func (o *otherForms) joint() bool {
	for class, operators := range o.classes {
		if operators == nil || !problem.OperatorClass(class).Joint() {
			continue
		}
		for d := range operators.devices {
			if operators.devices[d].shards > 0 {
				return true
			}
		}
	}
	return false
}

// shared returns the time that every device spends alike, in ms: see Scorer.Shared.
func (o *otherForms) shared() float64 {
	forward, backward := o.exchanges()
	return o.of(problem.ClassBlocks, 0) + o.of(problem.ClassReplicas, 0) + o.update.ms() + forward + backward
}

// sharedTimes returns the parts that shared adds up.
func (o *otherForms) sharedTimes() (d plan.StepTimes) {
	o.addClass(&d, problem.ClassBlocks, 0)
	o.addClass(&d, problem.ClassReplicas, 0)
	d.Backward += unit.Millis(o.update.ms())
	forward, backward := o.exchanges()
	d.ForwardComm, d.BackwardComm = unit.Millis(forward), unit.Millis(backward)
	return d
}

// exposed returns shared without what is hidden of the exchanges, and what these exchanges
// leave of it for the all-to-alls.
func (o *otherForms) exposed(hidden plan.Hidden) (shared float64, left plan.Hidden) {
	if hidden.Replicas {
		hidden.Forward += o.replicaForward()
	}
	times := plan.StepTimes{}
	forward, backward := o.exchanges()
	times.ForwardComm, times.BackwardComm = unit.Millis(forward), unit.Millis(backward)
	hidden.Hide(&times, 0)
	left = plan.Hidden{Forward: hidden.Forward - times.ForwardHidden, Backward: hidden.Backward - times.BackwardHidden}
	compute := o.of(problem.ClassBlocks, 0) + o.of(problem.ClassReplicas, 0) + o.update.ms()
	return compute + float64(times.ForwardComm+times.BackwardComm), left
}

// replicaForward returns the time of the forward lookups of the replicas.
func (o *otherForms) replicaForward() unit.Millis {
	var d plan.StepTimes
	o.addClass(&d, problem.ClassReplicas, 0)
	return d.Forward
}

// exchanges returns the times of all exchanges except the all-to-alls, in ms.
func (o *otherForms) exchanges() (forward, backward float64) {
	n := &o.estimates.network
	if n.Devices == 1 {
		if n.Replicas > 1 {
			backward = o.allReduce()
		}
		return 0, backward
	}
	if o.estimates.problem.Hierarchy.On() {
		both := o.hierarchical(o.blockColumns)
		forward, backward = both, both
		return forward, backward + o.allReduce()
	}
	if o.blockColumns > 0 {
		columns := float64(o.blockColumns)
		both := o.ring(columns) + float64(n.Pack(columns))
		forward, backward = forward+both, backward+both
	}
	if o.blocksApart > 0 {
		there, back := o.apart()
		forward, backward = forward+there, backward+back
	}
	most, all, least := 0, 0, math.MaxInt
	for _, columns := range o.hostColumns {
		most, all, least = max(most, columns), all+columns, min(least, columns)
	}
	if most > 0 {
		both := 0.0
		if n.PerHost > 1 {
			both = float64(n.InHosts(float64(most)).Time() + n.Pack(float64(most)))
		}
		between := n.BetweenHosts(float64(most), float64(least), float64(all))
		both += max(o.corrected(between), float64(between.Inside))
		forward, backward = forward+both, backward+both
	}
	return forward, backward + o.allReduce()
}

// allReduce returns the time of the all-reduce of the replicas' gradients, in ms.
func (o *otherForms) allReduce() float64 {
	if o.weights == 0 {
		return 0
	}
	inHosts, between := o.estimates.network.AllReduce(float64(o.weights))
	if o.estimates.network.Replicas > 1 {
		return float64(inHosts.Time() + between.Time()) // the net corrects exchanges of one group
	}
	return float64(inHosts.Time()) + o.corrected(between)
}

// ring returns the time, in ms, of a reduce-scatter over all devices of partial sums of
// the given pooled columns, or of the all-gather of their gradients.
func (o *otherForms) ring(columns float64) float64 {
	c := o.estimates.network.Ring(columns)
	return max(float64(c.Fixed+c.Inside), o.corrected(c))
}

// apart returns the times, in ms, of the all-to-alls of the vectors and of the gradients of blocks
// whose lookups stay apart: as if each device had the columns of the busiest.
func (o *otherForms) apart() (forward, backward float64) {
	n := &o.estimates.network
	load := CommLoad{Max: o.blocksApart, Min: o.blocksApart, Sum: n.Devices * o.blocksApart}
	times := o.comm.times(&o.estimates.model.comm, n, load)
	return times.forward + float64(n.Pack(float64(o.blocksApart))), times.backward
}

// corrected returns the time, in ms, of a collective on the links between hosts, with the
// net's correction; 0 on one host.
func (o *otherForms) corrected(c simulate.Collective) float64 {
	return o.estimates.model.comm.otherExchange(o.comm, &o.estimates.network, c)
}
