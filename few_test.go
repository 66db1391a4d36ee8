package neuroshard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// fewTables draws a problem of n tables that TorchRec trains, on 2 to 16 devices.
func fewTables(t *testing.T, n int, seed uint64) *problem.Problem {
	t.Helper()
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	devices := 2 << random.IntN(4)
	p := &problem.Problem{
		Batch:    devices * 512 << (2 * random.IntN(3)),
		Engine:   problem.TorchRec,
		Topology: hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: min(8, devices), HostMemory: 128 << 30},
	}
	for i := range n {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprintf("t%d", i), Rows: int64(math.Exp(5 + 11*random.Float64())), Dim: 16 << random.IntN(5),
			Features: []problem.Feature{{PoolingFactor: float64(int(math.Exp(4 * random.Float64())))}},
		})
	}
	return p
}

// A model of one or two tables is searched briefly. Its plan costs at most 1 % more than one that
// takes more than twice the work.
func TestPlansOfFewTables(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	plansOfFewTables(t, 1)
}

// plansOfFewTables compares brief with long searches, on problems of one and of two tables drawn with
// some seeds.
func plansOfFewTables(t *testing.T, seeds uint64) {
	for n := 1; n <= 2; n++ {
		for seed := range seeds {
			for _, prices := range []neuroshard.Prices{neuroshard.Pretrained(), neuroshard.TorchRec()} {
				p := fewTables(t, n, seed)
				options := neuroshard.Options{Prices: prices}
				options.Search.Workers = 1
				options.Search.ShardingTypes = problem.ShardingTypes()
				brief := planned(t, p, options)
				options.Search.MaxEvaluations = 700_000
				long := planned(t, p, options)
				if 2*brief.Stats.Evaluations > long.Stats.Evaluations && !brief.Optimal {
					t.Errorf("%d tables, seed %d, %v: got %d evaluations, want half of %d at most", n, seed, prices, brief.Stats.Evaluations, long.Stats.Evaluations)
				}
				if got, want := brief.Predicted.Cost, long.Predicted.Cost; got > want*1.01 {
					t.Errorf("%d tables, seed %d, %v: got a plan of %v, want at most 1 %% above %v, the cost after a long search", n, seed, prices, got, want)
				}
			}
		}
	}
}

// By TorchRec's formulas, a table whose blocks lie across all hosts keeps all devices equally busy, and
// its plan costs half as much as that of blocks on one host.
func TestOneTableAcrossHosts(t *testing.T) {
	p := fewTables(t, 1, 0)
	p.Batch = 4 * 64
	p.Topology.Devices, p.Topology.DevicesPerHost = 4, 2
	p.Tables[0].Rows, p.Tables[0].Dim, p.Tables[0].Features = 28_082, 8, []problem.Feature{{PoolingFactor: 4.4}}
	options := neuroshard.Options{Prices: neuroshard.TorchRec()}
	options.Search.ShardingTypes = problem.ShardingTypes()
	free := planned(t, p, options)
	options.Search.ShardingTypes = []problem.ShardingType{problem.TableRowWise}
	onHost := planned(t, p, options)
	if got, most := free.Predicted.Cost, .6*onHost.Predicted.Cost; got > most {
		t.Errorf("got a plan of %v, want at most %v", got, most)
	}
}

// A search of few tables by TorchRec's formulas makes a limited number of evaluations: a training job waits for it.
func TestEvaluationsOfFewTables(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans or trains for long, on few threads")
	}
	p := fewTables(t, 6, 3)
	p.Topology.Devices, p.Topology.DevicesPerHost = 8, 4
	options := neuroshard.Options{Prices: neuroshard.TorchRec()}
	options.Search.ShardingTypes = problem.ShardingTypes()
	if got, most := planned(t, p, options).Stats.Evaluations, int64(1_500_000); got > most {
		t.Errorf("got %d evaluations, want at most %d", got, most)
	}
}

// A model of few tables has no plan with free slices to compare with.
func TestFreeSlicesOfFewTables(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans or trains for long, on few threads")
	}
	for _, n := range []int{neuroshard.ComparedTables - 1, neuroshard.ComparedTables} {
		options := neuroshard.Options{Prices: neuroshard.TorchRec()}
		if r := completed(t.Context(), t, fewTables(t, n, 1), options); (r.FreeSlices != nil) != (n >= neuroshard.ComparedTables) {
			t.Errorf("%d tables: got plan with free slices %v, want one from %d tables on", n, r.FreeSlices, neuroshard.ComparedTables)
		}
	}
}
