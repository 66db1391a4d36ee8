package cost_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/simulate"
)

// inside is a hierarchical exchange.
var inside = problem.Hierarchy{Sent: .8, Inside: .9, Between: 1.1, Latency: .06}

// addUp pools the tables of pooling none: a hierarchical exchange adds up vectors.
func addUp(p *problem.Problem) {
	for i := range p.Tables {
		if p.Tables[i].Pooling == problem.PoolingNone {
			p.Tables[i].Pooling, p.Tables[i].IndexDedup = problem.SumPooling, false
		}
	}
}

// inForms places each table in a form at random, and returns the placement and a Scorer of it.
func inForms(p *problem.Problem, estimates *cost.Estimates, draw *rand.Rand) ([][]problem.Shard, *cost.Scorer) {
	shards := make([][]problem.Shard, p.Topology.Devices)
	s := estimates.NewScorer(0)
	add := func(d, i int, form problem.Form, rows problem.Range) {
		shard := p.Whole(i)
		shard.ShardingType, shard.Tier, shard.Cache, shard.Rows, shard.Blocks = form.ShardingType, form.Tier, form.Cache, rows, form.Blocks
		if form.Blocks > 0 {
			shard.ShardingType = problem.RowWise
		}
		shards[d] = append(shards[d], shard)
	}
	forms := append(searchtest.Forms(p.Topology), problem.Form{Blocks: 2}, problem.Form{Blocks: 3})
	for i := range p.Tables {
		form, t := forms[draw.IntN(len(forms))], &p.Tables[i]
		n, first := 1, draw.IntN(p.Topology.Devices)
		switch perHost := p.Topology.PerHost(); {
		case form.ShardingType == problem.TableRowWise:
			n, first = perHost, draw.IntN(p.Topology.Devices/perHost)*perHost
		case form.ShardingType.Joint():
			n, first = p.Topology.Devices, 0
		case form.Blocks > p.Topology.Devices:
			form = problem.Form{}
		case form.Blocks > 0:
			n, first = form.Blocks, draw.IntN(p.Topology.Devices-form.Blocks+1)
		}
		if n > 1 && !t.CutsByRows(n) {
			form, n = problem.Form{}, 1
		}
		item, all := s.Item(i, t.Dim, form), problem.Range{End: t.Rows}
		if !form.ShardingType.Joint() && form.Blocks == 0 {
			add(first, i, form, all)
			s.Add(first, item)
			continue
		}
		for k := range n {
			d, rows := first+k, all
			if form.ShardingType != problem.DataParallel {
				block := t.BlockRows(n)
				rows = problem.Range{Start: block * int64(k), End: min(block*int64(k+1), t.Rows)}
			}
			if add(d, i, form, rows); k == 0 || form.Blocks > 0 {
				s.Add(d, item)
			}
		}
	}
	return shards, s
}

// The exchange of a model of simulated samples is that of the simulated device, in any forms,
// and the cost of a placement is the same as shards and as items.
func TestHierarchicalExchangeIsTheSimulatedOne(t *testing.T) {
	model, _ := load(t)
	for name, p := range formProblems(t) {
		t.Run(name, func(t *testing.T) {
			addUp(p)
			p.Hierarchy = inside
			for seed := range uint64(8) {
				estimates := newEstimates(t, model, p)
				shards, s := inForms(p, estimates, rand.New(rand.NewPCG(seed, 1)))
				price, cost := estimates.Price(shards), s.Cost()
				if !near(float64(price.Cost), cost, 1e-9) {
					t.Errorf("seed %d: got a cost of %v as shards and %v as items, want the same", seed, price.Cost, cost)
				}
				judged, err := simulate.NewPricer(p).Price(shards)
				if err != nil {
					t.Fatal(err)
				}
				least := func(b plan.Breakdown) float64 { // forward, without the wait for others
					time := b.Devices[0].ForwardComm
					for _, d := range b.Devices {
						time = min(time, d.ForwardComm)
					}
					return float64(time)
				}
				if got, want := least(price), least(judged); !near(got, want, 1e-9) {
					t.Errorf("seed %d: got an exchange of %v ms, want the simulated %v", seed, got, want)
				}
			}
		})
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
	want, err := simulate.NewPricer(p).Price(shards)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := float64(got.Devices[0].BackwardComm), float64(want.Devices[0].BackwardComm); !near(got, want, 1e-9) {
		t.Errorf("got an exchange of %v ms, want the simulated %v", got, want)
	}
}

// A model of measured exchanges doubts a hierarchical one, and takes the bandwidths that were
// fitted; a model of simulated exchanges has no doubt.
func TestDoubtsOfHierarchicalExchanges(t *testing.T) {
	_, file := load(t)
	p := mixed(t, 3, 4, 4, 2, true)
	p.Hierarchy = inside
	doubted := func(m *cost.Model) bool {
		return slices.ContainsFunc(m.Doubts(p, make([][]problem.Shard, 4)), func(d string) bool { return strings.Contains(d, "reduces vectors inside hosts first") })
	}
	if doubted(loadFile(t, file)) {
		t.Error("simulated: got a doubt about the exchange, want none")
	}
	measured := *file
	measured.Manifest.Source = plan.Measured
	measured.Manifest.Comm.NICGBps /= 2
	model := loadFile(t, &measured)
	if !doubted(model) {
		t.Error("measured: got no doubt about the exchange, want one")
	}
	s := newEstimates(t, model, p).NewScorer(0)
	k := measured.Manifest.Comm
	want := inside.Sent * float64(p.Batch) * float64(p.CommBytes()) / 2 / 2 / (inside.Between * k.NICGBps * 1e6)
	if _, got, _ := s.Rates(); !near(got, want, 1e-9) {
		t.Errorf("got %v ms for a column of a host, want %v, by the fitted bandwidth", got, want)
	}
}
