package nn

import (
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard/internal/f32"
)

// SetConfig is the shape of a SetNet.
type SetConfig struct {
	In      int // features of an element; at least 1
	Hidden  int // width of the first layer; at least 1
	Embed   int // width of an element's vector; at least 1
	Scalars int // numbers that describe the set as a whole; may be 0
	Head    int // width of the head's hidden layer; at least 1
	Out     int // outputs; at least 1

	// Biases gives every layer biases. Without it only the two layers of the
	// elements' net have them, and the output is homogeneous: scaling every
	// Scale and every scalar by s >= 0 scales it by s.
	Biases bool

	// Fixed is added to the outputs, such as the cost of a launch. It is not
	// trained and not in Params. Nil means zero; otherwise its length is Out.
	Fixed []float32
}

// SetNet maps a set of vectors, whatever its size, to a few numbers. With
// element i's features x_i and scale s_i, and the set's scalars t:
//
//	h_i = s_i relu(W1 relu(W0 x_i + b0) + b1)      "table_mlp.0", "table_mlp.2"
//	y   = W3 relu(W2 [sum h_i, t] + b2) + b3       "head.0", "head.2"
//
// The names are those of Params, followed by ".weight" and ".bias"; they match
// PyTorch's Sequential(Linear, ReLU, Linear, ReLU) and (Linear, ReLU, Linear).
// A SetNet may be used by many goroutines at a time, each with a workspace of
// its own, while nobody writes to its weights.
type SetNet struct {
	config SetConfig
	stack  stack
	flat   []float32

	element0, element1, head0, head1 linear
}

