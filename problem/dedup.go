package problem

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

// dedup.go describes tables whose indices each device deduplicates (Table.IndexDedup). Of n lookups
// of its part of the batch, which read D distinct rows, a device sends D indices and gets D vectors:
//
//	ids      7 4 7 7 9 4                    n = 6
//	         | unique        positions 0 1 0 0 2 1
//	sent     7 4 9                          D = 3
//	         | exchange, lookup, exchange
//	vectors  v7 v4 v9
//	         | expand
//	         v7 v4 v7 v7 v9 v4
//
// So to the exchanges and to the kernels, the table is one with D lookups a device. A row that a
// batch of W devices uses m times is used W (1 - (1 - 1/W)^m) times, as each of the m uses is on any
// of the devices. Deduplicated makes the problem of such tables. Whatever estimates times estimates
// that problem, and knows nothing of deduplication. Memory is counted of either problem: for the
// exchange by the distinct rows, and for the expansion by all lookups.

// Deduplicated returns the problem whose tables with IndexDedup have the lookups and accesses that
// are left when each device has deduplicated its indices. It returns p itself if no table has
// IndexDedup, or if p is such a problem. Sharding types, bytes and operators are those of p's
// tables.
func Deduplicated(p *Problem) *Problem {
	if !slices.ContainsFunc(p.Tables, func(t Table) bool { return t.IndexDedup && t.Stated == nil }) {
		return p
	}
	type content struct {
		access  access.Distribution
		rows    int64
		pooling float64
		lists   float64
	}
	known := map[content][2]access.Counts{}
	own := *p
	own.Tables = slices.Clone(p.Tables)
	for i := range own.Tables {
		t := &own.Tables[i]
		if !t.IndexDedup || t.Stated != nil {
			continue
		}
		key := content{t.Access, t.Rows, t.PoolingFactor(), t.Lists()}
		counts, ok := known[key]
		if !ok {
			counts = [2]access.Counts{t.Counts(p.Batch), t.Counts(int(p.localBatch()))}
			known[key] = counts
		}
		own.Tables[i] = deduplicated(&p.Tables[i], p, counts[0], counts[1])
	}
	return &own
}

// deduplicated returns table t of the problem as its devices deduplicate it. all are the counts of
// the batch, and part those of a device's part.
func deduplicated(t *Table, p *Problem, all, part access.Counts) Table {
	own := *t
	own.Stated = t
	left := 0.0 // of each lookup
	if part.Lookups > 0 {
		left = part.Unique / part.Lookups
	}
	own.Features = make([]Feature, len(t.Features))
	for i, f := range t.Features {
		f.PoolingFactor *= left
		own.Features[i] = f
	}
	all = all.Deduplicated(own.PoolingFactor()*float64(p.Batch), float64(p.Batch)/float64(p.localBatch()))
	own.Access = access.Distribution{Kind: access.Histogram, Reuse: all.Reuse, Batch: p.Batch, UniqueRows: all.Unique}
	return own
}

// exchanged returns the lookups of a sample in a table of the problem that devices exchange: all of
// them, or those that are left when each device has deduplicated its own.
func (p *Problem) exchanged(t *Table) float64 {
	if !t.IndexDedup || t.Stated != nil {
		return t.PoolingFactor()
	}
	batch := p.localBatch()
	return t.Counts(int(batch)).Unique / float64(batch)
}

// bags returns the vectors of a sample that devices exchange of a table of the problem: Table.Bags,
// or the lookups that are left when each device has deduplicated its own.
func (p *Problem) bags(t *Table) float64 {
	if t.IndexDedup {
		return p.exchanged(t)
	}
	return t.Bags()
}

// asStated returns the table as its problem states it, of a table that Deduplicated has made.
func (t *Table) asStated() *Table {
	if t.Stated != nil {
		return t.Stated
	}
	return t
}

// readOnce returns the accesses of a device's own samples to a table of which it reads each
// distinct row once.
func readOnce(lookups float64, batch int) access.Distribution {
	d := access.Distribution{Kind: access.Histogram, Batch: batch, UniqueRows: lookups}
	d.Reuse[0] = 1
	return d
}

// expanded returns the bytes of what a device expands from deduplicated tables: for each lookup of its
// own samples three vectors (memory.go), the index, its place among the distinct ones, and what sorts
// the indices to find these.
func (p *Problem) expanded() unit.Bytes {
	samples, bytes := float64(p.localBatch()), int64(0)
	for i := range p.Tables {
		if t := p.Tables[i].asStated(); t.IndexDedup {
			lookups := int64(math.Ceil(samples * t.PoolingFactor()))
			bytes += lookups * (3*int64(t.Dim)*OutputBytes + 2*IndexBytes + sortPairBytes)
		}
	}
	return unit.Bytes(bytes)
}
