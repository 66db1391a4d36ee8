package search_test

import (
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// uneven gives each device another share, from 20 % to 180 %, of the memory that tables may use of
// all, and each host another share of the host memory.
func uneven(p *problem.Problem, share func() float64) {
	t := &p.Topology
	_, fixed := p.DeviceMemory(0).Peak()
	budgets := p.ShardBudget(0)
	received, budget := fixed.Used(), slices.Min(budgets[:])
	for range t.Devices {
		t.DeviceMemories = append(t.DeviceMemories, received+unit.Bytes(float64(budget)*share())+1)
	}
	for range t.Hosts() {
		if t.HostMemory > 0 {
			t.HostMemories = append(t.HostMemories, unit.Bytes(float64(t.HostMemory)*share())+1)
		}
	}
}

// unevenTiny returns a tiny problem in which little more than the tables fits, on devices of different
// memories.
func unevenTiny(seed uint64) *problem.Problem {
	p := tiny(seed)
	p.Batch = 1
	draw := rand.New(rand.NewPCG(seed, 40))
	all := unit.Bytes(0)
	for i := range p.Tables {
		_, peak := p.ShardMemory(p.Whole(i)).Add(p.SharedMemory(p.Whole(i))).Peak()
		all += peak.Used()
	}
	p.Topology.ReserveShare = hardware.NoReserve
	_, fixed := p.DeviceMemory(0).Peak()
	p.Topology.Memory = fixed.Used() + all*17/unit.Bytes(10*p.Topology.Devices)
	uneven(p, func() float64 { return .4 + 1.2*draw.Float64() })
	// One device at least holds the largest table whole.
	for i := range p.Tables {
		d := &p.Topology.DeviceMemories[p.Topology.Devices-1]
		_, peak := p.ShardMemory(p.Whole(i)).Peak()
		*d = max(*d, fixed.Used()+peak.Used()*11/10)
	}
	return p
}
