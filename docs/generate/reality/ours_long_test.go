//go:build long

package main

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/step"
)

// The plans of testdata/our_plans.csv are about as good as those that the planner finds today.
// Builds without assembly may break ties another way, so the steps are compared.
func TestOurPlans(t *testing.T) {
	all, err := mlperfSystems()
	if err != nil {
		t.Fatal(err)
	}
	plans, err := ourPlans()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range all {
		if !planned(s) || seen[keyOf(s)] {
			continue
		}
		seen[keyOf(s)] = true
		in := s.input
		if in.Shards, err = step.Place(in.Problem, plans[keyOf(s)]); err != nil {
			t.Fatal(err)
		}
		kept, err := step.Price(in)
		if err != nil {
			t.Fatal(err)
		}
		if in.Shards, err = bestPlan(s); err != nil {
			t.Fatal(err)
		}
		found, err := step.Price(in)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(found.Step/kept.Step)-1) > .01 {
			t.Errorf("%s: got a step of %v, want %v as in testdata/our_plans.csv: run go run ./docs/generate/reality plans > docs/generate/reality/testdata/our_plans.csv", keyOf(s), found.Step, kept.Step)
		}
	}
}
