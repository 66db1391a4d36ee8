package neuroshard_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// TestAlternatives wants for each table a place that is not the plan's, that makes a valid
// plan, and whose cost is the one that Price estimates for it.
func TestAlternatives(t *testing.T) {
	small := workloadNamed(t, "nvidia-synthetic-tiny")
	dlrm := workloadNamed(t, "mlperf-dlrm-dcnv2")
	hosts := workloadNamed(t, "criteo-kaggle")
	hosts.Topology.Devices, hosts.Topology.DevicesPerHost, hosts.Topology.HostMemory = 4, 2, 64*unit.GiB
	tied := workloadNamed(t, "criteo-kaggle")
	tied.Topology.Devices = 4
	for i := range 3 {
		tied.Tables[i].Constraint.Colocation = "together"
	}
	tied.Tables[5].Constraint.Devices, tied.Tables[6].Constraint.NoSplit = []int{1}, true
	hugectr, narrow := workloadNamed(t, "criteo-kaggle"), workloadNamed(t, "mlperf-dlrm-dcnv2")
	hugectr.Topology.Devices, hugectr.Engine = 4, problem.HugeCTR
	narrow.Topology.Devices = 4
	for i := range narrow.Tables {
		narrow.Tables[i].Constraint.MinWidth = 64
	}
	tight := tightProblem(t)
	tiers := workloadNamed(t, "criteo-kaggle")
	tiers.Topology.Devices, tiers.Topology.HostMemory = 4, 64*unit.GiB
	for i := range tiers.Tables {
		tiers.Tables[i].Constraint.Tiers = [][]problem.Tier{{problem.Host}, {problem.HBM}, {problem.HostCached}, nil}[i%4]
		tiers.Tables[i].Constraint.CacheShare = []float64{0, 0, .3, 0}[i%4]
	}
	for _, test := range []struct {
		name string
		p    problem.Problem
		opt  neuroshard.Options
	}{
		{"hugectr", hugectr, neuroshard.Options{}},
		{"narrow", narrow, neuroshard.Options{}},
		{"tight", tight, neuroshard.Options{}},
		{"tiny", small, neuroshard.Options{}},
		{"dlrm", dlrm, neuroshard.Options{}},
		{"hosts", hosts, neuroshard.Options{}},
		{"tiers", tiers, neuroshard.Options{}},
		{"tied", tied, neuroshard.Options{}},
		{"torchrec", tied, neuroshard.Options{Prices: neuroshard.TorchRec()}},
	} {
		test.opt.Search.ShardingTypes, test.opt.Search.MaxEvaluations = problem.ShardingTypes(), 1000
		r := planned(t, &test.p, test.opt)
		cost, all, err := neuroshard.Alternatives(t.Context(), r.Plan, &test.p, test.opt)
		if err != nil || len(all) != len(test.p.Tables) {
			t.Fatalf("%s: got %d alternatives and error %v", test.name, len(all), err)
		}
		if !near(cost, r.Plan.Predicted) {
			t.Errorf("%s: got the plan's cost %v, want %v", test.name, cost, r.Plan.Predicted)
		}
		for i, a := range all {
			name := test.p.Tables[i].Name
			pinned := len(test.p.Tables[i].Constraint.Devices) == 1
			if a.Shards == nil {
				if !pinned && test.name != "tight" {
					t.Errorf("%s: table %s: got no alternative", test.name, name)
				}
				continue
			}
			if now := r.Plan.Tables[i]; a.ShardingType == now.ShardingType && maps.Equal(held(a.Shards), held(now.Shards)) {
				t.Errorf("%s: table %s: the alternative %v is the plan's own place %v, but for the order of slices", test.name, name, a.Shards, now)
			}
			if test.p.Tables[i].Constraint.Colocation != "" {
				continue // the others move with it
			}
			tables := slices.Clone(r.Plan.Tables)
			tables[i].ShardingType, tables[i].Shards = a.ShardingType, slices.Clone(a.Shards)
			moved := plan.Of(&test.p, tables)
			if err := neuroshard.Price(t.Context(), moved, &test.p, test.opt); err != nil {
				t.Fatalf("%s: table %s: %v", test.name, name, err)
			}
			if err := moved.Validate(&test.p); err != nil {
				t.Errorf("%s: table %s as %s %v: %v", test.name, name, a.ShardingType, a.Shards, err)
			}
			if !near(a.Cost, moved.Predicted) {
				t.Errorf("%s: table %s as %s %v: got cost %v, want %v", test.name, name, a.ShardingType, a.Shards, a.Cost, moved.Predicted)
			}
		}
	}
}

// held counts the shards of each size on each device.
func held(shards []plan.Shard) map[string]int {
	count := map[string]int{}
	for _, s := range shards {
		count[fmt.Sprint(s.Device, s.Rows.Len(), s.Columns.Len(), s.Tier, s.Cache)]++
	}
	return count
}

// tightProblem returns a problem of two hosts whose tables take most of the devices' memory,
// and of the little host memory.
func tightProblem(t *testing.T) problem.Problem {
	p := workloadNamed(t, "criteo-kaggle")
	p.Topology.Devices, p.Topology.DevicesPerHost = 4, 2
	total := unit.Bytes(0)
	for i := range p.Tables {
		total += p.ShardMemory(p.Whole(i)).Tables()
	}
	p.Topology.ReserveShare = hardware.NoReserve
	p.Topology.Memory = p.DeviceMemory(0).Received + total/4
	p.Topology.HostMemory = total / 10
	return p
}

func near(a, b unit.Millis) bool { return math.Abs(float64(a-b)) <= 1e-5*float64(max(a, b)) }

// TestAlternativeOfTwoDevices places three tables on two devices by hand, so that the cheapest
// other place is known: the small table changes its device.
func TestAlternativeOfTwoDevices(t *testing.T) {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	table := func(name string, pooling float64) problem.Table {
		return problem.Table{Name: name, Rows: 100000, Dim: 64, Features: []problem.Feature{{Name: name, PoolingFactor: pooling}}, Constraint: problem.Constraint{NoSplit: true}}
	}
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: profile, Devices: 2}, Batch: 65536,
		Tables: []problem.Table{table("large", 100), table("small", 1), table("other", 99)},
	}
	opt := neuroshard.Options{}
	opt.Search.ShardingTypes = []problem.ShardingType{problem.TableWise}
	r, err := neuroshard.Evaluate(t.Context(), p, [][]problem.Shard{{p.Whole(0), p.Whole(1)}, {p.Whole(2)}}, opt)
	if err != nil {
		t.Fatal(err)
	}
	cost, all, err := neuroshard.Alternatives(t.Context(), r.Plan, p, opt)
	if err != nil {
		t.Fatal(err)
	}
	if got := all[1]; got.ShardingType != problem.TableWise || got.Shards[0].Device != 1 || got.Cost > cost {
		t.Errorf("small: got %+v at a cost of %v, want device 1 at no more", got, cost)
	}
	if got := all[0]; got.Shards[0].Device != 1 || got.Cost < 6*cost/5 {
		t.Errorf("large: got %+v at a cost of %v, want device 1 at a much larger cost", got, cost)
	}
}
