//go:build long

package neuroshard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// wideBesideNarrow draws 26 tables for 6 h200: wide tables with few lookups beside narrow
// tables with many.
func wideBesideNarrow(t *testing.T, seed uint64) *problem.Problem {
	random := rand.New(rand.NewPCG(seed, 26))
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: profileNamed(t, "h200"), Devices: 6}}
	one := func(of ...float64) float64 { return of[random.IntN(len(of))] }
	for i := range 26 {
		table := problem.Table{Name: fmt.Sprint("t", i), Rows: int64(math.Exp(9 + 7*random.Float64())), Optimizer: problem.RowwiseAdagrad}
		table.Dim = int(one(4, 8, 16, 32))
		pooling := one(20, 50, 80, 150)
		if random.IntN(2) == 0 {
			table.Dim, pooling = int(one(64, 96, 128, 192, 256)), one(.5, 1, 2, 3)
		}
		table.Features = []problem.Feature{{Name: table.Name, PoolingFactor: pooling}}
		table.Access = access.Distribution{Kind: access.Zipf, Exponent: 1.05}
		p.Tables = append(p.Tables, table)
	}
	return p
}

// Where wide tables lie beside narrow ones, the default search is at most as expensive as
// the published one, and near a search of 3 million evaluations.
func TestWideBesideNarrow(t *testing.T) {
	types := []problem.ShardingType{problem.TableWise, problem.ColumnWise}
	for seed := range uint64(4) {
		p := wideBesideNarrow(t, seed)
		cost := func(o search.Options) float64 {
			o.ShardingTypes = types
			return float64(planned(t, p, neuroshard.Options{Search: o}).Predicted.Cost)
		}
		plain, paper, long := cost(search.Options{}), cost(search.Options{Method: search.Paper}), cost(search.Options{MaxEvaluations: 3_000_000})
		t.Logf("problem %d: %.3f ms, paper %.3f, a long search %.3f", seed, plain, paper, long)
		if plain > paper || plain > 1.05*long {
			t.Errorf("problem %d: got %.4f ms, want at most %.4f, the paper's, and at most 5 %% more than %.4f, that of a long search", seed, plain, paper, long)
		}
	}
}
