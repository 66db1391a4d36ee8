package step

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// imbalance.go states what samples of unequal lengths cost. The lengths of the b samples of a rank have a
// mean that varies by CV / sqrt(b) of itself, close to normally. All ranks wait for the one whose mean is the
// largest of n, which is expected at
//
//	1 + CV / sqrt(b) e_n     e_n: the expected largest of n standard normal draws
//
// times the mean of all. The dense part and the lookups of replicas take that much longer, as does the
// exchange of the vectors of sequences, whose receiver has the most [assumed: in proportion to length]. The
// lookups of tables that are not replicated serve the samples of all ranks, and stay.

// longest returns the expected length of the samples of the rank with the longest, over the mean.
func (in *Input) longest() unit.Millis {
	ranks := in.Problem.Topology.Whole().Devices
	samples := float64(in.Problem.Batch) / float64(in.Problem.Topology.Devices)
	if in.LengthCV == 0 || ranks < 2 {
		return 1
	}
	return unit.Millis(1 + in.LengthCV/math.Sqrt(max(1, samples))*largestOf(ranks))
}

// largestOf returns the expected largest of n standard normal draws: the integral of 1 - F^n above 0 less that
// of F^n below, with F the normal distribution.
func largestOf(n int) float64 {
	const beyond, points = 9, 200
	power := func(x float64) float64 { return math.Pow(0.5*math.Erfc(-x/math.Sqrt2), float64(n)) }
	above := quad.Fixed(func(x float64) float64 { return 1 - power(x) }, 0, beyond, points, nil, 0)
	return above - quad.Fixed(power, -beyond, 0, points, nil, 0)
}

// sequenceShare returns the share of sequences among the numbers that the vectors of a sample hold.
func sequenceShare(p *problem.Problem) float64 {
	sequences, all := 0.0, 0.0
	for i := range p.Tables {
		t := &p.Tables[i]
		numbers := t.Bags() * float64(t.Dim)
		if all += numbers; t.Pooling == problem.PoolingNone {
			sequences += numbers
		}
	}
	if all == 0 {
		return 0
	}
	return sequences / all
}

// lengthen multiplies the times that grow with the samples of a rank.
func (w *denseWork) lengthen(longest unit.Millis) {
	for _, time := range []*unit.Millis{&w.gemm, &w.activations, &w.bottomForward, &w.bottomBackward} {
		*time *= longest
	}
}
