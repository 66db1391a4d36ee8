package cost

import (
	"math"

	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/simulate"
)

// deviation returns the standard deviation of the members' predictions for a group,
// forward and backward together.
func (s *operators) deviation(in *headInput) float64 {
	net := &s.slices.model.compute
	members := float64(len(net.members))
	sum, squares := 0.0, 0.0
	for k := range net.members {
		from, to := k*net.units, (k+1)*net.units
		v := members * float64(f32.FoldedHead(in.sums[from:to], in.extra[from:to], float32(s.slices.quantum), &in.scalars, &net.memberScalars[k], net.both[from:to]))
		sum, squares = sum+v, squares+v*v
	}
	return deviation(sum, squares, members)
}

// deviation returns the standard deviation of n values, from their sum and the sum of
// their squares.
func deviation(sum, squares, n float64) float64 {
	mean := sum / n
	return math.Sqrt(max(0, squares/n-mean*mean) * n / (n - 1))
}

// penalised returns the times of an exchange with the risk penalty.
func (c *commMemo) penalised(m *commModel, n *simulate.Network, l CommLoad, t commTimes) commTimes {
	var forward, backward [2]float64 // sums and sums of squares
	for k := range m.residual {
		one := m.timesOf(n, l, &c.work, m.residual[k:k+1])
		forward[0], forward[1] = forward[0]+one.forward, forward[1]+one.forward*one.forward
		backward[0], backward[1] = backward[0]+one.backward, backward[1]+one.backward*one.backward
	}
	members := float64(len(m.residual))
	t.forward += c.penalty * deviation(forward[0], forward[1], members)
	t.backward += c.penalty * deviation(backward[0], backward[1], members)
	return t
}
