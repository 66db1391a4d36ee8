package main

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// The fixed times of HugeCTR's stacks are what the fit gives, rounded to 0.01 ms.
func TestFixedIsFitted(t *testing.T) {
	whole, err := mlperfSystems()
	if err != nil {
		t.Fatal(err)
	}
	oneHot, err := oneHotSystems()
	if err != nil {
		t.Fatal(err)
	}
	fits := map[string][]*system{}
	for _, s := range whole {
		if s.inFit() {
			fits["hugectr"] = append(fits["hugectr"], s)
		}
	}
	for _, s := range oneHot {
		if inHybridFit(s) {
			fits[hybrid] = append(fits[hybrid], s)
		}
	}
	for name, systems := range fits {
		want, err := fitFixed(systems)
		if err != nil {
			t.Fatal(err)
		}
		stack, err := step.StackByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := stack.Constants.Fixed; math.Abs(float64(got-want)) > .005 {
			t.Errorf("%s: got a fixed time of %v, want %v of %d systems", name, got, want, len(systems))
		}
	}
}

// The table measured computes what step.Price does with a measured step.
func TestCalibrated(t *testing.T) {
	all, err := mlperfSystems()
	if err != nil {
		t.Fatal(err)
	}
	eight, replicated, many := find(all, "v3.0", "8 x h100-80", "2"), find(all, "v3.1", "8 x h100-80", "8"), find(all, "v4.0", "64 x h100-80", "11")
	predicted := map[*system]float64{}
	for _, s := range []*system{eight, replicated, many} {
		p, err := s.own()
		if err != nil {
			t.Fatal(err)
		}
		predicted[s] = float64(p.Step)
	}
	for _, one := range []*system{eight, replicated, many} {
		in := one.input
		in.Measured = step.Measured{Step: unit.Millis(eight.ms), Problem: eight.input.Problem, Shards: eight.input.Shards}
		got, err := step.Price(in)
		if err != nil {
			t.Fatal(err)
		}
		if want := calibrated(eight, one, predicted); math.Abs(float64(got.Step)-want) > 1e-9*want {
			t.Errorf("%s: got %v, want %v", one.name(), got.Step, want)
		}
	}
}
