package torchrec_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/search"
)

// TestBeatsTorchRecsPlanner plans the scenarios that TorchRec's planner was run on: no
// plan may cost more, by TorchRec's own formulas, than the best of its default planner.
func TestBeatsTorchRecsPlanner(t *testing.T) {
	profile := must.Get(hardware.ByName("a100-80"))(t)
	for name, theirs := range map[string]float64{ // ms, of TorchRec 1.6.1 within 200 s
		"dlrm_8x80_none":    4.173,
		"dlrm_8x40_adagrad": 5.029,
		"syn_100t_8g":       0.845,
		"syn_100t_128g":     4.859,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("..", "..", "problem", "input", "testdata", "scenarios", name+".json")
			f := must.Get(os.Open(file))(t)
			defer f.Close()
			tables := must.Get(input.Tables(file, f, input.Options{}))(t)
			p := &problem.Problem{Tables: tables.Tables, Topology: tables.Cluster.Topology, Batch: tables.Batch}
			p.Topology.Profile = profile
			must.Do(t, input.Check(p, tables, *tables.Cluster))
			options := neuroshard.Options{Prices: neuroshard.TorchRec(), Search: search.Options{ShardingTypes: problem.ShardingTypes()}}
			found := must.Get(neuroshard.Plan(context.Background(), p, options))(t)
			if err := found.Plan.Validate(p); err != nil {
				t.Error(err)
			}
			t.Logf("%.3f ms, TorchRec's planner %.3f ms", float64(found.Plan.Predicted), theirs)
			if float64(found.Plan.Predicted) > theirs {
				t.Errorf("costs %.3f ms, TorchRec's planner found one of %.3f ms", float64(found.Plan.Predicted), theirs)
			}
			if found.Plan.Provenance.ModelSource != plan.ClosedForm {
				t.Errorf("the plan says its prices come from %q", found.Plan.Provenance.ModelSource)
			}
		})
	}
}

// TestConstraintsMakeNoPlanCheaper plans few equal and few drawn tables by TorchRec's formulas:
// where one table may have one sharding type only, the plan costs no less than without that
// constraint.
func TestConstraintsMakeNoPlanCheaper(t *testing.T) {
	profile := must.Get(hardware.ByName("v100-32"))(t)
	draw := rand.New(rand.NewPCG(39, 0))
	types := []problem.ShardingType{problem.TableWise, problem.RowWise, problem.DataParallel}
	cost := func(p problem.Problem) float64 {
		options := neuroshard.Options{Prices: neuroshard.TorchRec(), Search: search.Options{ShardingTypes: types}}
		found := must.Get(neuroshard.Plan(context.Background(), &p, options))(t)
		return float64(found.Plan.Predicted)
	}
	for task := 1; task < 4; task++ {
		p := problem.Problem{Batch: 1024, Topology: hardware.Topology{Devices: 2 + 2*(task%2), Profile: profile}}
		for i := range 3 {
			table := problem.Table{
				Name: strconv.Itoa(i), Rows: 100, Dim: 64,
				Features: []problem.Feature{{Name: strconv.Itoa(i), PoolingFactor: 1}},
			}
			if task >= 2 {
				table.Rows, table.Dim = 100+draw.Int64N(100_000), 16<<draw.IntN(4)
				table.Features[0].PoolingFactor = 1 + float64(draw.IntN(30))
			}
			p.Tables = append(p.Tables, table)
		}
		free := cost(p)
		for i := range p.Tables {
			for _, only := range types {
				limited := p
				limited.Tables = slices.Clone(p.Tables)
				limited.Tables[i].Constraint.ShardingTypes = []problem.ShardingType{only}
				if c := cost(limited); c < free*(1-1e-9) {
					t.Errorf("task %d: with table %d only %v, the plan costs %.9g ms, and without the constraint %.9g", task, i, only, c, free)
				}
			}
		}
	}
}
