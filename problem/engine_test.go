package problem_test

import (
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

func TestEngines(t *testing.T) {
	for _, name := range problem.Engines() {
		e, err := problem.ParseEngine(name)
		if err != nil || e.Rules().Engine != e || !e.Rules().EqualSlices {
			t.Errorf("%s: got %+v and error %v, want an engine with equal slices", name, e.Rules(), err)
		}
	}
	if _, err := problem.ParseEngine(""); err == nil {
		t.Error("an empty name is an engine")
	}
	if got := problem.Engine("").Rules(); got != (problem.EngineRules{}) {
		t.Errorf("no engine has the rules %+v, want none", got)
	}
}

func TestEqualWidths(t *testing.T) {
	for _, test := range []struct {
		dim        int
		constraint problem.Constraint
		want       []int
	}{
		{4, problem.Constraint{}, []int{4}},
		{64, problem.Constraint{}, []int{64, 32, 16, 8, 4}},
		{96, problem.Constraint{MinWidth: 16}, []int{96, 48, 32, 24, 16}},
		{20, problem.Constraint{}, []int{20, 4}},
		{64, problem.Constraint{NoSplit: true}, []int{64}},
		{64, problem.Constraint{ShardingTypes: []problem.ShardingType{problem.TableWise, problem.RowWise}}, []int{64}},
		{64, problem.Constraint{MinWidth: 32, ShardingTypes: []problem.ShardingType{problem.Grid}}, []int{64, 32}},
	} {
		table := problem.Table{Dim: test.dim, Constraint: test.constraint}
		if got := table.EqualWidths(); !slices.Equal(got, test.want) {
			t.Errorf("dim %d, %+v: got %v, want %v", test.dim, test.constraint, got, test.want)
		}
	}
}
