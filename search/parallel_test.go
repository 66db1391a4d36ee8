package search_test

import (
	"context"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// TestThreadsDoNotChangeTheSearch compares results, with the counts of the work, for one and for several threads: with co-locations,
// tables on chosen devices, tables that may not be whole, host memory and the rules of engines.
func TestThreadsDoNotChangeTheSearch(t *testing.T) { threadsDoNotChangeTheSearch(t, 6, 3) }

// threadsDoNotChangeTheSearch compares the results of one thread with those of a number of threads, of problems of tables or a few
// more.
func threadsDoNotChangeTheSearch(t *testing.T, tables, threads int) {
	for seed := range uint64(5) {
		p := pool(seed, tables+int(seed), 4, 32)
		p.Accounting = problem.CountAll
		p.Topology.DevicesPerHost = 2 + 2*int(seed%2)
		switch seed {
		case 1:
			p.Tables[0].Constraint.Colocation, p.Tables[1].Constraint.Colocation = "pair", "pair"
			p.Tables[2].Constraint.Devices = []int{0, 2}
		case 2:
			p.Tables[1].Constraint.ShardingTypes = []problem.ShardingType{problem.RowWise, problem.DataParallel}
		case 3:
			p.Topology.HostMemory = unit.TiB
			shortOfHBM(p, .95)
		case 4:
			p.Engine = problem.TorchRec
		}
		found := func(workers int, apart func() search.Factory) search.Result {
			opt := search.Options{Seed: seed, Workers: workers, ShardingTypes: problem.ShardingTypes(), Apart: apart}
			r, err := search.Run(context.Background(), p, formsFactory(p, false), opt)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return r
		}
		one, twins := found(1, nil), 0
		several := found(threads, func() search.Factory { twins++; return formsFactory(p, false) })
		if diff := gocmp.Diff(one, several); diff != "" {
			t.Errorf("seed %d: %d threads find another result than one (-one +several):\n%s", seed, threads, diff)
		}
		if twins == 0 || twins >= threads {
			t.Errorf("seed %d: got %d further factories for %d threads, want some, and at most one for each further thread", seed, twins, threads)
		}
		if seed == 0 {
			if diff := gocmp.Diff(one, found(threads, func() search.Factory { return nil })); diff != "" {
				t.Errorf("without further factories the result is another one (-one +several):\n%s", diff)
			}
		}
	}
}

// TestThreadsOfLargeProblems is TestThreadsDoNotChangeTheSearch for a large problem.
func TestThreadsOfLargeProblems(t *testing.T) {
	p := pool(7, 1000, 128, 32)
	p.Topology = hardware.Topology{Profile: p.Topology.Profile, Devices: 128, DevicesPerHost: 8, Memory: 40 * unit.GiB, ReserveShare: hardware.NoReserve}
	var before string
	for _, workers := range []int{1, 3} {
		r := must.Get(search.Run(context.Background(), p, factory(p), search.Options{Workers: workers, ColumnsOnly: true, Apart: func() search.Factory { return factory(p) }}))(t)
		got := fmt.Sprint(r.Shards, r.Cost, r.Stats)
		if before != "" && got != before {
			t.Errorf("%d threads find another result than one", workers)
		}
		before = got
	}
}

// shortOfHBM gives each device of the problem an equal part of the memory that a share of its whole tables
// takes.
func shortOfHBM(p *problem.Problem, share float64) {
	bytes := unit.Bytes(0)
	for i := range p.Tables {
		bytes += p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Total()
	}
	p.Topology.Memory = 0
	p.Topology.Memory = p.DeviceMemory(0)[problem.ForwardExchange].Used() + unit.Bytes(share*float64(bytes)/float64(p.Topology.Devices))
}
