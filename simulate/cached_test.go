package simulate_test

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// The cached rows of all tables of an operator decide in how many passes it sorts their
// places: 100 rows of each of two tables take two passes, and 50 rows of each take one.
func TestCachedRowsOfAnOperatorAddUp(t *testing.T) {
	p := &problem.Problem{Batch: 1024, Topology: hardware.Topology{Profile: hardware.Profiles()[0], Devices: 1, HostMemory: 1 << 40}}
	for _, name := range []string{"a", "b"} {
		p.Tables = append(p.Tables, problem.Table{
			Name: name, Rows: 1000, Dim: 16,
			Features: []problem.Feature{{Name: name, PoolingFactor: 10}},
			Access:   access.Distribution{Kind: access.Uniform},
		})
	}
	backward := func(first, second float64) unit.Millis {
		held := []problem.Shard{p.Whole(0), p.Whole(1)}
		for i, share := range []float64{first, second} {
			held[i].Tier, held[i].Cache = problem.HostCached, share
		}
		cost, err := simulate.NewPricer(p).Price([][]problem.Shard{held})
		if err != nil {
			t.Fatal(err)
		}
		// Without the transfers, which depend on the shares.
		rest := unit.Millis(0)
		for i := range held {
			counts := p.Tables[i].Access.At(1000, 10, 1024)
			_, link := simulate.NewDevice(p.Topology.Profile).HostLink(&p.Tables[i], counts, 16, p.Form(held[i]))
			rest += link
		}
		return cost.Devices[0].Backward - rest
	}
	rates := simulate.NewDevice(p.Topology.Profile).Rates
	const lookups = 2 * 10 * 1024
	want := float64(rates.SortPlaces(lookups, 200) - rates.SortPlaces(lookups, 100))
	got := float64(backward(.1, .1) - backward(.05, .05))
	if want <= 0 || math.Abs(got-want) > 1e-6*want {
		t.Errorf("got %v ms more for 200 cached rows than for 100, want %v", got, want)
	}
}
