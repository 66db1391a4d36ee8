package bound

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// Work that goes from set to set gives the same bound as the full work on each set, and so if
// exchanges count in several ways.
func TestSetsInTurnHaveTheBoundOfFullWork(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it bounds many problems, one after another")
	}
	setsInTurnHaveTheBoundOfFullWork(t, "nvidia-synthetic-tiny", plan.Hidden{})
	setsInTurnHaveTheBoundOfFullWork(t, "nvidia-synthetic-small", plan.Hidden{})
	for _, hidden := range []plan.Hidden{{Forward: 0.2, Backward: 0.1}, {Forward: 0.1, Backward: 5, Replicas: true}} {
		setsInTurnHaveTheBoundOfFullWork(t, "nvidia-synthetic-tiny", hidden)
	}
}

func setsInTurnHaveTheBoundOfFullWork(t *testing.T, name string, hidden plan.Hidden) {
	t.Helper()
	w, err := workload.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	p.Topology.Devices, p.Topology.HostMemory = 8, 1<<40
	for _, onHosts := range []bool{false, true} {
		allowed := Allowed{ShardingTypes: problem.ShardingTypes(), Host: onHosts, Operators: true, Hidden: hidden}
		got, err := leastOf(t.Context(), &p, allowed)
		if err != nil {
			t.Fatal(err)
		}
		sets, err := setsOf(&p, allowed)
		if err != nil {
			t.Fatal(err)
		}
		want := math.Inf(1)
		for _, s := range sets {
			for !s.ended {
				s.raise(t.Context(), math.Inf(1))
			}
			want = min(want, s.bound())
		}
		if got != want {
			t.Errorf("%s, hidden %+v, host memory %v: got a bound of %v ms, want %v ms", name, hidden, onHosts, got, want)
		}
	}
}

func TestEndsWithItsContext(t *testing.T) {
	w, err := workload.ByName("nvidia-synthetic-tiny")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, types := range [][]problem.ShardingType{nil, problem.ShardingTypes()} {
		if b, err := Simulated(ctx, &p, Allowed{ShardingTypes: types}); !errors.Is(err, context.Canceled) {
			t.Errorf("types %v: got bound %v, error %v, want %v", types, b, err, context.Canceled)
		}
	}
}

// The work on the ways in which exchanges count keeps the way with the highest bound after
// equal work, and ends early where one of them reaches the limit.
func TestChooseKeepsTheHighestWay(t *testing.T) {
	w, err := workload.ByName("nvidia-synthetic-tiny")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	p.Topology.Devices = 8
	begun := func() []*setBound {
		sets, err := setsOf(&p, Allowed{ShardingTypes: problem.ShardingTypes(), Hidden: plan.Hidden{Forward: 0.2, Backward: 0.1}})
		if err != nil {
			t.Fatal(err)
		}
		return sets
	}
	chosen, early, others := begun(), begun(), [4]int{}
	for k, s := range begun() {
		if s.tree != nil {
			continue
		}
		highest, at := 0.0, 0
		for i := range s.ways {
			w := &s.ways[i]
			if w.mixed.rounds = firstRounds; !w.mixed.raise(t.Context(), math.Inf(1)) {
				t.Fatal("got a way whose work did not end")
			}
			if w.bound() > highest {
				highest, at = w.bound(), i
			}
		}
		others[at]++
		c := chosen[k]
		if !c.choose(t.Context(), math.Inf(1)) || len(c.ways) != 1 || c.ways[0].bound() != highest || c.least != highest {
			t.Errorf("set %d: got %d ways, a bound of %v ms and at least %v ms, want the way with %v ms", k, len(c.ways), c.bound(), c.least, highest)
		}
		if c.ways[0].mixed.rounds != mixedRounds {
			t.Errorf("set %d: got %d rounds for the way that was chosen, want %d", k, c.ways[0].mixed.rounds, mixedRounds)
		}
		e := early[k]
		if limit := 0.98 * highest; limit > e.bound() && (e.choose(t.Context(), limit) || !(e.bound() >= limit)) {
			t.Errorf("set %d: got a bound of %v ms and %d ways, want to stop at %v ms", k, e.bound(), len(e.ways), limit)
		}
	}
	if others[0] == 0 || others[0] == len(chosen) {
		t.Errorf("got the ways %v, want several", others)
	}
}
