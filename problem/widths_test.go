package problem_test

import (
	"reflect"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// TestOneWidths: a module of sequences that may be cut has one width under TorchRec, and the problem
// in slices of a width allows whole tables and slices of this width alone.
func TestOneWidths(t *testing.T) {
	table := func(module string, dim int, c problem.Constraint) problem.Table {
		return problem.Table{Module: module, Dim: dim, Pooling: problem.PoolingNone, Constraint: c}
	}
	p := &problem.Problem{Engine: problem.TorchRec, Tables: []problem.Table{
		table("a", 48, problem.Constraint{}),
		table("b", 48, problem.Constraint{}), // alone in its module
		table("a", 48, problem.Constraint{MinWidth: 16}),
		table("a", 48, problem.Constraint{NoSplit: true}),
		table("a", 48, problem.Constraint{ShardingTypes: []problem.ShardingType{problem.RowWise}}),
		{Module: "a", Dim: 48},
		table("a", 96, problem.Constraint{MinWidth: 48}),
	}}
	want := []problem.OneWidth{{Tables: []int{0, 2, 6}, Widths: []int{48, 24, 16, 12, 8, 4}}}
	if got := problem.OneWidths(p); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for width, want := range map[int][][]int{
		16: {{48, 16}, {48, 16}, {96}},
		12: {{48, 12}, {48}, {96}},
		48: {{48}, {48}, {96, 48}},
	} {
		narrowed := problem.InSlicesOf(p, width, []int{0, 2, 6})
		for k, i := range []int{0, 2, 6} {
			if got := narrowed.Tables[i].EqualWidths(); !reflect.DeepEqual(got, want[k]) {
				t.Errorf("table %d in slices of %d: got the widths %v, want %v", i, width, got, want[k])
			}
		}
	}
	if got := p.Tables[0].EqualWidths(); len(got) != 6 {
		t.Errorf("the problem itself has changed: widths %v", got)
	}
	p.Engine = ""
	if got := problem.OneWidths(p); got != nil {
		t.Errorf("without an engine: got %v", got)
	}
}
