package neuroshard_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
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
	r := evaluated(t, p, shards, neuroshard.Options{})
	if _, bounded := r.Gap(); bounded || r.Plan.Chosen() != 1 {
		t.Errorf("got a bound %v and %d tables on chosen devices, want none and 1", bounded, r.Plan.Chosen())
	}
	if off := float64(r.Predicted.Cost/r.Simulated.Cost) - 1; off > .05 || off < -.05 {
		t.Errorf("got an estimate of %v, want about the %v of the simulated device", r.Predicted.Cost, r.Simulated.Cost)
	}
	cost, all, err := neuroshard.Alternatives(t.Context(), r.Plan, p, neuroshard.Options{})
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
		if err := neuroshard.Price(t.Context(), moved, p, neuroshard.Options{}); err != nil || !near(a.Cost, moved.Predicted) {
			t.Errorf("table %s as %s: got cost %v, want %v (%v)", tables[i].Name, a.ShardingType, a.Cost, moved.Predicted, err)
		}
	}
}

// TestSearchChoosesDevices: for HugeCTR the search cuts a table of DLRM-DCNv2 by rows over chosen
// devices, which makes the plan cheaper than without that. Its bound is not claimed. For any
// engine, and without row_wise, the search does not.
func TestSearchChoosesDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans or trains for long, on few threads")
	}
	p := workloadNamed(t, "mlperf-dlrm-dcnv2")
	p.CommPrecision, p.Batch, p.Engine = problem.FP16, 55296, problem.HugeCTR
	opt := neuroshard.Options{Search: search.Options{ShardingTypes: problem.ShardingTypes(), Workers: 2}}
	r := evaluated(t, &p, planned(t, &p, opt).Shards, opt)
	if _, bounded := r.Gap(); r.Plan.Chosen() == 0 || bounded {
		t.Fatalf("got %d tables on chosen devices and a bound %v, want some and none", r.Plan.Chosen(), bounded)
	}
	var file bytes.Buffer
	if err := export.HugeCTR(&file, r.Plan, export.Options{}); err != nil {
		t.Fatal(err)
	}
	read, err := export.ReadHugeCTR("matrix.json", &file)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := read.Place(&p); err != nil || !reflect.DeepEqual(back.Tables, r.Plan.Tables) {
		t.Errorf("exported and imported, the plan differs: %v", err)
	}
	opt.Search.ShardingTypes = []problem.ShardingType{problem.ColumnWise, problem.DataParallel}
	other := evaluated(t, &p, planned(t, &p, opt).Shards, opt)
	if _, bounded := other.Gap(); other.Plan.Chosen() > 0 || !bounded || other.Simulated.Cost < r.Simulated.Cost {
		t.Errorf("without row_wise: got %d tables on chosen devices, bound %v and a simulated cost of %v, want none, a bound and at least %v", other.Plan.Chosen(), bounded, other.Simulated.Cost, r.Simulated.Cost)
	}
}

// TestOnlyHugeCTRRunsChosenDevices: for other engines, for TorchRec's export and TorchRec's
// formulas, a table whose rows are on devices 0, 3 and 5 is an error that names it.
func TestOnlyHugeCTRRunsChosenDevices(t *testing.T) {
	p, shards := chosenRows(t)
	r, err := neuroshard.Evaluate(t.Context(), p, shards, neuroshard.Options{})
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
	err = neuroshard.Price(t.Context(), r.Plan, p, neuroshard.Options{Prices: neuroshard.TorchRec()})
	if !errors.As(err, &unpriceable) || !slices.Equal(unpriceable.Tables, []string{name}) || !strings.Contains(err.Error(), "rows on devices that a plan chose") {
		t.Errorf("TorchRec's formulas: got %v, want an *Unpriceable of %s", err, name)
	}
	for _, engine := range []problem.Engine{"", problem.TorchRec} {
		other := *p
		other.Engine = engine
		var invalid *plan.Invalid
		if _, err := neuroshard.Evaluate(t.Context(), &other, r.Plan.ByDevice(), neuroshard.Options{}); !errors.As(err, &invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("engine %q: got %v, want a violation of %s", engine, err, name)
		}
	}
}
