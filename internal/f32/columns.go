package f32

import "math"

// Matrix times vector for small layers of rectified units. The weights are
// stored input by input, and 8 to 64 outputs are summed at a time, in registers.
// About half of a rectified layer's outputs are zero, and a zero input needs
// none of its weights: of a long input only the rows of the elements above zero
// are read. A short one is read whole, which needs no list and is foreseen by
// the processor.
//
//	listed inputs   weights, one row an input       outputs
//	     0  ------> [ w(0,0)  w(0,1)  ...  ]  \
//	     3  ------> [ w(3,0)  w(3,1)  ...  ]   +--> bias + sums, rectified,
//	     4  ------> [ w(4,0)  w(4,1)  ...  ]  /     and the list of those above 0

// listedFrom is the length from which a vector is worth a list.
const listedFrom = 96

// Active is a vector, and if it is long the list of its elements that count:
// the others are zero. It is the scratch memory of one goroutine.
type Active struct {
	n      int       // elements
	values []float32 // and zeros behind them
	list   []int32   // the elements that count, then n as filler; nil if short
	count  int
}

// activeSlack is how many elements a kernel may write behind a vector, and
// columnsAhead how many inputs it may read behind the last.
const (
	activeSlack  = 64
	columnsAhead = 8
)

// NewActive returns a vector of n zeros.
func NewActive(n int) *Active {
	a := &Active{n: n, values: make([]float32, n+activeSlack)}
	if n >= listedFrom {
		a.list = make([]int32, n+activeSlack)
	}
	a.fill()
	return a
}

// Values returns the n elements. Who changes them calls All next.
func (a *Active) Values() []float32 { return a.values[:a.n:a.n] }

// All makes every element count.
func (a *Active) All() {
	if a.list == nil {
		return
	}
	for i := range a.n {
		a.list[i] = int32(i)
	}
	a.count = a.n
	a.fill()
}

// fill ends the list with fillers, which stand for the zero behind the vector.
func (a *Active) fill() {
	if a.list == nil {
		return
	}
	fillers := a.list[a.count : a.count+columnsAhead]
	for i := range fillers {
		fillers[i] = int32(a.n)
	}
}

// Columns is a matrix with biases, stored input by input for products with
// Active vectors. It may be read by many goroutines at a time.
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

// PackColumns stores an out x in matrix (row-major, as a layer's weights) and
// its biases, which it copies.
func PackColumns(out, in int, weights, bias []float32) *Columns {
	checkMatrix("W", out, in, weights, in)
	same("PackColumns", len(bias), out)
	c := &Columns{in: in, out: out}
	for first := 0; first < out; {
		width := 64
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

// Mul sets y to bias + W x, all of it active. The lengths must match.
//
// With k active inputs the twin, which fuses and sums in another order, is
// within (k + 8) * 2^-24 of the sum of the absolute terms.
func (c *Columns) Mul(x, y *Active) {
	c.mul(x, y, negativeInfinity)
	y.All()
}

// MulRectify sets y to max(0, bias + W x), active where it is above zero. The
// lengths must match. It is exact as Mul is.
func (c *Columns) MulRectify(x, y *Active) {
	c.mul(x, y, 0)
	if y.list != nil {
		y.count = rectify(y.values[:(c.out+7)/8*8], y.list)
		y.fill()
	}
}

var negativeInfinity = float32(math.Inf(-1))

func (c *Columns) mul(x, y *Active, floor float32) {
	same("Columns", x.n, c.in)
	same("Columns", y.n, c.out)
	for i := range c.panels {
		p := &c.panels[i]
		columns(p, x, y.values[p.first:], floor)
	}
}

func columnsGeneric(p *columnPanel, x *Active, y []float32, floor float32) {
	y = y[:p.width]
	copy(y, p.bias)
	if x.list == nil {
		for i, v := range x.values[:x.n] {
			axpyGeneric(v, p.weights[i*p.width:(i+1)*p.width], y)
		}
	} else {
		for _, i := range x.list[:x.count] {
			axpyGeneric(x.values[i], p.weights[int(i)*p.width:(int(i)+1)*p.width], y)
		}
	}
	for i, v := range y {
		y[i] = max(floor, v)
	}
}

// rectifyGeneric zeroes what is not above zero, and lists the rest.
func rectifyGeneric(values []float32, list []int32) int {
	n := 0
	for i, v := range values {
		if v > 0 {
			list[n] = int32(i)
			n++
		} else {
			values[i] = 0
		}
	}
	return n
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
