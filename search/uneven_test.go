package search_test

import (
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// uneven gives each device another share, from 20 % to 180 %, of the memory that tables may use of
// all, and each host another share of the host memory.
func uneven(p *problem.Problem, share func() float64) {
	t := &p.Topology
	received, budget := p.DeviceMemory(0).Received, p.ShardBudget(0)
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
		all += p.ShardMemory(p.Whole(i)).Tables()
	}
	p.Topology.ReserveShare = hardware.NoReserve
	p.Topology.Memory = p.DeviceMemory(0).Received + all*14/unit.Bytes(10*p.Topology.Devices)
	uneven(p, func() float64 { return .4 + 1.2*draw.Float64() })
	// One device at least holds the largest table whole.
	for i := range p.Tables {
		d := &p.Topology.DeviceMemories[p.Topology.Devices-1]
		*d = max(*d, p.DeviceMemory(0).Total()+p.ShardMemory(p.Whole(i)).Tables()*11/10)
	}
	return p
}
