package torchrec_test

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/cost/torchrec"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

var _ search.Scorer = (*torchrec.Scorer)(nil)

func mixed(devices, perHost int) *problem.Problem {
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: devices, DevicesPerHost: perHost},
		Batch:    512 * devices,
	}
	for i, dim := range []int{8, 32, 64, 128, 256, 128} {
		p.Tables = append(p.Tables, problem.Table{
			Rows: int64(1000 * (i + 1)), Dim: dim, Weighted: i == 2,
			Features: []problem.Feature{{PoolingFactor: 1.7 * float64(i)}, {PoolingFactor: .3}},
		})
	}
	return p
}

func TestConformance(t *testing.T) {
	w, err := workload.ByName("mlperf-dlrm-dcnv2")
	if err != nil {
		t.Fatal(err)
	}
	published := w.Problem()
	all := searchtest.Cases(published.Topology.Profile)
	for name, p := range map[string]*problem.Problem{
		"8 devices, 4 to a host": mixed(8, 4), "6 devices, 4 to a host": mixed(6, 4), "5 devices, 2 to a host": mixed(5, 2), "1 device": mixed(1, 1), w.Name: &published,
	} {
		hosted := *p
		hosted.Topology.HostMemory = unit.TiB
		all = append(all, searchtest.Case{Name: name, Problem: p}, searchtest.Case{Name: name + ", host memory", Problem: &hosted})
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			estimates := torchrec.NewEstimates(c.Problem, problem.NewestTorchRec())
			factory := func() search.Scorer { return estimates.NewScorer() }
			searchtest.Conform(t, c.Problem, factory, nil)
			searchtest.Conform(t, c.Problem, factory, searchtest.Forms(c.Problem.Topology))
		})
	}
}

// TestSpread: whatever comes and goes, in any form, a Scorer's cost is that of Price for
// what is there, and Shared is what all devices spend alike.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		perHost := rapid.SampledFrom([]int{1, 2, 4}).Draw(rt, "per host")
		p := mixed(perHost*rapid.IntRange(1, 3).Draw(rt, "hosts"), perHost)
		n := p.Topology.Devices
		estimates := torchrec.NewEstimates(p, problem.NewestTorchRec())
		scorer := estimates.NewScorer()
		type placed struct{ device, item int }
		var there []placed
		shards := map[placed][][2]any{} // device and shard of each that an item stands for
		all := make([]int32, n)
		for d := range all {
			all[d] = int32(d)
		}
		with := make([]float64, n)
		forms := []problem.Form{
			{},
			{Tier: problem.HBM},
			{Tier: problem.Host},
			{Tier: problem.HostCached, Cache: .25},
			{ShardingType: problem.RowWise},
			{ShardingType: problem.TableRowWise},
			{ShardingType: problem.DataParallel},
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			if len(there) > 0 && rapid.IntRange(0, 2).Draw(rt, "remove") == 0 {
				i := rapid.IntRange(0, len(there)-1).Draw(rt, "which")
				scorer.Remove(there[i].device, there[i].item)
				there = append(there[:i], there[i+1:]...)
			} else {
				table := rapid.IntRange(0, len(p.Tables)-1).Draw(rt, "table")
				form := rapid.SampledFrom(forms).Draw(rt, "form")
				d := rapid.IntRange(0, n-1).Draw(rt, "device")
				item := scorer.Item(table, p.Tables[table].Dim, form)
				if again := scorer.Item(table, p.Tables[table].Dim, form); again != item {
					rt.Fatalf("Item(%d, %+v): got %d, then %d", table, form, item, again)
				}
				s := p.Whole(table)
				s.ShardingType, s.Tier, s.Cache = form.ShardingType, form.Tier, form.Cache
				var on [][2]any
				for other := range n {
					if other == d || form.ShardingType == problem.RowWise || form.ShardingType == problem.DataParallel ||
						form.ShardingType == problem.TableRowWise && other/perHost == d/perHost {
						on = append(on, [2]any{other, s})
					}
				}
				shards[placed{d, item}] = on
				scorer.ComputeWith(item, all, with)
				scorer.Add(d, item)
				if got := scorer.Compute(d); got != with[d] {
					rt.Fatalf("ComputeWith %v, then Compute %v", with[d], got)
				}
				there = append(there, placed{d, item})
			}
			held := make([][]problem.Shard, n)
			for _, i := range there {
				for _, on := range shards[i] {
					held[on[0].(int)] = append(held[on[0].(int)], on[1].(problem.Shard))
				}
			}
			price := estimates.Price(held)
			if got := scorer.Cost(); math.Abs(got-float64(price.Cost)) > 1e-14+1e-12*got {
				rt.Fatalf("the scorer says %v, Price %v", got, price.Cost)
			}
			for d := range n {
				if got, want := scorer.Compute(d)+scorer.Shared(), float64(price.Devices[d].Total()); math.Abs(got-want) > 1e-14+1e-12*want {
					rt.Fatalf("device %d: the scorer says %v, Price %v", d, got, want)
				}
			}
		}
		for _, i := range there {
			scorer.Remove(i.device, i.item)
		}
		if scorer.Cost() != 0 || scorer.Shared() != 0 {
			rt.Fatalf("all removed: cost %v, shared %v", scorer.Cost(), scorer.Shared())
		}
	})
}

// TestHugeTables: the largest problems have finite prices that add up and go away.
func TestHugeTables(t *testing.T) {
	p := mixed(8, 8)
	p.Batch = problem.MaxBatch
	for i := range p.Tables {
		p.Tables[i].Rows, p.Tables[i].Dim = problem.MaxRows, problem.MaxDim
		p.Tables[i].Features = make([]problem.Feature, problem.MaxFeatures)
		for f := range p.Tables[i].Features {
			p.Tables[i].Features[f].PoolingFactor = problem.MaxPoolingFactor
		}
	}
	s := torchrec.NewEstimates(p, problem.NewestTorchRec()).NewScorer()
	last := 0.0
	for i := range p.Tables {
		for _, form := range []problem.Form{{}, {Tier: problem.Host}, {ShardingType: problem.DataParallel}} {
			item := s.Item(i, problem.MaxDim, form)
			s.Add(0, item)
			if got := s.Cost(); !(got > last) || math.IsInf(got, 0) {
				t.Fatalf("table %d, %+v: cost %v after %v", i, form, got, last)
			}
			last = s.Cost()
		}
	}
	s.Reset()
	if s.Cost() != 0 {
		t.Errorf("after Reset: %v", s.Cost())
	}
}
