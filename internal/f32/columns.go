package f32

// Matrix times vector for small layers of rectified units. About half of such
// a layer's outputs are zero, and a zero input needs none of its weights: with
// the weights stored input by input, only the rows of the inputs above zero are
// read, 8 to 64 outputs at a time, all sums in registers.
//
//	active inputs   weights, one row an input       outputs
//	     0  ------> [ w(0,0)  w(0,1)  ...  ]  \
//	     3  ------> [ w(3,0)  w(3,1)  ...  ]   +--> bias + sums, rectified,
//	     4  ------> [ w(4,0)  w(4,1)  ...  ]  /     and the list of those above 0

// Active is a vector together with the list of its elements that count: the
// other elements are zero. It is the scratch memory of one goroutine.
type Active struct {
	n      int       // elements
	values []float32 // and zeros behind them
	list   []int32   // the elements that count, then n as filler
	count  int
}

// activeSlack is how many elements a kernel may write behind a vector, and how
// many fillers end its list.
const activeSlack = 64

// NewActive returns a vector of n zeros.
func NewActive(n int) *Active {
	a := &Active{n: n, values: make([]float32, n+activeSlack), list: make([]int32, n+activeSlack)}
	a.fill()
	return a
}

// Values returns the n elements. Who changes them calls All next.
func (a *Active) Values() []float32 { return a.values[:a.n:a.n] }

// All makes every element count.
func (a *Active) All() {
	for i := range a.n {
		a.list[i] = int32(i)
	}
	a.count = a.n
	a.fill()
}

// fill ends the list with fillers, which stand for the zero behind the vector.
func (a *Active) fill() {
	a.values[a.n] = 0
	for i := range 8 {
		a.list[a.count+i] = int32(a.n)
	}
}

// Columns is a matrix with biases, stored input by input for products with
// Active vectors. It may be read by many goroutines at a time.
type Columns struct {
	in, out int
	panels  []columnPanel
}

// columnPanel holds the weights to 8, 16, 32 or 64 outputs: in+1 rows, the last
// of zeros, for the fillers. Missing outputs have weights and biases of zero.
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
		p := columnPanel{first: first, width: width, weights: make([]float32, (in+1)*width), bias: make([]float32, width)}
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
	c.mul(x, y)
	y.All()
}

// MulRectify sets y to max(0, bias + W x), active where it is above zero. The
// lengths must match. It is exact as Mul is.
func (c *Columns) MulRectify(x, y *Active) {
	c.mul(x, y)
	y.count = rectify(y.values[:(c.out+7)/8*8], y.list)
	y.fill()
}

func (c *Columns) mul(x, y *Active) {
	same("Columns", x.n, c.in)
	same("Columns", y.n, c.out)
	for i := range c.panels {
		p := &c.panels[i]
		columns(p.width, x.list[:x.count+8], x.count, x.values, p.weights, p.bias, y.values[p.first:p.first+p.width])
	}
}

func columnsGeneric(width int, list []int32, count int, x, weights, bias, y []float32) {
	copy(y, bias)
	for _, i := range list[:count] {
		axpyGeneric(x[i], weights[int(i)*width:(int(i)+1)*width], y)
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
