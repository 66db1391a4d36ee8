package neuroshard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/replan"
)

// A problem of a million tables is refused before any work, also from an old plan.
func TestMillionTablesAreRefused(t *testing.T) {
	for _, n := range []int{neuroshard.MaxPlanned + 1, 1_000_000} {
		p := &problem.Problem{Tables: make([]problem.Table, n)}
		_, err := neuroshard.Plan(t.Context(), p, neuroshard.Options{})
		_, again := replan.Plan(t.Context(), p, &plan.Plan{}, replan.Options{})
		for _, err := range []error{err, again} {
			if invalid, ok := errors.AsType[*problem.Invalid](err); !ok || len(invalid.Faults) != 1 || !strings.Contains(err.Error(), "a plan has at most 131072") {
				t.Errorf("%d tables: got %v, want that they are too many", n, err)
			}
		}
	}
}
