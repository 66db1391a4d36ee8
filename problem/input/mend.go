package input

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// mend.go replaces the required values of a table that are missing or cannot be read,
// so that Check can check the rest of the table at the same time. A replacement
// breaks no rule, whatever the other values are, and takes the fewest bytes that any
// value would take.

// unread is the set of those properties of a table that the read reported.
type unread uint8

const (
	unreadName unread = 1 << iota
	unreadRows
	unreadDim
	unreadPrecision
	// unreadDevices: some of the allowed devices are not known.
	unreadDevices
)

// mend replaces the unread values of t, except for the name, which Check makes up.
func (u unread) mend(t *problem.Table) {
	if u&unreadRows != 0 {
		t.Rows = 1
	}
	if u&unreadDim != 0 {
		const granule = problem.ColumnGranule
		t.Dim = min(max(granule, (t.Constraint.MinWidth+granule-1)/granule*granule), problem.MaxDim)
	}
	if u&unreadPrecision != 0 {
		t.Precision = problem.FP16
	}
	if u&unreadDevices != 0 {
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
