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
	n, t := p.Topology.Devices, &Deduplicated(p).Tables[i]
	block := BlockOf(p, i, n)
	load = block.PoolingFactor() / t.PoolingFactor() * float64(t.NonEmptyBlocks(n))
	even := *p
	even.Tables = slices.Clone(p.Tables)
	even.Tables[i].Access = access.Distribution{Kind: access.Uniform}
	return load, p.blockBytes(i) - even.blockBytes(i)
}

// blockBytes returns the most bytes of a row_wise block of table i in a phase of the step.
func (p *Problem) blockBytes(i int) unit.Bytes {
	t := &p.Tables[i]
	_, m := p.ShardMemory(Shard{Table: i, Columns: Range{End: int64(t.Dim)}, Rows: Range{End: t.BlockRows(p.Topology.Devices)}, ShardingType: RowWise}).Peak()
	return m.Used()
}
