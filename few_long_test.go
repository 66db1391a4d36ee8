//go:build long

package neuroshard_test

import "testing"

func TestManyPlansOfFewTables(t *testing.T) { plansOfFewTables(t, 4) }
