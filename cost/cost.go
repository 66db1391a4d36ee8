// Package cost predicts what a placement costs: the time of each device's fused
// lookups and of the all-to-alls around them, from a trained model.
//
//	Load      a modelfile as a Model
//	Pool      one problem under one Model: tables described, slices embedded once
//	Scorer    the running price of a placement, for a search to ask
//	Breakdown the whole price of a plan, device by device
//
// The compute model is a pooled-set net (feature, nn): each shard's embedding is
// folded through the head's first layer once, to 64 numbers, and a device is
// the sum of its shards' numbers. Sums are kept in integers, so that they do
// not depend on the order of placing and removing is exact.
//
// What fits is not decided here: see packages problem and plan.
package cost

import (
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/feature"
	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/modelfile"
	"github.com/neuroshard/neuroshard/problem"
)

// Model is a trained cost model, ready to predict. It may be used by several
// goroutines.
type Model struct {
	manifest modelfile.Manifest
	hardware hardware.Profile
	compute  computeNet
	comm     commModel
}

// Load gives a modelfile its meaning. It fails where the file was made for
// other features than this build computes, for an unknown profile, or where a
// tensor is missing.
func Load(file *modelfile.Model) (*Model, error) {
	m := &Model{manifest: file.Manifest}
	var err error
	if m.hardware, err = hardware.ByName(file.Manifest.Profile); err != nil {
		return nil, fmt.Errorf("model %q: %w", file.Manifest.ID, err)
	}
	if m.compute, err = loadCompute(file); err != nil {
		return nil, err
	}
	if m.comm, err = loadComm(file); err != nil {
		return nil, err
	}
	return m, nil
}

// Manifest returns the manifest of the model's file.
func (m *Model) Manifest() modelfile.Manifest { return m.manifest }

// computeNet is the pooled-set net of the fused lookups. Features are
// standardised inside the first layer's weights, so raw features go in.
type computeNet struct {
	hidden, embed, head int
	layer0, layer1      f32.Packed // in -> hidden -> embed, transposed for row vectors
	bias0, bias1        []float32
	// fold is the part of the head's first layer that reads the embedding,
	// [head][embed], and scalars the part that reads the group's scalars. The
	// head's width is padded with units of zeros to what the kernel takes.
	fold    []float32
	scalars f32.FoldedWeights
	// forward and backward are the rows of the head's last layer, and both their
	// sum.
	forward, backward, both []float32
	// launch is the fixed cost of an operation, in ms.
	launchForward, launchBackward float64
}

// The names of the compute net's tensors. The first layer's standardisation is
// stored beside the weights: a feature f enters as (f - mean) / deviation.
const (
	TensorMean      = "compute.mean"
	TensorDeviation = "compute.deviation"
	TensorTable0W   = "compute.table_mlp.0.weight"
	TensorTable0B   = "compute.table_mlp.0.bias"
	TensorTable1W   = "compute.table_mlp.1.weight"
	TensorTable1B   = "compute.table_mlp.1.bias"
	TensorHead0W    = "compute.head.0.weight"
	TensorHead1W    = "compute.head.1.weight"
)

