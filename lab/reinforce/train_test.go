package reinforce

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search/policy"
)

// calledBy reports whether a function is among the callers on this goroutine.
func calledBy(function string) bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, function) {
			return true
		}
		if !more {
			return false
		}
	}
}

// Train asks the given Measure for all plans, on its own goroutine, so that nothing else of the
// training runs meanwhile. The same times give the same weights, and the card states whose they
// are.
func TestTrainAsksMeasure(t *testing.T) {
	for _, o := range []Options{
		{Method: policy.DreamShard, Iterations: 2},
		{Method: policy.AutoShard, Decisions: 1700},
	} {
		o.Tasks, o.Count, o.TestCount, o.Workers = Tasks{Tables: 4, Devices: 2, Seed: 1, Profile: profile(t)}, 2, 3, 4
		alone := must.Get(Train(context.Background(), o))(t)
		if m := alone.Manifest; m.Source != plan.Simulated || m.Profile != "a100-80" || m.Backend != simulated {
			t.Errorf("%s: got source %q, profile %q and backend %q of the simulated device", o.Method, m.Source, m.Profile, m.Backend)
		}
		measure, plans := Simulated(), 0
		o.Source, o.Profile, o.Backend = plan.Measured, "desk", "a meter"
		o.Measure = func(p *problem.Problem, shards [][]problem.Shard) (plan.Breakdown, error) {
			if plans++; !calledBy(".Train") {
				t.Errorf("%s: plan %d is measured beside the training", o.Method, plans)
			}
			return measure(p, shards)
		}
		f := must.Get(Train(context.Background(), o))(t)
		want := f.Manifest.Card.Plans + 3*o.TestCount
		if o.Method == policy.AutoShard {
			// One more plan of each task is the reference of the rewards.
			want += o.Count
		}
		if plans != want {
			t.Errorf("%s: got %d plans measured, want %d", o.Method, plans, want)
		}
		if m := f.Manifest; m.Source != plan.Measured || m.Profile != "desk" || m.Backend != "a meter" {
			t.Errorf("%s: got source %q, profile %q and backend %q, want those given", o.Method, m.Source, m.Profile, m.Backend)
		}
		if got, want := f.Manifest.Card.Test, alone.Manifest.Card.Test; !slices.Equal(got, want) {
			t.Errorf("%s: got tests %+v of the same times, want %+v", o.Method, got, want)
		}
		for i := range f.Tensors {
			if !slices.Equal(f.Tensors[i].Data, alone.Tensors[i].Data) {
				t.Errorf("%s: got other weights %s of the same times", o.Method, f.Tensors[i].Name)
			}
		}
	}
}

// The first error of a Measure ends the training: no further plan is measured.
func TestTrainEndsWithMeasure(t *testing.T) {
	broken := errors.New("the device is gone")
	for _, method := range []string{policy.DreamShard, policy.AutoShard} {
		// DreamShard measures 10 plans in one iteration, and then those of the test tasks.
		for _, last := range []int{1, 7, 12} {
			plans := 0
			o := Options{
				Method: method, Tasks: Tasks{Tables: 4, Devices: 2, Seed: 1, Profile: profile(t)}, Count: 2, TestCount: 3,
				Iterations: 1, Decisions: 1, Workers: 4, Source: plan.Measured, Profile: "desk", Backend: "a meter",
			}
			measure := Simulated()
			o.Measure = func(p *problem.Problem, shards [][]problem.Shard) (plan.Breakdown, error) {
				if plans++; plans == last {
					return plan.Breakdown{}, broken
				}
				return measure(p, shards)
			}
			if f, err := Train(context.Background(), o); f != nil || !errors.Is(err, broken) || plans != last {
				t.Errorf("%s: got policy %v, error %v and %d plans, want none, the error of the Measure and %d", method, f, err, plans, last)
			}
		}
	}
}

func TestTrainRefusesMeasure(t *testing.T) {
	o := Options{Method: policy.DreamShard, Tasks: Tasks{Profile: profile(t)}, Costs: OurCosts, Measure: Simulated()}
	_, err := Train(context.Background(), o)
	for _, want := range []string{"costs ours: the training measures no plan", "measure: give the source, the profile and the backend"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
}
