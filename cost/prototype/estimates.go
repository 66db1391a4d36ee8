package prototype

import (
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
)

// Slice is a table of the pool with the given dim.
type Slice struct{ Table, Dim int }

// Estimates is one problem under the prototype's nets, with the column slices that were
// asked for so far. Its Scorers share it.
//
// The first layer of the compute net's head is linear in the sum over a
// device's tables, so it is applied to each slice once. A device is then the sum of
// its slices' vectors, and its time takes only the last layer of the head. Vectors
// are rounded to integers, so sums do not depend on the order, and Remove undoes Add
// exactly. Every sum starts with the layer's biases, rounded in the same way.
type Estimates struct {
	*packedModels
	problem  *problem.Problem
	stack    *f32.Stack // of the compute net
	embedded map[Vector][]float32
	items    []item
	index    map[Slice]int
	// quantum is the size of one unit of the integers. start holds the rounded
	// biases, and weights the weights of the head's last layer, times quantum.
	quantum float64
	start   []int32
	weights []float32
	// none is the head's output for a device without tables.
	none float64
}

// item is a column slice: what a Scorer adds to a device.
type item struct {
	sums []int32
	dim  int32
}

// NewEstimates prepares the nets for a valid problem. It fails if the nets are for
// another number of devices, or if several features read a table, which the
// prototype does not know.
func (m *Models) NewEstimates(p *problem.Problem) (*Estimates, error) {
	if n := p.Topology.Devices; n != m.Devices() {
		return nil, fmt.Errorf("the comm nets are for %d devices, the problem has %d: choose nets trained on %d, or plan for %d devices", m.Devices(), n, n, m.Devices())
	}
	estimates := &Estimates{
		packedModels: m.packed, problem: p, stack: f32.NewStack(m.packed.compute.layers...),
		embedded: map[Vector][]float32{}, index: map[Slice]int{},
	}
	for i := range p.Tables {
		t := &p.Tables[i]
		if !t.OneBag() {
			return nil, fmt.Errorf("table %q: it has bags or pooling none: the prototype's nets only know one pooled vector a sample", t.Name)
		}
		if len(t.Features) != 1 {
			return nil, fmt.Errorf("table %q: %d features read it: the prototype's nets only know tables that one feature reads", t.Name, len(t.Features))
		}
	}
	head := &m.Compute.Head
	estimates.quantum = estimates.chooseQuantum()
	estimates.start = estimates.quantise(head[0].Bias)
	estimates.weights = make([]float32, len(estimates.start))
	for i, w := range head[1].Weight {
		estimates.weights[i] = float32(float64(w) * estimates.quantum)
	}
	estimates.none = float64(f32.RectifiedHead(estimates.start, estimates.weights)) + estimates.compute.bias
	return estimates, nil
}

// headroom is the number of times that a device may hold the sum of all tables
// without overflow. Each table counts with the widths, by halving, that give the
// largest numbers.
const headroom = 16

// chooseQuantum returns the power of two with which headroom times the integers
// of all tables fit 31 bits.
func (p *Estimates) chooseQuantum() float64 {
	total := p.compute.bound
	worst := map[Vector]float64{}
	for i := range p.problem.Tables {
		dim := p.problem.Tables[i].Dim
		key := VectorOf(&p.problem.Tables[i], dim)
		size, ok := worst[key]
		for width := dim; !ok; width /= 2 {
			sum := 0.0
			for _, v := range p.embed(i, width) {
				sum = max(sum, math.Abs(float64(v)))
			}
			size = max(size, sum*math.Ceil(float64(dim)/float64(width)))
			ok = width%(2*problem.ColumnGranule) != 0
		}
		worst[key] = size
		total += size
	}
	return math.Exp2(math.Ceil(math.Log2(max(total, math.SmallestNonzeroFloat32) * headroom / (1 << 31))))
}

// Item returns the handle of a column slice of the table, of that width. It
// must not be called while another goroutine uses a Scorer of the estimates.
func (p *Estimates) Item(table, width int) int {
	key := Slice{table, width}
	if i, ok := p.index[key]; ok {
		return i
	}
	p.index[key] = len(p.items)
	p.items = append(p.items, item{p.quantise(p.embed(table, width)), int32(width)})
	return len(p.items) - 1
}

// embed returns the vector that a slice adds to the head's first layer.
func (p *Estimates) embed(table, width int) []float32 {
	vector := VectorOf(&p.problem.Tables[table], width)
	u, ok := p.embedded[vector]
	if !ok {
		u = p.compute.embed(p.stack, &vector)
		p.embedded[vector] = u
	}
	return u
}

// quantise rounds a vector to integers, and appends zeros up to a multiple of
// f32.IntLanes.
func (p *Estimates) quantise(u []float32) []int32 {
	out := make([]int32, (len(u)+f32.IntLanes-1)/f32.IntLanes*f32.IntLanes)
	for i, v := range u {
		out[i] = int32(math.Round(max(-1<<30, min(1<<30, float64(v)/p.quantum))))
	}
	return out
}

// Price predicts the step times of a whole placement; shards lists the shards of
// each device. It registers new slices, so it must not be called while another
// goroutine uses a Scorer of the estimates.
func (p *Estimates) Price(shards [][]problem.Shard) plan.Breakdown {
	s := p.NewScorer()
	for d, held := range shards {
		for _, shard := range held {
			s.Add(d, p.Item(shard.Table, shard.Dim()))
		}
	}
	return s.Breakdown()
}

// packedModels are the nets, packed for the kernels. Many goroutines may read them.
type packedModels struct {
	compute       packedCompute
	forward, back packedComm
}

func pack(m *Models) *packedModels {
	return &packedModels{compute: packCompute(m.Compute), forward: packComm(m.Forward), back: packComm(m.Backward)}
}

// packedCompute is a compute net, packed for the kernels.
type packedCompute struct {
	scaling Scaling
	// layers are the table layers, and then the head's first layer without its bias.
	layers []*f32.Columns
	bias   float64 // of the output
	bound  float64 // the largest bias of the head's first layer
}

func packCompute(n *ComputeNet) packedCompute {
	c := packedCompute{scaling: n.Scaling, bias: float64(n.Head[1].Bias[0])}
	head := &n.Head[0]
	c.layers = append(packLayers(n.Table), f32.PackColumns(head.Out, head.In, head.Weight, make([]float32, head.Out)))
	for _, b := range head.Bias {
		c.bound = max(c.bound, math.Abs(float64(b)))
	}
	return c
}

func packLayers(layers []Layer) []*f32.Columns {
	var packed []*f32.Columns
	for _, l := range layers {
		packed = append(packed, f32.PackColumns(l.Out, l.In, l.Weight, l.Bias))
	}
	return packed
}

func (c *packedCompute) embed(stack *f32.Stack, features *Vector) []float32 {
	in := stack.Input()
	for i, v := range features {
		in[i] = float32((v - float64(c.scaling.Means[i])) / float64(c.scaling.Stds[i]))
	}
	return slices.Clone(stack.Run())
}

// packedComm is a comm net, packed for the kernels.
type packedComm struct {
	layers []*f32.Columns
	// An input x is standardised as x * scale + shift.
	scale, shift []float32
}

func packComm(n *CommNet) packedComm {
	c := packedComm{layers: packLayers(n.Layers)}
	for i, std := range n.Stds {
		c.scale = append(c.scale, float32(1/float64(std)))
		c.shift = append(c.shift, float32(-float64(n.Means[i])/float64(std)))
	}
	return c
}
