//go:build long

package neuroshard_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

func TestAllPlansWithoutKindsAreAsBefore(t *testing.T) {
	all := func(string) bool { return true }
	plansAreAsBefore(t, all, nil)
	plansAreAsBefore(t, all, []problem.Kind{problem.TableWise, problem.ColumnWise})
}

func TestManyPlansOfKinds(t *testing.T) { plansOfKinds(t, 6) }
