package nn

import (
	"errors"
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/internal/f32"
)

// LSTM is a recurrent net of several layers of long short-term memory cells
// (Hochreiter and Schmidhuber 1997, with a forget gate). In each layer, with the
// input x, the layer's last output h and its cell c:
//
//	i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of W_ih x + b_ih + W_hh h + b_hh
//	c = f c + i g
//	h = o tanh(c)
//
// The input of the first layer is the input of the net, and that of every other
// layer is the output of the layer before. As in PyTorch, the rows of the weights
// are those of the gates i, f, g and o, in this order, both biases are added, and
// the tensors of layer n are named "weight_ih_ln", "weight_hh_ln", "bias_ih_ln"
// and "bias_hh_ln". Many goroutines may use an LSTM at the same time, each with
// its own workspace, while none writes to the weights.
type LSTM struct {
	in, hidden int
	stack      stack // each layer's W_ih and W_hh, as two layers of the stack
	flat       []float32
}

// gates is the number of gates of a cell.
const gates = 4

// NewLSTM returns a net whose weights are zero, for inputs of width in, with
// layers of hidden cells. The error names every number that is out of range.
func NewLSTM(in, hidden, layers int) (*LSTM, error) {
	var problems []error
	for _, size := range []struct {
		name        string
		value, most int
	}{{"width of the input", in, maxWidth}, {"number of cells", hidden, maxWidth / gates}, {"number of layers", layers, maxLayers}} {
		if size.value < 1 || size.value > size.most {
			problems = append(problems, fmt.Errorf("lstm: the %s is %d: use 1 to %d", size.name, size.value, size.most))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	net := &LSTM{in: in, hidden: hidden}
	for range layers {
		// PyTorch's order: both weights, then both biases.
		s, out := &net.stack, gates*hidden
		input := linear{in: in, out: out, weight: s.size, bias: s.size + (in+hidden)*out}
		own := linear{in: hidden, out: out, weight: input.weight + in*out, bias: input.bias + out}
		input.turned = in%kernelColumns != 0 && out%kernelColumns == 0
		own.turned = hidden%kernelColumns != 0 && out%kernelColumns == 0
		s.layers = append(s.layers, input, own)
		s.size = own.bias + out
		in = hidden
	}
	net.flat = make([]float32, net.stack.size)
	return net, nil
}

// maxLayers is the largest number of layers of an LSTM.
const maxLayers = 64

// In is the width of the input.
func (net *LSTM) In() int { return net.in }

// Hidden is the number of cells of a layer, and the width of the output.
func (net *LSTM) Hidden() int { return net.hidden }

// Layers is the number of layers.
func (net *LSTM) Layers() int { return len(net.stack.layers) / 2 }

// Weights returns all weights, shared with the net, in the order of Params.
func (net *LSTM) Weights() []float32 { return net.flat }

// Params returns the weights as named tensors, shared with the net.
func (net *LSTM) Params() []Tensor { return net.Named(net.flat) }

// Named cuts a slice with the layout of Weights, such as a gradient, into the
// tensors of Params.
func (net *LSTM) Named(flat []float32) []Tensor {
	need("an LSTM's weights", len(flat), net.stack.size)
	var tensors []Tensor
	for i := range net.Layers() {
		input, own := net.layer(i)
		tensors = append(tensors,
			Tensor{fmt.Sprintf("weight_ih_l%d", i), []int{input.out, input.in}, input.w(flat)},
			Tensor{fmt.Sprintf("weight_hh_l%d", i), []int{own.out, own.in}, own.w(flat)},
			Tensor{fmt.Sprintf("bias_ih_l%d", i), []int{input.out}, input.b(flat)},
			Tensor{fmt.Sprintf("bias_hh_l%d", i), []int{own.out}, own.b(flat)})
	}
	return tensors
}

// InitUniform draws weights and biases as PyTorch's LSTM does: uniformly within
// 1/sqrt(cells of a layer). The same seed gives the same weights.
func (net *LSTM) InitUniform(seed uint64) {
	random := initRandom(seed)
	bound := 1 / math.Sqrt(float64(net.hidden))
	for i := range net.flat {
		net.flat[i] = float32((2*random.Float64() - 1) * bound)
	}
}

// layer returns the two products of a layer: that of the input and that of the
// layer's own last output.
func (net *LSTM) layer(i int) (input, own linear) {
	return net.stack.layers[2*i], net.stack.layers[2*i+1]
}

// LSTMState is what an LSTM remembers of several sequences between two calls of
// Forward.
type LSTMState struct {
	H []float32 // outputs, layers x sequences x Hidden
	C []float32 // cells, of the same shape
}

// NewState returns the state of sequences that are about to begin: zeros.
func (net *LSTM) NewState(sequences int) LSTMState {
	n := net.Layers() * sequences * net.hidden
	return LSTMState{H: make([]float32, n), C: make([]float32, n)}
}

// LSTMWorkspace is the memory that an LSTM's methods work in. It also keeps what
// Backward needs of Forward. The zero value is ready to use. One goroutine at a
// time may use it.
type LSTMWorkspace struct {
	forward, back []f32.Packed
	frozen        bool // the packs of forward stay as they are: Freeze
	scratch       f32.Packed
	layers        []lstmLayer
	own           []float32 // the product of a step with W_hh
	dx            []float32 // of a layer's inputs
	dh, dc        []float32
	grad, flat    []float32
}

// lstmLayer holds the activations of one layer: steps x sequences rows each.
type lstmLayer struct {
	h, c           []float32 // the outputs and cells after each step
	lastH, lastC   []float32 // the outputs and cells before each step, after resets
	gates, squeeze []float32 // the values of the gates, and tanh of the cells
	dGates         []float32
}

// Forward runs all sequences for a number of steps. x is steps x sequences x In,
// and out, steps x sequences x Hidden, is overwritten by the outputs of the last
// layer. Where reset, steps x sequences, is true, the sequence starts anew: its
// state becomes zero before the step. A nil reset resets nothing. state holds the
// state before the first step and is overwritten by the state after the last.
func (net *LSTM) Forward(ws *LSTMWorkspace, steps, sequences int, x []float32, reset []bool, state LSTMState, out []float32) {
	rows, width := steps*sequences, sequences*net.hidden
	need("x", len(x), rows*net.in)
	need("out", len(out), rows*net.hidden)
	need("state.H", len(state.H), net.Layers()*width)
	need("state.C", len(state.C), net.Layers()*width)
	if reset != nil {
		need("reset", len(reset), rows)
	}
	if !ws.frozen {
		ws.fit(net)
	}
	ws.own = grow(ws.own, gates*width)
	for i := range net.Layers() {
		input, own := net.layer(i)
		layer := &ws.layers[i]
		layer.fit(rows, net.hidden)
		input.forward(&ws.forward[2*i], net.flat, rows, x, layer.gates)
		h, c := state.H[i*width:(i+1)*width], state.C[i*width:(i+1)*width]
		for step := range steps {
			one := layer.step(step, width)
			copy(one.lastH, h)
			copy(one.lastC, c)
			if reset != nil {
				net.clear(reset[step*sequences:(step+1)*sequences], one.lastH, one.lastC)
			}
			own.forward(&ws.forward[2*i+1], net.flat, sequences, one.lastH, ws.own)
			f32.Add(one.gates, ws.own)
			one.advance(net.hidden)
			h, c = one.h, one.c
		}
		copy(state.H[i*width:], h)
		copy(state.C[i*width:], c)
		x = layer.h
	}
	copy(out, x)
}

// Freeze packs the weights once, so that each Forward with the workspace needs less
// work. After a change of the weights, the caller calls Freeze again before the next
// Forward.
func (net *LSTM) Freeze(ws *LSTMWorkspace) {
	ws.fit(net)
	ws.frozen = true
}

// clear sets the rows of the sequences that are reset to zero.
func (net *LSTM) clear(reset []bool, rows ...[]float32) {
	for sequence, yes := range reset {
		if yes {
			for _, r := range rows {
				clear(r[sequence*net.hidden : (sequence+1)*net.hidden])
			}
		}
	}
}

// Backward adds the gradient of a loss to grad, which has the layout of Weights.
// dout, steps x sequences x Hidden, is the derivative of the loss by the outputs.
// Backward overwrites dx, which has the shape of x, with the derivative by the
// inputs, if dx is not nil. No gradient goes into the first state. Before
// Backward, the caller calls Forward with the same workspace, inputs, resets and
// weights.
func (net *LSTM) Backward(ws *LSTMWorkspace, steps, sequences int, x []float32, reset []bool, dout, grad, dx []float32) {
	rows := steps * sequences
	need("x", len(x), rows*net.in)
	need("dout", len(dout), rows*net.hidden)
	need("grad", len(grad), net.stack.size)
	if dx != nil {
		need("dx", len(dx), rows*net.in)
	}
	if len(ws.layers) != net.Layers() || len(ws.layers[0].h) != rows*net.hidden {
		panic("nn: Backward does not follow a Forward with the same input")
	}
	ws.fitBack(net)
	ws.grad = grow(ws.grad, net.stack.size)
	clear(ws.grad)
	for i := net.Layers() - 1; i >= 0; i-- {
		input, own := net.layer(i)
		layer := &ws.layers[i]
		net.backThroughTime(ws, i, steps, sequences, reset, dout)
		from := x
		if i > 0 {
			from = ws.layers[i-1].h
		}
		input.gradient(&ws.scratch, ws.grad, rows, layer.dGates, from)
		own.gradient(&ws.scratch, ws.grad, rows, layer.dGates, layer.lastH)
		if i > 0 {
			ws.dx = grow(ws.dx, rows*net.hidden)
			input.back(&ws.back[2*i], rows, layer.dGates, ws.dx)
			dout = ws.dx
		} else if dx != nil {
			input.back(&ws.back[0], rows, layer.dGates, dx)
		}
	}
	ws.flat = net.stack.straighten(ws.grad, ws.flat)
	f32.Add(grad, ws.grad)
}

// backThroughTime sets the derivatives by one layer's gates before their
// sigmoids and tanh, from the derivative by the layer's outputs.
func (net *LSTM) backThroughTime(ws *LSTMWorkspace, i, steps, sequences int, reset []bool, dout []float32) {
	_, own := net.layer(i)
	width := sequences * net.hidden
	ws.dh, ws.dc = grow(ws.dh, width), grow(ws.dc, width)
	clear(ws.dh)
	clear(ws.dc)
	for step := steps - 1; step >= 0; step-- {
		one := ws.layers[i].step(step, width)
		f32.Add(ws.dh, dout[step*width:(step+1)*width])
		one.retreat(net.hidden, ws.dh, ws.dc)
		if step == 0 {
			break
		}
		own.back(&ws.back[2*i+1], sequences, one.dGates, ws.dh)
		if reset != nil {
			net.clear(reset[step*sequences:(step+1)*sequences], ws.dh, ws.dc)
		}
	}
}

func (ws *LSTMWorkspace) fit(net *LSTM) {
	if len(ws.layers) != net.Layers() {
		ws.layers = make([]lstmLayer, net.Layers())
		ws.forward, ws.back = make([]f32.Packed, len(net.stack.layers)), make([]f32.Packed, len(net.stack.layers))
	}
	for i, l := range net.stack.layers {
		l.packForward(&ws.forward[i], net.flat)
	}
}

func (ws *LSTMWorkspace) fitBack(net *LSTM) {
	for i, l := range net.stack.layers {
		l.packBack(&ws.back[i], net.flat)
	}
}

func (l *lstmLayer) fit(rows, hidden int) {
	for _, s := range []*[]float32{&l.h, &l.c, &l.lastH, &l.lastC, &l.squeeze} {
		*s = grow(*s, rows*hidden)
	}
	l.gates, l.dGates = grow(l.gates, rows*gates*hidden), grow(l.dGates, rows*gates*hidden)
}

// step returns the rows of one step, whose outputs hold width values.
func (l *lstmLayer) step(step, width int) lstmLayer {
	lo, hi := step*width, (step+1)*width
	return lstmLayer{
		h: l.h[lo:hi], c: l.c[lo:hi], lastH: l.lastH[lo:hi], lastC: l.lastC[lo:hi], squeeze: l.squeeze[lo:hi],
		gates: l.gates[gates*lo : gates*hi], dGates: l.dGates[gates*lo : gates*hi],
	}
}

// advance replaces the sums of the gates by their values, and sets the cells and
// outputs of the step.
func (l *lstmLayer) advance(hidden int) {
	for row := range len(l.h) / hidden {
		at := row * hidden
		input, forget, fresh, output := cut(l.gates[gates*at:], hidden)
		for j := range hidden {
			input[j], forget[j], output[j] = sigmoid(input[j]), sigmoid(forget[j]), sigmoid(output[j])
			fresh[j] = tanh(fresh[j])
			l.c[at+j] = forget[j]*l.lastC[at+j] + input[j]*fresh[j]
			l.squeeze[at+j] = tanh(l.c[at+j])
			l.h[at+j] = output[j] * l.squeeze[at+j]
		}
	}
}

// retreat sets dGates from the derivatives by the step's outputs and cells. It
// overwrites dc with the derivative by the cells before the step.
func (l *lstmLayer) retreat(hidden int, dh, dc []float32) {
	for row := range len(l.h) / hidden {
		at := row * hidden
		input, forget, fresh, output := cut(l.gates[gates*at:], hidden)
		dInput, dForget, dFresh, dOutput := cut(l.dGates[gates*at:], hidden)
		for j := range hidden {
			squeeze := l.squeeze[at+j]
			d := dc[at+j] + dh[at+j]*output[j]*(1-squeeze*squeeze)
			dOutput[j] = dh[at+j] * squeeze * output[j] * (1 - output[j])
			dInput[j] = d * fresh[j] * input[j] * (1 - input[j])
			dForget[j] = d * l.lastC[at+j] * forget[j] * (1 - forget[j])
			dFresh[j] = d * input[j] * (1 - fresh[j]*fresh[j])
			dc[at+j] = d * forget[j]
		}
	}
}

// cut returns the four gates of a row of hidden cells.
func cut(row []float32, hidden int) (input, forget, fresh, output []float32) {
	return row[:hidden], row[hidden : 2*hidden], row[2*hidden : 3*hidden], row[3*hidden : 4*hidden]
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

func tanh(x float32) float32 { return float32(math.Tanh(float64(x))) }

// ClipNorm scales gradients down so that the root of the sum of all their squares
// is at most limit, as PyTorch's clip_grad_norm_ does, and returns that root
// before the scaling.
func ClipNorm(limit float64, grads ...[]float32) float64 {
	var sum float64
	for _, grad := range grads {
		for _, g := range grad {
			sum += float64(g) * float64(g)
		}
	}
	norm := math.Sqrt(sum)
	// PyTorch adds 1e-6, which keeps a norm of 0 from dividing.
	if factor := float32(limit / (norm + 1e-6)); factor < 1 {
		for _, grad := range grads {
			for i := range grad {
				grad[i] *= factor
			}
		}
	}
	return norm
}
