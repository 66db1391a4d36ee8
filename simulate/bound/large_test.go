package bound_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
)

// Tables that cannot be cut are whole on their devices. With more tables than devices, some device
// has two. The limit of large slices proves that some device takes 1.5 times the time of a table.
// Without this limit, the bound is the mean of all devices, 1.23 times. There are too many devices
// for guests.
func TestLargeSlicesAreWhole(t *testing.T) {
	const devices, tables = 65, 80
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: profile(t, "a100-80"), Devices: devices, ReserveShare: hardware.NoReserve},
		Batch:    65536,
	}
	for i := range tables {
		p.Tables = append(p.Tables, once(fmt.Sprint("t", i), 1_000_000, problem.ColumnGranule, 20, p.Batch))
	}
	pricer := simulate.NewPricer(p)
	forward, backward := pricer.GroupCost([]problem.Shard{p.Whole(0)})
	one := float64(forward + backward)
	forward, backward = pricer.GroupCost([]problem.Shard{p.Whole(0), p.Whole(1)})
	two := float64(forward + backward)
	least, err := bound.Simulated(context.Background(), p, bound.Allowed{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := float64(least.Compute), one+0.45*(two-one); got < want || got > two {
		t.Errorf("got a compute of %.4f ms, want %.4f to %.4f ms, where one table takes %.4f ms and two take %.4f ms", got, want, two, one, two)
	}
}

// Every device has nearly as many columns as all others, because the exchanges would take longer
// otherwise. So a device with a slice of the hottest table has little room for it. Without rooms, the
// bound is 3.65 ms.
func TestHotSlicesLeaveLessRoom(t *testing.T) {
	all, err := bench.WorkloadTasks([]string{"mlperf-dlrm-dcnv2"}, []string{bench.DefaultCluster})
	if err != nil {
		t.Fatal(err)
	}
	least, err := bound.Simulated(context.Background(), &all[0].Problem, bound.Allowed{Operators: true})
	if err != nil {
		t.Fatal(err)
	}
	if least.Total < 3.72 {
		t.Errorf("got a bound of %v, want at least 3.72 ms", least.Total)
	}
}
