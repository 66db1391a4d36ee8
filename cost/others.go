package cost

import (
	"math"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// otherForms are the slices of a placement in other forms than the zero one. Each
// operator class has operators of its own, beside those of the slices in HBM.
//
// The exchanges of these slices are the closed forms of plain collectives over the
// constants that were fitted to all-to-alls, with the correction that the net has for an
// all-to-all of as many bytes. No samples were measured of them.
type otherForms struct {
	pool    *Pool
	penalty float64
	// comm has the scorer's all-to-alls, whose corrections the exchanges take.
	comm *commMemo
	// classes holds the operators by class: those of blocks and replicas on one device,
	// which stands for all; those of blocks on a host's devices on one for each host; nil
	// where there was none yet.
	classes [problem.OperatorClasses]*operators
	// forward and backward are, by device, the times of the host link, and columns the
	// pooled columns of slices in host memory.
	forward, backward []ticks
	columns           []int
	// blockColumns are the pooled columns of blocks of rows on all devices, hostColumns
	// those on the devices of each host. weights is the number of all replicas' weights,
	// and update the time of their dense updates.
	blockColumns int
	hostColumns  []int
	weights      int64
	update       ticks
}

// ticks are units of time that add up in any order: 2^-30 ms.
type ticks int64

const tick = 1.0 / (1 << 30)

func ticksOf(t unit.Millis) ticks { return ticks(math.Round(min(float64(t)/tick, 1<<52))) }

func (t ticks) ms() float64 { return float64(t) * tick }

func newOtherForms(p *Pool, comm *commMemo, penalty float64) *otherForms {
	n := p.cluster.Devices
	return &otherForms{
		pool: p, penalty: penalty, comm: comm,
		forward: make([]ticks, n), backward: make([]ticks, n), columns: make([]int, n), hostColumns: make([]int, p.cluster.hosts()),
	}
}

// reset takes all slices away.
func (o *otherForms) reset() {
	for _, operators := range o.classes {
		if operators != nil {
			operators.reset()
		}
	}
	clear(o.forward)
	clear(o.backward)
	clear(o.columns)
	clear(o.hostColumns)
	o.blockColumns, o.weights, o.update = 0, 0, 0
}

// add puts an item on a device, or on all devices that hold it.
func (o *otherForms) add(device, item int) {
	class, it := problem.OperatorClass(item>>classShift), o.pool.other(item)
	operators, at := o.change(class, it, device, 1)
	operators.add(at, it.item)
}

// remove takes an item off a device, or off all devices that hold it.
func (o *otherForms) remove(device, item int) {
	class, it := problem.OperatorClass(item>>classShift), o.pool.other(item)
	operators, at := o.change(class, it, device, -1)
	operators.remove(at, it.item)
}

// change counts an item in (sign 1) or out (-1), except for its operator: change returns
// the operators of its class and the device of these operators.
func (o *otherForms) change(class problem.OperatorClass, it *otherItem, device, sign int) (*operators, int) {
	devices := o.pool.cluster.Devices
	switch class {
	case problem.ClassBlocks:
		o.blockColumns += sign * it.columns
		device, devices = 0, 1
	case problem.ClassHostBlocks:
		device, devices = device/o.pool.cluster.PerHost, o.pool.cluster.hosts()
		o.hostColumns[device] += sign * it.columns
	case problem.ClassReplicas:
		o.weights += int64(sign) * it.weights
		o.update += ticks(sign) * it.backward
		device, devices = 0, 1
	default:
		o.forward[device] += ticks(sign) * it.forward
		o.backward[device] += ticks(sign) * it.backward
		o.columns[device] += sign * it.columns
	}
	if o.classes[class] == nil {
		o.classes[class] = newOperators(o.pool.classes[class], devices, o.penalty)
	}
	return o.classes[class], device
}

// compute returns the time, in ms, of a device's operators and host link, without what
// all devices hold.
func (o *otherForms) compute(device int) float64 {
	return o.of(problem.ClassHostBlocks, device/o.pool.cluster.PerHost) +
		(o.of(problem.ClassHostMemory, device) + o.of(problem.ClassCached, device) + (o.forward[device] + o.backward[device]).ms())
}

// of returns the time of a device of the operators of a class, in ms.
func (o *otherForms) of(class problem.OperatorClass, device int) float64 {
	if o.classes[class] == nil {
		return 0
	}
	return o.classes[class].compute(device)
}

// addTo adds the times of a device's operators and host link to d, without what all
// devices hold.
func (o *otherForms) addTo(d *plan.StepTimes, device int) {
	o.addClass(d, problem.ClassHostBlocks, device/o.pool.cluster.PerHost)
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

// joint reports whether several devices hold any slice together.
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

// sharedTimes returns what shared adds up, apart.
func (o *otherForms) sharedTimes() (d plan.StepTimes) {
	o.addClass(&d, problem.ClassBlocks, 0)
	o.addClass(&d, problem.ClassReplicas, 0)
	d.Backward += unit.Millis(o.update.ms())
	forward, backward := o.exchanges()
	d.ForwardComm, d.BackwardComm = unit.Millis(forward), unit.Millis(backward)
	return d
}

// exchanges returns the times of all exchanges but the all-to-alls.
func (o *otherForms) exchanges() (forward, backward float64) {
	c, k := o.pool.cluster, o.pool.model.comm.constants
	if c.Devices == 1 {
		return 0, 0
	}
	n, batch, copies := float64(c.Devices), float64(c.Batch), k.CopyGBps*bytesPerMS
	if o.blockColumns > 0 {
		columns := float64(o.blockColumns)
		passed := (n - 1) / n * batch * columns * c.element()
		both := o.ring(passed) + c.packing()*batch*columns/copies
		forward, backward = forward+both, backward+both
	}
	most, all, least := 0, 0, math.MaxInt
	for _, columns := range o.hostColumns {
		most, all, least = max(most, columns), all+columns, min(least, columns)
	}
	if most > 0 {
		both := o.inHosts(float64(most)) + o.betweenHosts(float64(most), float64(all), float64(least))
		forward, backward = forward+both, backward+both
	}
	if o.weights > 0 {
		backward += o.allReduce(float64(o.weights) * c.element())
	}
	return forward, backward
}

// ring returns the time of a collective in which each device passes so many bytes on to
// the next, host by host, in as many rings as a host has devices.
func (o *otherForms) ring(passed float64) float64 {
	c, k := o.pool.cluster, o.pool.model.comm.constants
	inside := passed / (k.IntraGBps * bytesPerMS)
	if c.hosts() == 1 {
		return k.AlphaMS + inside
	}
	between := passed / float64(c.PerHost)
	return max(network(k, c)+inside, o.corrected(network(k, c)+between/(k.NICGBps*bytesPerMS), between))
}

// inHosts returns the time of a reduce-scatter of the partial sums of so many columns
// inside a host, or of its gradients' all-gather.
func (o *otherForms) inHosts(columns float64) float64 {
	c, k := o.pool.cluster, o.pool.model.comm.constants
	local := float64(c.PerHost)
	if local == 1 {
		return 0
	}
	return k.AlphaMS + (local-1)/local*float64(c.Batch)*columns*c.element()/(k.IntraGBps*bytesPerMS) +
		c.packing()*float64(c.Batch)*columns/(k.CopyGBps*bytesPerMS)
}

// betweenHosts returns the time of the all-to-all of what a host's devices have summed.
func (o *otherForms) betweenHosts(most, all, least float64) float64 {
	c, k := o.pool.cluster, o.pool.model.comm.constants
	hosts, local := float64(c.hosts()), float64(c.PerHost)
	if hosts == 1 {
		return 0
	}
	part := float64(c.Batch) / local * c.element()
	moved := max((hosts-1)/hosts*part*most, part/hosts*(all-least))
	return o.corrected(network(k, c)+moved/(k.NICGBps*bytesPerMS), moved)
}

// corrected returns the time of a collective between hosts, in ms, times what the net
// corrects that of an all-to-all by in which every device sends as many bytes. Inside a
// host the closed form is as good for one collective as for another.
func (o *otherForms) corrected(time, bytes float64) float64 {
	c, m := o.pool.cluster, &o.pool.model.comm
	if c.hosts() == 1 {
		return time
	}
	n := float64(c.Devices)
	columns := int(max(1, min(1<<24, bytes/((n-1)/n*float64(c.Batch)*c.element()))))
	load := CommLoad{Max: columns, Min: columns, Sum: columns * c.Devices}
	unpack := c.packing() * float64(c.Batch) / n * float64(load.Sum) / (m.constants.CopyGBps * bytesPerMS)
	return time * (o.comm.times(m, c, load).backward - unpack) / Collective(m.constants, c, load)
}

// allReduce returns the time of an all-reduce of so many bytes: inside hosts, and of
// each device's part between them.
func (o *otherForms) allReduce(bytes float64) float64 {
	c, k := o.pool.cluster, o.pool.model.comm.constants
	hosts, local := float64(c.hosts()), float64(c.PerHost)
	t := 0.0
	if local > 1 {
		t += k.AlphaMS + 2*(local-1)/local*bytes/(k.IntraGBps*bytesPerMS)
	}
	if hosts > 1 {
		moved := 2 * (hosts - 1) / hosts * bytes / local
		t += o.corrected(network(k, c)+moved/(k.NICGBps*bytesPerMS), moved)
	}
	return t
}

// network returns the fixed time of a collective between hosts.
func network(k CommConstants, c Cluster) float64 {
	return k.BaseMS + k.HopMS*math.Log2(float64(c.Devices))
}