func loadCompute(file *modelfile.Model) (computeNet, error) {
	spec := file.Manifest.Compute
	if spec.FeatureVersion != feature.Version || len(spec.Features) != feature.Width || len(spec.Scalars) != feature.ScalarCount {
		return computeNet{}, fmt.Errorf("model %q reads features %q (%d and %d scalars): this build computes %q (%d and %d); train it again",
			file.Manifest.ID, spec.FeatureVersion, len(spec.Features), len(spec.Scalars), feature.Version, feature.Width, feature.ScalarCount)
	}
	const limit = 4096
	if spec.Hidden < 1 || spec.Embed < 1 || spec.Head < 1 || spec.Hidden > limit || spec.Embed > limit || spec.Head > limit {
		return computeNet{}, fmt.Errorf("model %q: layer widths %d, %d, %d are not between 1 and %d", file.Manifest.ID, spec.Hidden, spec.Embed, spec.Head, limit)
	}
	for _, v := range []float64{spec.LaunchForwardMS, spec.LaunchBackwardMS} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return computeNet{}, fmt.Errorf("model %q: a fixed cost of %v ms is negative or not finite", file.Manifest.ID, v)
		}
	}
	n := computeNet{
		hidden: spec.Hidden, embed: spec.Embed, head: spec.Head,
		launchForward: spec.LaunchForwardMS, launchBackward: spec.LaunchBackwardMS,
	}
	var failed error
	get := func(name string, shape ...int) []float32 {
		data, err := file.Tensor(name, shape...)
		if err != nil && failed == nil {
			failed = err
		}
		return data
	}
	in := feature.Width
	mean, deviation := get(TensorMean, in), get(TensorDeviation, in)
	w0, b0 := get(TensorTable0W, n.hidden, in), get(TensorTable0B, n.hidden)
	w1, b1 := get(TensorTable1W, n.embed, n.hidden), get(TensorTable1B, n.embed)
	head0 := get(TensorHead0W, n.head, n.embed+feature.ScalarCount)
	head1 := get(TensorHead1W, 2, n.head)
	if failed != nil {
		return computeNet{}, failed
	}
	folded := make([]float32, len(w0))
	n.bias0 = make([]float32, n.hidden)
	for i := range n.hidden {
		bias := float64(b0[i])
		for j := range in {
			if !(deviation[j] > 0) {
				return computeNet{}, fmt.Errorf("model %q: tensor %q has a value that is not positive", file.Manifest.ID, TensorDeviation)
			}
			w := float64(w0[i*in+j]) / float64(deviation[j])
			folded[i*in+j] = float32(w)
			bias -= w * float64(mean[j])
			if math.Abs(w) > math.MaxFloat32 || math.Abs(bias) > math.MaxFloat32 {
				return computeNet{}, fmt.Errorf("model %q: tensor %q, feature %d: a deviation of %v is too small for its weights", file.Manifest.ID, TensorDeviation, j, deviation[j])
			}
		}
		n.bias0[i] = float32(bias)
	}
	n.layer0.Pack(true, in, n.hidden, folded, in)
	n.layer1.Pack(true, n.hidden, n.embed, w1, n.hidden)
	n.bias1 = b1
	units := (n.head + f32.IntLanes - 1) / f32.IntLanes * f32.IntLanes
	n.fold = make([]float32, units*n.embed)
	n.forward, n.backward, n.both = make([]float32, units), make([]float32, units), make([]float32, units)
	for k := range n.scalars.Scalars {
		n.scalars.Scalars[k] = make([]float32, units)
	}
	for i := range n.head {
		row := head0[i*(n.embed+feature.ScalarCount):][:n.embed+feature.ScalarCount]
		copy(n.fold[i*n.embed:], row[:n.embed])
		for k := range n.scalars.Scalars {
			n.scalars.Scalars[k][i] = row[n.embed+k]
		}
		n.forward[i], n.backward[i] = head1[i], head1[n.head+i]
		n.both[i] = n.forward[i] + n.backward[i]
	}
	n.head = units
	return n, nil
}

// embedding is a shard seen through the net for one lane class: its scale, and
// its contribution to the head's first layer.
type embedding struct {
	scale float64
	head  []float64
}

// embed computes the embedding of a column slice.
func (m *Model) embed(op problem.Operation, t feature.Table, dim int, lanes feature.Lanes, work *workspace) embedding {
	n := &m.compute
	work.grow(n)
	scale := feature.Vector(work.features, &m.hardware, op, t, dim, lanes)
	e := embedding{scale: scale, head: make([]float64, n.head)}
	if scale == 0 {
		return e
	}
	copy(work.hidden, n.bias0)
	n.layer0.MulAdd(false, 1, work.features, feature.Width, work.hidden, n.hidden)
	f32.ReLU(work.hidden)
	copy(work.embed, n.bias1)
	n.layer1.MulAdd(false, 1, work.hidden, n.hidden, work.embed, n.embed)
	f32.ReLU(work.embed)
	for i := range e.head {
		e.head[i] = scale * float64(f32.Dot(n.fold[i*n.embed:][:n.embed], work.embed))
	}
	return e
}

// workspace holds the vectors of one embedding in the making.
type workspace struct{ features, hidden, embed []float32 }

func (w *workspace) grow(n *computeNet) {
	if w.features == nil {
		w.features = make([]float32, feature.Width)
		w.hidden = make([]float32, n.hidden)
		w.embed = make([]float32, n.embed)
	}
}

// finite panics where a prediction is not a number: weights are checked when
// they are read and features are finite for every valid problem, so that only
// a bug gets here.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		panic("cost: prediction is not finite")
	}
	return v
}
