//go:build long

package search_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

func TestOptimumOfManyTinyProblems(t *testing.T) { optimumOfTinyProblems(t, 100, 30) }

func TestOptimalIsOptimalOfMany(t *testing.T) { optimalIsOptimal(t, 60) }

func TestNeverAbovePaperOnAll(t *testing.T) { neverAbovePaper(t, 1) }

func TestManyOptimaOfVectors(t *testing.T) { optimaOfVectors(t, 60) }

func TestManyOptimaOfExposedCosts(t *testing.T) { optimaOfExposedCosts(t, 5) }

func TestManyOptimaOfHierarchicalExchanges(t *testing.T) { optimaOfHierarchicalExchanges(t, 4) }

func TestManyOptimaUnderTiers(t *testing.T) { optimaUnderTiers(t, 6) }

func TestManyOptimaOnOneHost(t *testing.T) { optimaOnOneHost(t, 10) }

func TestManyOptimaOnUnevenDevices(t *testing.T) { optimaOnUnevenDevices(t, 12) }

func TestManyOptimaInAllForms(t *testing.T) {
	compareWithOptimum(t, "additive", 150, func(p *problem.Problem) search.Factory { return formsFactory(p, true) })
	compareWithOptimum(t, "fused", 150, func(p *problem.Problem) search.Factory { return formsFactory(p, false) })
}

func TestManyShardingTypesAreNeverMoreExpensive(t *testing.T) { neverMoreExpensive(t, 20) }

func TestManyMemoryTightInAllForms(t *testing.T) { memoryTightInAllForms(t, 500) }

func TestManyPlansOfShardingTypesAreValid(t *testing.T) {
	for range 15 {
		plansOfShardingTypesAreValid(t, 20_000)
	}
}
