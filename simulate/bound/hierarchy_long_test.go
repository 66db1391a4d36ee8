//go:build long

package bound_test

import "testing"

// No placement with a hierarchical exchange costs less than the bound: slices of columns, and any
// sharding types. TestNoOptimumIsBelow tries all placements of tiny problems.
func TestNoHierarchicalPlacementIsBelow(t *testing.T) {
	noPlacementIsBelow(t, []below{{true, false, asDrawn, drawHierarchy}, {false, false, asDrawn, drawHierarchy}})
}

func TestNoHierarchicalOptimumIsBelow(t *testing.T) {
	optimum{"hierarchical", false, false, asDrawn, drawHierarchy}.isNotBelow(t)
}
