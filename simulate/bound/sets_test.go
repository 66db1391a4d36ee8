package bound

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
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
	for _, hidden := range []plan.Hidden{{}, {Forward: 0.1, Backward: 5, Replicas: true}} {
		setsInTurnHaveTheBoundOfFullWork(t, "nvidia-synthetic-tiny", hidden)
	}
}

func setsInTurnHaveTheBoundOfFullWork(t *testing.T, name string, hidden plan.Hidden) {
	t.Helper()
	w := must.Get(workload.ByName(name))(t)
	p := w.Problem()
	p.Topology.Devices, p.Topology.HostMemory = 8, 1<<40
	for _, onHosts := range []bool{false, true} {
		allowed := Allowed{ShardingTypes: problem.ShardingTypes(), Host: onHosts, Operators: true, Hidden: hidden}
		got := must.Get(leastOf(t.Context(), &p, allowed))(t)
		sets := must.Get(setsOf(&p, allowed))(t)
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
	w := must.Get(workload.ByName("nvidia-synthetic-tiny"))(t)
	p := w.Problem()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, types := range [][]problem.ShardingType{nil, problem.ShardingTypes()} {
		if b, err := Simulated(ctx, &p, Allowed{ShardingTypes: types}); !errors.Is(err, context.Canceled) {
			t.Errorf("types %v: got bound %v, error %v, want %v", types, b, err, context.Canceled)
		}
	}
}
