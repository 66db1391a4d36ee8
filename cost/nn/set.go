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

	// Biases gives every layer biases. If it is false, only the two layers of the
	// elements' net have biases. Then a factor s >= 0 on every Scale and every
	// scalar gives the output the factor s.
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
// Many goroutines may use a SetNet at the same time, each with its own workspace,
// while none writes to the weights.
type SetNet struct {
	config SetConfig
	stack  stack
	flat   []float32

	element0, element1, head0, head1 linear
}

// NewSetNet returns a net whose weights are zero. The error names every size that
// is out of range.
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

// maxWidth is the largest size of a net. It keeps a wrong file from asking for
// all of the memory.
const maxWidth = 1 << 14

// Weights returns all weights, shared with the net, in the order of Params.
func (net *SetNet) Weights() []float32 { return net.flat }

// Params returns the weights as named tensors, shared with the net.
func (net *SetNet) Params() []Tensor { return net.stack.named(net.flat) }

// Init draws the weights: He initialisation, zero biases. The same seed gives
// the same weights.
func (net *SetNet) Init(seed uint64) { net.stack.initialise(net.flat, seed) }

// Sets is a batch of sets. The elements of set g are the rows Offsets[g] up to, not
// including, Offsets[g+1] of X; a set may be empty.
type Sets struct {
	X       []float32 // features, rows x In
	Scale   []float32 // one for each row of X
	Offsets []int32   // sets + 1 numbers that never fall; the first may be above 0
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

// Gather copies the listed sets, in the order of the list, into dst, such as for
// a shuffled minibatch. It reuses the memory of dst. in is the number of features
// of a row of X. dst must not share memory with s.
func (s Sets) Gather(dst *Sets, in int, sets []int) {
	dst.X, dst.Scale, dst.Scalars, dst.Offsets = dst.X[:0], dst.Scale[:0], dst.Scalars[:0], append(dst.Offsets[:0], 0)
	width := len(s.Scalars) / max(1, s.Len())
	for _, g := range sets {
		lo, hi := int(s.Offsets[g]), int(s.Offsets[g+1])
		dst.X = append(dst.X, s.X[lo*in:hi*in]...)
		dst.Scale = append(dst.Scale, s.Scale[lo:hi]...)
		dst.Scalars = append(dst.Scalars, s.Scalars[g*width:(g+1)*width]...)
		dst.Offsets = append(dst.Offsets, int32(len(dst.Scale)))
	}
}

// span returns the first row of the sets, and their number of rows.
func (s Sets) span() (first, rows int) {
	if n := s.Len(); n > 0 {
		return int(s.Offsets[0]), int(s.Offsets[n] - s.Offsets[0])
	}
	return 0, 0
}

// check panics if the slices do not fit each other or the net.
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
	if len(s.Scale) < last {
		panic(fmt.Sprintf("nn: Scale holds %d values, too few for %d rows", len(s.Scale), last))
	}
}

// SetWorkspace is the memory that a SetNet's methods work in. It also keeps the
// activations of a forward for the backward. The zero value is ready to use. One
// goroutine at a time may use it.
type SetWorkspace struct {
	packs setPacks

	hidden  []float32 // rows x Hidden, after the ReLU
	embed   []float32 // rows x Embed, after the ReLU, before the scale
	joined  []float32 // sets x (Embed+Scalars): pooled vectors and scalars
	head    []float32 // sets x Head, after the ReLU
	dHead   []float32
	dJoined []float32

	// The backward works on one tile of rows at a time.
	scratch         f32.Packed
	dEmbed, dHidden []float32
}

// setPacks are the weights, packed for matrix products. Many goroutines may read
// them at the same time.
type setPacks struct {
	element0, element1, head0, head1   f32.Packed
	element1Back, head0Back, head1Back f32.Packed
}

func (p *setPacks) fitElements(net *SetNet) {
	net.element0.packForward(&p.element0, net.flat)
	net.element1.packForward(&p.element1, net.flat)
}

func (p *setPacks) fitHead(net *SetNet) {
	net.head0.packForward(&p.head0, net.flat)
	net.head1.packForward(&p.head1, net.flat)
}

func (p *setPacks) fitBack(net *SetNet) {
	net.element1.packBack(&p.element1Back, net.flat)
	net.head0.packBack(&p.head0Back, net.flat)
	net.head1.packBack(&p.head1Back, net.flat)
}

