//go:build long

package neuroshard_test

import "testing"

func TestThreadsDoNotChangeMorePlans(t *testing.T) {
	threadsDoNotChangePlan(t, severalKernels(t, 40, "h200", 8), 2)
	threadsDoNotChangePlan(t, severalKernels(t, 40, "a100-80", 3), 2, 3)
	threadsDoNotChangePlan(t, severalKernels(t, 25, "h200", 7), 2, 3)
}

func TestThreadsDoNotChangeMoreDealtTables(t *testing.T) {
	threadsDoNotChangeDealtTables(t, "nvidia-synthetic-large", 1, 2, 3)
}
