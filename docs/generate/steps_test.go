package main

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// The fixed times of HugeCTR's stacks are what the fit gives, rounded to 0.01 ms.
func TestFixedIsFitted(t *testing.T) {
	fits := map[string][]*system{}
	for _, s := range mlperfSystems() {
		if s.inFit() {
			fits["hugectr"] = append(fits["hugectr"], s)
		}
	}
	for _, s := range oneHotSystems() {
		if inHybridFit(s) {
			fits[hybrid] = append(fits[hybrid], s)
		}
	}
	for name, systems := range fits {
		want := fitFixed(systems)
		stack := must(step.StackByName(name))
		if got := stack.Constants.Fixed; math.Abs(float64(got-want)) > .005 {
			t.Errorf("%s: got a fixed time of %v, want %v of %d systems", name, got, want, len(systems))
		}
	}
}

// fitFixed returns the fixed time that minimizes the sum of the logarithms of predicted over
// measured steps, without signs. Squares would let one slow system decide.
func fitFixed(all []*system) unit.Millis {
	var rest, measured []float64
	for _, s := range all {
		in := s.input
		in.Stack.Constants.Fixed = 0
		rest, measured = append(rest, float64(must(step.Price(in)).Step)), append(measured, s.ms)
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
	return unit.Millis((low + high) / 2)
}
