package cost

import (
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Slice is a column slice of a described table.
type Slice struct {
	Table *feature.Table
	Dim   int
}

// Group predicts one fused operation over slices, outside any problem, in ms. A model's
// accuracy is judged by it. Slices without lookups are dropped; an operation without
// slices costs 0.
func (m *Model) Group(op problem.Operation, slices []Slice) (forward, backward unit.Millis) {
	units := m.units(op, slices)
	if units == nil {
		return 0, 0
	}
	return m.compute.times(m.compute.output(units, 0))
}

// times returns the times of a group from the outputs of the head. Outputs below 0 count as 0: first
// their sum, then each of them.
func (n *computeNet) times(f, b float64) (forward, backward unit.Millis) {
	forwardMS, backwardMS := n.divide(f, n.launchForward+n.launchBackward+max(0, f+b))
	return unit.Millis(forwardMS), unit.Millis(backwardMS)
}

// divide divides the time of a group between forward and backward. f is the head's output for the
// forward; each part has at least its launches.
func (n *computeNet) divide(f, both float64) (forward, backward float64) {
	forward = min(n.launchForward+max(0, f), both-n.launchBackward)
	return forward, both - forward
}

// GroupMembers predicts as Group does, once for each member of an ensemble. A member's
// prediction below 0 counts as 0; if no member
// predicts below 0, the mean of the members is Group's
// prediction. How far the members lie apart tells how far to trust the mean. The slices
// are the caller's.
func (m *Model) GroupMembers(op problem.Operation, slices []Slice) (forward, backward []unit.Millis) {
	n := &m.compute
	forward, backward = make([]unit.Millis, m.Members()), make([]unit.Millis, m.Members())
	units := m.units(op, slices)
	if units == nil {
		return forward, backward
	}
	members := float64(m.Members())
	for k := range forward {
		f, b := n.output(units[k*n.units:][:n.units], k*n.units)
		forward[k], backward[k] = n.times(members*f, members*b)
	}
	return forward, backward
}

// units returns the inputs that a group gives to the units of the head, before they are
// rectified; nil for a group without lookups.
func (m *Model) units(op problem.Operation, slices []Slice) []float64 {
	lanes := feature.Lanes8
	for _, s := range slices {
		if s.Table.Counts.Lookups > 0 {
			lanes = max(lanes, feature.LanesOf(&m.hardware, op, s.Dim))
		}
	}
	var work workspace
	var sums feature.Sums
	head := make([]float64, m.compute.head)
	for _, s := range slices {
		e := m.embed(op, s.Table, s.Dim, lanes, &work)
		for i, v := range e.head {
			head[i] += v
		}
		part := s.Table.Part(e.scale)
		sums.Add(&part)
	}
	if sums.Shards() == 0 {
		return nil
	}
	var scalars [feature.ScalarCount]float32
	rates := feature.NewRates(&m.hardware, op)
	sums.Scalars(&scalars, &rates, lanes, &feature.Part{})
	for i := range head {
		for j, v := range scalars {
			head[i] += float64(m.compute.scalars.Scalars[j][i]) * float64(v)
		}
	}
	return head
}

// output returns the contribution to forward and backward of the units of the head,
// from the given unit on.
func (n *computeNet) output(units []float64, from int) (forward, backward float64) {
	for i, z := range units {
		if z > 0 {
			forward += float64(n.forward[from+i]) * z
			backward += float64(n.backward[from+i]) * z
		}
	}
	return forward, backward
}

// Exchange predicts the all-to-alls of one step in ms: the forward one without the wait
// for the slowest device and without a device's own packing (Pack), the backward one
// whole. early is how long the other devices are ready before the slowest one, in the
// mean.
func (m *Model) Exchange(c Cluster, l CommLoad, early unit.Millis) (forward, backward unit.Millis) {
	n := networkOf(m.comm.constants, c)
	t := m.comm.times(&n, l, &commWork{})
	return unit.Millis(Overlapped(m.comm.constants, c.Devices, t.forward, float64(early))), unit.Millis(t.backward)
}

// Pack predicts the time in ms that a device needs to pack and unpack its own pooled
// columns around the forward all-to-all.
func (m *Model) Pack(c Cluster, dimSum int) unit.Millis {
	n := networkOf(m.comm.constants, c)
	return unit.Millis(pack(&n, dimSum))
}
