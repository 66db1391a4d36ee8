package neuroshard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/neuroshard/neuroshard"
)

// The search of free slices runs beside the other one on two workers, and after it on one. Both
// give the same plan and the same comparison.
func TestFreeSlicesBesideTheSearch(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems, one after another")
	}
	for seed := range uint64(1) {
		for _, prices := range []neuroshard.Prices{neuroshard.Pretrained(), neuroshard.TorchRec()} {
			p := fewTables(t, neuroshard.ComparedTables+4, seed)
			options := neuroshard.Options{Prices: prices}
			options.Search.Workers = 1
			after := completed(t.Context(), t, p, options)
			options.Search.Workers = 2
			beside := completed(t.Context(), t, p, options)
			first, err := json.Marshal(after.Plan)
			if err != nil {
				t.Fatal(err)
			}
			second, err := json.Marshal(beside.Plan)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first, second) {
				t.Errorf("seed %d, %v: got another plan on two workers", seed, prices)
			}
			if after.FreeSlices == nil || beside.FreeSlices == nil || *after.FreeSlices != *beside.FreeSlices {
				t.Errorf("seed %d, %v: got free slices %+v on one worker and %+v on two", seed, prices, after.FreeSlices, beside.FreeSlices)
			}
		}
	}
}

// A plan that was cancelled before the comparison has none.
func TestNoFreeSlicesAfterACancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	options := neuroshard.Options{OnStep: func(string) { cancel() }}
	options.Search.Workers, options.Search.MaxEvaluations = 2, 20_000
	r := completed(ctx, t, fewTables(t, neuroshard.ComparedTables+4, 1), options)
	if r.FreeSlices != nil {
		t.Errorf("got free slices %+v after the cancel", r.FreeSlices)
	}
}
