//go:build long

package bound_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

// attempts is the number of problems in which TestNoPlacementInLittleMemoryIsBelow looks for a placement
// below the bound.
const attempts = "300"

// In a memory that limits them, no placement in any sharding types and tiers costs less than the
// bound: on one host or several, with slices in host memory and caches of any share, with constraints on
// devices, sharding types and tiers, and on devices that each have a memory of their own. A descent
// looks for cheap placements that fit.
func TestNoPlacementInLittleMemoryIsBelow(t *testing.T) {
	before := flag.Lookup("rapid.checks").Value.String()
	t.Cleanup(func() { _ = flag.Set("rapid.checks", before) })
	if err := flag.Set("rapid.checks", attempts); err != nil {
		t.Fatal(err)
	}
	sum, count, hosted := 0.0, 0.0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawKinds(t, 8, 6, rapid.SampledFrom([]int{4, 16, 40}).Draw(t, "widest"))
		p.Topology.HostMemory = 1 << 44
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		hidden := drawHidden(t, p)
		judge := exposed(t, p, hidden)
		operators := drawOperators(t, p)
		anyWay := func(i int) way {
			w := randomWay(p, i, problem.ShardingTypes(), true, random)
			if operators {
				w.operator = problem.Operator(random.IntN(problem.Operators))
			}
			return w
		}
		ways := make([]way, len(p.Tables))
		for i := range ways {
			ways[i] = anyWay(i)
		}
		tightest(p, shardsOf(p, ways))
		p.Topology.Memory = unit.Bytes(float64(p.Topology.Memory) * rapid.SampledFrom([]float64{1, 1, 1.1, 1.5}).Draw(t, "room"))
		cost := price(t, judge, shardsOf(p, ways))
		for range 150 {
			i := random.IntN(len(ways))
			before := ways[i]
			ways[i] = anyWay(i)
			shards := shardsOf(p, ways)
			if now := price(t, judge, shards); now <= cost && within(p, shards) {
				cost = now
			} else {
				ways[i] = before
			}
		}
		compare := func(p *problem.Problem, allowed bound.Allowed) {
			allowed.Hidden = hidden
			least, err := bound.Simulated(context.Background(), p, allowed)
			if err != nil {
				t.Fatal(err)
			}
			if cost < least.Total || !(least.Total >= 0) {
				t.Fatalf("%d devices, %d a host, %v: placement %v costs %v, below the bound %v of %v", p.Topology.Devices, p.Topology.PerHost(), p.Topology.DeviceMemory(0), ways, cost, least.Total, allowed)
			}
			sum += bound.Gap(cost, least.Total)
			count++
		}
		if usedKinds(ways).Host {
			hosted++
		}
		shards := shardsOf(p, ways)
		compare(p, everyKind)
		compare(p, usedKinds(ways))
		compare(constrained(p, shards, random), everyKind)
		tightest(p, shards)
		compare(p, usedKinds(ways))
		compare(constrained(p, shards, random), everyKind)
		p.Topology.Memory = hardware.MaxMemory
		tightestEach(p, shards)
		compare(p, everyKind)
		compare(constrained(p, shards, random), usedKinds(ways))
	})
	t.Logf("%s problems, slices in host memory in %d of the placements, mean gap of %v bounds: %.1f %%", attempts, hosted, count, 100*sum/count)
	if hosted == 0 {
		t.Error("no placement has slices in host memory")
	}
}
