package neuroshard_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	neuroshard "github.com/neuroshard/neuroshard"
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
