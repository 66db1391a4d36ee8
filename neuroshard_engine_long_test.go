//go:build long

package neuroshard_test

import (
	"io"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
)

// TestWorkloadsForEngines: every published workload has a plan for every engine that takes its tables, and the
// export of the engine accepts it. HugeCTR takes no sequences.
func TestWorkloadsForEngines(t *testing.T) {
	for _, name := range workload.Names() {
		w := must.Get(workload.ByName(workload.Prefix + name))(t)
		for _, engine := range problem.Engines() {
			for _, types := range [][]problem.ShardingType{nil, problem.ShardingTypes()} {
				p := w.Problem()
				p.Engine = problem.Engine(engine)
				if p.Tables[0].Pooling == problem.PoolingNone && p.Engine == problem.HugeCTR {
					continue
				}
				opt := neuroshard.Options{Search: search.Options{MaxEvaluations: 20_000, ShardingTypes: types}}
				r := runs(t, &p, opt)
				if r == nil {
					t.Errorf("%s for %s: no plan", name, engine)
					continue
				}
				module := "m"
				if err := exports[p.Engine](io.Discard, r.Plan, export.Options{Module: &module}); err != nil {
					t.Errorf("%s for %s: the export refuses the plan: %v", name, engine, err)
				}
			}
		}
	}
}

// TestManyPlansForEngines draws more problems than TestPlansForEngines.
func TestManyPlansForEngines(t *testing.T) {
	plansForEngines(t, 0, 2, 1)
	plansForEngines(t, 1000, 30, 45)
}
