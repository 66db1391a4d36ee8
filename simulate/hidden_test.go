package simulate

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// An exposed cost is the longest compute and what is left of the longest exchange of each
// direction, which are computed apart here: by GroupCost and Device.Comm.
func TestExposedCost(t *testing.T) {
	p := mixed(24, hardware.Topology{Profile: a100(t), Devices: 8, DevicesPerHost: 4, ReserveShare: hardware.NoReserve})
	shards := dealt(p)
	c := Comm{PerHost: 4, Batch: p.Batch, ElementBytes: 4, DimSums: make([]int, len(shards))}
	for r, held := range shards {
		for _, s := range held {
			c.DimSums[r] += p.DimSum(s)
		}
	}
	// The narrowest tables are replicas as well, on all devices.
	var replicas []problem.Shard
	for _, i := range []int{3, 5, 8} {
		s := problem.Shard{Table: len(p.Tables), ShardingType: problem.DataParallel}
		table := p.Tables[i]
		table.Name, table.Rows, table.Weighted, table.Optimizer, table.Precision = "replica of "+table.Name, 10_000, false, 0, 0
		s.Rows, s.Columns = problem.Range{End: table.Rows}, problem.Range{End: int64(table.Dim)}
		p.Tables = append(p.Tables, table)
		replicas = append(replicas, s)
		c.Replicated += float64(table.Rows) * float64(table.Dim)
	}
	pricer := NewPricer(p)
	longest := unit.Millis(0)
	for r := range shards {
		shards[r] = append(shards[r], replicas...)
		forward, backward := pricer.GroupCost(shards[r])
		longest = max(longest, forward+backward)
	}
	beside, _ := pricer.GroupCost(replicas)
	forward, backward := must.Get2(NewDevice(a100(t)).Comm(c))(t)
	mostForward := unit.Millis(0)
	for _, ms := range forward {
		mostForward = max(mostForward, ms)
	}
	for _, h := range []plan.Hidden{
		{},
		{Forward: forward[0] / 3},
		{Backward: backward[0] / 2},
		{Forward: forward[0] / 2, Backward: backward[0] * 2},
		{Replicas: true},
		{Forward: mostForward - beside/2, Replicas: true},
		{Forward: 1e6, Backward: 1e6},
	} {
		exposed := must.Get(pricer.Hiding(h))(t)
		got := must.Get(exposed.Price(shards))(t)
		free := h.Forward
		if h.Replicas {
			free += beside
		}
		want := longest + max(0, mostForward-free) + max(0, backward[0]-h.Backward)
		if math.Abs(float64(got.Cost-want)) > 1e-12*float64(want) {
			t.Errorf("%+v: got %v, want %v: compute %v, exchanges %v and %v, replicas %v", h, got.Cost, want, longest, mostForward, backward[0], beside)
		}
		for r, d := range got.Devices {
			if d.ForwardHidden != min(forward[r], free) || d.BackwardHidden != min(backward[r], h.Backward) {
				t.Errorf("%+v, device %d: got %v and %v hidden, of %v and %v", h, r, d.ForwardHidden, d.BackwardHidden, forward[r], backward[r])
			}
		}
	}
	if _, err := pricer.Hiding(plan.Hidden{Forward: -1}); err == nil {
		t.Error("got no error for -1 ms hidden")
	}
}
