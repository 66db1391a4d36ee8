package cost_test

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// oneTable is a problem of one table of 16 columns. A batch reads 300 rows once and 100
// rows twice.
func oneTable(t *testing.T, rows int64, devices, perHost int) *problem.Problem {
	p := &problem.Problem{Batch: 100, Topology: topology(t, devices, perHost)}
	p.Topology.HostMemory = unit.TiB
	table := problem.Table{
		Name: "t", Rows: rows, Dim: 16, Features: []problem.Feature{{Name: "f", PoolingFactor: 5}},
		Access: access.Distribution{Kind: access.Histogram, Batch: 100},
	}
	table.Access.Reuse[0], table.Access.Reuse[1] = .75, .25
	p.Tables = []problem.Table{table}
	return p
}

// TestTiersAreTheSimulatedOnes: what a table in host memory takes above its time in HBM is what the
// simulated device says: its transfers, and the sort of the places of cached rows, whose passes follow
// from the cached rows of the whole operator: two with 200 rows, one with 100.
func TestTiersAreTheSimulatedOnes(t *testing.T) {
	model, _ := load(t)
	for _, optimizer := range []problem.Optimizer{problem.SGD, problem.RowwiseAdagrad, problem.Adagrad, problem.Adam} {
		p := oneTable(t, 1000, 1, 0)
		p.Tables[0].Optimizer = optimizer
		second := p.Tables[0]
		second.Name, second.Features = "second", []problem.Feature{{Name: "g", PoolingFactor: 5}}
		p.Tables = append(p.Tables, second)
		s, pricer := newEstimates(t, model, p).NewScorer(0), simulate.NewPricer(p)
		for _, numbers := range [][]problem.Operator{{0}, {0, 0}, {0, 1}} {
			times := func(form problem.Form) (predicted plan.StepTimes, forward, backward unit.Millis) {
				s.Reset()
				var held []problem.Shard
				for table, number := range numbers {
					form.Operator = number
					s.Add(0, s.Item(table, 16, form))
					shard := p.Whole(table)
					shard.Tier, shard.Cache, shard.Operator = form.Tier, form.Cache, number
					held = append(held, shard)
				}
				forward, backward = pricer.GroupCost(held)
				return s.Breakdown().Devices[0], forward, backward
			}
			hbm, hbmForward, hbmBackward := times(problem.Form{})
			for _, form := range []problem.Form{{Tier: problem.Host}, {Tier: problem.HostCached, Cache: .1}} {
				got, forward, backward := times(form)
				// Times are kept in units of 2^-30 ms.
				if f, b := got.Forward-hbm.Forward-(forward-hbmForward), got.Backward-hbm.Backward-(backward-hbmBackward); math.Abs(float64(f)) > 1e-8 || math.Abs(float64(b)) > 1e-8 {
					t.Errorf("%s, %s, operators %v: got %v and %v ms above the simulated times, want 0", form.Tier, optimizer, numbers, float64(f), float64(b))
				}
			}
		}
	}
}

// TestReplicasTravelInHalf: gradients of twice the rows in bf16 are the same number of bytes, in
// hosts and between them.
func TestReplicasTravelInHalf(t *testing.T) {
	model, _ := load(t)
	travel := func(rows int64, devices, perHost int, comm problem.Precision) float64 {
		p := oneTable(t, rows, devices, perHost)
		p.CommPrecision = comm
		s := newEstimates(t, model, p).NewScorer(0)
		s.Add(0, s.Item(0, 16, problem.Form{ShardingType: problem.DataParallel}))
		return float64(s.Breakdown().Devices[0].BackwardComm)
	}
	for _, perHost := range []int{1, 4, 8} {
		half, full := travel(2_000_000, 8, perHost, problem.BF16), travel(1_000_000, 8, perHost, problem.FP32)
		if !(half > 0) || math.Abs(half-full) > 1e-9*full {
			t.Errorf("%d to a host: got %v ms in bf16, want %v as of half the rows in fp32", perHost, half, full)
		}
	}
}
