package neuroshard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
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

// TestThreadsDoNotChangePlans compares plans of one and of several threads, under the embedded
// cost model, for tables that may have any sharding type. With the build tag long,
// TestThreadsDoNotChangeMorePlans does so for more problems.
func TestThreadsDoNotChangePlans(t *testing.T) {
	threadsDoNotChangePlan(t, severalKernels(t, 40, "h200", 8), 3)
}

func threadsDoNotChangePlan(t *testing.T, p *problem.Problem, threads ...int) {
	t.Helper()
	found := func(workers int) (*plan.Plan, search.Stats) {
		options := neuroshard.Options{}
		options.Search.Workers = workers
		options.Search.ShardingTypes = problem.ShardingTypes()
		r := planned(t, p, options)
		return r.Plan, r.Stats
	}
	one, work := found(1)
	for _, workers := range threads {
		several, stats := found(workers)
		if got, want := written(t, several), written(t, one); got != want {
			t.Errorf("%d threads give another plan than one thread (-one +several):\n%s", workers, gocmp.Diff(want, got))
		}
		if stats != work {
			t.Errorf("got work %+v with %d threads, want %+v as with one", stats, workers, work)
		}
	}
}

// TestThreadsDoNotChangeDealtTables compares plans of one and of several threads of a problem whose
// tables the search deals to the devices (search/deal.go).
func TestThreadsDoNotChangeDealtTables(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems, one after another")
	}
	threadsDoNotChangeDealtTables(t, "nvidia-synthetic-large", 1, 2)
}

func threadsDoNotChangeDealtTables(t *testing.T, workload string, threads ...int) {
	p := workloadNamed(t, workload)
	var one string
	for _, workers := range threads {
		options := neuroshard.Options{}
		options.Search.Workers = workers
		options.Search.ShardingTypes = []problem.ShardingType{problem.TableWise, problem.ColumnWise}
		found := written(t, planned(t, &p, options).Plan)
		if one == "" {
			one = found
		}
		if found != one {
			t.Errorf("%d threads give another plan than one thread (-one +several):\n%s", workers, gocmp.Diff(one, found))
		}
	}
}
