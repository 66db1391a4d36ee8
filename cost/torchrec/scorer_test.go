package torchrec_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/cost/torchrec"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/unit"
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
	w := must.Get(workload.ByName("mlperf-dlrm-dcnv2"))(t)
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

// TestScorersAgreeWithPrice: in any forms, a Scorer's cost is that of Price for the same placement, and
// Shared is what all devices spend alike. TestConformance takes slices away again.
func TestScorersAgreeWithPrice(t *testing.T) {
	forms := []problem.Form{
		{},
		{Tier: problem.HBM},
		{Tier: problem.Host},
		{Tier: problem.HostCached, Cache: .25},
		{ShardingType: problem.RowWise},
		{ShardingType: problem.TableRowWise},
		{ShardingType: problem.DataParallel},
	}
	rapid.Check(t, func(t *rapid.T) {
		perHost := rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "per host")
		p := mixed(perHost*rapid.IntRange(1, 3).Draw(t, "hosts"), perHost)
		n := p.Topology.Devices
		estimates := torchrec.NewEstimates(p, problem.NewestTorchRec())
		scorer, held := estimates.NewScorer(), make([][]problem.Shard, n)
		for i := range p.Tables {
			form, d := rapid.SampledFrom(forms).Draw(t, "form"), rapid.IntRange(0, n-1).Draw(t, "device")
			scorer.Add(d, scorer.Item(i, p.Tables[i].Dim, form))
			s := p.Whole(i)
			s.ShardingType, s.Tier, s.Cache = form.ShardingType, form.Tier, form.Cache
			for other := range n {
				if other == d || form.ShardingType == problem.RowWise || form.ShardingType == problem.DataParallel ||
					form.ShardingType == problem.TableRowWise && other/perHost == d/perHost {
					held[other] = append(held[other], s)
				}
			}
		}
		price := estimates.Price(held)
		if got := scorer.Cost(); math.Abs(got-float64(price.Cost)) > 1e-14+1e-12*got {
			t.Fatalf("the scorer says %v, Price %v", got, price.Cost)
		}
		for d := range n {
			if got, want := scorer.Compute(d)+scorer.Shared(), float64(price.Devices[d].Total()); math.Abs(got-want) > 1e-14+1e-12*want {
				t.Fatalf("device %d: the scorer says %v, Price %v", d, got, want)
			}
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
