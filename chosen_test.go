package neuroshard_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
)

// chosenRows returns a problem for HugeCTR on 8 devices, and a placement: rows of the largest
// table on devices 0, 3 and 5, without Shard.Blocks, and the other tables whole, dealt out in turn.
func chosenRows(t *testing.T) (*problem.Problem, [][]problem.Shard) {
	p := workloadNamed(t, "criteo-kaggle")
	p.Topology.Devices, p.Topology.DevicesPerHost, p.Engine = 8, 4, problem.HugeCTR
	largest := 0
	for i := range p.Tables {
		if p.Tables[i].Rows > p.Tables[largest].Rows {
			largest = i
		}
	}
	shards := make([][]problem.Shard, 8)
	for k, d := range []int{0, 3, 5} {
		s, rows := p.Whole(largest), p.Tables[largest].BlockRows(3)
		s.Rows = problem.Range{Start: int64(k) * rows, End: min(p.Tables[largest].Rows, int64(k+1)*rows)}
		shards[d] = append(shards[d], s)
	}
	for i := range p.Tables {
		if i != largest {
			shards[i%8] = append(shards[i%8], p.Whole(i))
		}
	}
	return &p, shards
}

// TestRowsOnChosenDevices: a plan with a table's rows on devices 0, 3 and 5 is validated, estimated
// by the trained model and by the simulated device, which agree, and has no bound. Each of its
// tables has another place.
func TestRowsOnChosenDevices(t *testing.T) {
	p, shards := chosenRows(t)
	r, err := neuroshard.Evaluate(p, shards, neuroshard.Options{Certificate: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, bounded := r.Gap(); bounded || r.Plan.Chosen() != 1 {
		t.Errorf("got a bound %v and %d tables on chosen devices, want none and 1", bounded, r.Plan.Chosen())
	}
	if off := float64(r.Predicted.Cost/r.Simulated.Cost) - 1; off > .05 || off < -.05 {
		t.Errorf("got an estimate of %v, want about the %v of the simulated device", r.Predicted.Cost, r.Simulated.Cost)
	}
	cost, all, err := neuroshard.Alternatives(r.Plan, p, neuroshard.Options{})
	if err != nil || !near(cost, r.Plan.Predicted) {
		t.Fatalf("got cost %v and error %v, want %v", cost, err, r.Plan.Predicted)
	}
	for i, a := range all {
		tables := slices.Clone(r.Plan.Tables)
		if a.Shards == nil {
			t.Errorf("table %s: got no other place", tables[i].Name)
			continue
		}
		tables[i].ShardingType, tables[i].Shards = a.ShardingType, slices.Clone(a.Shards)
		moved := plan.Of(p, tables)
		if err := neuroshard.Price(moved, p, neuroshard.Options{}); err != nil || !near(a.Cost, moved.Predicted) {
			t.Errorf("table %s as %s: got cost %v, want %v (%v)", tables[i].Name, a.ShardingType, a.Cost, moved.Predicted, err)
		}
	}
}

// TestOnlyHugeCTRRunsChosenDevices: for other engines, for TorchRec's export and TorchRec's
// formulas, a table whose rows are on devices 0, 3 and 5 is an error that names it.
func TestOnlyHugeCTRRunsChosenDevices(t *testing.T) {
	p, shards := chosenRows(t)
	r, err := neuroshard.Evaluate(p, shards, neuroshard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	module, name := "ebc", ""
	for i := range r.Plan.Tables {
		if r.Plan.Tables[i].ShardingType == plan.RowWise {
			name = r.Plan.Tables[i].Name
		}
	}
	var file bytes.Buffer
	err = export.TorchRec(&file, r.Plan, export.Options{Module: &module})
	if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "TorchRec cuts rows over all devices") || file.Len() > 0 {
		t.Errorf("TorchRec's export: got error %v and %d bytes, want an error that names %s", err, file.Len(), name)
	}
	var unpriceable *neuroshard.Unpriceable
	err = neuroshard.Price(r.Plan, p, neuroshard.Options{Prices: neuroshard.TorchRec()})
	if !errors.As(err, &unpriceable) || !slices.Equal(unpriceable.Tables, []string{name}) || !strings.Contains(err.Error(), "rows on devices that a plan chose") {
		t.Errorf("TorchRec's formulas: got %v, want an *Unpriceable of %s", err, name)
	}
	for _, engine := range []problem.Engine{"", problem.TorchRec} {
		other := *p
		other.Engine = engine
		var invalid *plan.Invalid
		if _, err := neuroshard.Evaluate(&other, r.Plan.ByDevice(), neuroshard.Options{}); !errors.As(err, &invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("engine %q: got %v, want a violation of %s", engine, err, name)
		}
	}
}
