package neuroshard_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// memoryOf returns the bytes that each device holds in each phase, counted from the last shard to the first.
func memoryOf(p *problem.Problem, shards [][]problem.Shard) []problem.StepMemory {
	all := make([]problem.StepMemory, len(shards))
	for d := range all {
		for _, s := range slices.Backward(shards[d]) {
			all[d] = all[d].Add(p.ShardMemory(s))
			if s.ShardingType == problem.DataParallel && d > 0 {
				continue // one of the replicas stands for all
			}
			for other := range all {
				all[other] = all[other].Add(p.SharedMemory(s))
			}
		}
	}
	for d := range all {
		all[d] = all[d].Add(p.DeviceMemory(d))
	}
	return all
}

// TestNearlyFull plans drawn problems near full memory, under all pipelines: no plan exceeds its memory in any phase, counted
// in another order.
func TestNearlyFull(t *testing.T) {
	draws, planned := 200, 0
	if testing.Short() {
		draws = 20
	}
	for seed := range uint64(draws) {
		draw := rand.New(rand.NewPCG(seed, 43))
		p := problem.Problem{
			Batch:    1024 << draw.IntN(4),
			Pipeline: problem.Pipeline(problem.Pipelines()[draw.IntN(4)]),
			Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 2 + draw.IntN(7), ReserveShare: hardware.NoReserve},
		}
		for i := range 4 + draw.IntN(12) {
			table := problem.Table{
				Name: string(rune('a' + i)), Rows: 1000 << draw.IntN(8), Dim: 16 << draw.IntN(4), Optimizer: problem.Optimizer(draw.IntN(4)),
				Features: []problem.Feature{{PoolingFactor: float64(1 + draw.IntN(20))}},
				Access:   access.Distribution{Kind: access.Zipf, Exponent: .5 + draw.Float64()},
			}
			if draw.IntN(4) == 0 {
				table.Pooling = problem.PoolingNone
			}
			table.IndexDedup = draw.IntN(4) == 0
			p.Tables = append(p.Tables, table)
		}
		// The memory that equal shares of all whole tables would take, and a little more.
		all := problem.StepMemory{}
		for i := range p.Tables {
			all = all.Add(p.ShardMemory(p.Whole(i))).Add(p.SharedMemory(p.Whole(i)))
		}
		_, peak := all.Peak()
		_, fixed := p.DeviceMemory(0).Peak()
		p.Topology.Memory = fixed.Used() + unit.Bytes(float64(peak.Used())/float64(p.Topology.Devices)*(1.02+.2*draw.Float64()))
		r, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Search: search.Options{MaxEvaluations: 3000, Seed: seed}})
		if err != nil {
			continue
		}
		planned++
		for d, m := range memoryOf(&p, r.Shards) {
			phase, peak := m.Peak()
			if peak.Total() > p.Topology.DeviceMemory(d) {
				t.Errorf("problem %d, %s: device %d holds %v of %v in the %s", seed, p.Pipeline, d, peak.Total(), p.Topology.DeviceMemory(d), phase.Words())
			}
			if has := r.Plan.Devices[d]; has.Memory != peak || has.Phase != phase {
				t.Errorf("problem %d, %s: the plan states %+v in the %s of device %d, want %+v in the %s", seed, p.Pipeline, has.Memory, has.Phase.Words(), d, peak, phase.Words())
			}
		}
	}
	if planned < draws/3 {
		t.Errorf("planned %d of %d problems, want a third at least", planned, draws)
	}
}
