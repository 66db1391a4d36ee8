//go:build long

package replan

import (
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
)

func TestReplanByBruteForceLong(t *testing.T) { replanByBruteForce(t, 5, 1) }

func TestReplanPropertiesLong(t *testing.T) {
	var changes []int
	for i := range 6 {
		changes = append(changes, 2*i)
	}
	replanProperties(t, changes, 3, 0)
}

// One table more on 16 H100 moves nearly nothing: with at most 5 % of the bytes, the plan costs at
// most 3 % more than the cheapest plan found that may move anything: 1 % of it is the tie band.
func TestReplanIsStable(t *testing.T) {
	for seed := range uint64(2) {
		p, err := workload.Scale(41, 16, 1+seed)
		if err != nil {
			t.Fatal(err)
		}
		if p.Topology.Profile, err = hardware.ByName("h100-80"); err != nil {
			t.Fatal(err)
		}
		p.Topology.DevicesPerHost = 8
		was := p
		was.Tables = p.Tables[:40]
		var opt Options
		opt.Search.ShardingTypes = problem.ShardingTypes()
		old := must.Get(neuroshard.Plan(t.Context(), &was, opt.Options))(t)
		opt.Most = &MovedBytes{Share: 0.05}
		got := must.Get(Plan(t.Context(), &p, old.Plan, opt))(t)
		point, free := got.Point(), got.Curve[len(got.Curve)-1]
		if float64(point.Transfer.Bytes) > 0.05*float64(point.Transfer.Total) {
			t.Errorf("seed %d: got %v of %v moved, want at most 5 %%", 1+seed, point.Transfer.Bytes, point.Transfer.Total)
		}
		if point.Cost > 1.05*free.Cost {
			t.Errorf("seed %d: got %v, want at most 5 %% more than %v", 1+seed, point.Cost, free.Cost)
		}
	}
}
