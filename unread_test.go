package neuroshard_test

import (
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// TestTablesWithoutLookups: 1,000 tables lie on all devices with nearly the same bytes where most or all
// of them have no lookups, and so cost nothing wherever they lie, or only their empty vectors.
func TestTablesWithoutLookups(t *testing.T) {
	for _, read := range []int{0, 6} {
		for _, pooling := range []problem.Pooling{problem.PoolingNone, problem.SumPooling} {
			for _, prices := range []neuroshard.Prices{nil, neuroshard.TorchRec()} {
				r := planned(t, manyUnread(t, read, pooling), neuroshard.Options{Prices: prices, Search: search.Options{MaxEvaluations: 2000}})
				var most, sum unit.Bytes
				for _, d := range r.Plan.Devices {
					most, sum = max(most, d.Memory.Total()), sum+d.Memory.Total()
				}
				if share := float64(most) * 8 / float64(sum); share > 1.1 {
					t.Errorf("%d tables with lookups, pooling %v, %T: the fullest device has %.3f times the mean bytes", read, pooling, prices, share)
				}
			}
		}
	}
}

// TestNothingToGain: a search ends with its first placements if they cost nothing.
func TestNothingToGain(t *testing.T) {
	r := planned(t, manyUnread(t, 0, problem.SumPooling), neuroshard.Options{Prices: neuroshard.TorchRec()})
	if r.Predicted.Cost != 0 || r.Stats.Evaluations > 50_000 {
		t.Errorf("got %v after %d evaluations, want 0 after at most 50,000", r.Predicted.Cost, r.Stats.Evaluations)
	}
}

// manyUnread returns 1,000 tables on 8 devices; only the first ones have lookups.
func manyUnread(t *testing.T, read int, pooling problem.Pooling) *problem.Problem {
	p := sequences(t, 8, 1000, 64, 0)
	for i := range p.Tables {
		p.Tables[i].Pooling, p.Tables[i].Rows = pooling, 1000+int64(i*7919%1000)*40
		if i >= read {
			p.Tables[i].Features[0].PoolingFactor = 0
		}
	}
	return p
}
