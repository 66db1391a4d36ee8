package search_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/fixedseed"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"

	gocmp "github.com/google/go-cmp/cmp"
)

// uneven gives each device another share, from 20 % to 180 %, of the memory that tables may use of
// all, and each host another share of the host memory.
func uneven(p *problem.Problem, share func() float64) {
	t := &p.Topology
	received, budget := p.DeviceMemory(0).Received, p.ShardBudget(0)
	for range t.Devices {
		t.DeviceMemories = append(t.DeviceMemories, received+unit.Bytes(float64(budget)*share())+1)
	}
	for range t.Hosts() {
		if t.HostMemory > 0 {
			t.HostMemories = append(t.HostMemories, unit.Bytes(float64(t.HostMemory)*share())+1)
		}
	}
}

// Plans for devices of different memories keep to each device's own, by every method and with all
// sharding types, and are the same for any number of workers.
func TestPropertyPlansOfUnevenDevicesAreValid(t *testing.T) {
	fixedseed.Few(t)
	found := map[search.Method]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := onSomeHosts(t)
		someTiers(t, p)
		uneven(p, func() float64 { return rapid.Float64Range(.2, 1.8).Draw(t, "share") })
		types, seed := someShardingTypes(t), rapid.Uint64().Draw(t, "seed")
		newScorer := formsFactory(p, rapid.Bool().Draw(t, "additive"))
		opt := search.Options{ShardingTypes: types, Seed: seed, Workers: 1, MaxEvaluations: 6_000}
		if r, err := search.Run(context.Background(), p, newScorer, opt); planned(t, err) {
			checkPlacement(t, p, newScorer, types, r)
			found[search.Default]++
			opt.Workers = rapid.IntRange(2, 5).Draw(t, "workers")
			again, err := search.Run(context.Background(), p, newScorer, opt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(r, again); diff != "" {
				t.Errorf("with %d workers (-1 worker +%d):\n%s", opt.Workers, opt.Workers, diff)
			}
		}
		for i := range p.Tables {
			p.Tables[i].Constraint.Tiers, p.Tables[i].Constraint.CacheShare = nil, 0
		}
		for _, m := range append(append(search.Baselines(), search.Paper), search.Learned()...) {
			r, err := search.Run(context.Background(), p, factory(p), searchtest.WithPolicy(search.Options{Method: m, Seed: seed, Workers: 1, Steps: stepsOf(m, 3), MaxEvaluations: 6_000}))
			if planned(t, err) {
				check(t, p, r)
				found[m]++
			}
		}
	})
	t.Logf("plans by method: %v", found)
}

// unevenTiny returns a tiny problem in which little more than the tables fits, on devices of different
// memories.
func unevenTiny(seed uint64) *problem.Problem {
	p := tiny(seed)
	p.Batch = 1
	draw := rand.New(rand.NewPCG(seed, 40))
	all := unit.Bytes(0)
	for i := range p.Tables {
		all += p.ShardMemory(p.Whole(i)).Tables()
	}
	p.Topology.ReserveShare = hardware.NoReserve
	p.Topology.Memory = p.DeviceMemory(0).Received + all*14/unit.Bytes(10*p.Topology.Devices)
	uneven(p, func() float64 { return .4 + 1.2*draw.Float64() })
	// One device at least holds the largest table whole.
	for i := range p.Tables {
		d := &p.Topology.DeviceMemories[p.Topology.Devices-1]
		*d = max(*d, p.DeviceMemory(0).Total()+p.ShardMemory(p.Whole(i)).Tables()*11/10)
	}
	return p
}

// The search finds the cheapest of all placements that keep to each device's own memory. If every
// device had the mean memory, other placements would be allowed in most tasks, so the memories decide.
func TestOptimumOnUnevenDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it compares with all placements")
	}
	optimaOnUnevenDevices(t, 5)
	decided := 0
	for seed := range uint64(12) {
		p := unevenTiny(seed)
		large := *p
		large.Topology.DeviceMemories, large.Topology.HostMemories, large.Topology.Memory = nil, nil, unit.GiB
		if optimumInForms(&large, formsFactory(&large, true)()) < optimumInForms(p, formsFactory(p, true)())*(1-1e-9) {
			decided++
		}
	}
	if decided < 6 {
		t.Errorf("got %d of 12 tasks that cost less on large devices, want at least 6", decided)
	}
}

// optimaOnUnevenDevices is TestOptimumOnUnevenDevices with a number of tasks under each cost model.
func optimaOnUnevenDevices(t *testing.T, tasks int) {
	for _, sums := range []bool{true, false} {
		compareProblems(t, fmt.Sprint("uneven devices, additive ", sums), tasks, unevenTiny, func(p *problem.Problem) search.Factory { return formsFactory(p, sums) })
	}
}

// All placements of slices of columns are tried on devices of different memories, too: the result is
// the optimum, and says so.
func TestExhaustiveOnUnevenDevices(t *testing.T) {
	proven := 0
	for seed := range uint64(12) {
		p := pool(seed, 3, 3, 16)
		for i := range p.Tables {
			p.Tables[i].Dim = 4 * (1 + int(seed+uint64(i)*3)%3)
		}
		p.Topology.ReserveShare, p.Topology.Memory = hardware.NoReserve, unit.GiB
		all, most := unit.Bytes(0), unit.Bytes(0)
		for i := range p.Tables {
			m := p.ShardMemory(p.Whole(i)).Tables()
			all, most = all+m, max(most, m)
		}
		fixed := p.DeviceMemory(0).Total()
		p.Topology.DeviceMemories = []unit.Bytes{fixed + most*6/10, fixed + most*6/10, fixed + max(most, all-most) + 1}
		r, err := search.Run(context.Background(), p, factory(p), search.Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, r)
		want := optimumWithin(p)
		if r.Optimal {
			proven++
		}
		if r.Cost < want*(1-1e-12) || r.Cost > want*(1+1e-9) {
			t.Errorf("task %d: got cost %v, want the optimum %v", seed, r.Cost, want)
		}
	}
	if proven < 10 {
		t.Errorf("got %d of 12 plans that are said to be optimal, want at least 10", proven)
	}
}

// optimumWithin is optimum among the placements that keep to the memory of each device.
func optimumWithin(p *problem.Problem) float64 {
	return optimumOf(p, func(used []unit.Bytes) bool {
		for d, bytes := range used {
			if bytes > p.ShardBudget(d) {
				return false
			}
		}
		return true
	})
}

// With equal memories, one by one, the plan is that of one memory for all.
func TestEqualMemoriesChangeNothing(t *testing.T) {
	for seed := range uint64(4) {
		p := tiny(seed)
		p.Topology.Memory = unit.GiB
		opt := search.Options{ShardingTypes: problem.ShardingTypes(), Workers: 1, MaxEvaluations: 20_000}
		want, err := search.Run(context.Background(), p, formsFactory(p, false), opt)
		if err != nil {
			t.Fatal(err)
		}
		each := *p
		each.Topology.DeviceMemories = slices.Repeat([]unit.Bytes{unit.GiB}, p.Topology.Devices)
		got, err := search.Run(context.Background(), &each, formsFactory(&each, false), opt)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("task %d (-one memory +one by one):\n%s", seed, diff)
		}
	}
}
