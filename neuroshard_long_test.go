//go:build long

package neuroshard_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/problem/workload"
)

func TestEveryLargeWorkloadHasAPlan(t *testing.T) {
	for _, w := range workload.All() {
		if len(w.Tables()) >= manyTables {
			t.Run(w.Name, func(t *testing.T) { checkWorkload(t, w) })
		}
	}
}
