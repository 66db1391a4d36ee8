// Package nn provides the nets that cost models and learned policies are made of:
// SetNet, which maps a set of vectors to a few numbers (set.go), MLP, a plain
// stack of layers (mlp.go), and LSTM, which reads a sequence (lstm.go).
//
// The usual steps: NewSetNet and Init make a net. NewSetTrainer makes a trainer;
// call its Step once for each minibatch with a loss function. Step computes the
// gradient on several goroutines and lets Adam change the weights (train.go).
// Params names the weights for a file. Forward predicts.
//
//	net, err := nn.NewSetNet(nn.SetConfig{In: 50, Hidden: 128, Embed: 32, Head: 64, Out: 2, Biases: true})
//	net.Init(1)
//	trainer := nn.NewSetTrainer(net, 16, runtime.NumCPU())
//	adam := nn.NewAdam(1e-3)
//	for ... {
//		loss := trainer.Step(minibatch, adam, lossFunc)
//	}
//
// All of a net's weights lie in one slice, Weights, and a gradient is a slice
// of the same layout. Each layer's weight is [out][in], as PyTorch has it, and
// its bias follows; Params cuts such a slice into named tensors.
//
// The same weights and input give the same bytes, for any number of workers: the
// gradient of a minibatch is summed over a fixed number of chunks, in their
// order. Inputs must be finite; the package does not check for NaN.
package nn

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/internal/f32"
)

// Tensor is a named view of some of a net's weights, or of their gradient.
type Tensor struct {
	Name  string    // as PyTorch names it, such as "table_mlp.0.weight"
	Shape []int     // {out, in} for a weight, {out} for a bias
	Data  []float32 // row-major; shared with the net, so writing to it changes the net
}

// tileRows is the number of rows that go through the layers at a time. The
// activations of this number of rows stay in the second-level cache, and the
// number is a multiple of the micro-kernel's rows.
const tileRows = 192

// linear is one layer y = x W^T + b, whose weight and bias are parts of a flat
// slice of weights.
type linear struct {
	name    string
	in, out int
	weight  int // offset of the weight, out x in
	bias    int // offset of the bias, or -1 for none

	// turned is true if the method gradient stores the weight's gradient as in x
	// out, because only out is a multiple of kernelColumns; see straighten.
	turned bool
}

// kernelColumns is the number of columns that the kernels take at a time.
const kernelColumns = 16

// stack is a list of layers whose weights lie one after the other in a flat slice
// of length size.
type stack struct {
	layers []linear
	size   int
}

func (s *stack) add(name string, in, out int, bias bool) linear {
	l := linear{name: name, in: in, out: out, weight: s.size, bias: -1}
	l.turned = in%kernelColumns != 0 && out%kernelColumns == 0
	s.size += in * out
	if bias {
		l.bias = s.size
		s.size += out
	}
	s.layers = append(s.layers, l)
	return l
}

// named cuts a flat slice of weights or of a gradient into tensors.
func (s *stack) named(flat []float32) []Tensor {
	if len(flat) != s.size {
		panic(fmt.Sprintf("nn: %d values for a net of %d weights", len(flat), s.size))
	}
	var tensors []Tensor
	for _, l := range s.layers {
		tensors = append(tensors, Tensor{l.name + ".weight", []int{l.out, l.in}, l.w(flat)})
		if l.bias >= 0 {
			tensors = append(tensors, Tensor{l.name + ".bias", []int{l.out}, l.b(flat)})
		}
	}
	return tensors
}

// initialise draws weights from a normal distribution. The deviation is
// sqrt(2/in) in a layer before a ReLU (He et al., arXiv:1502.01852, equation 10)
// and sqrt(1/in) in the last layer, which has no ReLU. Biases are zero.
func (s *stack) initialise(flat []float32, seed uint64) {
	random := initRandom(seed)
	for i, l := range s.layers {
		gain := 2.0
		if i == len(s.layers)-1 {
			gain = 1
		}
		deviation := math.Sqrt(gain / float64(l.in))
		for j := range l.w(flat) {
			l.w(flat)[j] = float32(random.NormFloat64() * deviation)
		}
		if l.bias >= 0 {
			clear(l.b(flat))
		}
	}
}

