package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
)

// sequences is a batch for an LSTM, with a state to start from.
type sequences struct {
	steps, count int
	x            []float32
	reset        []bool
	state        LSTMState
}

func randomSequences(random *rand.Rand, net *LSTM, steps, count int) sequences {
	s := sequences{steps: steps, count: count, x: normal(random, steps*count*net.In()), state: net.NewState(count)}
	copy(s.state.H, normal(random, len(s.state.H)))
	copy(s.state.C, normal(random, len(s.state.C)))
	s.reset = make([]bool, steps*count)
	for i := range s.reset {
		s.reset[i] = random.IntN(4) == 0
	}
	return s
}

func (s sequences) stateAt() LSTMState {
	return LSTMState{H: slices.Clone(s.state.H), C: slices.Clone(s.state.C)}
}

// oracleLSTM runs one sequence after the other, in float64, from the formulas.
func oracleLSTM(net *LSTM, tensors map[string][]float64, x []float64, s sequences) (out, h, c []float64) {
	width := net.Hidden()
	out = make([]float64, s.steps*s.count*width)
	h, c = widen(s.state.H), widen(s.state.C)
	for sequence := range s.count {
		for step := range s.steps {
			row := step*s.count + sequence
			in := x[row*net.In() : (row+1)*net.In()]
			for layer := range net.Layers() {
				at := (layer*s.count + sequence) * width
				h, c := h[at:at+width], c[at:at+width]
				if s.reset != nil && s.reset[row] {
					clear(h)
					clear(c)
				}
				tensor := func(name string) []float64 { return tensors[fmt.Sprint(name, "_l", layer)] }
				gate, ih, hh := slices.Clone(tensor("bias_ih")), tensor("weight_ih"), tensor("weight_hh")
				for j, bias := range tensor("bias_hh") {
					gate[j] += bias
					for k, v := range in {
						gate[j] += ih[j*len(in)+k] * v
					}
					for k, v := range h {
						gate[j] += hh[j*width+k] * v
					}
				}
				squash := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
				for j := range width {
					c[j] = squash(gate[width+j])*c[j] + squash(gate[j])*math.Tanh(gate[2*width+j])
					h[j] = squash(gate[3*width+j]) * math.Tanh(c[j])
				}
				in = h
			}
			copy(out[row*width:], in)
		}
	}
	return out, h, c
}

func TestLSTM(t *testing.T) {
	for i, size := range []struct{ in, hidden, layers, steps, count int }{
		{3, 5, 1, 4, 2},
		{5, 4, 2, 7, 3}, // gates of 16 rows over 5 inputs: gradients are stored transposed
		{16, 4, 3, 4, 1},
	} {
		what := fmt.Sprintf("%+v", size)
		random := rand.New(rand.NewPCG(uint64(i), 31))
		net := must.Get(NewLSTM(size.in, size.hidden, size.layers))(t)
		copy(net.Weights(), normal(random, len(net.Weights())))
		in := randomSequences(random, net, size.steps, size.count)
		if i == 0 {
			in.reset = nil
		}
		out := normal(random, in.steps*in.count*net.Hidden())
		state := in.stateAt()
		var ws LSTMWorkspace
		net.Forward(&ws, in.steps, in.count, in.x, in.reset, state, out)
		want, h, c := oracleLSTM(net, byName(net.Params()), widen(in.x), in)
		near(t, what+", outputs", out, want)
		near(t, what+", last outputs", state.H, h)
		near(t, what+", last cells", state.C, c)

		// The same, step by step.
		state = in.stateAt()
		var frozen LSTMWorkspace
		net.Freeze(&frozen)
		for step := range in.steps {
			var reset []bool
			if in.reset != nil {
				reset = in.reset[step*in.count : (step+1)*in.count]
			}
			rows := in.x[step*in.count*net.In() : (step+1)*in.count*net.In()]
			one := make([]float32, in.count*net.Hidden())
			net.Forward(&frozen, 1, in.count, rows, reset, state, one)
			near(t, fmt.Sprintf("%s, step %d", what, step), one, want[step*len(one):(step+1)*len(one)])
		}

		// A frozen workspace sees new weights after the next Freeze.
		kept := net.Weights()[0]
		again := make([]float32, len(out))
		net.Forward(&frozen, in.steps, in.count, in.x, in.reset, in.stateAt(), again)
		near(t, what+", frozen", again, want)
		net.Weights()[0] = kept + 1
		net.Freeze(&frozen)
		net.Forward(&frozen, in.steps, in.count, in.x, in.reset, in.stateAt(), again)
		if slices.Equal(again, out) {
			t.Fatalf("%s: Freeze does not see new weights", what)
		}
		net.Weights()[0] = kept

		// The gradient by the weights and by the inputs.
		factor := normal(random, len(out))
		loss := func(tensors map[string][]float64) (sum float64) {
			out, _, _ := oracleLSTM(net, tensors, tensors["x"], in)
			for j, y := range out {
				sum += float64(factor[j]) * y * y / 2
			}
			return sum
		}
		dout := make([]float32, len(out))
		for j, y := range out {
			dout[j] = factor[j] * y
		}
		grad, dx := make([]float32, len(net.Weights())), normal(random, len(in.x))
		net.Backward(&ws, in.steps, in.count, in.x, in.reset, dout, grad, dx)
		shape := []int{len(in.x)}
		checkGradient(t, what, append(net.Params(), Tensor{"x", shape, in.x}), append(net.Named(grad), Tensor{"x", shape, dx}), loss)

		// Backward adds, and needs no dx.
		once := slices.Clone(grad)
		net.Backward(&ws, in.steps, in.count, in.x, in.reset, dout, grad, nil)
		for j := range grad {
			if got, want := float64(grad[j]), 2*float64(once[j]); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
				t.Fatalf("%s: second Backward: got %v, want %v", what, got, want)
			}
		}
	}
}

