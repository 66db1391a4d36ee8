package bound_test

import (
	"context"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

// On devices of different memories, the best of all placements of tiny problems that keep to each
// device's own memory is not below the bound.
func TestNoOptimumOnUnevenDevicesIsBelow(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 3, 3, 3)
		p.Tables = p.Tables[:min(len(p.Tables), 3)]
		n, all := p.Topology.Devices, unit.Bytes(0)
		for i := range p.Tables {
			all += p.ShardMemory(p.Whole(i)).Tables()
		}
		p.Topology.ReserveShare, p.Topology.Memory = hardware.NoReserve, hardware.MaxMemory
		received := p.DeviceMemory(0).Received
		for d := range n {
			share := rapid.Float64Range(0, 1.2).Draw(t, "share")
			if d == 0 && rapid.Bool().Draw(t, "room for all tables") {
				share = 1
			}
			p.Topology.DeviceMemories = append(p.Topology.DeviceMemories, received+1+unit.Bytes(share*float64(all)))
		}
		judge := simulate.NewPricer(p)
		pl := make(placement, len(p.Tables))
		best := unit.Millis(math.Inf(1))
		var table func(i int)
		var spread func(i, device, left int)
		spread = func(i, device, left int) {
			least := p.Tables[i].MinWidth() / 4
			if device == n-1 {
				if pl[i][device] = left; left == 0 || left >= least {
					table(i + 1)
				}
				return
			}
			for g := 0; g <= left; g++ {
				if g == 0 || g >= least {
					pl[i][device] = g
					spread(i, device+1, left-g)
				}
			}
		}
		table = func(i int) {
			if i == len(pl) {
				if shards := pl.shards(p); within(p, shards) {
					best = min(best, price(t, judge, shards))
				}
				return
			}
			pl[i] = make([]int, n)
			spread(i, 0, p.Tables[i].Dim/4)
		}
		table(0)
		if math.IsInf(float64(best), 1) {
			return // no placement fits
		}
		compared++
		least, err := bound.Simulated(context.Background(), p, bound.Allowed{})
		if err != nil {
			t.Fatal(err)
		}
		if best < least.Total {
			t.Fatalf("%v of memory: the best placement costs %v, below the bound %v", p.Topology.DeviceMemories, best, least.Total)
		}
	})
	if compared == 0 {
		t.Error("got no problem with a placement that fits")
	}
}

// within reports whether each device holds no more than it may.
func within(p *problem.Problem, shards [][]problem.Shard) bool {
	for d, held := range shards {
		used := unit.Bytes(0)
		for _, s := range held {
			used += p.ShardMemory(s).Tables()
		}
		if used > p.ShardBudget(d) {
			return false
		}
	}
	return true
}