// NewSetNet returns a net whose weights are zero. It reports every size that is
// out of range.
func NewSetNet(c SetConfig) (*SetNet, error) {
	var problems []error
	for _, size := range []struct {
		name         string
		value, least int
	}{{"In", c.In, 1}, {"Hidden", c.Hidden, 1}, {"Embed", c.Embed, 1}, {"Scalars", c.Scalars, 0}, {"Head", c.Head, 1}, {"Out", c.Out, 1}} {
		if size.value < size.least || size.value > maxWidth {
			problems = append(problems, fmt.Errorf("set net: %s is %d: use %d to %d", size.name, size.value, size.least, maxWidth))
		}
	}
	if len(c.Fixed) != 0 && len(c.Fixed) != c.Out {
		problems = append(problems, fmt.Errorf("set net: Fixed holds %d values for %d outputs: give one for each, or none", len(c.Fixed), c.Out))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	c.Fixed = append([]float32(nil), c.Fixed...)
	net := &SetNet{config: c}
	net.element0 = net.stack.add("table_mlp.0", c.In, c.Hidden, true)
	net.element1 = net.stack.add("table_mlp.2", c.Hidden, c.Embed, true)
	net.head0 = net.stack.add("head.0", c.Embed+c.Scalars, c.Head, c.Biases)
	net.head1 = net.stack.add("head.2", c.Head, c.Out, c.Biases)
	net.flat = make([]float32, net.stack.size)
	return net, nil
}

// maxWidth bounds every size of a net, so that a wrong file cannot ask for all
// of the memory.
const maxWidth = 1 << 14

// Config returns the net's shape. Its Fixed must not be modified.
func (net *SetNet) Config() SetConfig { return net.config }

// Weights returns all weights, shared with the net, in the order of Params.
func (net *SetNet) Weights() []float32 { return net.flat }

// Params returns the weights as named tensors, shared with the net.
func (net *SetNet) Params() []Tensor { return net.stack.named(net.flat) }

// Named cuts a slice laid out like Weights, such as a gradient, into the
// tensors of Params.
func (net *SetNet) Named(flat []float32) []Tensor { return net.stack.named(flat) }

// Init draws the weights: He initialisation, zero biases. The same seed gives
// the same weights.
func (net *SetNet) Init(seed uint64) { net.stack.initialise(net.flat, seed) }

// Sets is a batch of sets. The elements of set g are the rows Offsets[g] up to,
// not including, Offsets[g+1] of X; a set may be empty.
type Sets struct {
	X       []float32 // features, rows x In
	Scale   []float32 // one per row of X; nil means 1 everywhere
	Offsets []int32   // one more than there are sets; never falling; need not start at 0
	Scalars []float32 // sets x Scalars
}

// Len is the number of sets.
func (s Sets) Len() int { return max(0, len(s.Offsets)-1) }

// Slice returns the sets lo up to, not including, hi, sharing memory with s.
func (s Sets) Slice(lo, hi int) Sets {
	if n := s.Len(); n > 0 {
		width := len(s.Scalars) / n
		s.Scalars = s.Scalars[lo*width : hi*width]
	}
	s.Offsets = s.Offsets[lo : hi+1]
	return s
}

// Gather copies the sets that are listed, in that order, into dst, whose memory
// it uses again: a shuffled minibatch. in is the number of features of a row of
// X. dst must not share memory with s.
func (s Sets) Gather(dst *Sets, in int, sets []int) {
	dst.X, dst.Scalars, dst.Offsets = dst.X[:0], dst.Scalars[:0], append(dst.Offsets[:0], 0)
	if dst.Scale = dst.Scale[:0]; s.Scale == nil {
		dst.Scale = nil
	} else if dst.Scale == nil {
		dst.Scale = []float32{}
	}
	for _, g := range sets {
		width := len(s.Scalars) / s.Len()
		lo, hi := int(s.Offsets[g]), int(s.Offsets[g+1])
		dst.X = append(dst.X, s.X[lo*in:hi*in]...)
		if s.Scale != nil {
			dst.Scale = append(dst.Scale, s.Scale[lo:hi]...)
		}
		dst.Scalars = append(dst.Scalars, s.Scalars[g*width:(g+1)*width]...)
		dst.Offsets = append(dst.Offsets, dst.Offsets[len(dst.Offsets)-1]+int32(hi-lo))
	}
}

// check panics unless the slices fit each other and the net.
func (net *SetNet) check(s Sets) {
	n := s.Len()
	need("Scalars", len(s.Scalars), n*net.config.Scalars)
	if n == 0 {
		return
	}
	for g, o := range s.Offsets[1:] {
		if o < s.Offsets[g] || s.Offsets[0] < 0 {
			panic(fmt.Sprintf("nn: set %d spans rows %d to %d", g, s.Offsets[g], o))
		}
	}
	last := int(s.Offsets[n])
	if len(s.X) < last*net.config.In {
		panic(fmt.Sprintf("nn: X holds %d values, too few for %d rows of %d", len(s.X), last, net.config.In))
	}
	if s.Scale != nil && len(s.Scale) < last {
		panic(fmt.Sprintf("nn: Scale holds %d values, too few for %d rows", len(s.Scale), last))
	}
}

// SetWorkspace is the memory that a SetNet's methods work in, and what Forward
// leaves for Backward. The zero value is ready; one goroutine uses it at a time.
type SetWorkspace struct {
	element0, element1, head0, head1, scratch f32.Packed

	hidden  []float32 // rows x Hidden, after the ReLU
	embed   []float32 // rows x Embed, after the ReLU, before the scale
	joined  []float32 // sets x (Embed+Scalars): pooled vectors and scalars
	head    []float32 // sets x Head, after the ReLU
	dHead   []float32
	dJoined []float32
	dEmbed  []float32 // one tile
	dHidden []float32 // one tile
}

// Forward predicts: out, of length sets x Out, is overwritten.
func (net *SetNet) Forward(ws *SetWorkspace, in Sets, out []float32) {
	net.check(in)
	n, c := in.Len(), net.config
	need("out", len(out), n*c.Out)
	if n == 0 {
		return
	}
	first, rows := int(in.Offsets[0]), int(in.Offsets[n]-in.Offsets[0])
	ws.hidden = grow(ws.hidden, rows*c.Hidden)
	ws.embed = grow(ws.embed, rows*c.Embed)
	net.packElements(ws)
	for r := 0; r < rows; r += tileRows {
		tile := min(tileRows, rows-r)
		net.elements(ws, tile, in.X[(first+r)*c.In:], ws.hidden[r*c.Hidden:], ws.embed[r*c.Embed:])
	}

	width := c.Embed + c.Scalars
	ws.joined = grow(ws.joined, n*width)
	for g := range n {
		row := ws.joined[g*width : (g+1)*width]
		pooled := row[:c.Embed]
		clear(pooled)
		for i := int(in.Offsets[g]); i < int(in.Offsets[g+1]); i++ {
			h := ws.embed[(i-first)*c.Embed : (i-first+1)*c.Embed]
			if in.Scale == nil {
				f32.Add(pooled, h)
			} else {
				f32.Axpy(in.Scale[i], h, pooled)
			}
		}
		copy(row[c.Embed:], in.Scalars[g*c.Scalars:(g+1)*c.Scalars])
	}
	net.headForward(ws, n, ws.joined, out)
}

// Embed computes the vectors h_i of rows elements, as Forward sums them: x is
// rows x In, scale holds one number a row or is nil, and out, rows x Embed, is
// overwritten. Use it to price many sets of the same elements: sum the vectors
// and give the sums to Head.
func (net *SetNet) Embed(ws *SetWorkspace, rows int, x, scale, out []float32) {
	c := net.config
	need("x", len(x), rows*c.In)
	need("out", len(out), rows*c.Embed)
	if scale != nil {
		need("scale", len(scale), rows)
	}
	ws.hidden = grow(ws.hidden, min(rows, tileRows)*c.Hidden)
	net.packElements(ws)
	for r := 0; r < rows; r += tileRows {
		tile := min(tileRows, rows-r)
		net.elements(ws, tile, x[r*c.In:], ws.hidden, out[r*c.Embed:])
	}
	for i, s := range scale {
		for j := i * c.Embed; j < (i+1)*c.Embed; j++ {
			out[j] *= s
		}
	}
}

// Head computes outputs from n rows of pooled vector and scalars, n x
// (Embed+Scalars): out, n x Out, is overwritten.
func (net *SetNet) Head(ws *SetWorkspace, n int, joined, out []float32) {
	need("joined", len(joined), n*(net.config.Embed+net.config.Scalars))
	need("out", len(out), n*net.config.Out)
	net.headForward(ws, n, joined, out)
}

func (net *SetNet) packElements(ws *SetWorkspace) {
	net.element0.packForward(&ws.element0, net.flat)
	net.element1.packForward(&ws.element1, net.flat)
}

// elements takes n rows through the elements' net, without the scale.
func (net *SetNet) elements(ws *SetWorkspace, n int, x, hidden, embed []float32) {
	net.element0.forward(&ws.element0, net.flat, n, x, hidden)
	f32.ReLU(hidden[:n*net.config.Hidden])
	net.element1.forward(&ws.element1, net.flat, n, hidden, embed)
	f32.ReLU(embed[:n*net.config.Embed])
}

func (net *SetNet) headForward(ws *SetWorkspace, n int, joined, out []float32) {
	ws.head = grow(ws.head, n*net.config.Head)
	net.head0.packForward(&ws.head0, net.flat)
	net.head1.packForward(&ws.head1, net.flat)
	net.head0.forward(&ws.head0, net.flat, n, joined, ws.head)
	f32.ReLU(ws.head)
	net.head1.forward(&ws.head1, net.flat, n, ws.head, out)
	if len(net.config.Fixed) > 0 {
		for g := range n {
			f32.Add(out[g*net.config.Out:(g+1)*net.config.Out], net.config.Fixed)
		}
	}
}

// Backward adds to grad, which is laid out like Weights, the gradient of a loss
// whose derivative by the outputs is dout (sets x Out). It follows a Forward
// with the same workspace, input and weights.
func (net *SetNet) Backward(ws *SetWorkspace, in Sets, dout, grad []float32) {
	n, c := in.Len(), net.config
	need("dout", len(dout), n*c.Out)
	need("grad", len(grad), net.stack.size)
	if n == 0 {
		return
	}
	width := c.Embed + c.Scalars
	first, rows := int(in.Offsets[0]), int(in.Offsets[n]-in.Offsets[0])
	if len(ws.joined) != n*width || len(ws.embed) != rows*c.Embed {
		panic("nn: Backward does not follow a Forward with the same input")
	}

	net.head1.gradient(&ws.scratch, grad, n, dout, ws.head)
	net.head1.packBack(&ws.head1, net.flat)
	ws.dHead = grow(ws.dHead, n*c.Head)
	net.head1.back(&ws.head1, n, dout, ws.dHead)
	f32.Mask(ws.dHead, ws.head)
	net.head0.gradient(&ws.scratch, grad, n, ws.dHead, ws.joined)
	net.head0.packBack(&ws.head0, net.flat)
	ws.dJoined = grow(ws.dJoined, n*width)
	net.head0.back(&ws.head0, n, ws.dHead, ws.dJoined)

	ws.dEmbed = grow(ws.dEmbed, tileRows*c.Embed)
	ws.dHidden = grow(ws.dHidden, tileRows*c.Hidden)
	net.element1.packBack(&ws.element1, net.flat)
	g := 0
	for r := 0; r < rows; r += tileRows {
		tile := min(tileRows, rows-r)
		for i := range tile {
			row := first + r + i
			for int(in.Offsets[g+1]) <= row {
				g++
			}
			scale := float32(1)
			if in.Scale != nil {
				scale = in.Scale[row]
			}
			f32.ScaleMask(ws.dEmbed[i*c.Embed:(i+1)*c.Embed], scale,
				ws.dJoined[g*width:g*width+c.Embed], ws.embed[(r+i)*c.Embed:(r+i+1)*c.Embed])
		}
		hidden := ws.hidden[r*c.Hidden : (r+tile)*c.Hidden]
		net.element1.gradient(&ws.scratch, grad, tile, ws.dEmbed, hidden)
		net.element1.back(&ws.element1, tile, ws.dEmbed, ws.dHidden)
		f32.Mask(ws.dHidden[:tile*c.Hidden], hidden)
		net.element0.gradient(&ws.scratch, grad, tile, ws.dHidden, in.X[(first+r)*c.In:])
	}
}
