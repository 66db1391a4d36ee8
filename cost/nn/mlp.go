package nn

import (
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard/internal/f32"
)

// MLP is a stack of layers with biases, with a ReLU after every layer except the
// last, and after the last one, too, if RectifyLast was called. Its tensors are named
// "0.weight", "0.bias", "2.weight" and so on, as in PyTorch's Sequential(Linear, ReLU, Linear, ...). Many goroutines may use an MLP
// at the same time, each with its own workspace, while none writes to the
// weights.
type MLP struct {
	stack stack
	flat  []float32
	// rectified says that a ReLU follows the last layer, too.
	rectified bool
}

// RectifyLast adds a ReLU after the last layer, and returns the net. The caller calls it
// before the first Forward.
func (net *MLP) RectifyLast() *MLP {
	net.rectified = true
	return net
}

// NewMLP returns a net whose weights are zero. sizes holds the width of the
// input, of each hidden layer, and of the output: at least two numbers, each
// 1 to 16,384. The error names every number that is out of range.
func NewMLP(sizes ...int) (*MLP, error) {
	var problems []error
	if len(sizes) < 2 {
		problems = append(problems, fmt.Errorf("mlp: %d sizes: give at least the sizes of the input and of the output", len(sizes)))
	}
	for i, size := range sizes {
		if size < 1 || size > maxWidth {
			problems = append(problems, fmt.Errorf("mlp: size %d is %d: use 1 to %d", i, size, maxWidth))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	net := &MLP{}
	for i, in := range sizes[:len(sizes)-1] {
		net.stack.add(fmt.Sprint(2*i), in, sizes[i+1], true)
	}
	net.flat = make([]float32, net.stack.size)
	return net, nil
}

// In is the width of the input.
func (net *MLP) In() int { return net.stack.layers[0].in }

// Out is the width of the output.
func (net *MLP) Out() int { return net.stack.layers[len(net.stack.layers)-1].out }

// Weights returns all weights, shared with the net, in the order of Params.
func (net *MLP) Weights() []float32 { return net.flat }

// Params returns the weights as named tensors, shared with the net.
func (net *MLP) Params() []Tensor { return net.stack.named(net.flat) }

// Named cuts a slice with the layout of Weights, such as a gradient, into the
// tensors of Params.
func (net *MLP) Named(flat []float32) []Tensor { return net.stack.named(flat) }

// Init draws the weights: He initialisation, zero biases. The same seed gives
// the same weights.
func (net *MLP) Init(seed uint64) { net.stack.initialise(net.flat, seed) }

// InitUniform draws weights and biases as PyTorch's Linear does: uniformly
// within 1/sqrt(inputs of the layer). The same seed gives the same weights.
func (net *MLP) InitUniform(seed uint64) { net.stack.initialiseUniform(net.flat, seed) }

// MLPWorkspace is the memory that an MLP's methods work in. It also keeps the
// activations of Forward for Backward. The zero value is ready to use. One
// goroutine at a time may use it.
type MLPWorkspace struct {
	packs   mlpPacks
	frozen  bool // the packs stay as they are: Freeze
	scratch f32.Packed
	act     [][]float32 // the input of each layer but the first, after the ReLU
	last    []float32   // the output after RectifyLast

	dUp, dOwn  []float32
	grad, flat []float32
}

// Freeze packs the weights once, so that each Forward with the workspace needs less work.
// After a change of the weights, the caller calls Freeze again before the next Forward. The
// workspace stays bound to the net.
func (net *MLP) Freeze(ws *MLPWorkspace) {
	ws.packs.fitForward(net)
	ws.frozen = true
}

// Share makes the workspace use the packed weights of another one that Freeze packed.
// Several goroutines can then run a frozen net, each with its own workspace.
func (ws *MLPWorkspace) Share(frozen *MLPWorkspace) {
	ws.packs, ws.frozen = mlpPacks{forward: frozen.packs.forward}, true
}

// mlpPacks are the weights, packed for matrix products. Many goroutines may read
// them at the same time.
type mlpPacks struct{ forward, back []f32.Packed }

func (p *mlpPacks) fitForward(net *MLP) {
	if len(p.forward) != len(net.stack.layers) {
		p.forward = make([]f32.Packed, len(net.stack.layers))
	}
	for i, l := range net.stack.layers {
		l.packForward(&p.forward[i], net.flat)
	}
}

func (p *mlpPacks) fitBack(net *MLP) {
	if len(p.back) != len(net.stack.layers) {
		p.back = make([]f32.Packed, len(net.stack.layers))
	}
	for i, l := range net.stack.layers[1:] {
		l.packBack(&p.back[i+1], net.flat)
	}
}

// fitInput packs what the derivative by the inputs needs, after fitBack.
func (p *mlpPacks) fitInput(net *MLP) { net.stack.layers[0].packBack(&p.back[0], net.flat) }

// Forward predicts n rows: x is n x In, and out, n x Out, is overwritten.
func (net *MLP) Forward(ws *MLPWorkspace, n int, x, out []float32) {
	need("x", len(x), n*net.In())
	need("out", len(out), n*net.Out())
	if !ws.frozen {
		ws.packs.fitForward(net)
	}
	net.forward(ws, &ws.packs, n, x, out)
}

func (net *MLP) forward(ws *MLPWorkspace, packs *mlpPacks, n int, x, out []float32) {
	layers := net.stack.layers
	last := len(layers) - 1
	if len(ws.act) < last {
		ws.act = make([][]float32, last)
	}
	for i, l := range layers[:last] {
		ws.act[i] = grow(ws.act[i], n*l.out)
		l.rectified(&packs.forward[i], net.flat, n, x, ws.act[i])
		x = ws.act[i]
	}
	if !net.rectified {
		layers[last].forward(&packs.forward[last], net.flat, n, x, out)
		return
	}
	ws.last = grow(ws.last, n*net.Out())
	layers[last].rectified(&packs.forward[last], net.flat, n, x, ws.last)
	copy(out, ws.last)
}

// Backward adds the gradient of a loss to grad, which has the layout of Weights.
// dout (n x Out) is the derivative of the loss by the outputs. Before Backward,
// the caller calls Forward with the same workspace, input and weights.
func (net *MLP) Backward(ws *MLPWorkspace, n int, x, dout, grad []float32) {
	net.BackwardInput(ws, n, x, dout, grad, nil)
}

// BackwardInput is Backward, and sets dx (n x In) to the derivative of the loss by the
// inputs. A nil dx leaves that work out.
func (net *MLP) BackwardInput(ws *MLPWorkspace, n int, x, dout, grad, dx []float32) {
	need("x", len(x), n*net.In())
	need("dout", len(dout), n*net.Out())
	need("grad", len(grad), net.stack.size)
	layers := net.stack.layers
	if len(layers) > 1 && (len(ws.act) < len(layers)-1 || len(ws.act[0]) != n*layers[0].out) {
		panic("nn: Backward does not follow a Forward with the same input")
	}
	ws.packs.fitBack(net)
	ws.grad = grow(ws.grad, net.stack.size)
	clear(ws.grad)
	first := net.backward(ws, &ws.packs, n, x, dout, ws.grad)
	if dx != nil {
		need("dx", len(dx), n*net.In())
		ws.packs.fitInput(net)
		layers[0].back(&ws.packs.back[0], n, first, dx)
	}
	ws.flat = net.stack.straighten(ws.grad, ws.flat)
	f32.Add(grad, ws.grad)
}

// backward adds the gradient to grad, in the layout of linear.gradient. It returns the
// derivative of the loss by the outputs of the first layer before its ReLU.
func (net *MLP) backward(ws *MLPWorkspace, packs *mlpPacks, n int, x, dout, grad []float32) []float32 {
	layers := net.stack.layers
	dy := dout
	if net.rectified {
		ws.dUp = grow(ws.dUp, n*net.Out())
		copy(ws.dUp, dout)
		f32.Mask(ws.dUp, ws.last)
		dy = ws.dUp
	}
	for i := len(layers) - 1; i > 0; i-- {
		l, act := layers[i], ws.act[i-1]
		l.gradient(&ws.scratch, grad, n, dy, act)
		ws.dOwn = grow(ws.dOwn, n*l.in)
		l.backMasked(&packs.back[i], n, dy, act, ws.dOwn)
		dy = ws.dOwn
		ws.dUp, ws.dOwn = ws.dOwn, ws.dUp
	}
	layers[0].gradient(&ws.scratch, grad, n, dy, x)
	return dy
}
