package simulate

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
)

// chosen gives each of the devices a block of the rows of some columns.
func (l *placed) chosen(table int, columns problem.Range, devices ...int) *placed {
	t := &l.p.Tables[table]
	block := t.BlockRows(len(devices))
	for i, d := range devices {
		s := problem.Shard{Table: table, Columns: columns, ShardingType: problem.RowWise, Blocks: len(devices)}
		if columns.Len() < int64(t.Dim) {
			s.ShardingType = problem.Grid
		}
		s.Rows = problem.Range{Start: int64(i) * block, End: min(t.Rows, int64(i+1)*block)}
		l.shards[d] = append(l.shards[d], s)
	}
	return l
}

// TestChosenBlocksEqualReference compares the times of a table in blocks on devices 0, 3 and 5,
// beside a whole table on device 3, with the second implementation: the block and the table share
// an operator, and a block sends its columns as a slice of columns does.
func TestChosenBlocksEqualReference(t *testing.T) {
	const n, batch = 8, 100
	p := on(t, "a100-80", n, 4, byHand(t, n, 4, problem.Adagrad).Tables[0], tableOf("b", 5000, 32, 3, true))
	p.Batch, p.Engine, p.Tables[1].Optimizer = batch, problem.HugeCTR, problem.Adagrad
	p.Tables[1].Features = append(p.Tables[1].Features, problem.Feature{PoolingFactor: 2})
	l := place(p).chosen(0, p.Whole(0).Columns, 0, 3, 5).on(1, 3)

	// A batch reads 300 rows of the first table once and 100 rows twice. A block of 334 of 1,000
	// rows has the most used row and 0.334 of the others.
	block := func(rows float64) refTable {
		share := rows / 1000
		once, twice := 300*share, 1+99*share
		b := refTable{rows: rows, dim: 16, features: 1, lookups: once + 2*twice, unique: once + twice}
		b.reuse[0], b.reuse[1] = once/b.unique, twice/b.unique
		held := b.lookups / 500
		b.lengthCV = math.Sqrt((1 - held) / (5 * held))
		return b
	}
	counts := p.Tables[1].Counts(batch)
	whole := refTable{rows: 5000, dim: 32, features: 2, lookups: counts.Lookups, unique: counts.Unique, reuse: counts.Reuse}
	tables := make([][]refTable, n)
	tables[0], tables[3], tables[5] = []refTable{block(334)}, []refTable{block(334), whole}, []refTable{block(332)}

	x := refExchange{device: a100(t), batch: batch, perHost: 4, bytes: 4, vector: 4, columns: make([]float64, n), start: make([]float64, n)}
	x.columns[0], x.columns[3], x.columns[5] = 16, 16+2*32, 16
	compute := make([][2]float64, n)
	_, alone := x.exchange()
	for d := range tables {
		o := refOp{device: x.device, batch: batch, weight: 4, output: 4, index: 8, optimizer: "adagrad", tables: tables[d]}
		compute[d][0], compute[d][1] = o.compute()
		x.start[d] = compute[d][0] + compute[d][1] + alone[d]
	}
	forward, backward := x.exchange()
	for d, got := range l.price(t).Devices {
		difference(t, "forward", d, float64(got.Forward), compute[d][0])
		difference(t, "backward", d, float64(got.Backward), compute[d][1])
		difference(t, "forward exchange", d, float64(got.ForwardComm), forward[d])
		difference(t, "backward exchange", d, float64(got.BackwardComm), backward[d])
	}
	input := must.Get(NewPricer(p).Input(l.shards))(t)
	bags, lookups := make([]float64, n), make([]float64, n)
	bags[0], bags[3], bags[5] = 1, 3, 1
	lookups[0], lookups[3], lookups[5] = block(334).lookups/batch, block(334).lookups/batch+5, block(332).lookups/batch
	want := must.Get(NewDevice(x.device).InputComm(InputComm{PerHost: 4, Batch: batch, Bags: bags, Lookups: lookups}))(t)
	near(t, "input exchange", input, want)
}

// TestChosenBlocksOfAllDevices: blocks on all devices take as long to compute as row_wise blocks,
// and all columns travel for each of them.
func TestChosenBlocksOfAllDevices(t *testing.T) {
	p := on(t, "a100-80", 4, 4, tableOf("t", 100_000, 64, 20, true))
	rows, chosen := place(p).rowWise(0).price(t), place(p).chosen(0, p.Whole(0).Columns, 0, 1, 2, 3).price(t)
	for d := range rows.Devices {
		near(t, "forward", chosen.Devices[d].Forward, rows.Devices[d].Forward)
		near(t, "backward", chosen.Devices[d].Backward, rows.Devices[d].Backward)
		near(t, "exchange", chosen.Devices[d].ForwardComm, rows.Devices[d].ForwardComm)
	}
}
