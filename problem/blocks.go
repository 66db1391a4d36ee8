package problem

import (
	"math"
	"sync"

	"github.com/neuroshard/neuroshard/problem/access"
)

// blocks.go makes problems whose tables are parts of tables. To its device, a block of
// rows is a table with fewer rows and lookups, and a replica is a table that a smaller
// batch reads. So a cost model of whole tables can estimate blocks and replicas, too: it
// estimates the tables of such a problem.

// BlocksOf returns the problem whose tables are blocks of p's tables, cut by rows for
// the given number of devices: for each table, the block that holds the most used row
// (access.Counts.Part), which is the first if its rows are sorted by use. Everything else is as in p.
func BlocksOf(p *Problem, devices int) *Problem {
	p = Deduplicated(p)
	type content struct {
		access  access.Distribution
		rows    int64
		pooling float64
		lists   float64
	}
	known := map[content]access.Counts{}
	blocks := *p
	blocks.Tables = make([]Table, len(p.Tables))
	for i := range p.Tables {
		t := p.Tables[i]
		key := content{t.Access, t.Rows, t.PoolingFactor(), t.Lists()}
		c, ok := known[key]
		if !ok {
			c = t.Counts(p.Batch)
			known[key] = c
		}
		blocks.Tables[i] = blockOf(&t, t.BlockRows(devices), c, p.Batch)
	}
	return &blocks
}

// BlockOf returns a table that describes a block of p's table i, cut by rows for the given number of
// devices: the block that holds the most used row.
func BlockOf(p *Problem, i, devices int) Table {
	t := &Deduplicated(p).Tables[i]
	return blockOf(t, t.BlockRows(devices), t.Counts(p.Batch), p.Batch)
}

// blockOf returns a table that describes a block of t with the given number of rows. c are
// the counts of the whole table for the batch.
func blockOf(t *Table, rows int64, c access.Counts, batch int) Table {
	part := c.Part(float64(rows) / float64(t.Rows))
	b := *t
	b.Rows = rows
	b.Features = make([]Feature, len(t.Features))
	share := 0.0 // of the lookups
	if c.Lookups > 0 {
		share = part.Lookups / c.Lookups
	}
	for f, was := range t.Features {
		b.Features[f] = Feature{Name: was.Name, PoolingFactor: was.PoolingFactor * share, LengthCV: thinned(was, share), Bags: was.Bags}
	}
	b.Access = access.Distribution{Kind: access.Histogram, Reuse: part.Reuse, Batch: batch, UniqueRows: part.Unique}
	return b
}

// blockShares holds what blockShare has computed. The accesses of a table cost more than all else
// that counts a block's bytes, and plans of many devices count those of many equal blocks.
var blockShares struct {
	sync.Mutex
	known map[blockOfTable]float64
}

// blockOfTable is what the share of a block depends on.
type blockOfTable struct {
	access           access.Distribution
	rows, block      int64
	pooling, lists   float64
	batch, localSize int64 // localSize is 0 if devices do not deduplicate their indices
	deduplicated     bool  // the table is one of Deduplicated
	first            int64 // the rows of the block with the most used rows, if this is another one
}

const (
	// mostBlockShares limits the memory of blockShares.
	mostBlockShares = 1 << 17
	// shareSteps rounds shares, so that a half of rows that are read alike is one half of the lookups.
	shareSteps = 1 << 32
)

// firstBlock returns the number of rows of t's first block if rows are sorted by use and s is a later block; otherwise 0. On
// devices that the plan chooses, any block may lie anywhere, so each counts as the first.
func (p *Problem) firstBlock(t *Table, s Shard) int64 {
	switch {
	case !t.Access.Sorted || s.Rows.Start == 0 || s.Blocks > 0:
		return 0
	case s.ShardingType.Span() == OneHost:
		return t.BlockRows(p.Topology.PerHost())
	}
	return t.BlockRows(p.Topology.Devices)
}

// blockShare returns the share of the lookups that block s of table t gets in a batch, of those that are left if devices
// deduplicate their own. A later block of sorted rows counts as the second one, any other as the one with the most used row.
func (p *Problem) blockShare(t *Table, s Shard) float64 {
	stated, rows := statedOf(t), s.Rows.Len()
	key := blockOfTable{stated.Access, t.Rows, rows, stated.PoolingFactor(), stated.Lists(), int64(p.Batch), 0, t.Stated != nil, p.firstBlock(t, s)}
	if t.IndexDedup {
		key.localSize = p.localBatch()
	}
	blockShares.Lock()
	defer blockShares.Unlock()
	share, ok := blockShares.known[key]
	if !ok {
		c := t.Counts(p.Batch)
		others, lookups := c, c.Lookups
		if t.IndexDedup && t.Stated == nil {
			lookups = exchanged(p, t) * float64(p.Batch)
			others = c.Deduplicated(lookups, float64(p.Batch)/float64(key.localSize))
		} else if t.IndexDedup {
			others = stated.Counts(p.Batch)
		}
		most := func(rows int64) float64 {
			part := float64(rows) / float64(t.Rows)
			if rows < t.Rows && !t.Access.Sorted {
				part = float64(rows-1) / float64(t.Rows-1) // of the rows beside the most used one
			}
			return min(c.Part(part).Lookups, others.Part(part).Lookups)
		}
		in := most(min(key.first+rows, t.Rows))
		if key.first > 0 {
			in = max(0, in-most(key.first))
		}
		if lookups > 0 {
			share = math.RoundToEven(in/lookups*shareSteps) / shareSteps
		}
		if len(blockShares.known) >= mostBlockShares {
			clear(blockShares.known)
		} else if blockShares.known == nil {
			blockShares.known = map[blockOfTable]float64{}
		}
		blockShares.known[key] = share
	}
	return share
}

// thinned returns the coefficient of variation of the bags of a feature in a block, if each
// lookup is in the block with the probability share. The variance of a thinned count is
// share^2 times the variance, plus share (1-share) times the mean.
func thinned(f Feature, share float64) float64 {
	if !(share > 0 && share < 1 && f.PoolingFactor > 0) {
		return f.LengthCV
	}
	return min(MaxLengthCV, math.Sqrt(f.LengthCV*f.LengthCV+(1-share)*f.bags()/(share*f.PoolingFactor)))
}

// ReplicasOf returns the problem whose tables are replicas of p's tables on one device.
// The batch is the device's own samples, ceil(batch / devices). The optimizer is SGD,
// because the backward of a replica only writes gradients, which are then summed over all
// devices. Everything else is as in p.
func ReplicasOf(p *Problem) *Problem {
	p = Deduplicated(p)
	replicas := *p
	replicas.Batch = int(p.localBatch())
	replicas.Tables = make([]Table, len(p.Tables))
	for i := range p.Tables {
		t := &replicas.Tables[i]
		*t = p.Tables[i]
		if t.Optimizer = SGD; t.IndexDedup {
			t.Access = readOnce(t.PoolingFactor()*float64(replicas.Batch), replicas.Batch)
		}
	}
	return &replicas
}
