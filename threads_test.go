package neuroshard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// severalKernels draws n tables for 2 devices. They differ in optimizer and precision, and some are
// weighted, so a device runs several kernels.
func severalKernels(t *testing.T, n int, device string, seed uint64) *problem.Problem {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: profileNamed(t, device), Devices: 2}}
	for i := range n {
		table := problem.Table{
			Name: fmt.Sprint("t", i), Rows: int64(math.Pow(10, 2+5*random.Float64())),
			Dim:       []int{4, 8, 12, 16, 32, 64, 100, 128, 256}[random.IntN(9)],
			Features:  []problem.Feature{{PoolingFactor: .01 + []float64{0, 1, 5, 20, 60}[random.IntN(5)]*random.Float64()}},
			Access:    access.Distribution{Kind: access.Zipf, Exponent: .8 + .6*random.Float64()},
			Optimizer: problem.RowwiseAdagrad, Weighted: random.IntN(5) == 0,
		}
		if random.IntN(5) == 0 {
			table.Precision = problem.FP16
		}
		if random.IntN(5) == 0 {
			table.Optimizer = []problem.Optimizer{problem.Adam, problem.SGD}[random.IntN(2)]
		}
		p.Tables = append(p.Tables, table)
	}
	return p
}

// One thread and several give the same plan with the same work: of tables that may have any sharding
// type, and of many tables that the search deals to the devices.
func TestThreadsDoNotChangePlans(t *testing.T) {
	dealt := workloadNamed(t, "nvidia-synthetic-large")
	for _, c := range []struct {
		p     *problem.Problem
		types []problem.ShardingType
	}{{severalKernels(t, 40, "h200", 8), problem.ShardingTypes()}, {&dealt, search.Columns()}} {
		found := func(workers int) (string, search.Stats) {
			r := planned(t, c.p, neuroshard.Options{Search: search.Options{Workers: workers, ShardingTypes: c.types}})
			return written(t, r.Plan), r.Stats
		}
		one, work := found(1)
		if several, stats := found(3); several != one || stats != work {
			t.Errorf("%d tables: got another plan, or work %+v, with 3 threads, want that of one, %+v", len(c.p.Tables), stats, work)
		}
	}
}
