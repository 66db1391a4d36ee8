package torchrec_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/search"
)

// TestBeatsTorchRecsPlanner plans the scenarios that TorchRec's planner was run on: no
// plan may cost more, by TorchRec's own formulas, than the best of its default planner.
func TestBeatsTorchRecsPlanner(t *testing.T) {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	for name, theirs := range map[string]float64{ // ms, of docs/ENGINES.md and the runs before it
		"dlrm_8x80_none":    4.173,
		"dlrm_8x40_adagrad": 5.029,
		"syn_100t_8g":       0.845,
		"syn_100t_32g":      4.301,
		"syn_100t_128g":     4.859,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("..", "..", "problem", "input", "testdata", "scenarios", name+".json")
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			tables, err := input.Tables(file, f, input.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p := &problem.Problem{Tables: tables.Tables, Topology: tables.Cluster.Topology, Batch: tables.Batch}
			p.Topology.Profile = profile
			if err := input.Check(p, tables, *tables.Cluster); err != nil {
				t.Fatal(err)
			}
			options := neuroshard.Options{Prices: neuroshard.TorchRec(), Search: search.Options{ShardingTypes: problem.ShardingTypes()}}
			found, err := neuroshard.Plan(context.Background(), p, options)
			if err != nil {
				t.Fatal(err)
			}
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
			again := *found.Plan
			if err := neuroshard.Price(t.Context(), &again, p, options); err != nil {
				t.Fatal(err)
			}
			if again.Predicted != found.Plan.Predicted {
				t.Errorf("priced again it costs %v, not %v", float64(again.Predicted), float64(found.Plan.Predicted))
			}
		})
	}
}