// initialiseUniform draws weights and biases between -1/sqrt(in) and
// 1/sqrt(in), as PyTorch's Linear does by default.
func (s *stack) initialiseUniform(flat []float32, seed uint64) {
	random := initRandom(seed)
	for _, l := range s.layers {
		bound := 1 / math.Sqrt(float64(l.in))
		for _, values := range [][]float32{l.w(flat), l.b(flat)} {
			for j := range values {
				values[j] = float32((2*random.Float64() - 1) * bound)
			}
		}
	}
}

func initRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x6e65745f696e6974)) }

// straighten brings a gradient from linear.gradient into the layout of the
// weights. It uses scratch, and returns it, grown if it was too short.
func (s *stack) straighten(grad, scratch []float32) []float32 {
	for _, l := range s.layers {
		if !l.turned {
			continue
		}
		w := l.w(grad)
		scratch = grow(scratch, len(w))
		copy(scratch, w)
		for o := range l.out {
			for i := range l.in {
				w[o*l.in+i] = scratch[i*l.out+o]
			}
		}
	}
	return scratch
}

func (l linear) w(flat []float32) []float32 {
	return flat[l.weight : l.weight+l.in*l.out : l.weight+l.in*l.out]
}

func (l linear) b(flat []float32) []float32 {
	if l.bias < 0 {
		return nil
	}
	return flat[l.bias : l.bias+l.out : l.bias+l.out]
}

// forward sets y to x W^T + b for n rows. p holds W^T, packed.
func (l linear) forward(p *f32.Packed, flat []float32, n int, x, y []float32) {
	y = y[:n*l.out]
	if l.bias >= 0 {
		f32.FillRows(y, l.b(flat))
	} else {
		clear(y)
	}
	p.MulAdd(false, n, x, l.in, y, l.out)
}

// rectified sets y to max(0, x W^T + b) for n rows. p holds W^T, packed.
func (l linear) rectified(p *f32.Packed, flat []float32, n int, x, y []float32) {
	if l.bias < 0 {
		l.forward(p, flat, n, x, y)
		f32.ReLU(y[:n*l.out])
		return
	}
	p.Rectify(n, x, l.in, l.b(flat), y, l.out)
}

// packForward makes W^T ready for forward.
func (l linear) packForward(p *f32.Packed, flat []float32) {
	p.Pack(true, l.in, l.out, l.w(flat), l.in)
}

// packBack makes W ready for back.
func (l linear) packBack(p *f32.Packed, flat []float32) {
	p.Pack(false, l.out, l.in, l.w(flat), l.in)
}

// back sets dx to dy W for n rows. p holds W, packed.
func (l linear) back(p *f32.Packed, n int, dy, dx []float32) {
	dx = dx[:n*l.in]
	clear(dx)
	p.MulAdd(false, n, dy, l.out, dx, l.in)
}

// backMasked does back, and then the backward of the ReLU whose output was act:
// dx is zero where act is zero.
func (l linear) backMasked(p *f32.Packed, n int, dy, act, dx []float32) {
	p.MulMask(n, dy, l.out, act, dx, l.in)
}

// gradient adds dy^T x to the weight's gradient and the sum of dy's rows to the
// bias's gradient, over n rows. p is scratch. If the layer is turned, gradient
// stores the transpose of the weight's gradient.
func (l linear) gradient(p *f32.Packed, grad []float32, n int, dy, x []float32) {
	if l.turned {
		f32.Outer(p, l.in, l.out, n, x, l.in, dy, l.out, l.w(grad), l.out)
	} else {
		f32.Outer(p, l.out, l.in, n, dy, l.out, x, l.in, l.w(grad), l.in)
	}
	if l.bias >= 0 {
		f32.SumRows(l.b(grad), dy[:n*l.out])
	}
}

// grow returns a slice of length n, in the memory of s if that is large enough.
// The content of the slice is undefined.
func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// need panics if the length of a slice is not the length that its method wants.
func need(what string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("nn: %s holds %d values, want %d", what, got, want))
	}
}
