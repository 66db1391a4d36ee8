package main

import (
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// The passes of an operator.
const (
	forwardPass  = "forward"
	backwardPass = "backward"
)

func passes() []string { return []string{forwardPass, backwardPass} }

// A point is the measured times of one operator, in ms.
type point struct {
	op                simulate.Op
	forward, backward float64
}

// measured returns the measured time of a pass, in ms.
func (p *point) measured(pass string) float64 {
	if pass == forwardPass {
		return p.forward
	}
	return p.backward
}

// simulated returns the time of a pass on a simulated device, in ms.
func (p *point) simulated(d *simulate.Device, pass string) float64 {
	forward, backward := d.Compute(p.op)
	if pass == forwardPass {
		return float64(forward)
	}
	return float64(backward)
}

// anchorsFile is anchors.json.
type anchorsFile struct {
	Batch         int
	Rows          int64
	PoolingFactor int `json:"pooling_factor"`
	Single        []struct {
		Mode     string
		Dim      int
		Forward  float64 `json:"fwd_ms"`
		Backward float64 `json:"bwd_ms"`
	}
}

// points returns the times of one table in a mode, by rising columns.
func (a *anchorsFile) points(of mode) (points []point) {
	counts := access.Distribution{Kind: access.Uniform}.At(a.Rows, float64(a.PoolingFactor), a.Batch)
	for _, s := range a.Single {
		if s.Mode == of.name {
			points = append(points, point{simulate.Op{
				Batch: a.Batch, WeightBytes: of.bytes, Weighted: of.weighted, Optimizer: of.optimizer,
				Tables: []simulate.Table{{Rows: a.Rows, Dim: s.Dim, Counts: counts}},
			}, s.Forward, s.Backward})
		}
	}
	return points
}

// A mode is an operation of the anchors.
type mode struct {
	name      string
	optimizer problem.Optimizer
	bytes     int
	weighted  bool
}

func modes() []mode {
	return []mode{
		{"sgd fp32", problem.SGD, 4, false},
		{"rowwise_adagrad fp32", problem.RowwiseAdagrad, 4, false},
		{"sgd fp16", problem.SGD, 2, false},
		{"sgd fp32 weighted", problem.SGD, 4, true},
	}
}

// samplePoints returns the times of the samples in a folder.
func samplePoints(folder string) (points []point) {
	set := must(dataset.Read(folder))
	for i := range set.Compute.Samples {
		g := &set.Compute.Samples[i]
		op := simulate.Op{
			Batch: g.Operation.Batch, WeightBytes: int(g.Operation.Precision.Bytes()),
			Optimizer: g.Operation.Optimizer, Weighted: g.Operation.Weighted,
		}
		for _, member := range g.Members {
			t := &set.Compute.Tables[member.Table]
			op.Tables = append(op.Tables, simulate.Table{
				Rows: t.Rows, Dim: int(member.Dim), Bags: t.Bags(), LengthCV: t.LengthCV(),
				Counts: t.Counts(g.Operation.Batch),
			})
		}
		points = append(points, point{op, float64(g.Forward), float64(g.Backward)})
	}
	return points
}
