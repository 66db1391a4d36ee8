package prototype

import (
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// The nets, plainly and in float64: what a plan costs, to compare with the
// prototype's float32 and with the fast path in scorer.go.
//
// With the tables of device r, its sum of dims d[r] and D devices:
//
//	C[r] = compute net of r's tables; a device without tables has a sum of zeros
//	BW   = backward net of d
//	s    = C + BW, less its minimum: a device that ends early sleeps less
//	FW   = forward net of d and s
//	cost = the maximum over r of C[r] + BW[r] + FW[r]

// Predict returns the time, in ms, of the fused forward and backward of the
// tables; of none, what the head makes of a sum of zeros.
func (n *ComputeNet) Predict(tables []Vector) float64 {
	sum := make([]float64, n.Head[0].In)
	for i := range tables {
		x := n.scale(tables[i][:])
		for l := range n.Table {
			x = rectified(n.Table[l].apply(x))
		}
		for i, v := range x {
			sum[i] += v
		}
	}
	return n.Head[1].apply(rectified(n.Head[0].apply(sum)))[0]
}

// Predict returns the time, in ms, of an exchange on each device. starts is
// only read by a net that Sleeps. It panics on another number of devices than n.Devices.
func (n *CommNet) Predict(dims, starts []float64) []float64 {
	in := append([]float64(nil), dims...)
	if n.Sleeps {
		in = append(in, starts...)
	}
	if len(in) != len(n.Means) {
		panic(fmt.Sprintf("prototype: %d inputs for a net of %d", len(in), len(n.Means)))
	}
	x := n.scale(in)
	for l := range n.Layers {
		if l > 0 {
			x = rectified(x)
		}
		x = n.Layers[l].apply(x)
	}
	return x
}

// Predict estimates the cost of a placement, given the tables of each device. The nets know
// one time for a device's fused forward and backward: it stands in Forward, and Backward is 0.
func (m *Models) Predict(devices [][]Vector) plan.Breakdown {
	out := make([]plan.StepTimes, len(devices))
	dims, starts := make([]float64, len(devices)), make([]float64, len(devices))
	for d, held := range devices {
		for i := range held {
			dims[d] += held[i][17]
		}
		out[d] = plan.StepTimes{Forward: unit.Millis(m.Compute.Predict(held))}
	}
	first := math.Inf(1)
	for d, t := range m.Backward.Predict(dims, nil) {
		out[d].BackwardComm = unit.Millis(t)
		starts[d] = float64(out[d].Forward) + t
		first = math.Min(first, starts[d])
	}
	for d := range starts {
		starts[d] -= first
	}
	for d, t := range m.Forward.Predict(dims, starts) {
		out[d].ForwardComm = unit.Millis(t)
	}
	return plan.NewBreakdown(out)
}

// PredictShards prices a plan of p, shards listed by device.
func (m *Models) PredictShards(p *problem.Problem, shards [][]problem.Shard) plan.Breakdown {
	devices := make([][]Vector, len(shards))
	for d, held := range shards {
		for _, s := range held {
			devices[d] = append(devices[d], VectorOf(&p.Tables[s.Table], s.Dim()))
		}
	}
	return m.Predict(devices)
}

func (s *Scaling) scale(in []float64) []float64 {
	x := make([]float64, len(in))
	for i, v := range in {
		x[i] = (v - float64(s.Means[i])) / float64(s.Stds[i])
	}
	return x
}

func (l *Layer) apply(x []float64) []float64 {
	y := make([]float64, l.Out)
	for j := range y {
		y[j] = float64(l.Bias[j])
		for i, w := range l.Weight[j*l.In : (j+1)*l.In] {
			y[j] += float64(w) * x[i]
		}
	}
	return y
}

func rectified(x []float64) []float64 {
	for i := range x {
		x[i] = math.Max(0, x[i])
	}
	return x
}
