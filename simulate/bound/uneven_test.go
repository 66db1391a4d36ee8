package bound_test

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

// drawMemories draws the memory of each device, up to most times that of all tables. The first one has
// room for all of them in half of the draws, or if roomy.
func drawMemories(t *rapid.T, p *problem.Problem, most float64, roomy bool) {
	all := unit.Bytes(0)
	for i := range p.Tables {
		all += p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Used()
	}
	p.Topology.ReserveShare, p.Topology.Memory = hardware.NoReserve, hardware.MaxMemory
	received := p.DeviceMemory(0)[problem.ForwardExchange].Used()
	for d := range p.Topology.Devices {
		share := rapid.Float64Range(0, most).Draw(t, "share")
		if d == 0 && (roomy || rapid.Bool().Draw(t, "room for all tables")) {
			share = 1
		}
		p.Topology.DeviceMemories = append(p.Topology.DeviceMemories, received+1+unit.Bytes(share*float64(all)))
	}
}

// within reports whether each device holds no more than it may.
func within(p *problem.Problem, shards [][]problem.Shard) bool {
	for d, held := range shards {
		used := unit.Bytes(0)
		for _, s := range held {
			used += p.ShardMemory(s)[problem.ForwardExchange].Used()
		}
		if used > p.ShardBudget(d)[problem.ForwardExchange] {
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
		drawMemories(t, p, 2, true)
		if own, even := of(t, p), of(t, asLargest(p)); own < even {
			t.Fatalf("%v of memory: got a bound of %v, which is below %v for devices as large as the largest", p.Topology.DeviceMemories, own, even)
		}
	})
	// Equal tables: the small devices hold fewer of them, and the others do their work.
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 4, ReserveShare: hardware.NoReserve}}
	for i := range 32 {
		p.Tables = append(p.Tables, problem.Table{Name: fmt.Sprint(i), Rows: 1_000_000, Dim: 64, Optimizer: problem.SGD, Features: []problem.Feature{{PoolingFactor: 20}}})
	}
	one, received := p.ShardMemory(p.Whole(0))[problem.ForwardExchange].Used(), p.DeviceMemory(0)[problem.ForwardExchange].Used()
	for _, held := range []unit.Bytes{3, 3, 14, 14} {
		p.Topology.DeviceMemories = append(p.Topology.DeviceMemories, received+held*one)
	}
	own, even := of(t, p), of(t, asLargest(p))
	t.Logf("32 equal tables, two devices with room for 3 and two with room for 14: a bound of %v, and %v if all count as the largest", own, even)
	if own < 1.3*even {
		t.Errorf("got a bound of %v, want at least 1.3 times the %v of devices as large as the largest", own, even)
	}
}
