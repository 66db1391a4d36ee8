package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// typical is a group as planners see them: 10 tables of a million rows, batch 2048,
// 20 lookups a bag, uniform. Its tables lie in the arena.
func typical(tb testing.TB, a *Arena, dim int, o problem.Optimizer) []Shard {
	tb.Helper()
	const tables, rows, batch, pooling = 10, 1_000_000, 2048, 20
	shards := make([]Shard, tables)
	for i := range shards {
		bags := lookups.Bags{Indices: make([]int64, batch*pooling), Offsets: make([]int64, batch+1)}
		for b := range bags.Offsets {
			bags.Offsets[b] = int64(b) * pooling
		}
		shards[i] = Shard{
			Rows: rows, Dim: dim, Bags: bags,
			Weights: a.Floats(rows * int64(dim)), State: a.Floats(o.StateBytes(rows, dim) / 4),
		}
		clear(shards[i].Weights)
		clear(shards[i].State)
	}
	return shards
}

// draw draws the lookups anew. Rows that were read a moment ago may still lie in the
// last-level cache, which on servers holds more than a group reads.
func draw(shards []Shard, random *rand.Rand) {
	for i := range shards {
		rows := shards[i].Bags.Indices
		for k := range rows {
			rows[k] = random.Int64N(shards[i].Rows)
		}
	}
}

func lookupsOf(shards []Shard) (n int) {
	for i := range shards {
		n += len(shards[i].Bags.Indices)
	}
	return n
}

func timed(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

// probeAndOp is what ceilings are measured with, and an op of SGD, with the same
// threads and the same memory.
func probeAndOp(tb testing.TB, a *Arena, shards []Shard) (*probe, *Op) {
	tb.Helper()
	op, err := NewOp(shards, Options{Arena: a})
	if err != nil {
		tb.Fatal(err)
	}
	p := newProbe(op.opt.Threads, unit.GiB, a)
	p.picks = p.picks[:min(len(p.picks), lookupsOf(shards))]
	for i := range shards {
		clear(op.Gradient(i))
	}
	tb.Cleanup(func() {
		op.Close()
		p.team.close()
	})
	return p, op
}

// turn returns the time of a gather of random rows, one for each lookup of the
// group, and the time of the forward. Neither reads the rows of an earlier turn.
func turn(p *probe, op *Op, shards []Shard) (gather, forward time.Duration) {
	phase := p.gather()
	gather = timed(func() { p.team.run(phase) })
	draw(shards, p.random)
	return gather * time.Duration(lookupsOf(shards)) / time.Duration(len(p.picks)), timed(op.Forward)
}

// BenchmarkForward reports the bytes of rows gathered a second, and their share of
// what a bare gather of rows of 256 bytes reaches in turns with it.
func BenchmarkForward(b *testing.B) {
	for _, dim := range []int{16, 64, 128} {
		b.Run(fmt.Sprintf("dim=%d", dim), func(b *testing.B) {
			arena := NewArena(unit.Bytes(10_000_000*4*dim) + 3*unit.GiB/2)
			shards := typical(b, arena, dim, problem.SGD)
			p, op := probeAndOp(b, arena, shards)
			n := lookupsOf(shards)
			var gather, forward time.Duration
			for range b.N {
				g, f := turn(p, op, shards)
				gather, forward = gather+g, forward+f
			}
			rows := float64(n) * float64(b.N)
			b.ReportMetric(4*float64(dim)*rows/forward.Seconds()/1e9, "GB/s")
			b.ReportMetric(100*float64(dim)/gatherDim*gather.Seconds()/forward.Seconds(), "%gather")
			b.ReportMetric(0, "ns/op") // the time of both says nothing
		})
	}
}

// BenchmarkBackward reports the time for a lookup, in which nearly every one is of a
// row of its own.
func BenchmarkBackward(b *testing.B) {
	for _, dim := range []int{16, 64, 128} {
		for _, o := range []problem.Optimizer{problem.SGD, problem.RowwiseAdagrad} {
			b.Run(fmt.Sprintf("dim=%d/%v", dim, o), func(b *testing.B) {
				arena := NewArena(unit.Bytes(10_000_000*4*(dim+1)) + 3*unit.GiB/2)
				shards := typical(b, arena, dim, o)
				op, err := NewOp(shards, Options{Arena: arena, Optimizer: o})
				if err != nil {
					b.Fatal(err)
				}
				defer op.Close()
				for i := range shards {
					clear(op.Gradient(i))
				}
				random := rand.New(rand.NewPCG(1, 2))
				var backward time.Duration
				for range b.N {
					draw(shards, random)
					backward += timed(op.Backward)
				}
				b.ReportMetric(float64(backward.Nanoseconds())/float64(lookupsOf(shards))/float64(b.N), "ns/lookup")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
