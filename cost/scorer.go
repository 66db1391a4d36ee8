package cost

import (
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Scorer keeps the predicted cost of a placement while slices are added and removed: a
// search.Scorer of all forms. It serves one goroutine; all Scorers of one Estimates share its
// items. The data for forms other than columns in HBM is made when the first slice of such
// a form is added.
type Scorer struct {
	estimates *Estimates
	penalty   float64
	// columns are the operators of slices in HBM; others are those of all other forms, nil
	// before the first such slice.
	columns operators
	others  *otherForms
	comm    commMemo
	totals  deviceTotals
	// fixed is the fixed compute of each device, in ms; nil if it is 0 on all.
	fixed []unit.Millis
	// hierarchy is nil if exchanges are flat.
	hierarchy *hierarchy
}

// NewScorer returns an empty placement on the problem's devices.
//
// riskPenalty, at least 0, is the number of standard deviations of an ensemble's
// members that is added to their mean, in the times of each operator and of both
// all-to-alls. A search tends to end where the model's errors make a placement look
// cheap, and there the members agree least. A model of one net has no deviations.
func (p *Estimates) NewScorer(riskPenalty float64) *Scorer {
	if p.model.Members() == 1 {
		riskPenalty = 0
	}
	s := &Scorer{
		estimates: p, penalty: riskPenalty, comm: commMemo{penalty: riskPenalty}, hierarchy: newHierarchy(p),
		columns: *newOperators(p.classes[problem.ClassColumns], p.network.Devices, riskPenalty),
		totals:  newDeviceTotals(p.network.Devices), fixed: p.problem.Topology.FixedTimes(),
	}
	s.clearTotals()
	return s
}

// clearTotals sets the totals to those of empty devices.
func (s *Scorer) clearTotals() {
	s.totals.reset()
	for d := range s.fixed {
		s.totals.change(d)
	}
}

// base returns the fixed compute of a device, in ms.
func (s *Scorer) base(device int) float64 {
	if s.fixed == nil {
		return 0
	}
	return float64(s.fixed[device])
}

// Item registers a slice in a form: see Estimates.Item.
func (s *Scorer) Item(table, width int, form problem.Form) int {
	return s.estimates.Item(table, width, form)
}

// Numbered is true: operators of different numbers have a launch and lanes of their own.
func (s *Scorer) Numbered() bool { return true }

// Reset empties all devices.
func (s *Scorer) Reset() {
	s.clearTotals()
	s.columns.reset()
	if s.others != nil {
		s.others.reset()
	}
	if s.hierarchy != nil {
		s.hierarchy.reset()
	}
}

// Add puts an item on a device, or on all devices that hold it, as the item's form says.
func (s *Scorer) Add(device, item int) {
	s.changed(device, item)
	if item < 1<<classShift {
		s.columns.add(device, item)
		s.countBlock(device, item, 1)
		return
	}
	if s.others == nil {
		s.others = newOtherForms(s.estimates, &s.comm, s.penalty)
	}
	s.others.add(device, item)
}

// Remove takes an item off a device, or off all devices that hold it. It undoes Add
// exactly.
func (s *Scorer) Remove(device, item int) {
	s.changed(device, item)
	if item < 1<<classShift {
		s.columns.remove(device, item)
		s.countBlock(device, item, -1)
		return
	}
	s.others.remove(device, item)
}

// Compute returns the predicted time, in ms, of a device's operators and host link,
// without those that all devices run alike (Shared), and the device's fixed compute.
func (s *Scorer) Compute(device int) float64 {
	t := s.columns.compute(device) + s.base(device)
	if s.others != nil {
		t += s.others.compute(device)
	}
	return t
}

// ComputeWith sets out[i] to what Compute(devices[i]) would return if the item were
// added. It does not change the placement.
func (s *Scorer) ComputeWith(item int, devices []int32, out []float64) {
	if item < 1<<classShift {
		s.columns.computeWith(item, devices, out)
		if s.fixed != nil {
			for i, d := range devices {
				out[i] += s.base(int(d))
			}
		}
		if s.others != nil {
			for i, d := range devices {
				out[i] += s.others.compute(int(d))
			}
		}
		return
	}
	for i, d := range devices {
		s.Add(int(d), item)
		out[i] = s.Compute(int(d))
		s.Remove(int(d), item)
	}
}

// Cost returns the predicted cost of the placement, in ms: the longest compute, both
// all-to-alls and Shared. What the engine hides of the exchanges (Estimates.Hide) is left out.
//
// A device that is ready early waits for the last one, so all devices end the forward
// exchange at the same time, apart from packing. Therefore the maximum over devices of
// compute, forward exchange and backward exchange is the longest compute, plus the
// exchanges, plus the longest packing.
func (s *Scorer) Cost() float64 {
	longest, collective, packing, backward := s.phases()
	if s.Hides() {
		shared, free := s.exposed()
		forward := max(0, collective+packing-float64(free.Forward))
		return finite(longest + forward + max(0, backward-float64(free.Backward)) + shared)
	}
	cost := longest + backward + collective + packing
	return finite(cost + s.Shared())
}

// phases returns the times of the placement's phases without Shared, in ms: the longest
// compute, the forward all-to-all after the last device is ready, the longest packing, and
// the backward all-to-all.
func (s *Scorer) phases() (longest, collective, packing, backward float64) {
	totals, all := s.refreshed(), 0.0
	longest = totals.computes.Max()
	if s.estimates.model.comm.constants.OverlapRate != 0 {
		for _, compute := range totals.computes.Values() {
			all += compute
		}
	}
	load, times := s.allToAlls()
	return longest, s.afterLast(times.forward, all, longest), s.packing(load.Max), times.backward
}

// Shared returns the time, in ms, that every device spends alike: on slices that all
// devices hold, and on all exchanges except the all-to-alls of slices on single
// devices. What the engine hides is first subtracted from these exchanges.
func (s *Scorer) Shared() float64 {
	if s.others == nil {
		return 0
	}
	if s.Hides() {
		shared, _ := s.exposed()
		return shared
	}
	return s.others.shared()
}

// Hides reports whether the engine hides any part of the exchanges, or whether these are
// hierarchical: see search.Hiding and search.Hierarchical.
func (s *Scorer) Hides() bool { return s.hierarchy != nil || s.estimates.hidden != plan.Hidden{} }

// AllToAlls returns the times, in ms, of the forward and the backward all-to-all of the
// slices on single devices, and what the engine hides of each: what the exchanges in Shared
// leave.
func (s *Scorer) AllToAlls() (times, free [2]float64) {
	_, collective, packing, backward := s.phases()
	_, left := s.exposed()
	return [2]float64{collective + packing, backward}, [2]float64{float64(left.Forward), float64(left.Backward)}
}

// exposed returns Shared without what is hidden, and what these exchanges leave of it.
func (s *Scorer) exposed() (shared float64, left plan.Hidden) {
	if s.others == nil {
		return 0, s.estimates.hidden
	}
	return s.others.exposed(s.estimates.hidden)
}

// Breakdown returns the cost of the current placement, device by device.
func (s *Scorer) Breakdown() plan.Breakdown {
	_, times := s.allToAlls()
	var shared plan.StepTimes
	if s.others != nil {
		shared = s.others.sharedTimes()
	}
	devices := make([]plan.StepTimes, len(s.columns.devices))
	latest, all := unit.Millis(0), unit.Millis(0)
	for i := range devices {
		d := &devices[i]
		d.Forward, d.Backward = shared.Forward, shared.Backward
		d.Forward += unit.Millis(s.base(i))
		s.columns.addTo(d, i)
		if s.others != nil {
			s.others.addTo(d, i)
		}
		d.BackwardComm = unit.Millis(times.backward) + shared.BackwardComm
		ready := d.Forward + d.Backward + d.BackwardComm
		latest, all = max(latest, ready), all+ready
	}
	forward := unit.Millis(s.afterLast(times.forward, float64(all), float64(latest))) + shared.ForwardComm
	replicas := unit.Millis(0)
	if s.others != nil && s.Hides() {
		replicas = s.others.replicaForward()
	}
	for i := range devices {
		d := &devices[i]
		wait := latest - (d.Forward + d.Backward + d.BackwardComm)
		d.ForwardComm = forward + unit.Millis(s.packing(s.columnsOf(i)))
		s.estimates.hidden.Hide(d, replicas)
		d.ForwardComm = wait + d.ForwardComm
	}
	return plan.NewBreakdown(devices)
}

// allToAlls returns the load of the all-to-alls of the slices on single devices, and
// the times of both. The times are 0 if several devices together hold each slice. A
// hierarchical exchange takes the place of the all-to-alls.
func (s *Scorer) allToAlls() (CommLoad, commTimes) {
	if s.hierarchy != nil {
		vectors := s.vectors()
		return CommLoad{}, commTimes{vectors, vectors}
	}
	totals := s.refreshed()
	load := CommLoad{Max: totals.most.Max(), Min: -totals.least.Max(), Sum: totals.sum}
	if load.Sum == 0 && s.others != nil && s.others.joint() {
		return load, commTimes{}
	}
	return load, s.comm.times(&s.estimates.model.comm, &s.estimates.network, load)
}

// afterLast returns how long a forward all-to-all takes after the last device is ready,
// in ms, if it takes time in all. sum and longest are the sum and the maximum of the
// times at which the devices are ready. Without an overlap, the sum is not read.
func (s *Scorer) afterLast(time, sum, longest float64) float64 {
	n := len(s.columns.devices)
	if s.hierarchy != nil {
		return time
	}
	return Overlapped(s.estimates.model.comm.constants, n, time, lead(sum, longest, n))
}

// packing returns the time, in ms, that a device needs to pack and unpack its own pooled
// columns in the forward exchange. Hierarchical exchanges count none.
func (s *Scorer) packing(columns int) float64 {
	if s.hierarchy != nil {
		return 0
	}
	return pack(&s.estimates.network, columns)
}

// columnsOf returns the pooled columns of the slices that the device alone holds.
func (s *Scorer) columnsOf(device int) int {
	sum := s.columns.devices[device].dimSum
	if s.others != nil {
		sum += s.others.columns[device]
	}
	return sum
}

// changed records the devices whose own times or columns an item of a device changes: those
// that hold it, unless these are all.
func (s *Scorer) changed(device, item int) {
	switch problem.OperatorClass(item >> classShift) {
	case problem.ClassBlocks, problem.ClassReplicas:
	case problem.ClassHostBlocks:
		per := s.estimates.network.PerHost
		first := device / per * per
		for d := first; d < min(first+per, s.estimates.network.Devices); d++ {
			s.totals.change(d)
		}
	default:
		s.totals.change(device)
	}
}

// refreshed returns the totals after all changes.
func (s *Scorer) refreshed() *deviceTotals {
	t := &s.totals
	for _, device := range t.changed {
		d := int(device)
		columns := s.columnsOf(d)
		t.sum += columns - t.most.Values()[d]
		t.computes.Set(d, s.Compute(d))
		t.most.Set(d, columns)
		t.least.Set(d, -columns)
		t.isChanged[d] = false
	}
	t.changed = t.changed[:0]
	return t
}
