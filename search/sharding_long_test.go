//go:build long

package search_test

import "testing"

func TestOptimalIsOptimalOfMany(t *testing.T) { optimalIsOptimal(t, 60) }

func TestNeverAbovePaperOnAll(t *testing.T) { neverAbovePaper(t, 1) }

func TestManyOptima(t *testing.T) {
	for _, o := range optima() {
		t.Run(o.name, func(t *testing.T) { compareProblems(t, o.name, o.many, o.problemOf, o.factoryOf) })
	}
}

func TestManyShardingTypesAreNeverMoreExpensive(t *testing.T) { neverMoreExpensive(t, 8) }

func TestManyMemoryTightInAllForms(t *testing.T) { memoryTightInAllForms(t, 300) }

func TestManyPlansAreValid(t *testing.T) {
	for range 2 {
		plansAreValid(t, 20_000)
	}
}

func TestManyFromAgainstBruteForce(t *testing.T) { fromAgainstBruteForce(t, 15) }

func TestManyFindWhatFits(t *testing.T) { findsWhatFits(t, 0, 60, 4, 6, 24) }

func TestMoreThreadsDoNotChangeTheSearch(t *testing.T) { threadsDoNotChangeTheSearch(t, 8, 3) }
