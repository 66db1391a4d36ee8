package neuroshard_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// fewTables draws a problem of n tables that TorchRec trains, on 2 to 16 devices.
func fewTables(t *testing.T, n int, seed uint64) *problem.Problem {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	devices := 2 << random.IntN(4)
	p := &problem.Problem{
		Batch:    devices * 512 << (2 * random.IntN(3)),
		Engine:   problem.TorchRec,
		Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: devices, DevicesPerHost: min(8, devices), HostMemory: 128 << 30},
	}
	for i := range n {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprintf("t%d", i), Rows: int64(math.Exp(5 + 11*random.Float64())), Dim: 16 << random.IntN(5),
			Features: []problem.Feature{{PoolingFactor: float64(int(math.Exp(4 * random.Float64())))}},
		})
	}
	return p
}

// A model of few tables has no plan with free slices to compare with. That of more tables is not
// more expensive than the plan.
func TestFreeSlices(t *testing.T) {
	for _, n := range []int{neuroshard.ComparedTables - 1, neuroshard.ComparedTables} {
		r := completed(t.Context(), t, fewTables(t, n, 1), neuroshard.Options{Prices: neuroshard.TorchRec(), Search: search.Options{MaxEvaluations: 5_000}})
		if (r.FreeSlices != nil) != (n >= neuroshard.ComparedTables) || r.FreeSlices != nil && r.FreeSlices.Predicted > r.Predicted.Cost {
			t.Errorf("%d tables: got free slices %+v beside %v, want some from %d tables on", n, r.FreeSlices, r.Predicted.Cost, neuroshard.ComparedTables)
		}
	}
}

// A plan that was cancelled before the comparison has none.
func TestNoFreeSlicesAfterACancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	options := neuroshard.Options{OnStep: func(string) { cancel() }}
	options.Search.Workers, options.Search.MaxEvaluations = 2, 20_000
	r := completed(ctx, t, fewTables(t, neuroshard.ComparedTables+4, 1), options)
	if r.FreeSlices != nil {
		t.Errorf("got free slices %+v after the cancel", r.FreeSlices)
	}
}
