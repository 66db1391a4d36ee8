package neuroshard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// withFixed draws a problem with fixed loads that leave some devices little room.
func withFixed(t *testing.T, draw *rand.Rand) *problem.Problem {
	devices := 2 + draw.IntN(4)
	p := &problem.Problem{Batch: 4096, Topology: hardware.Topology{Profile: profileNamed(t, "a100-80"), Devices: devices, Memory: unit.GiB, ReserveShare: hardware.NoReserve}}
	for i := range 6 + draw.IntN(10) {
		name := string(rune('a' + i))
		p.Tables = append(p.Tables, problem.Table{
			Name: name, Rows: int64(10_000 + draw.IntN(400_000)), Dim: []int{16, 32, 64, 128}[draw.IntN(4)], Optimizer: problem.RowwiseAdagrad,
			Features: []problem.Feature{{Name: name, PoolingFactor: 1 + 20*draw.Float64()}}, Access: access.Distribution{Kind: access.Zipf, Exponent: 1.05},
		})
	}
	p.Topology.Fixed = []hardware.FixedLoad{{Name: "everywhere", Bytes: unit.Bytes(draw.IntN(100)) * unit.MiB, Time: unit.Millis(.01 + draw.Float64()/10)}}
	for d := range devices - 1 {
		p.Topology.Fixed = append(p.Topology.Fixed, hardware.FixedLoad{Name: "dynamic", Devices: []int{d}, Bytes: unit.Bytes(draw.IntN(900)) * unit.MiB, Time: unit.Millis(draw.Float64() / 2)})
	}
	p.Topology.Fixed[1].Time = .5
	return p
}

// TestFixedLoadsAreKept plans drawn problems. The bytes of fixed loads and of the shards, counted
// here from the problem, are at most the memory of each device, under every choice of prices, and no
// plan costs less than the bound.
func TestFixedLoadsAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems, one after another")
	}
	draw := rand.New(rand.NewPCG(38, 5))
	for i := range 8 {
		p := withFixed(t, draw)
		opt := neuroshard.Options{Search: search.Options{Seed: uint64(i)}}
		if i%2 == 1 {
			opt.Prices = neuroshard.TorchRec()
		}
		if i%4 >= 2 {
			opt.Search.ShardingTypes = problem.ShardingTypes()
		}
		r, err := neuroshard.Plan(context.Background(), p, opt)
		if tight := (*search.Infeasible)(nil); errors.As(err, &tight) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if err := r.Plan.Validate(p); err != nil {
			t.Error(err)
		}
		for d, held := range r.Plan.ByDevice() {
			taken := p.Topology.Fixed[0].Bytes
			for _, l := range p.Topology.Fixed[1:] {
				if l.Devices[0] == d {
					taken += l.Bytes
				}
			}
			for _, s := range held {
				taken += p.ShardMemory(s).Tables()
			}
			if taken > unit.GiB {
				t.Errorf("problem %d: device %d: got %v of tables and fixed loads, want at most 1 GiB", i, d, taken)
			}
			if got, least := r.Plan.Devices[d].Forward, p.Topology.FixedTime(d); got < least-1e-9 {
				t.Errorf("problem %d: device %d: got a forward of %v, want at least the fixed %v", i, d, got, least)
			}
		}
	}
}

// drawnFor returns a problem of 26 equal tables on a number of devices.
func drawnFor(t *testing.T, devices int) *problem.Problem {
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: profileNamed(t, "a100-80"), Devices: devices}}
	for i := range 26 {
		name := string(rune('a' + i))
		p.Tables = append(p.Tables, problem.Table{Name: name, Rows: 100_000, Dim: 64, Features: []problem.Feature{{Name: name, PoolingFactor: 2}}, Access: access.Distribution{Kind: access.Zipf, Exponent: 1.05}})
	}
	return p
}

// TestTheBoundCountsFixedCompute: with a load on all devices alike, the bound rises by its time, and a
// plan costs no less.
func TestTheBoundCountsFixedCompute(t *testing.T) {
	p := drawnFor(t, 2)
	var opt neuroshard.Options
	without := completed(t.Context(), t, p, opt)
	p.Topology.Fixed = []hardware.FixedLoad{{Name: "dynamic", Time: .5}, {Name: "busy", Devices: []int{1}, Time: .125}}
	with := completed(t.Context(), t, p, opt)
	if rise := with.Bound.Total - without.Bound.Total; rise < .499 || rise > .501 {
		t.Errorf("got a bound that rises by %v, want 0.5 ms", rise)
	}
	if with.Simulated.Cost < with.Bound.Total {
		t.Errorf("got a simulated cost of %v below the bound %v", with.Simulated.Cost, with.Bound.Total)
	}
}
