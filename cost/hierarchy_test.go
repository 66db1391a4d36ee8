package cost_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// inside is a hierarchical exchange.
var inside = problem.Hierarchy{Sent: .8, Inside: .9, Between: 1.1, Latency: .06}

// addUp pools the tables of pooling none: a hierarchical exchange adds up vectors.
func addUp(p *problem.Problem) {
	for i := range p.Tables {
		if p.Tables[i].Pooling == problem.PoolingNone {
			p.Tables[i].Pooling = problem.SumPooling
		}
		p.Tables[i].IndexDedup = false
	}
}

// Two slices of one table that are both cut by rows count as two in a host that has blocks of
// both.
func TestHierarchicalPriceOfSlicesInBlocks(t *testing.T) {
	model, _ := load(t)
	p := mixed(t, 3, 3, 4, 2, true)
	p.Hierarchy = inside
	t0 := &p.Tables[0]
	t0.Dim, t0.Rows = 64, 1000
	shards := make([][]problem.Shard, 4)
	for d := range shards {
		s := p.Whole(0)
		s.ShardingType, s.Blocks = problem.Grid, 2
		k := int64(d / 2) // each host has a block of both slices
		s.Rows = problem.Range{Start: 500 * k, End: 500 * (k + 1)}
		if s.Columns.End = 32; d%2 == 1 {
			s.Columns = problem.Range{Start: 32, End: 64}
		}
		shards[d] = []problem.Shard{s}
	}
	got := newEstimates(t, model, p).Price(shards)
	want := must.Get(simulate.NewPricer(p).Price(shards))(t)
	if got, want := float64(got.Devices[0].BackwardComm), float64(want.Devices[0].BackwardComm); !near(got, want, 1e-9) {
		t.Errorf("got an exchange of %v ms, want the simulated %v", got, want)
	}
}

// A model of measured exchanges takes the bandwidths that were fitted.
func TestBandwidthsOfMeasuredExchanges(t *testing.T) {
	_, file := load(t)
	p := mixed(t, 3, 4, 4, 2, true)
	p.Hierarchy = inside
	measured := *file
	measured.Manifest.Source = plan.Measured
	measured.Manifest.Comm.NICGBps /= 2
	model := must.Get(cost.Load(&measured))(t)
	s := newEstimates(t, model, p).NewScorer(0)
	k := measured.Manifest.Comm
	want := inside.Sent * float64(p.Batch) * float64(p.CommBytes()) / 2 / 2 / (inside.Between * k.NICGBps * 1e6)
	if _, got, _ := s.Rates(); !near(got, want, 1e-9) {
		t.Errorf("got %v ms for a column of a host, want %v, by the fitted bandwidth", got, want)
	}
}
