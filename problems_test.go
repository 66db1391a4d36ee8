package neuroshard_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// TestManySmallTables draws tables that may all be replicated, and plans them by all sharding types: the plans cost
// no more than those of replicas alone, but for what two runs of the annealing differ by.
func TestManySmallTables(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	replicated := 0
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 39))
		p := problem.Problem{Batch: 131_072, Topology: hardware.Topology{Profile: profileNamed(t, "h100-80"), Devices: 16, DevicesPerHost: 8}}
		p.Topology.Memory = p.Topology.Profile.Memory
		for i := range 60 {
			name := fmt.Sprintf("t%d", i)
			p.Tables = append(p.Tables, problem.Table{
				Name: name, Rows: int64(math.Pow(10, 1+3*r.Float64())), Dim: 4 << r.IntN(6),
				Features: []problem.Feature{{Name: name, PoolingFactor: math.Pow(10, .5+1.8*r.Float64())}},
			})
		}
		cost := func(types ...problem.ShardingType) float64 {
			found, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Search: search.Options{ShardingTypes: search.Allowing(types)}})
			if err != nil {
				t.Fatal(err)
			}
			return float64(found.Predicted.Cost)
		}
		slices := cost(problem.TableWise, problem.ColumnWise)
		all, replicas := cost(problem.ShardingTypes()...), cost(problem.DataParallel)
		if replicas < slices {
			replicated++
		}
		if all > 1.015*min(replicas, slices) {
			t.Errorf("seed %d: got %.4g ms, want at most the %.4g of replicas and the %.4g of slices", seed, all, replicas, slices)
		}
	}
	if replicated == 0 {
		t.Error("replicas pay in no draw: the test shows nothing")
	}
}
