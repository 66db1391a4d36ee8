package neuroshard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
)

// A plan that is priced is priced as the search prices it.
func TestPrice(t *testing.T) {
	w, err := workload.ByName("criteo-kaggle")
	if err != nil {
		t.Fatal(err)
	}
	drawn := w.Problem()
	p := &drawn
	result, err := neuroshard.Plan(context.Background(), p, neuroshard.Options{Search: search.Options{Method: search.Size}, Warnings: []string{"doubt"}})
	if err != nil {
		t.Fatal(err)
	}
	want := result.Plan
	tables := slices.Clone(want.Tables)
	got := plan.Of(p, tables)
	got.Provenance.ModelSource = plan.Unpriced
	if err := neuroshard.Price(got, p, neuroshard.Options{Warnings: []string{"doubt"}}); err != nil {
		t.Fatal(err)
	}
	if got.Predicted != want.Predicted || !slices.Equal(got.Devices, want.Devices) {
		t.Errorf("got %v, want %v", got.Predicted, want.Predicted)
	}
	if !slices.Equal(got.Provenance.Warnings, want.Provenance.Warnings) || got.Provenance.Model != want.Provenance.Model || !got.Priced() {
		t.Errorf("got %+v, want the model and warnings of %+v", got.Provenance, want.Provenance)
	}
	if err := got.Validate(p); err != nil {
		t.Error(err)
	}

	// Cut by rows and in host memory, too.
	got.Tables = slices.Clone(got.Tables)
	both := got.Tables[0]
	both.ShardingType = plan.RowWise
	both.Shards = slices.Clone(both.Shards)
	both.Shards[0].Tier = plan.Host
	got.Tables[0] = both
	got.Provenance.ModelSource = plan.Unpriced
	before := got.Predicted
	var unpriceable *neuroshard.Unpriceable
	if err := neuroshard.Price(got, p, neuroshard.Options{}); !errors.As(err, &unpriceable) || got.Predicted != before || got.Priced() {
		t.Fatalf("got %v, want an *Unpriceable and nothing changed", err)
	}
	if want := "no model prices tables that are cut by rows or replicated and in host memory, too: \"t000\""; unpriceable.Error() != want {
		t.Errorf("got %s, want %s", unpriceable, want)
	}
}

// ensemble returns a model of three nets: the shipped ones of a profile, disturbed.
func ensemble(t *testing.T, profile string) *cost.Model {
	t.Helper()
	file, err := pretrained.File(profile)
	if err != nil {
		t.Fatal(err)
	}
	const members = 3
	all := &modelfile.Model{Manifest: file.Manifest}
	all.Manifest.Compute.Members = members
	draw := rand.New(rand.NewPCG(1, 8))
	for k := range members {
		for _, x := range file.Tensors {
			fixed := x.Name == cost.TensorMean || x.Name == cost.TensorDeviation
			x.Name, x.Data = cost.MemberPrefix(k, members)+x.Name, slices.Clone(x.Data)
			for i := range x.Data {
				if !fixed {
					x.Data[i] *= 1 + .1*float32(draw.NormFloat64())
				}
			}
			all.Tensors = append(all.Tensors, x)
		}
	}
	model, err := cost.Load(all)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// The risk penalty changes the placement that the search finds. It does not change the
// baselines, which place tables without estimates.
func TestRiskPenaltyIsOfTheSearch(t *testing.T) {
	p := workloadNamed(t, "criteo-kaggle")
	model := ensemble(t, p.Topology.Profile.Name)
	results := map[float64]*neuroshard.Result{}
	for _, penalty := range []float64{0, 20} {
		r, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Prices: neuroshard.Trained(model, penalty), Baselines: true, Search: search.Options{Workers: 1}})
		if err != nil {
			t.Fatal(err)
		}
		results[penalty] = r
	}
	if got, want := results[20].Baselines, results[0].Baselines; !slices.Equal(got, want) {
		t.Errorf("baselines with a risk penalty: got %+v, want %+v", got, want)
	}
	if results[20].Predicted.Cost <= results[0].Predicted.Cost {
		t.Errorf("got a mean of %v with a risk penalty, want more than the %v without", results[20].Predicted.Cost, results[0].Predicted.Cost)
	}
}
