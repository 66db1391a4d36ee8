//go:build long

package cost_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/cost/pretrained"
)

// TestAccuracyOfBagsOfAllModels is TestAccuracyOfBags for the models of all profiles.
func TestAccuracyOfBagsOfAllModels(t *testing.T) {
	for _, name := range pretrained.Profiles() {
		t.Run(name, func(t *testing.T) { accuracyOfBags(t, name, oneBag, severalBags, sequences, anyOfThese) })
	}
}
