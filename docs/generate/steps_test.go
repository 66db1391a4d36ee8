package main

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/step"
)

// The fixed times of HugeCTR's stacks are what the fit gives, rounded to 0.005 ms.
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
