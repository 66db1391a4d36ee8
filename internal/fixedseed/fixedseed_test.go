package fixedseed_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/neuroshard/neuroshard/internal/fixedseed"
)

func TestSameDrawsAgain(t *testing.T) {
	draws := func() (all []int) {
		rapid.Check(t, func(t *rapid.T) { all = append(all, rapid.Int().Draw(t, "number")) })
		return all
	}
	if a, b := draws(), draws(); len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("got other draws in the second run: %v, %v", a, b)
	}
}
