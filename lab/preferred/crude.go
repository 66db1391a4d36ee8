package preferred

import (
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// crude prices a device at the bytes that it looks up over its bandwidth, and a
// plan at that of its dearest device and the most bytes that one exchanges. It
// stands in for a model before there is one. Sums are kept in whole bytes, so
// that their order does not matter.
type crude struct {
	items *crudeItems
	// lookups and dims are each device's sums, in bytes.
	lookups, dims []int64
}

// crudeItems are shared by the Scorers of a factory.
type crudeItems struct {
	problem *problem.Problem
	index   map[[2]int]int
	// lookups and dims are the bytes that each item looks up and exchanges.
	lookups, dims []int64
	// perLookup and perDim are ms per byte.
	perLookup, perDim float64
}

func crudeFactory(p *problem.Problem) search.Factory {
	const perGB = 1e3 / 1e9 // ms for a byte at 1 GB/s
	hw := p.Topology.Profile
	items := &crudeItems{problem: p, index: map[[2]int]int{}, perLookup: perGB / hw.HBMGBps, perDim: perGB / hw.IntraGBps}
	n := p.Topology.Devices
	return func() search.Scorer {
		return &crude{items: items, lookups: make([]int64, n), dims: make([]int64, n)}
	}
}

// Item registers a slice of columns in HBM. It panics on other forms.
func (c *crude) Item(table, width int, form problem.Form) int {
	if form != (problem.Form{}) {
		panic("preferred: only slices of columns in HBM are estimated")
	}
	s := c.items
	key := [2]int{table, width}
	if i, ok := s.index[key]; ok {
		return i
	}
	t := &s.problem.Tables[table]
	i := len(s.lookups)
	s.index[key] = i
	one := dataset.Group{Operation: s.problem.Operation(table), Members: []dataset.Member{{Table: int32(table), Dim: int32(width)}}}
	// Forward and backward read a row's worth each, and the backward writes one.
	s.lookups = append(s.lookups, int64(3*design.LookupBytes(s.problem.Tables, &one)))
	// Twice: the forward all-to-all and the backward.
	s.dims = append(s.dims, 2*int64(s.problem.Batch)*int64(width*len(t.Features))*problem.OutputBytes)
	return i
}

func (c *crude) Shared() float64 { return 0 }

func (c *crude) Reset() {
	clear(c.lookups)
	clear(c.dims)
}

func (c *crude) Add(device, item int) {
	c.lookups[device] += c.items.lookups[item]
	c.dims[device] += c.items.dims[item]
}

func (c *crude) Remove(device, item int) {
	c.lookups[device] -= c.items.lookups[item]
	c.dims[device] -= c.items.dims[item]
}

func (c *crude) Compute(device int) float64 {
	return float64(c.lookups[device]) * c.items.perLookup
}

func (c *crude) ComputeWith(item int, devices []int32, out []float64) {
	for i, d := range devices {
		out[i] = float64(c.lookups[d]+c.items.lookups[item]) * c.items.perLookup
	}
}

func (c *crude) Cost() float64 {
	lookups, dims := int64(0), int64(0)
	for d := range c.lookups {
		lookups, dims = max(lookups, c.lookups[d]), max(dims, c.dims[d])
	}
	return float64(lookups)*c.items.perLookup + float64(dims)*c.items.perDim
}
