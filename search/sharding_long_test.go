//go:build long

package search_test

import "testing"

func TestManyOptimaInAllForms(t *testing.T) {
	compareWithOptimum(t, 400, true)
	compareWithOptimum(t, 400, false)
}

func TestManyShardingTypesAreNeverMoreExpensive(t *testing.T) { neverMoreExpensive(t, 60) }

func TestManyMemoryTightInAllForms(t *testing.T) { memoryTightInAllForms(t, 2000) }

func TestManyPlansOfShardingTypesAreValid(t *testing.T) {
	for range 50 {
		plansOfShardingTypesAreValid(t, 20_000)
	}
}
