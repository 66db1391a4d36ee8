package search_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// TestMemoryTight runs a few tasks of each family; behind the build tag long, it is
// a hundred.
func TestMemoryTight(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	memoryTight(t, 2, 2)
}

// memoryTight plans memory-tight tasks with every method, method paper with at most the given number of steps. It fails where another
// method finds a plan and the default none, or the default none for a task that has
// one by construction. It logs how many tasks each method solved, and returns those
// that none did.
func memoryTight(t *testing.T, perFamily, steps int) (unsolved []bench.Task) {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := bench.StressTasks(profile, perFamily, 1)
	if err != nil {
		t.Fatal(err)
	}
	methods := search.Untrained()
	opt := search.Options{Brief: true, Seed: 1}
	var table strings.Builder
	fmt.Fprintf(&table, "%-14s", "solved of "+fmt.Sprint(perFamily))
	for _, m := range methods {
		fmt.Fprintf(&table, "%12s", m)
	}
	for family := range slices.Chunk(tasks, perFamily) {
		fmt.Fprintf(&table, "\n%-14s", family[0].Setting)
		solved := make([]int, len(methods))
		for _, task := range family {
			p := &task.Problem
			found := make([]bool, len(methods))
			for i, m := range methods {
				opt.Method, opt.Steps = m, stepsOf(m, steps)
				r, err := search.Run(context.Background(), p, factory(p), opt)
				var infeasible *search.Infeasible
				if err != nil && !errors.As(err, &infeasible) {
					t.Fatalf("%s, method %s: %v", task.Name, m, err)
				}
				if found[i] = err == nil; found[i] {
					check(t, p, r)
					solved[i]++
				}
			}
			switch at := slices.Index(found, true); {
			case at > 0:
				t.Errorf("%s: got no plan, %s found one", task.Name, methods[at])
			case at < 0:
				unsolved = append(unsolved, task)
			}
			if !found[0] && strings.HasPrefix(task.Setting, "packed-") {
				t.Errorf("%s: got no plan, want one, as there is by construction", task.Name)
			}
		}
		for _, n := range solved {
			fmt.Fprintf(&table, "%12d", n)
		}
	}
	t.Log("\n" + table.String())
	return unsolved
}
