package input

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// mend.go replaces the required values of a table that are missing or cannot be read,
// so that Check can check the rest of the table at the same time. A replacement
// breaks no rule, whatever the other values are, and takes the fewest bytes that any
// value would take.

// mend replaces the unread values of t, except for the name.
func mend(t *problem.Table, unread set) {
	if unread.has(rowsField) {
		t.Rows = 1
	}
	if unread.has(dimField) {
		const granule = problem.ColumnGranule
		t.Dim = min(max(granule, (t.Constraint.MinWidth+granule-1)/granule*granule), problem.MaxDim)
	}
	if unread.has(precisionField) {
		t.Precision = problem.FP16
	}
	if unread.has(devicesFields) {
		t.Constraint.Colocation = "" // the devices that its tables share are not known
	}
}

// mendedReuse returns shares that add up to 1. If a given share is wrong by itself, it
// returns the given ones, because validation then does not add them up.
func mendedReuse(reuse [access.Classes]float64) [access.Classes]float64 {
	for _, share := range reuse {
		if share < 0 || share > 1 {
			return reuse
		}
	}
	return [access.Classes]float64{1}
}
