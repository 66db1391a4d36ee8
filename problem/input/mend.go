package input

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// mend.go puts something harmless in the place of what a table states but
// nobody can read, or does not state but has to, so that Check can judge the
// rest of the table at the same time. What is put there breaks no rule, whatever
// the other values are, and takes as few bytes as any value would.

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

// mend fills in t what is unread but its name, which Check makes up.
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
		t.Constraint.Group = "" // what its tables have in common cannot be said
	}
}

// mendedReuse returns shares that add up to 1; or the given ones where one of
// them is wrong by itself, since then nobody adds them up.
func mendedReuse(reuse [access.Classes]float64) [access.Classes]float64 {
	for _, share := range reuse {
		if share < 0 || share > 1 {
			return reuse
		}
	}
	return [access.Classes]float64{1}
}
