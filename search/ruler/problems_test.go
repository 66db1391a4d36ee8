//go:build ruler

package ruler

import (
	"reflect"
	"strings"
	"testing"
)

// TestProblems draws all problems of both sets. They are valid, the same each time, and those of set 2 differ from those of set 1.
func TestProblems(t *testing.T) {
	for _, c := range classes {
		for i := range c.count {
			first, again, other := c.draw(newSource(t, c, 1, i)), c.draw(newSource(t, c, 1, i)), c.draw(newSource(t, c, 2, i))
			for _, k := range []task{first, other} {
				if err := k.problem.Validate(); err != nil {
					t.Errorf("%s, problem %d: %v", c.name, i, err)
				}
			}
			if !reflect.DeepEqual(first, again) || reflect.DeepEqual(first, other) {
				t.Errorf("%s, problem %d: got unlike problems of a set, or the same of two", c.name, i)
			}
		}
	}
}

// TestRules: a class that has one plan more expensive than in its last result, one unsolved or one without room for the backward breaks the rules; one
// that is as good as the known plans, or better, does not. Costs of other problems are not judged.
func TestRules(t *testing.T) {
	k := known{Costs: []float64{1, 2}, Proven: []int{0}}
	good := []found{{solved: true, proven: true, cost: 1}, {solved: true, cost: 1.99}}
	for _, test := range []struct {
		change func(f *found)
		last   result
		want   string
	}{
		{func(*found) {}, result{}, ""},
		{func(f *found) { f.cost = 1.03 }, result{}, "at worst"},
		{func(f *found) { f.cost = 1.03 }, result{Mean: 1.5, P95: 2.5, Worst: 1.5}, ""},
		{func(f *found) { f.cost = 1.03 }, result{Problems: 3}, ""},
		{func(f *found) { f.solved, f.proven = false, false }, result{}, "1 solved and 0 proven, want 2 and 1: problem 0"},
		{func(f *found) { f.proven = false }, result{}, "2 solved and 0 proven, want 2 and 1"},
	} {
		f := good[0]
		if k.Last = test.last; k.Last.Problems == 0 {
			k.Last.Problems = 2
		}
		k.Last.Seeds = 1
		test.change(&f)
		if got := k.broken(k.judge([][]found{{f}, good[1:]})); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%+v: got %q, want %q", f, got, test.want)
		}
	}
}
