//go:build long

package cost_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/cost/pretrained"
)

// TestAccuracyOfShardingTypesOfAllModels is TestAccuracyOfShardingTypes for the models of all profiles.
func TestAccuracyOfShardingTypesOfAllModels(t *testing.T) {
	for _, name := range pretrained.Profiles() {
		t.Run(name, func(t *testing.T) { accuracyOfShardingType(t, name) })
	}
}
