package report_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/step"
)

// wholeStep returns a made-up step, and that of the baseline size.
func wholeStep() *neuroshard.Step {
	size := step.Times{Step: 6, Embedding: 4, SamplesPerSecond: 10e6}
	stack, err := step.StackByName("hugectr")
	if err != nil {
		panic(err)
	}
	return &neuroshard.Step{
		Times: step.Times{
			Step: 4, Embedding: 2, Dense: 1.5, AllReduce: 0.5, Hidden: 0.1, SamplesPerSecond: 15.12e6, InputBytesPerSecond: 13.4e9,
			PricePerBillion: 0.4336, Bound: step.BoundLookups, ErrorPercent: 9.2,
		},
		Input: step.Input{Stack: stack, PricePerHour: 2.95},
		Size:  &size,
	}
}

// TestWholeStepLines compares the four lines of steps that differ in one thing.
func TestWholeStepLines(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*neuroshard.Step)
		want   string
	}{
		"all": {func(*neuroshard.Step) {}, `step            4.00 ms ± 10 %: embeddings 2.00 ms (50 %), dense 1.50 ms, all-reduce 0.500 ms, hidden 0.100 ms; most of it is lookups (SIMULATED; hugectr, fitted to measured steps: docs/RESULTS.md)
throughput      15.1 M samples/s ± 10 %, needs 13.4 GB/s of input
price           4 x a100-80 at $2.95 an hour (given): $0.43 per 1e9 samples ± 10 %
against size    embeddings -50 %, step -33 %, throughput +51 % (SIMULATED)
`},
		"unknown error": {func(s *neuroshard.Step) { s.ErrorPercent = 0 }, "4.00 ms ± unknown: "},
		"advice":        {func(s *neuroshard.Step) { s.ErrorPercent = 0 }, "hugectr, whose constants no measured step confirms: measure one step and add --step)"},
		"calibrated": {func(s *neuroshard.Step) {
			s.Calibrated, s.Input.Measured.Step = true, 4.1
		}, "(SIMULATED; hugectr, calibrated by a measured step of 4.10 ms)"},
		"measured": {func(s *neuroshard.Step) {
			s.Calibrated, s.Measured, s.ErrorPercent = true, true, 0
		}, "step            4.00 ms (measured): embeddings"},
		"scaled": {func(s *neuroshard.Step) {
			s.Calibrated, s.Scaled, s.Input.Measured.Step = true, true, 4.1
		}, "a measured step of 4.10 ms, which is shorter than the predicted embeddings: all times are scaled to it)"},
		"changed": {func(s *neuroshard.Step) {
			s.Input.Stack.Exchange, s.Input.Stack.SHARP = step.Flat, true
		}, "(SIMULATED; hugectr changed in exchange, sharp, fitted to measured steps"},
		"no price":      {func(s *neuroshard.Step) { s.Input.PricePerHour = 0 }, "price           not known: state what one of the 4 x a100-80 costs an hour, with --price\n"},
		"cheap":         {func(s *neuroshard.Step) { s.PricePerBillion = 0.001234 }, "$0.0012 per 1e9 samples"},
		"slow":          {func(s *neuroshard.Step) { s.SamplesPerSecond = 1234 }, "1.23 k samples/s"},
		"epoch":         {func(s *neuroshard.Step) { s.Input.Samples, s.EpochMinutes = 4195197692, 4.296 }, "15.1 M samples/s ± 10 %, 4.3 min an epoch of 4.20 G samples, needs 13.4 GB/s of input\n"},
		"long epoch":    {func(s *neuroshard.Step) { s.Input.Samples, s.EpochMinutes = 1e15, 1102.3 }, ", 1102 min an epoch of 1.00 P samples, needs"},
		"short epoch":   {func(s *neuroshard.Step) { s.Input.Samples, s.EpochMinutes = 999_950, 0.0012 }, ", 0.0012 min an epoch of 1.00 M samples, needs"},
		"tiny epoch":    {func(s *neuroshard.Step) { s.Input.Samples, s.EpochMinutes = 12, 0.25 }, ", 0.25 min an epoch of 12 samples, needs"},
		"no comparison": {func(s *neuroshard.Step) { s.Size = nil }, "against size    not compared with the plan of baseline size\n"},
		"measured without the loader": {func(s *neuroshard.Step) {
			s.Unloaded, s.Bound, s.Input.Measured.Step = true, step.BoundLoader, 3.5
		}, "the loader allows no shorter step (SIMULATED; hugectr; the measured step of 3.50 ms is shorter than the loader allows: it was measured with another loader, or without one)"},
		"bound by the loader": {func(s *neuroshard.Step) { s.Bound = step.BoundLoader }, "(SIMULATED; hugectr; the time follows from the loader's bandwidth, and no measured step confirms it)"},
		"loader":              {func(s *neuroshard.Step) { s.Bound = step.BoundLoader }, "the loader allows no shorter step"},
		"host":                {func(s *neuroshard.Step) { s.Bound = step.BoundHost }, "the host's launches allow no shorter step"},
		"dense":               {func(s *neuroshard.Step) { s.Bound = step.BoundDense }, "most of it is the dense part"},
	} {
		r, _ := result(4, 7)
		s := wholeStep()
		c.change(s)
		var b strings.Builder
		if err := report.Step(&b, r.Plan, s, []string{"a doubt"}, report.Options{}); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.Contains(got, c.want) || !strings.Contains(got, "- a doubt\n") {
			t.Errorf("%s: got\n%swant %q in it", name, got, c.want)
		}
	}
}

// TestWholeStepJSON wants what is not known to be null, in both objects.
func TestWholeStepJSON(t *testing.T) {
	keys := []string{"ms", "embedding_ms", "dense_ms", "allreduce_ms", "hidden_ms", "samples_per_second", "input_bytes_per_second", "price_per_1e9_samples", "bound_by", "calibrated", "error_percent"}
	for _, known := range []bool{true, false} {
		s, keys := wholeStep(), keys
		if known {
			s.EpochMinutes, keys = 4.3, append(slices.Clone(keys), "epoch_minutes")
		} else {
			s.PricePerBillion, s.ErrorPercent, s.Size = 0, 0, nil
		}
		var alone, whole strings.Builder
		if err := report.StepJSON(&alone, s, nil); err != nil {
			t.Fatal(err)
		}
		r, _ := result(4, 7)
		r.Step = s
		if err := report.JSON(&whole, r, nil, 1); err != nil {
			t.Fatal(err)
		}
		var a, b struct {
			Step map[string]any
			Size map[string]any
		}
		if err := json.Unmarshal([]byte(alone.String()), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(whole.String()), &b); err != nil {
			t.Fatal(err)
		}
		for _, object := range []map[string]any{a.Step, b.Step} {
			if len(object) != len(keys) {
				t.Errorf("got keys %v, want %v", object, keys)
			}
			for _, key := range keys {
				value, there := object[key]
				null := !known && (key == "price_per_1e9_samples" || key == "error_percent")
				if !there || (value == nil) != null {
					t.Errorf("known %v: got %s %v (there: %v), want null: %v", known, key, value, there, null)
				}
			}
		}
		if (a.Size != nil) != known {
			t.Errorf("known %v: got size %v", known, a.Size)
		}
	}
}
