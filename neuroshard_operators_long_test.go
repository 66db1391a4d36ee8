//go:build long

package neuroshard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// A search finds the placements that a model prices too low. So the plans of drawn problems judge every model: once
// with tables of eight operations, which make many operators of few tables, and once with one exponent of
// Zipf's law for all tables of a problem, from 0.5 to 2.5. The costs of the plans must be near those of the simulated
// device. With -v the test prints the errors: they are in docs/RESULTS.md.
func TestPlansOfManyOperators(t *testing.T) {
	for _, name := range pretrained.Profiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, draw := range map[string]func(r *rand.Rand, share float64, table *problem.Table){
				"eight operations": func(r *rand.Rand, _ float64, table *problem.Table) {
					table.Access.Exponent = .7 + .6*r.Float64()
					table.Optimizer = []problem.Optimizer{problem.Adam, problem.RowwiseAdagrad}[r.IntN(2)]
					table.Precision, table.Weighted = problem.Precision(r.IntN(2)), r.IntN(2) == 0
				},
				"Zipf 0.5 to 2.5": func(_ *rand.Rand, share float64, table *problem.Table) { table.Access.Exponent = .5 + 2*share },
			} {
				const problems, mostBias, most = 60, .01, .04
				bias, mean, worst := 0., 0., 0.
				for i := range problems {
					p := drawnProblem(t, name, i, func(r *rand.Rand, table *problem.Table) { draw(r, float64(i)/(problems-1), table) })
					r := must.Get(neuroshard.Plan(t.Context(), p, neuroshard.Options{Search: search.Options{ShardingTypes: search.Columns(), MaxEvaluations: 10_000}}))(t)
					off := float64(r.Predicted.Cost/r.Simulated.Cost) - 1
					bias, mean, worst = bias+off/problems, mean+math.Abs(off)/problems, max(worst, math.Abs(off))
				}
				t.Logf("| %s | %s | %+.1f | %.1f | %.1f |", name, what, 100*bias, 100*mean, 100*worst)
				if math.Abs(bias) > mostBias || worst > most {
					t.Errorf("%s: got a bias of %+.2f %% and at most %.2f %%, want %g and %g", what, 100*bias, 100*worst, 100*mostBias, 100*most)
				}
			}
		})
	}
}

// drawnProblem draws 10 to 49 tables of 10 to 10 million rows, which fit, on 1 to 8 devices of a host. draw completes
// each table.
func drawnProblem(t *testing.T, profile string, i int, draw func(r *rand.Rand, table *problem.Table)) *problem.Problem {
	r := rand.New(rand.NewPCG(uint64(i), 45))
	p := &problem.Problem{Topology: hardware.Topology{Profile: must.Get(hardware.ByName(profile))(t), Devices: 1 << (i % 4), Memory: unit.TiB}, Batch: 4096 << r.IntN(5)}
	for k := range 10 + r.IntN(40) {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint("t", k), Rows: int64(10 * math.Pow(1e6, r.Float64())), Dim: 4 << r.IntN(6),
			Features: []problem.Feature{{PoolingFactor: math.Pow(60, r.Float64())}}, Access: access.Distribution{Kind: access.Zipf},
		})
		draw(r, &p.Tables[k])
	}
	return p
}
