package neuroshard_test

import (
	"context"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
)

// stepOf returns a small problem with a dense part and a stack for it.
func stepOf(t *testing.T, stack string) (problem.Problem, step.Input) {
	t.Helper()
	p := workloadNamed(t, "criteo-kaggle")
	s := must.Get(step.StackByName(stack))(t)
	dense := step.Dense{Bottom: []int{13, 512, p.Tables[0].Dim}, Interaction: step.Dot, Top: []int{512, 256, 1}, Precision: step.FP16}
	return p, step.Input{Dense: &dense, Stack: s, PricePerHour: 3}
}

// TestWholeStep wants Plan, Evaluate and PriceStep to return the same step, and Plan without
// Options.Step the same plan without one.
func TestWholeStep(t *testing.T) {
	p, in := stepOf(t, "torchrec-fused")
	options := neuroshard.Options{Search: search.Options{Method: search.Dim}, Step: &in}
	r := completed(t.Context(), t, &p, options)
	if r.Step == nil || !(r.Step.Step > 0) || !(r.Step.SamplesPerSecond > 0) || !(r.Step.PricePerBillion > 0) || r.Step.Size == nil {
		t.Fatalf("got step %+v, want one with a throughput, a price and that of the baseline size", r.Step)
	}
	priced, err := neuroshard.PriceStep(&p, r.Shards, in)
	if err != nil || priced.Times != r.Step.Times {
		t.Errorf("PriceStep: got %+v and error %v, want %+v", priced, err, r.Step)
	}
	evaluated, err := neuroshard.Evaluate(t.Context(), &p, r.Shards, options)
	if err != nil || evaluated.Step.Times != r.Step.Times || evaluated.Step.Size != nil {
		t.Errorf("Evaluate: got %+v and error %v, want %+v without a baseline", evaluated.Step, err, r.Step)
	}
	options.Step = nil
	plain := planned(t, &p, options)
	if plain.Step != nil || written(t, plain.Plan) != written(t, r.Plan) {
		t.Errorf("without a step: got step %+v or another plan, want the same plan", plain.Step)
	}
	if _, err := neuroshard.PriceStep(&p, r.Shards, step.Input{}); err == nil {
		t.Error("PriceStep without a step: got no error")
	}
}

// TestStepIsRefusedBeforeTheSearch wants a step that cannot be priced to cost no search.
func TestStepIsRefusedBeforeTheSearch(t *testing.T) {
	p, good := stepOf(t, "hugectr")
	size := planned(t, &p, neuroshard.Options{Search: search.Options{Method: search.Size}})
	for name, c := range map[string]struct {
		change func(*step.Input)
		want   string
	}{
		"nothing":  {func(in *step.Input) { in.Dense = nil }, "neither a dense part nor a measured step"},
		"features": {func(in *step.Input) { d := *in.Dense; d.Vectors = 3; in.Dense = &d }, "features"},
		"floor": {func(in *step.Input) {
			in.Measured = step.Measured{Step: 1e-6, Shards: size.Shards}
		}, "lookups alone"},
	} {
		in, searched := good, false
		c.change(&in)
		_, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Step: &in, Search: search.Options{OnEvent: func(search.Event) { searched = true }}})
		if err == nil || !strings.Contains(err.Error(), c.want) || searched {
			t.Errorf("%s: got error %v, searched %v, want %q before a search", name, err, searched, c.want)
		}
	}
	// The measured step of the plan itself is known after the search only.
	in := good
	in.Measured.Step = 1e-6
	if _, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Step: &in, Search: search.Options{Method: search.Size}}); err == nil || !strings.Contains(err.Error(), "lookups alone") {
		t.Errorf("got error %v, want one about the floor", err)
	}
}
