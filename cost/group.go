package cost

import (
	"github.com/neuroshard/neuroshard/feature"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Slice is a column slice of a described table.
type Slice struct {
	Table *feature.Table
	Dim   int
}

// Group predicts one fused operation over slices, outside any problem. It is
// what a model's accuracy is judged by. Slices without lookups are dropped; an
// operation of none costs nothing.
func (m *Model) Group(op problem.Operation, slices []Slice) (forward, backward unit.Millis) {
	lanes := feature.Lanes8
	for _, s := range slices {
		if s.Table.Counts.Lookups > 0 {
			lanes = max(lanes, feature.LanesOf(s.Dim, op.Weighted))
		}
	}
	var work workspace
	var sums feature.Sums
	head := make([]float64, m.compute.head)
	for _, s := range slices {
		e := m.embed(op, *s.Table, s.Dim, lanes, &work)
		for i, v := range e.head {
			head[i] += v
		}
		var scales [feature.LaneClasses]float64
		scales[lanes] = e.scale
		part := s.Table.Part(scales)
		sums.Add(&part)
	}
	if sums.Shards() == 0 {
		return 0, 0
	}
	var scalars [feature.ScalarCount]float32
	rates := feature.NewRates(&m.hardware, op)
	sums.Scalars(&scalars, &rates, lanes, &feature.Part{})
	var f, b float64
	for i, z := range head {
		for j, v := range scalars {
			z += float64(m.compute.scalars.Scalars[j][i]) * float64(v)
		}
		if z > 0 {
			f += float64(m.compute.forward[i]) * z
			b += float64(m.compute.backward[i]) * z
		}
	}
	return unit.Millis(m.compute.launchForward + max(0, f)), unit.Millis(m.compute.launchBackward + max(0, b))
}

// Exchange predicts the all-to-alls of one step: the forward one without the
// wait for the slowest device and without a device's own Pack, the backward
// one whole.
func (m *Model) Exchange(c Cluster, l CommLoad) (forward, backward unit.Millis) {
	t := m.comm.times(c, l, &commWork{})
	return unit.Millis(t.forward), unit.Millis(t.backward)
}

// Pack predicts the time a device takes to pack and unpack its own pooled
// columns around the forward all-to-all.
func (m *Model) Pack(c Cluster, dimSum int) unit.Millis { return unit.Millis(m.comm.pack(c, dimSum)) }