// Forward predicts the outputs of the sets and overwrites out, of length sets x
// Out, with them.
func (net *SetNet) Forward(ws *SetWorkspace, in Sets, out []float32) {
	net.check(in)
	need("out", len(out), in.Len()*net.config.Out)
	if in.Len() == 0 {
		return
	}
	ws.packs.fitElements(net)
	ws.packs.fitHead(net)
	net.forward(ws, &ws.packs, in, out)
}

func (net *SetNet) forward(ws *SetWorkspace, packs *setPacks, in Sets, out []float32) {
	n, c := in.Len(), net.config
	first, rows := in.span()
	ws.hidden = grow(ws.hidden, rows*c.Hidden)
	ws.embed = grow(ws.embed, rows*c.Embed)
	for r := 0; r < rows; r += tileRows {
		net.elements(packs, min(tileRows, rows-r), in.X[(first+r)*c.In:], ws.hidden[r*c.Hidden:], ws.embed[r*c.Embed:])
	}
	width := c.Embed + c.Scalars
	ws.joined = grow(ws.joined, n*width)
	for g := range n {
		pooled := ws.joined[g*width : g*width+c.Embed]
		clear(pooled)
		for i := int(in.Offsets[g]); i < int(in.Offsets[g+1]); i++ {
			f32.Axpy(in.Scale[i], ws.embed[(i-first)*c.Embed:(i-first+1)*c.Embed], pooled)
		}
		copy(ws.joined[g*width+c.Embed:(g+1)*width], in.Scalars[g*c.Scalars:(g+1)*c.Scalars])
	}
	ws.head = grow(ws.head, n*c.Head)
	net.headForward(packs, n, ws.joined, ws.head, out)
}

// elements evaluates the elements' net on n rows, without the scale.
func (net *SetNet) elements(packs *setPacks, n int, x, hidden, embed []float32) {
	net.element0.rectified(&packs.element0, net.flat, n, x, hidden)
	net.element1.rectified(&packs.element1, net.flat, n, hidden, embed)
}

func (net *SetNet) headForward(packs *setPacks, n int, joined, head, out []float32) {
	net.head0.rectified(&packs.head0, net.flat, n, joined, head)
	net.head1.forward(&packs.head1, net.flat, n, head, out)
	if len(net.config.Fixed) > 0 {
		for g := range n {
			f32.Add(out[g*net.config.Out:(g+1)*net.config.Out], net.config.Fixed)
		}
	}
}

// backward adds the gradient of a loss to grad, in the layout of linear.gradient. dout
// (sets x Out) is the derivative of the loss by the outputs of the forward before.
func (net *SetNet) backward(ws *SetWorkspace, packs *setPacks, in Sets, dout, grad []float32) {
	n, c := in.Len(), net.config
	first, rows := in.span()
	width := c.Embed + c.Scalars
	ws.dHead = grow(ws.dHead, n*c.Head)
	ws.dJoined = grow(ws.dJoined, n*width)
	net.head1.gradient(&ws.scratch, grad, n, dout, ws.head)
	net.head1.backMasked(&packs.head1Back, n, dout, ws.head, ws.dHead)
	net.head0.gradient(&ws.scratch, grad, n, ws.dHead, ws.joined)
	net.head0.back(&packs.head0Back, n, ws.dHead, ws.dJoined)

	ws.dEmbed = grow(ws.dEmbed, tileRows*c.Embed)
	ws.dHidden = grow(ws.dHidden, tileRows*c.Hidden)
	g := 0
	for r := 0; r < rows; r += tileRows {
		tile := min(tileRows, rows-r)
		for i := range tile {
			for int(in.Offsets[g+1]) <= first+r+i {
				g++
			}
			f32.ScaleMask(ws.dEmbed[i*c.Embed:(i+1)*c.Embed], in.Scale[first+r+i],
				ws.dJoined[g*width:g*width+c.Embed], ws.embed[(r+i)*c.Embed:(r+i+1)*c.Embed])
		}
		hidden := ws.hidden[r*c.Hidden : (r+tile)*c.Hidden]
		net.element1.gradient(&ws.scratch, grad, tile, ws.dEmbed, hidden)
		net.element1.backMasked(&packs.element1Back, tile, ws.dEmbed, hidden, ws.dHidden)
		net.element0.gradient(&ws.scratch, grad, tile, ws.dHidden, in.X[(first+r)*c.In:])
	}
}
