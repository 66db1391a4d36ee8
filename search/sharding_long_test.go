//go:build long

package search_test

import "testing"

func TestManyOptimaInAllKinds(t *testing.T) {
	optimumInAllKinds(t, 400, true)
	optimumInAllKinds(t, 400, false)
}

func TestManyKindsAreNeverDearer(t *testing.T) { neverDearer(t, 60) }

func TestManyMemoryTightInAllKinds(t *testing.T) { memoryTightInAllKinds(t, 2000) }

func TestManyPlansOfKindsAreValid(t *testing.T) {
	for range 50 {
		plansOfKindsAreValid(t, 20_000)
	}
}