func TestLSTMParams(t *testing.T) {
	net := must.Get(NewLSTM(3, 2, 2))(t)
	var b strings.Builder
	for _, p := range net.Params() {
		fmt.Fprintf(&b, "%s %v %d\n", p.Name, p.Shape, len(p.Data))
	}
	if got, want := b.String(), `weight_ih_l0 [8 3] 24
weight_hh_l0 [8 2] 16
bias_ih_l0 [8] 8
bias_hh_l0 [8] 8
weight_ih_l1 [8 2] 16
weight_hh_l1 [8 2] 16
bias_ih_l1 [8] 8
bias_hh_l1 [8] 8
`; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for i := range net.Weights() {
		net.Weights()[i] = float32(i)
	}
	next := float32(0)
	for _, p := range net.Params() {
		for _, v := range p.Data {
			if v != next {
				t.Fatalf("%s: got weight %v, want %v: the tensors do not follow one another", p.Name, v, next)
			}
			next++
		}
	}
	net.InitUniform(1)
	if low, high := slices.Min(net.Weights()), slices.Max(net.Weights()); low < -0.7072 || high > 0.7072 || high-low < 1 {
		t.Errorf("weights lie in %v to %v, want most of -0.7071 to 0.7071", low, high)
	}
}

func TestLSTMBadSizes(t *testing.T) {
	_, err := NewLSTM(0, 1<<14, -1)
	for _, want := range []string{"width of the input is 0", "number of cells is 16384", "number of layers is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestClipNorm(t *testing.T) {
	a, b := []float32{3, 0}, []float32{-4}
	if got := ClipNorm(10, a, b); got != 5 || a[0] != 3 || b[0] != -4 {
		t.Errorf("below the limit: got norm %v and %v %v, want 5 and no change", got, a, b)
	}
	got := ClipNorm(2.5, a, b)
	if got != 5 || math.Abs(float64(a[0])-1.5) > 1e-5 || a[1] != 0 || math.Abs(float64(b[0])+2) > 1e-5 {
		t.Errorf("above the limit: got norm %v and %v %v, want 5, [1.5 0] and [-2]", got, a, b)
	}
	zero := []float32{0}
	if got := ClipNorm(1, zero); got != 0 || zero[0] != 0 {
		t.Errorf("of zeros: got norm %v and %v, want 0 and 0", got, zero)
	}
}
