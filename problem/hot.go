package problem

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

// HotBlock returns what the device with the most used row of table i has if the table is row_wise: its
// lookups over the mean of the devices, and the bytes that it has more than under even lookups. The problem must be valid,
// and the table read.
func (p *Problem) HotBlock(i int) (load float64, more unit.Bytes) {
	n, one := p.Topology.Devices, *p
	one.Tables = slices.Clone(p.Tables[i : i+1])
	t, block := &one.Tables[0], BlockOf(&one, 0, n)
	load = block.PoolingFactor() / exchanged(&one, t) * float64(t.NonEmptyBlocks(n))
	more = one.blockBytes()
	t.Access = access.Distribution{Kind: access.Uniform}
	return load, more - one.blockBytes()
}

// blockBytes returns the most bytes of a row_wise block of the first table in a phase of the step.
func (p *Problem) blockBytes() unit.Bytes {
	t := &p.Tables[0]
	_, m := p.ShardMemory(Shard{Columns: Range{End: int64(t.Dim)}, Rows: Range{End: t.BlockRows(p.Topology.Devices)}, ShardingType: RowWise}).Peak()
	return m.Used()
}
