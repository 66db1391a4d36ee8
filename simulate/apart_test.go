package simulate

import (
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// A sequence is priced by the kernels that keep lookups apart, in an operator of its own: each lookup
// is a bag.
func TestSequencesHaveTheirKernels(t *testing.T) {
	p := on(t, "h100-80", 1, 0, tableOf("pooled", 1_000_000, 32, 10, false), tableOf("sequence", 1_000_000, 32, 10, true))
	p.Tables[1].Pooling = problem.PoolingNone
	d := NewDevice(p.Topology.Profile)
	alone := func(i int, pooling problem.Pooling, bags float64) (forward, backward float64) {
		table := &p.Tables[i]
		f, b := d.Compute(Op{Batch: p.Batch, Pooling: pooling, Tables: []Table{{
			Rows: table.Rows, Dim: table.Dim, Bags: bags, Counts: table.Counts(p.Batch),
		}}})
		return float64(f), float64(b)
	}
	pooledF, pooledB := alone(0, problem.SumPooling, 1)
	apartF, apartB := alone(1, problem.PoolingNone, 10)
	forward, backward := NewPricer(p).GroupCost([]problem.Shard{p.Whole(0), p.Whole(1)})
	if !within(float64(forward), pooledF+apartF) || !within(float64(backward), pooledB+apartB) {
		t.Errorf("got %v and %v, want %v + %v and %v + %v ms", forward, backward, pooledF, apartF, pooledB, apartB)
	}
	if f, b := alone(1, problem.SumPooling, 10); f <= apartF || b <= apartB {
		t.Errorf("as pooled bags: got %v and %v ms, want more than %v and %v", f, b, apartF, apartB)
	}
}

func within(got, want float64) bool { return got > want*(1-1e-12) && got < want*(1+1e-12) }
