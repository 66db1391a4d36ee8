package design

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search/searchtest"
)

func TestCrudeConforms(t *testing.T) {
	w, err := workload.ByName("mlperf-dlrm-dcnv2")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	searchtest.Conform(t, &p, newCrudeList(&p).NewScorer, nil)
	for _, c := range searchtest.Cases(p.Topology.Profile) {
		t.Run(c.Name, func(t *testing.T) { searchtest.Conform(t, c.Problem, newCrudeList(c.Problem).NewScorer, nil) })
	}
}

func TestCrudeByHand(t *testing.T) {
	p := &problem.Problem{
		Tables: []problem.Table{
			{Name: "a", Rows: 10, Dim: 64, Features: []problem.Feature{{PoolingFactor: 2}, {PoolingFactor: 3}}},
			{Name: "b", Rows: 10, Dim: 8, Features: []problem.Feature{{PoolingFactor: 4}}},
		},
		Topology: hardware.Topology{Profile: hardware.Profile{Name: "test", HBMGBps: 10, IntraGBps: 2}, Devices: 2}, Batch: 1000,
	}
	list := newCrudeList(p)
	s := list.NewScorer()
	a, b := s.Item(0, 32, problem.Form{}), s.Item(1, 8, problem.Form{})
	s.Add(0, a)
	s.Add(1, b)
	// 5,000 lookups of 128 bytes and 4,000 of 64 bytes, three times, at 10 GB/s.
	if got, want := s.Compute(0), 3*5000*128/10e6; got != want {
		t.Errorf("device 0: got %v ms, want %v", got, want)
	}
	if got, want := s.Compute(1), 3*4000*64/10e6; got != want {
		t.Errorf("device 1: got %v ms, want %v", got, want)
	}
	// 1,000 samples of two pooled vectors of 32 columns, twice, at 2 GB/s.
	if got, want := s.Cost(), 3*5000*128/10e6+2*1000*2*32*4/2e6; got != want {
		t.Errorf("plan: got %v ms, want %v", got, want)
	}
	first, second := p.Whole(0), p.Whole(1)
	first.Columns.End = 32
	priced := list.Price([][]problem.Shard{{first}, {second}})
	for d := range priced.Devices {
		if got := float64(priced.Devices[d].Total()); math.Abs(got-s.Cost()) > 1e-12 || float64(priced.Devices[d].Forward) != s.Compute(d) {
			t.Errorf("device %d: got times %+v, want a forward of %v ms and a total of %v", d, priced.Devices[d], s.Compute(d), s.Cost())
		}
	}
}
