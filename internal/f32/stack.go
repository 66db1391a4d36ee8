package f32

import "math"

// A stack of small layers of rectified units, for one vector at a time. The
// weights are stored input by input, and 8 to 64 outputs are summed at once, in
// registers. About half of a rectified layer's outputs are zero, and a zero
// input needs none of its weights: of a long input only the rows of the elements
// above zero are read. A short input is read whole, which needs no list and which the
// processor can predict.
//
//	listed inputs   weights, one row an input       outputs
//	     0  ------> [ w(0,0)  w(0,1)  ...  ]  \
//	     3  ------> [ w(3,0)  w(3,1)  ...  ]   +--> bias + sums, rectified,
//	     4  ------> [ w(4,0)  w(4,1)  ...  ]  /     and the list of those above 0
//
// The twin runs the whole stack in one call, as a list of steps: one for every
// panel of outputs, and one to list the elements of a long vector.

// Columns is a layer's matrix and biases, stored input by input. Many goroutines may
// read it at the same time.
type Columns struct {
	in, out int
	panels  []columnPanel
}

// columnPanel holds the weights to 8, 16, 32 or 64 outputs, with columnsAhead
// more rows of zeros. Missing outputs have weights and biases of zero.
type columnPanel struct {
	first, width  int
	weights, bias []float32
}

const (
	widestPanel = 64
	// listedFrom is the length from which a vector is worth a list.
	listedFrom = 96
	// columnsAhead is the most inputs that are read after the last one.
	columnsAhead = 8
)

// PackColumns stores an out x in matrix (row-major, as a layer's weights) and
// its biases, which it copies.
func PackColumns(out, in int, weights, bias []float32) *Columns {
	checkMatrix("W", out, in, weights, in)
	same("PackColumns", len(bias), out)
	c := &Columns{in: in, out: out}
	for first := 0; first < out; {
		width := widestPanel
		for width > 8 && width/2 >= out-first {
			width /= 2
		}
		p := columnPanel{first: first, width: width, weights: make([]float32, (in+columnsAhead)*width), bias: make([]float32, width)}
		for j := range min(width, out-first) {
			p.bias[j] = bias[first+j]
			for i := range in {
				p.weights[i*width+j] = weights[(first+j)*in+i]
			}
		}
		c.panels = append(c.panels, p)
		first += width
	}
	return c
}

// Stack is a list of layers, with a ReLU after each except the last, and the memory
// of one evaluation. Only one goroutine may use it.
type Stack struct {
	layers  []*Columns
	vectors []*vector
	steps   []stackStep
}

// vector is the output of one layer and the input of the next.
type vector struct {
	n      int
	values []float32 // n, and zeros behind them
	// list holds the elements above zero, then fillers, which stand for the zero
	// behind the vector; nil in a short vector, which is read whole. count is the
	// number of elements to read.
	list  []int32
	count int
}

// stackStep is what the twin reads: see gen/main.go.
type stackStep struct {
	kernel  int
	count   *int
	list    *int32
	x       *float32
	weights *float32
	bias    *float32
	y       *float32
	floor   float32
	n       int32
}

// NewStack joins layers, at least one. It panics if the number of a layer's
// outputs is not the number of the next layer's inputs.
func NewStack(layers ...*Columns) *Stack {
	s := &Stack{layers: layers, vectors: []*vector{newVector(layers[0].in, false)}}
	for i, l := range layers {
		s.push(l, i == len(layers)-1)
	}
	return s
}

func newVector(n int, listed bool) *vector {
	v := &vector{n: n, count: n, values: make([]float32, n+widestPanel)}
	if listed {
		v.list = make([]int32, n+2*columnsAhead)
	}
	return v
}

func (s *Stack) push(l *Columns, last bool) {
	x := s.vectors[len(s.vectors)-1]
	same("NewStack", x.n, l.in)
	y := newVector(l.out, !last && l.out >= listedFrom)
	s.vectors = append(s.vectors, y)
	for i := range l.panels {
		p := &l.panels[i]
		step := stackStep{count: &x.count, x: &x.values[0], weights: &p.weights[0], bias: &p.bias[0], y: &y.values[p.first]}
		for 8<<step.kernel < p.width {
			step.kernel++
		}
		if x.list != nil {
			step.kernel += 4
			step.list = &x.list[0]
		}
		if last {
			step.floor = float32(math.Inf(-1))
		}
		s.steps = append(s.steps, step)
	}
	if y.list != nil {
		s.steps = append(s.steps, listStep(y))
	}
}

// Input returns the first layer's inputs, to be set before Run.
func (s *Stack) Input() []float32 {
	v := s.vectors[0]
	return v.values[:v.n:v.n]
}

// Run returns the outputs of the last layer; they hold until the next Run. With
// k inputs a layer the twin, which fuses and sums in another order, is within
// (k + 8) * 2^-24 of the sum of the absolute terms in each layer.
func (s *Stack) Run() []float32 {
	runStack(s)
	v := s.vectors[len(s.vectors)-1]
	return v.values[:v.n:v.n]
}

func stackGeneric(s *Stack) {
	for i, l := range s.layers {
		x, y := s.vectors[i], s.vectors[i+1]
		for k := range l.panels {
			p := &l.panels[k]
			out := y.values[p.first : p.first+p.width]
			copy(out, p.bias)
			for j, v := range x.values[:x.n] {
				axpyGeneric(v, p.weights[j*p.width:(j+1)*p.width], out)
			}
			if i < len(s.layers)-1 {
				for j, v := range out {
					out[j] = max(0, v)
				}
			}
		}
	}
}

// activeLanes lists, for each mask of eight bits, the numbers of its set bits,
// one a byte.
var activeLanes = func() (lanes [256]uint64) {
	for mask := range lanes {
		n := 0
		for bit := range 8 {
			if mask>>bit&1 == 1 {
				lanes[mask] |= uint64(bit) << (8 * n)
				n++
			}
		}
	}
	return lanes
}()
