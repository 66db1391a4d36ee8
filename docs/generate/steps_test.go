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

// fitFixed returns the fixed time that minimizes the sum of the logarithms of predicted over
// measured steps, without signs. Squares would let one slow system decide.
func fitFixed(all []*system) (unit.Millis, error) {
	var rest, measured []float64
	for _, s := range all {
		c := s.input.Stack.Constants
		c.Fixed = 0
		in := s.input
		in.Stack.Constants = c
		t, err := step.Price(in)
		if err != nil {
			return 0, err
		}
		rest, measured = append(rest, float64(t.Step)), append(measured, s.ms)
	}
	misfit := func(fixed float64) (sum float64) {
		for i := range rest {
			sum += math.Abs(math.Log((rest[i] + fixed) / measured[i]))
		}
		return sum
	}
	low, high := 0.0, 20.0
	for high-low > 1e-6 {
		a, b := low+(high-low)/3, high-(high-low)/3
		if misfit(a) < misfit(b) {
			high = b
		} else {
			low = a
		}
	}
	return unit.Millis((low + high) / 2), nil
}
