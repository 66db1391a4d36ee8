package problem

import (
	"github.com/neuroshard/neuroshard/problem/access"
)

// blocks.go makes problems of parts of tables. To the device that holds it, a block of a
// table's rows is a table with fewer rows and lookups, and a replica is a table that is
// read by a smaller batch. So what estimates whole tables estimates both, on a problem of
// such tables.

// BlocksOf returns the problem whose tables are blocks of p's tables, cut by rows for
// the given number of devices: for each table the block that holds the most used row
// (access.Counts.Part). Everything else is p's. Times of its tables are those of one
// block.
func BlocksOf(p *Problem, devices int) *Problem {
	type content struct {
		access  access.Distribution
		rows    int64
		pooling float64
	}
	known := map[content]access.Counts{}
	blocks := *p
	blocks.Tables = make([]Table, len(p.Tables))
	for i := range p.Tables {
		t := p.Tables[i]
		key := content{t.Access, t.Rows, t.PoolingFactor()}
		c, ok := known[key]
		if !ok {
			c = t.Counts(p.Batch)
			known[key] = c
		}
		blocks.Tables[i] = blockOf(&t, t.BlockRows(devices), c, p.Batch)
	}
	return &blocks
}

// blockOf returns the table that a block of rows of t is to the device that holds it,
// if the whole table's counts of a batch of that many samples are c.
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
		b.Features[f] = Feature{Name: was.Name, PoolingFactor: was.PoolingFactor * share}
	}
	b.Access = access.Distribution{Kind: access.Histogram, Reuse: part.Reuse, Batch: batch, UniqueRows: part.Unique}
	return b
}

// ReplicasOf returns the problem of p's tables as each device serves them that holds
// them whole for its own samples: ceil(batch / devices) of them, and with gradients
// that are kept for all devices' rather than applied, as SGD writes them. Everything
// else is p's.
func ReplicasOf(p *Problem) *Problem {
	replicas := *p
	replicas.Batch = int(p.localBatch())
	replicas.Tables = make([]Table, len(p.Tables))
	for i := range p.Tables {
		replicas.Tables[i] = p.Tables[i]
		replicas.Tables[i].Optimizer = SGD
	}
	return &replicas
}
