package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
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
	if p == nil {
		return ""
	}
	n := p.Topology.Devices
	var hot []hotTable
	for i := range p.Tables {
		t := &problem.Deduplicated(p).Tables[i]
		if n < 2 || t.Pooling != problem.PoolingNone || !t.Permits(problem.RowWise) || !(t.PoolingFactor() > 0) {
			continue
		}
		block := problem.BlockOf(p, i, n)
		load := block.PoolingFactor() / t.PoolingFactor() * float64(t.NonEmptyBlocks(n))
		if load >= 1.05 { // printed, less would be 1.0
			hot = append(hot, hotTable{t.Name, load, blockBytes(p, i) - blockBytes(evenly(p, i), i)})
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

// evenly returns the problem with even accesses to table i.
func evenly(p *problem.Problem, i int) *problem.Problem {
	even := *p
	even.Tables = append([]problem.Table(nil), p.Tables...)
	even.Tables[i].Access = access.Distribution{Kind: access.Uniform}
	return &even
}

// blockBytes returns the most bytes of a row_wise block of table i in a phase of the step.
func blockBytes(p *problem.Problem, i int) unit.Bytes {
	t := &p.Tables[i]
	rows := problem.Range{End: t.BlockRows(p.Topology.Devices)}
	_, m := p.ShardMemory(problem.Shard{Table: i, Columns: problem.Range{End: int64(t.Dim)}, Rows: rows, ShardingType: problem.RowWise}).Peak()
	return m.Used()
}
