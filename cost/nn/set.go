package nn

import (
	"errors"
	"fmt"
	"math/bits"

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

// Named cuts a slice with the layout of Weights, such as a gradient, into the
// tensors of Params.
func (net *SetNet) Named(flat []float32) []Tensor { return net.stack.named(flat) }

// Init draws the weights: He initialisation, zero biases. The same seed gives
// the same weights.
func (net *SetNet) Init(seed uint64) { net.stack.initialise(net.flat, seed) }

// InitUniform draws weights and biases as PyTorch's Linear does: uniformly
// within 1/sqrt(inputs of the layer). The same seed gives the same weights.
func (net *SetNet) InitUniform(seed uint64) { net.stack.initialiseUniform(net.flat, seed) }

// Sets is a batch of sets. The members of set g are numbered Offsets[g] up to,
// not including, Offsets[g+1]; a set may be empty. Member i is row Rows[i] of X,
// or row i if Rows is nil.
//
// With Rows, an element that occurs several times, in several sets or in one, is
// one row and is evaluated once. All rows of X are then evaluated, so X should
// hold only rows that the sets name. Gather makes such batches.
type Sets struct {
	X       []float32 // features, rows x In
	Scale   []float32 // one for each row of X; nil means 1 for all rows
	Rows    []int32   // each member's row of X; nil means that member i is row i
	Offsets []int32   // sets + 1 numbers that never fall; the first may be above 0
	Scalars []float32 // sets x Scalars

	// The memory of Gather. held has a bit for every row of the source; a bit is set
	// if this batch holds the row. Between calls no bit is set. places holds the
	// place of each such row in this batch.
	held   []uint64
	places []int32
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
// of a row of X. If s has Rows, dst has Rows, too, and each row is copied once.
// dst must not share memory with s.
func (s Sets) Gather(dst *Sets, in int, sets []int) {
	dst.X, dst.Scalars, dst.Offsets = dst.X[:0], dst.Scalars[:0], append(dst.Offsets[:0], 0)
	if dst.Scale = dst.Scale[:0]; s.Scale == nil {
		dst.Scale = nil
	} else if dst.Scale == nil {
		dst.Scale = []float32{}
	}
	for _, g := range sets {
		width := len(s.Scalars) / s.Len()
		dst.Scalars = append(dst.Scalars, s.Scalars[g*width:(g+1)*width]...)
		members := s.Offsets[g+1] - s.Offsets[g]
		dst.Offsets = append(dst.Offsets, dst.Offsets[len(dst.Offsets)-1]+members)
	}
	if s.Rows != nil {
		s.gatherShared(dst, in, sets)
		return
	}
	dst.Rows = nil
	for _, g := range sets {
		lo, hi := int(s.Offsets[g]), int(s.Offsets[g+1])
		dst.X = append(dst.X, s.X[lo*in:hi*in]...)
		if s.Scale != nil {
			dst.Scale = append(dst.Scale, s.Scale[lo:hi]...)
		}
	}
}

// gatherShared copies the rows in their order in s, and adjacent rows with one
// copy.
func (s Sets) gatherShared(dst *Sets, in int, sets []int) {
	if rows := len(s.X) / in; len(dst.places) < rows {
		dst.places, dst.held = make([]int32, rows), make([]uint64, (rows+63)/64)
	}
	if dst.Rows = dst.Rows[:0]; dst.Rows == nil {
		dst.Rows = []int32{}
	}
	for _, g := range sets {
		for _, row := range s.Rows[s.Offsets[g]:s.Offsets[g+1]] {
			dst.held[uint32(row)/64] |= 1 << (uint32(row) % 64)
			dst.Rows = append(dst.Rows, row)
		}
	}
	place, first, end := int32(0), 0, 0 // rows first to end wait to be copied
	for word, left := range dst.held {
		for ; left != 0; left &= left - 1 {
			row := 64*word + bits.TrailingZeros64(left)
			if row != end {
				s.copyRows(dst, in, first, end)
				first = row
			}
			end = row + 1
			dst.places[row] = place
			place++
		}
		dst.held[word] = 0
	}
	s.copyRows(dst, in, first, end)
	for i, row := range dst.Rows {
		dst.Rows[i] = dst.places[row]
	}
}

func (s Sets) copyRows(dst *Sets, in, first, end int) {
	dst.X = append(dst.X, s.X[first*in:end*in]...)
	if s.Scale != nil {
		dst.Scale = append(dst.Scale, s.Scale[first:end]...)
	}
}

// span returns the first row that the sets need, and the number of rows from the
// first to the last.
func (s Sets) span(in int) (first, rows int) {
	switch n := s.Len(); {
	case n == 0:
		return 0, 0
	case s.Rows != nil:
		return 0, len(s.X) / in
	default:
		return int(s.Offsets[0]), int(s.Offsets[n] - s.Offsets[0])
	}
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
	if s.Rows != nil {
		if last > len(s.Rows) {
			panic(fmt.Sprintf("nn: Rows holds %d members, too few for %d", len(s.Rows), last))
		}
		_, rows := s.span(net.config.In)
		for i, row := range s.Rows[s.Offsets[0]:last] {
			if row < 0 || int(row) >= rows {
				panic(fmt.Sprintf("nn: member %d is row %d of %d", int(s.Offsets[0])+i, row, rows))
			}
		}
		last = rows
	}
	if len(s.X) < last*net.config.In {
		panic(fmt.Sprintf("nn: X holds %d values, too few for %d rows of %d", len(s.X), last, net.config.In))
	}
	if s.Scale != nil && len(s.Scale) < last {
		panic(fmt.Sprintf("nn: Scale holds %d values, too few for %d rows", len(s.Scale), last))
	}
}

// SetWorkspace is the memory that a SetNet's methods work in. It also keeps the
// activations of Forward for Backward. The zero value is ready to use. One
// goroutine at a time may use it.
type SetWorkspace struct {
	packs setPacks

	hidden  []float32 // rows x Hidden, after the ReLU
	embed   []float32 // rows x Embed, after the ReLU, before the scale
	joined  []float32 // sets x (Embed+Scalars): pooled vectors and scalars
	head    []float32 // sets x Head, after the ReLU
	dHead   []float32
	dJoined []float32
	holders holders

	tile       setTile
	grad, flat []float32
}

// setTile is the scratch memory of one goroutine.
type setTile struct {
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

// holders lists, for every row, the sets that hold the row, in the order of the
// sets. A set that holds the row several times is listed several times. holders is
// the inverse of Sets.Rows.
type holders struct{ offsets, sets []int32 }

func (h *holders) invert(in Sets, rows int) {
	n := in.Len()
	members := in.Rows[in.Offsets[0]:in.Offsets[n]]
	if h.offsets = h.offsets[:0]; cap(h.offsets) < rows+2 {
		h.offsets = make([]int32, 0, rows+2)
	}
	h.offsets = h.offsets[:rows+2]
	clear(h.offsets)
	if cap(h.sets) < len(members) {
		h.sets = make([]int32, len(members))
	}
	h.sets = h.sets[:len(members)]
	// The members of row r are counted at r+2. After the sums, r+1 holds the start of
	// row r's list. It moves on while the list is filled, and then holds the end.
	for _, row := range members {
		h.offsets[row+2]++
	}
	for row := range rows {
		h.offsets[row+1] += h.offsets[row]
	}
	for g := range n {
		for _, row := range in.Rows[in.Offsets[g]:in.Offsets[g+1]] {
			h.sets[h.offsets[row+1]] = int32(g)
			h.offsets[row+1]++
		}
	}
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
	_, rows := in.span(net.config.In)
	net.makeRoom(ws, in)
	net.rowsForward(ws, packs, in, 0, rows)
	net.setsForward(ws, packs, in, 0, in.Len(), out)
}

// makeRoom gives a workspace the memory for the activations of a batch.
func (net *SetNet) makeRoom(ws *SetWorkspace, in Sets) {
	n, c := in.Len(), net.config
	_, rows := in.span(c.In)
	ws.hidden = grow(ws.hidden, rows*c.Hidden)
	ws.embed = grow(ws.embed, rows*c.Embed)
	ws.joined = grow(ws.joined, n*(c.Embed+c.Scalars))
	ws.head = grow(ws.head, n*c.Head)
}

// rowsForward evaluates the elements' net on the rows lo up to, not including,
// hi, counted from the batch's first row.
func (net *SetNet) rowsForward(ws *SetWorkspace, packs *setPacks, in Sets, lo, hi int) {
	c := net.config
	first, _ := in.span(c.In)
	for r := lo; r < hi; r += tileRows {
		tile := min(tileRows, hi-r)
		net.elements(packs, tile, in.X[(first+r)*c.In:], ws.hidden[r*c.Hidden:], ws.embed[r*c.Embed:])
	}
}

// setsForward sums the vectors of each of the sets lo up to, not including, hi,
// and evaluates the head on the sums.
func (net *SetNet) setsForward(ws *SetWorkspace, packs *setPacks, in Sets, lo, hi int, out []float32) {
	c := net.config
	width := c.Embed + c.Scalars
	joined := ws.joined[lo*width : hi*width]
	if in.Rows != nil && in.Scale == nil {
		f32.PickSums(c.Embed, in.Offsets[lo:hi+1], in.Rows, ws.embed, c.Embed, joined, width)
	} else {
		net.sumMembers(ws, in, lo, hi)
	}
	for g := lo; g < hi; g++ {
		copy(ws.joined[g*width+c.Embed:(g+1)*width], in.Scalars[g*c.Scalars:(g+1)*c.Scalars])
	}
	net.headForward(packs, hi-lo, joined, ws.head[lo*c.Head:], out)
}

// sumMembers sums the members of the sets lo up to, not including, hi.
func (net *SetNet) sumMembers(ws *SetWorkspace, in Sets, lo, hi int) {
	c := net.config
	width := c.Embed + c.Scalars
	first, _ := in.span(c.In)
	for g := lo; g < hi; g++ {
		pooled := ws.joined[g*width : g*width+c.Embed]
		clear(pooled)
		for i := int(in.Offsets[g]); i < int(in.Offsets[g+1]); i++ {
			row := i
			if in.Rows != nil {
				row = int(in.Rows[i])
			}
			h := ws.embed[(row-first)*c.Embed : (row-first+1)*c.Embed]
			if in.Scale == nil {
				f32.Add(pooled, h)
			} else {
				f32.Axpy(in.Scale[row], h, pooled)
			}
		}
	}
}

// Embed computes the vectors h_i of rows elements, as Forward sums them: x is
// rows x In, scale holds one number a row or is nil, and out, rows x Embed, is
// overwritten. Use Embed to evaluate many sets of the same elements: sum the
// vectors of each set and give the sums to Head.
func (net *SetNet) Embed(ws *SetWorkspace, rows int, x, scale, out []float32) {
	c := net.config
	need("x", len(x), rows*c.In)
	need("out", len(out), rows*c.Embed)
	if scale != nil {
		need("scale", len(scale), rows)
	}
	ws.hidden = grow(ws.hidden, min(rows, tileRows)*c.Hidden)
	ws.packs.fitElements(net)
	for r := 0; r < rows; r += tileRows {
		tile := min(tileRows, rows-r)
		net.elements(&ws.packs, tile, x[r*c.In:], ws.hidden, out[r*c.Embed:])
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
	ws.packs.fitHead(net)
	ws.head = grow(ws.head, n*net.config.Head)
	net.headForward(&ws.packs, n, joined, ws.head, out)
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

// Backward adds the gradient of a loss to grad, which has the layout of Weights.
// dout (sets x Out) is the derivative of the loss by the outputs. Before
// Backward, the caller calls Forward with the same workspace, input and weights.
func (net *SetNet) Backward(ws *SetWorkspace, in Sets, dout, grad []float32) {
	n, c := in.Len(), net.config
	need("dout", len(dout), n*c.Out)
	need("grad", len(grad), net.stack.size)
	if n == 0 {
		return
	}
	if _, rows := in.span(c.In); len(ws.joined) != n*(c.Embed+c.Scalars) || len(ws.embed) != rows*c.Embed {
		panic("nn: Backward does not follow a Forward with the same input")
	}
	ws.packs.fitBack(net)
	ws.grad = grow(ws.grad, net.stack.size)
	clear(ws.grad)
	net.backward(ws, &ws.packs, in, dout, ws.grad)
	ws.flat = net.stack.straighten(ws.grad, ws.flat)
	f32.Add(grad, ws.grad)
}

// backward adds the gradient to grad, in the layout of linear.gradient.
func (net *SetNet) backward(ws *SetWorkspace, packs *setPacks, in Sets, dout, grad []float32) {
	_, rows := in.span(net.config.In)
	net.makeRoomBack(ws, in)
	net.setsBackward(ws, packs, &ws.tile, 0, in.Len(), dout, grad)
	net.rowsBackward(ws, packs, &ws.tile, in, 0, rows, grad)
}

// makeRoomBack gives a workspace the memory for the backward, and finds the sets
// of each shared row.
func (net *SetNet) makeRoomBack(ws *SetWorkspace, in Sets) {
	n, c := in.Len(), net.config
	ws.dHead = grow(ws.dHead, n*c.Head)
	ws.dJoined = grow(ws.dJoined, n*(c.Embed+c.Scalars))
	if in.Rows != nil {
		_, rows := in.span(c.In)
		ws.holders.invert(in, rows)
	}
}

// setsBackward does the backward of the head, for the sets lo up to, not
// including, hi. dout is the derivative by the outputs of these sets.
func (net *SetNet) setsBackward(ws *SetWorkspace, packs *setPacks, t *setTile, lo, hi int, dout, grad []float32) {
	n, c := hi-lo, net.config
	width := c.Embed + c.Scalars
	head, dHead := ws.head[lo*c.Head:hi*c.Head], ws.dHead[lo*c.Head:hi*c.Head]
	net.head1.gradient(&t.scratch, grad, n, dout, head)
	net.head1.backMasked(&packs.head1Back, n, dout, head, dHead)
	net.head0.gradient(&t.scratch, grad, n, dHead, ws.joined[lo*width:])
	net.head0.back(&packs.head0Back, n, dHead, ws.dJoined[lo*width:])
}

// rowsBackward does the backward of the elements' net, for the rows lo up to, not
// including, hi, counted from the batch's first row.
func (net *SetNet) rowsBackward(ws *SetWorkspace, packs *setPacks, t *setTile, in Sets, lo, hi int, grad []float32) {
	c := net.config
	first, _ := in.span(c.In)
	t.dEmbed = grow(t.dEmbed, tileRows*c.Embed)
	t.dHidden = grow(t.dHidden, tileRows*c.Hidden)
	g := 0
	for r := lo; r < hi; r += tileRows {
		tile := min(tileRows, hi-r)
		if in.Rows != nil {
			net.sharedGradients(ws, in, r, r+tile, t.dEmbed)
		} else {
			g = net.memberGradients(ws, in, g, first+r, first+r+tile, t.dEmbed)
		}
		hidden := ws.hidden[r*c.Hidden : (r+tile)*c.Hidden]
		net.element1.gradient(&t.scratch, grad, tile, t.dEmbed, hidden)
		net.element1.backMasked(&packs.element1Back, tile, t.dEmbed, hidden, t.dHidden)
		net.element0.gradient(&t.scratch, grad, tile, t.dHidden, in.X[(first+r)*c.In:])
	}
}

// memberGradients sets dEmbed for the rows lo up to, not including, hi. Row lo must be in
// set g or a later set. memberGradients returns the set of the last row.
func (net *SetNet) memberGradients(ws *SetWorkspace, in Sets, g, lo, hi int, dEmbed []float32) int {
	c := net.config
	width := c.Embed + c.Scalars
	first, _ := in.span(c.In)
	for row := lo; row < hi; row++ {
		for int(in.Offsets[g+1]) <= row {
			g++
		}
		scale := float32(1)
		if in.Scale != nil {
			scale = in.Scale[row]
		}
		i, at := row-lo, row-first
		f32.ScaleMask(dEmbed[i*c.Embed:(i+1)*c.Embed], scale,
			ws.dJoined[g*width:g*width+c.Embed], ws.embed[at*c.Embed:(at+1)*c.Embed])
	}
	return g
}

// sharedGradients sets dEmbed for the shared rows lo up to, not including, hi. For
// each row, dEmbed is a sum over the sets that hold the row.
func (net *SetNet) sharedGradients(ws *SetWorkspace, in Sets, lo, hi int, dEmbed []float32) {
	c := net.config
	dEmbed = dEmbed[:(hi-lo)*c.Embed]
	f32.PickSums(c.Embed, ws.holders.offsets[lo:hi+1], ws.holders.sets, ws.dJoined, c.Embed+c.Scalars, dEmbed, c.Embed)
	f32.Mask(dEmbed, ws.embed[lo*c.Embed:hi*c.Embed])
	if in.Scale == nil {
		return
	}
	for i := range dEmbed {
		dEmbed[i] *= in.Scale[lo+i/c.Embed]
	}
}
