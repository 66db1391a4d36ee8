package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// hot.go says which sequences load one device far more than the others if they are row_wise: without
// pooling, the vectors of a lookup lie on the device of its row until they travel.

// hotTable is a table that is uneven if it is row_wise: the lookups of the device with its most used row
// over the mean, and the bytes that this device has more than under even lookups.
type hotTable struct {
	name string
	load float64
	more unit.Bytes
}

// hotRows names the tables of a problem, at most three, that load one device most if they are row_wise.
// It is empty if there are none, or if p is nil.
func hotRows(p *problem.Problem) string {
	if p == nil || p.Topology.Devices < 2 {
		return ""
	}
	var hot []hotTable
	for i := range p.Tables {
		t := &p.Tables[i]
		if !t.Apart() || !t.Permits(problem.RowWise) || !(t.PoolingFactor() > 0) {
			continue
		}
		if load, more := p.HotBlock(i); load >= 1.05 && more > 0 { // printed, less would be 1.0
			hot = append(hot, hotTable{t.Name, load, more})
		}
	}
	slices.SortStableFunc(hot, func(a, b hotTable) int { return cmp.Compare(b.more, a.more) })
	var parts []string
	for _, t := range hot[:min(3, len(hot))] {
		parts = append(parts, fmt.Sprintf("%.1f times the mean lookups of %s (%v more memory)", t.load, name(t.name), t.more))
	}
	if len(parts) == 0 {
		return ""
	}
	return "row_wise gives the device with the most used row " + strings.Join(parts, ", ")
}
