package bound

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// Work that goes from set to set gives the same bound as the full work on each set.
func TestSetsInTurnHaveTheBoundOfFullWork(t *testing.T) {
	for _, name := range []string{"nvidia-synthetic-tiny", "nvidia-synthetic-small"} {
		w, err := workload.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		p := w.Problem()
		p.Topology.Devices, p.Topology.HostMemory = 8, 1<<40
		in := Allowed{ShardingTypes: problem.ShardingTypes()}.classes()
		for _, onHosts := range []bool{false, true} {
			got, err := leastOf(&p, in, problem.Operators, onHosts)
			if err != nil {
				t.Fatal(err)
			}
			sets, err := setsOf(&p, in, problem.Operators, onHosts)
			if err != nil {
				t.Fatal(err)
			}
			want := math.Inf(1)
			for _, s := range sets {
				for !s.ended {
					s.raise(math.Inf(1))
				}
				want = min(want, s.bound())
			}
			if got != want {
				t.Errorf("%s, host memory %v: got a bound of %v ms, want %v ms", name, onHosts, got, want)
			}
		}
	}
}
