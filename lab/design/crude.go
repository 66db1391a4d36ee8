package design

import (
	"context"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// crude estimates costs before there is a model. The time of a device is the number
// of bytes that it looks up, divided by its bandwidth. The cost of a plan is the
// time of its slowest device plus that of the most bytes that one device exchanges.
type crude struct{}

func (crude) String() string { return "crude" }

func (crude) Model(hardware.Topology) (string, error) { return "crude", nil }

func (crude) List(_ context.Context, p *problem.Problem) (neuroshard.PriceList, error) {
	return newCrudeList(p), nil
}

// crudeList is a problem under the crude estimate, with the items that its Scorers
// share.
type crudeList struct {
	problem *problem.Problem
	index   map[[2]int]int
	// lookups and dims are the bytes that each item looks up and exchanges.
	lookups, dims []int64
	// perLookup and perDim are ms per byte.
	perLookup, perDim float64
}

func newCrudeList(p *problem.Problem) *crudeList {
	const perGB = 1e3 / 1e9 // ms for a byte at 1 GB/s
	hw := p.Topology.Profile
	return &crudeList{problem: p, index: map[[2]int]int{}, perLookup: perGB / hw.HBMGBps, perDim: perGB / hw.IntraGBps}
}

func (l *crudeList) NewScorer() search.Scorer {
	n := l.problem.Topology.Devices
	return &crudeScorer{items: l, lookups: make([]int64, n), dims: make([]int64, n)}
}

func (l *crudeList) Price(shards [][]problem.Shard) plan.Breakdown {
	s := l.NewScorer()
	for d, held := range shards {
		for _, shard := range held {
			s.Add(d, s.Item(shard.Table, shard.Dim(), problem.Form{}))
		}
	}
	devices := make([]plan.StepTimes, len(shards))
	for d := range devices {
		// All devices end together: the exchange contains the wait for the slowest
		// device.
		compute := s.Compute(d)
		devices[d] = plan.StepTimes{Forward: unit.Millis(compute), ForwardComm: unit.Millis(s.Cost() - compute)}
	}
	return plan.NewBreakdown(devices)
}

func (l *crudeList) Doubts([][]problem.Shard) []string { return nil }

func (l *crudeList) Estimator() plan.Estimator {
	return plan.Estimator{Model: "crude", ModelSource: "crude"}
}

func (l *crudeList) Supports(form problem.Form) bool {
	return !form.ShardingType.Joint() && !form.Tier.OnHost() && form.Blocks == 0
}

// crudeScorer keeps sums in whole bytes, so that their order does not matter.
type crudeScorer struct {
	items *crudeList
	// lookups and dims are each device's sums, in bytes.
	lookups, dims []int64
}

// Item adds a slice of columns in HBM. It panics on other forms.
func (c *crudeScorer) Item(table, width int, form problem.Form) int {
	if form != (problem.Form{}) {
		panic("design: only slices of columns in HBM are estimated")
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
	// Forward and backward each read the bytes of a row, and the backward also writes
	// them.
	s.lookups = append(s.lookups, int64(3*LookupBytes(s.problem.Tables, &one)))
	// Twice: the forward all-to-all and the backward.
	s.dims = append(s.dims, 2*int64(s.problem.Batch)*int64(width*len(t.Features))*problem.OutputBytes)
	return i
}

func (c *crudeScorer) Shared() float64 { return 0 }

func (c *crudeScorer) Reset() {
	clear(c.lookups)
	clear(c.dims)
}

func (c *crudeScorer) Add(device, item int) {
	c.lookups[device] += c.items.lookups[item]
	c.dims[device] += c.items.dims[item]
}

func (c *crudeScorer) Remove(device, item int) {
	c.lookups[device] -= c.items.lookups[item]
	c.dims[device] -= c.items.dims[item]
}

func (c *crudeScorer) Compute(device int) float64 {
	return float64(c.lookups[device]) * c.items.perLookup
}

func (c *crudeScorer) ComputeWith(item int, devices []int32, out []float64) {
	for i, d := range devices {
		out[i] = float64(c.lookups[d]+c.items.lookups[item]) * c.items.perLookup
	}
}

func (c *crudeScorer) Cost() float64 {
	lookups, dims := int64(0), int64(0)
	for d := range c.lookups {
		lookups, dims = max(lookups, c.lookups[d]), max(dims, c.dims[d])
	}
	return float64(lookups)*c.items.perLookup + float64(dims)*c.items.perDim
}
