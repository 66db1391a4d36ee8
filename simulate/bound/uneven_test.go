package bound_test

import (
	"context"
	"fmt"
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

// The bound of plans by columns is not lower than that of devices that all are as large as the
// largest, and it is higher where memory limits what a device can do.
func TestOwnMemoriesSharpenTheBound(t *testing.T) {
	of := func(t interface{ Fatal(...any) }, p *problem.Problem) unit.Millis {
		b, err := bound.Simulated(context.Background(), p, bound.Allowed{})
		if err != nil {
			t.Fatal(err)
		}
		return b.Total
	}
	asLargest := func(p *problem.Problem) *problem.Problem {
		q := *p
		q.Topology.Memory, q.Topology.DeviceMemories = p.Topology.DeviceMemory(p.Topology.Largest()), nil
		return &q
	}
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 8, 6, 8)
		all := unit.Bytes(0)
		for i := range p.Tables {
			all += p.ShardMemory(p.Whole(i)).Tables()
		}
		p.Topology.ReserveShare = hardware.NoReserve
		received, n := p.DeviceMemory(0).Received, p.Topology.Devices
		for d := range n {
			share := rapid.Float64Range(0, 2).Draw(t, "share")
			if d == 0 {
				share = 1
			}
			p.Topology.DeviceMemories = append(p.Topology.DeviceMemories, received+1+unit.Bytes(share*float64(all)))
		}
		if own, even := of(t, p), of(t, asLargest(p)); own < even {
			t.Fatalf("%v of memory: got a bound of %v, which is below %v for devices as large as the largest", p.Topology.DeviceMemories, own, even)
		}
	})
	// Equal tables: the small devices hold fewer of them, and the others do their work.
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: profile(t, "a100-80"), Devices: 4, ReserveShare: hardware.NoReserve}}
	for i := range 32 {
		p.Tables = append(p.Tables, problem.Table{Name: fmt.Sprint(i), Rows: 1_000_000, Dim: 64, Optimizer: problem.SGD, Features: []problem.Feature{{PoolingFactor: 20}}})
	}
	one, received := p.ShardMemory(p.Whole(0)).Tables(), p.DeviceMemory(0).Received
	for _, held := range []unit.Bytes{3, 3, 14, 14} {
		p.Topology.DeviceMemories = append(p.Topology.DeviceMemories, received+held*one)
	}
	own, even := of(t, p), of(t, asLargest(p))
	t.Logf("32 equal tables, two devices with room for 3 and two with room for 14: a bound of %v, and %v if all count as the largest", own, even)
	if own < 1.3*even {
		t.Errorf("got a bound of %v, want at least 1.3 times the %v of devices as large as the largest", own, even)
	}
}
