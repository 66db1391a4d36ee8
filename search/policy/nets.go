package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/nn"
)

// Part is a net of a policy, an nn.MLP or an nn.LSTM, with the name that its tensors begin with.
type Part struct {
	Name string
	Net  interface {
		Weights() []float32
		Named(flat []float32) []nn.Tensor
		InitUniform(seed uint64)
	}
}

// Nets are all nets of a policy, in the order of its tensors.
type Nets []Part

// MLP returns a net of zero weights. The sizes are constants.
func MLP(sizes ...int) *nn.MLP {
	net, err := nn.NewMLP(sizes...)
	if err != nil {
		panic("policy: " + err.Error())
	}
	return net
}

// Named returns numbers of all weights, such as their gradients, by the names of the tensors. A net
// without numbers has no tensors.
func (n Nets) Named(flat [][]float32) []modelfile.Tensor {
	var all []modelfile.Tensor
	for i, p := range n {
		if flat[i] == nil {
			continue
		}
		for _, t := range p.Net.Named(flat[i]) {
			all = append(all, modelfile.Tensor{Name: p.Name + "." + t.Name, Shape: t.Shape, Data: t.Data})
		}
	}
	return all
}

// Tensors returns the weights, shared with the nets, as a Folder keeps them.
func (n Nets) Tensors() []modelfile.Tensor {
	flat := make([][]float32, len(n))
	for i, p := range n {
		flat[i] = p.Net.Weights()
	}
	return n.Named(flat)
}

// Load sets the weights to those of a folder of the method. The error names every tensor that is
// missing or of another shape.
func (n Nets) Load(f *Folder, method string) error {
	if f.Manifest.Method != method {
		return fmt.Errorf("policy %q is one of method %q, not %q", f.Manifest.ID, f.Manifest.Method, method)
	}
	var faults []error
	want := n.Tensors()
	for _, t := range want {
		data, err := modelfile.Find(f.Tensors, t.Name, t.Shape...)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		copy(t.Data, data)
	}
	if len(faults) == 0 && len(f.Tensors) != len(want) {
		faults = append(faults, fmt.Errorf("%d tensors, want %d", len(f.Tensors), len(want)))
	}
	if len(faults) > 0 {
		return fmt.Errorf("policy %q: %w", f.Manifest.ID, errors.Join(faults...))
	}
	return nil
}

// Gradients returns a gradient of zeros for each net.
func (n Nets) Gradients() [][]float32 {
	grads := make([][]float32, len(n))
	for i, p := range n {
		grads[i] = make([]float32, len(p.Net.Weights()))
	}
	return grads
}

// Optimizer moves the weights of nets by Adam.
type Optimizer struct {
	nets Nets
	adam []*nn.Adam
}

// NewOptimizer returns an optimizer that has made no step.
func NewOptimizer(n Nets) *Optimizer {
	o := &Optimizer{nets: n}
	for range n {
		o.adam = append(o.adam, nn.NewAdam(0))
	}
	return o
}

// Step moves the weights against gradients at the given rate. A net whose gradient is nil stays, and
// so do its moments, as in PyTorch.
func (o *Optimizer) Step(rate float64, grads [][]float32) {
	for i, g := range grads {
		if g != nil {
			o.adam[i].LR = rate
			o.adam[i].Step(o.nets[i].Net.Weights(), g)
		}
	}
}

// Choose returns the device of room with the largest logit, the first of equal ones, or, if random
// is not nil, one drawn by the softmax of the logits of room.
func Choose(logits []float32, room []int32, random *rand.Rand) int32 {
	best := room[0]
	for _, d := range room[1:] {
		if logits[d] > logits[best] {
			best = d
		}
	}
	if random == nil {
		return best
	}
	chance := func(d int32) float64 { return math.Exp(float64(logits[d]) - float64(logits[best])) }
	sum := 0.0
	for _, d := range room {
		sum += chance(d)
	}
	draw := random.Float64() * sum
	for _, d := range room {
		if draw -= chance(d); draw < 0 {
			return d
		}
	}
	return best // rounding
}

// Falling returns the pieces by falling costs. Equal ones keep their order.
func Falling[T cmp.Ordered](costs []T) []int32 {
	order := make([]int32, len(costs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(costs[b], costs[a]) })
	return order
}

// Moments returns the mean of a feature and its population standard deviation, which is 0 if the
// values differ by no more than rounding errors.
func Moments(vectors []Vector, feature int) (mean, deviation float64) {
	n := float64(len(vectors))
	for _, v := range vectors {
		mean += v[feature] / n
	}
	for _, v := range vectors {
		deviation += (v[feature] - mean) * (v[feature] - mean) / n
	}
	if deviation = math.Sqrt(deviation); deviation <= 1e-9*math.Abs(mean) {
		deviation = 0
	}
	return mean, deviation
}

// Grow returns a slice of length n, in the memory of s if that is large enough. Its content is
// undefined.
func Grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}
