package bound

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"pgregory.net/rapid"
)

// At any prices of time and of bytes, no slice in host memory costs less than inTier says, with any
// cache; and some slice costs at most 1 % more if its rows are whole lines of the cache and are many.
func TestNoTierOfAHostCostsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawOperator(t)
		p.Topology.Memory, p.Topology.HostMemory = hardware.MaxMemory, hardware.MaxMemory
		p.Accounting = problem.Accounting(rapid.IntRange(0, 2).Draw(t, "accounting"))
		for i := range p.Tables {
			p.Tables[i].Constraint.Tiers = []problem.Tier{problem.Host, problem.HostCached}
		}
		device, judge := deviceOf(p), simulate.NewPricer(p)
		r := tieredOf(newRelaxation(p, judge, 1, Allowed{Host: true}))
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for k := range r.tables {
			table := &r.tables[k]
			i := table.index
			granules := rapid.IntRange(1, p.Tables[i].Dim/problem.ColumnGranule).Draw(t, "slice")
			prices := load{sorting: 1, bytes: math.Pow(10, rapid.Float64Range(-14, -6).Draw(t, "price of a byte"))}
			price, tier := inTier(table, true, &prices, float64(granules))
			if tier == 0 {
				t.Fatalf("table %d: got HBM, want a tier of host memory", i)
			}
			counts, rows, least := judge.Counts(i), p.Tables[i].Rows, math.Inf(1)
			cost := func(tier problem.Tier, cache float64) {
				s := p.Whole(i)
				s.Columns.End, s.Tier, s.Cache = int64(granules*problem.ColumnGranule), tier, cache
				there, back := device.HostLink(&p.Tables[i], counts, s.Dim(), p.Form(s))
				got := float64(there+back) + prices[bytes]*float64(p.ShardMemory(s)[problem.ForwardExchange].Used())
				if got < price*(1-1e-12) {
					t.Fatalf("table %d, %d granules in %s, cache share %v: costs %v, below %v", i, granules, tier, cache, got, price)
				}
				least = min(least, got)
			}
			cost(problem.Host, 0)
			for range 40 {
				cost(problem.HostCached, min(max(math.Pow(random.Float64(), float64(1+random.IntN(8))), 1/float64(rows)), 1))
			}
			often := 0.0
			for _, share := range counts.Reuse[1:] {
				often += share * counts.Unique
			}
			for _, cached := range []float64{0, 1, math.Floor(often), float64(rows) - 1, float64(rows)} {
				cost(problem.HostCached, max(cached-0.5, 0)/float64(rows))
			}
			wholeLines := granules*problem.ColumnGranule*int(p.Tables[i].Precision.Bytes())%64 == 0
			_, byTorchRec := p.Accounting.TorchRec()
			if wholeLines && counts.Unique > 1000 && !byTorchRec && least > 1.01*price {
				t.Fatalf("table %d, %d granules: got %v, want about the least of all tiers, %v", i, granules, price, least)
			}
		}
	})
}
