// Package searchtest checks that a Scorer keeps the promises that package
// search relies on.
package searchtest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// Tolerance is the relative difference allowed between two prices of the same
// shards, for the rounding of sums in another order.
const Tolerance = 1e-9

// Conform fails the test where the factory's Scorers break the contract of
// search.Scorer on problem p: it walks randomly through placements and compares
// with placements built from nothing.
func Conform(t *testing.T, p *problem.Problem, factory search.Factory) {
	t.Helper()
	walked, fresh := factory(), factory()
	random := rand.New(rand.NewPCG(1, 2))
	var items []int
	for i := range p.Tables {
		dim := p.Tables[i].Dim
		for _, width := range []int{dim, max(problem.ColumnGranule, dim/8*4)} {
			item := walked.Item(i, width, problem.Form{})
			if again := fresh.Item(i, width, problem.Form{}); again != item {
				t.Fatalf("Item(%d, %d): got %d from one Scorer, %d from another, want the same", i, width, item, again)
			}
			items = append(items, item)
		}
	}
	devices := p.Topology.Devices
	held := make([][]int, devices)
	all := make([]int32, devices)
	for d := range all {
		all[d] = int32(d)
	}
	with := make([]float64, devices)
	walked.Reset()
	for d := range devices {
		if got := walked.Compute(d); got != 0 {
			t.Errorf("Compute(%d) of an empty device: got %v, want 0", d, got)
		}
	}
	for step := range 300 {
		d := random.IntN(devices)
		if n := len(held[d]); n > 0 && random.IntN(3) == 0 {
			i := random.IntN(n)
			walked.Remove(d, held[d][i])
			held[d] = append(held[d][:i], held[d][i+1:]...)
		} else {
			item := items[random.IntN(len(items))]
			walked.ComputeWith(item, all, with)
			walked.Add(d, item)
			held[d] = append(held[d], item)
			near(t, step, "ComputeWith against Add and Compute", with[d], walked.Compute(d))
		}
		fresh.Reset()
		slowest := 0.0
		for d := range devices {
			for _, i := range random.Perm(len(held[d])) {
				fresh.Add(d, held[d][i])
			}
			near(t, step, "Compute against a fresh Scorer", walked.Compute(d), fresh.Compute(d))
			slowest = max(slowest, walked.Compute(d))
			if len(held[d]) == 0 && walked.Compute(d) != 0 {
				t.Errorf("step %d: Compute(%d) of an emptied device: got %v, want 0", step, d, walked.Compute(d))
			}
		}
		near(t, step, "Cost against a fresh Scorer", walked.Cost(), fresh.Cost())
		if cost := walked.Cost(); !(cost >= slowest*(1-Tolerance)) || math.IsInf(cost, 1) {
			t.Errorf("step %d: Cost: got %v, want a finite number not below the slowest device's %v", step, cost, slowest)
		}
		if t.Failed() {
			return
		}
	}
	walked.Reset()
	if got := walked.Compute(0); got != 0 {
		t.Errorf("Compute after Reset: got %v, want 0", got)
	}
}

func near(t *testing.T, step int, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= Tolerance*math.Max(1, math.Abs(want))) {
		t.Errorf("step %d: %s: got %v, want %v", step, what, got, want)
	}
}
