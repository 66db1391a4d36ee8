package cost_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// deviationOf is the standard deviation of values, plainly.
func deviationOf(values []unit.Millis) float64 {
	mean, sum := 0.0, 0.0
	for _, v := range values {
		mean += float64(v) / float64(len(values))
	}
	for _, v := range values {
		sum += (float64(v) - mean) * (float64(v) - mean)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

// A time with a risk penalty is the mean of the members and that number of their
// deviations, of the groups and of the exchanges.
func TestRiskPenalty(t *testing.T) {
	model, members := three(t)
	draw := rand.New(rand.NewPCG(8, 8))
	for seed := range uint64(10) {
		p := mixed(t, seed, 12, 3, 3, true)
		estimates := newEstimates(t, model, p)
		mean, careful := estimates.NewScorer(0), estimates.NewScorer(2)
		load := cost.CommLoad{Min: math.MaxInt}
		for d, held := range placement(p, draw) {
			var slices []cost.Slice
			sum := 0
			for _, shard := range held {
				item := mean.Item(shard.Table, shard.Dim(), problem.Form{})
				mean.Add(d, item)
				careful.Add(d, item)
				sum += p.DimSum(shard)
				table := &p.Tables[shard.Table]
				described := feature.Describe(table, table.Counts(p.Batch))
				if described.Counts.Lookups > 0 {
					slices = append(slices, cost.Slice{Table: &described, Dim: shard.Dim()})
				}
			}
			load.Max, load.Min, load.Sum = max(load.Max, sum), min(load.Min, sum), load.Sum+sum
			f, b := model.GroupMembers(p.Operation(0), slices)
			both := make([]unit.Millis, len(f))
			for k := range both {
				both[k] = f[k] + b[k]
			}
			want := mean.Compute(d) + 2*deviationOf(both)
			if got := careful.Compute(d); !near(got, want, 1e-3) {
				t.Errorf("seed %d, device %d: got %v, want %v, the mean is %v", seed, d, got, want, mean.Compute(d))
			}
		}
		c := cost.Cluster{Devices: 3, PerHost: 3, Batch: p.Batch}
		var f, b [3]unit.Millis
		for k, m := range members {
			f[k], b[k] = m.Exchange(c, load, 0)
		}
		compute, carefully := 0.0, 0.0
		for d := range 3 {
			compute, carefully = max(compute, mean.Compute(d)), max(carefully, careful.Compute(d))
		}
		if got, want := careful.Cost()-carefully, mean.Cost()-compute+2*deviationOf(f[:])+2*deviationOf(b[:]); !near(got, want, 1e-6) {
			t.Errorf("seed %d: got exchanges of %v, want %v", seed, got, want)
		}
		if none := estimates.NewScorer(0); none.Cost() != estimates.NewScorer(0).Cost() {
			t.Errorf("seed %d: without a penalty: got another cost", seed)
		}
	}
	single, _ := load(t)
	p := mixed(t, 1, 12, 3, 3, true)
	estimates := newEstimates(t, single, p)
	a, b := estimates.NewScorer(0), estimates.NewScorer(3)
	for i := range p.Tables {
		item := a.Item(i, p.Tables[i].Dim, problem.Form{})
		a.Add(i%3, item)
		b.Add(i%3, item)
	}
	if a.Cost() != b.Cost() {
		t.Errorf("one net: got %v with a penalty, want %v", b.Cost(), a.Cost())
	}
}
