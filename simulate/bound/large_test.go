package bound_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
)

// Tables that cannot be cut are whole on their devices. With more than n-1 tables for each device, some
// device has n. The limits of large slices prove that it takes nearly the time of n tables. Without these
// limits, the bound is the mean of all devices. There are too many devices for guests.
func TestLargeSlicesAreWhole(t *testing.T) {
	const devices = 65
	for _, c := range []struct{ tables, n int }{{80, 2}, {150, 3}, {210, 4}, {420, 7}} {
		p := &problem.Problem{
			Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: devices, ReserveShare: hardware.NoReserve},
			Batch:    65536,
		}
		for i := range c.tables {
			p.Tables = append(p.Tables, once(fmt.Sprint("t", i), 1_000_000, problem.ColumnGranule, 20, p.Batch))
		}
		pricer := simulate.NewPricer(p)
		of := func(tables float64) float64 { // the time of a device with the given number of tables
			var held []problem.Shard
			for i := range int(tables) {
				held = append(held, p.Whole(i))
			}
			forward, backward := pricer.GroupCost(held)
			return float64(forward + backward)
		}
		least := must.Get(bound.Simulated(context.Background(), p, bound.Allowed{}))(t)
		n := float64(c.n)
		t.Logf("%d tables: got a compute of %v, %d tables take %.4f ms, %d take %.4f ms", c.tables, least.Compute, c.n-1, of(n-1), c.n, of(n))
		if got, want := float64(least.Compute), of(n-1)+0.45*(of(n)-of(n-1)); got < want || got > of(n) {
			t.Errorf("%d tables: got a compute of %.4f ms, want %.4f to %.4f ms, where %d tables take %.4f ms and %d take %.4f ms",
				c.tables, got, want, of(n), c.n-1, of(n-1), c.n, of(n))
		}
	}
}

// Every device has nearly the columns of every other, because the exchanges would take longer
// otherwise. So a device with a slice of the hottest table has little room for it. Without rooms, the
// bound is 3.65 ms.
func TestHotSlicesLeaveLessRoom(t *testing.T) {
	all := must.Get(bench.WorkloadTasks([]string{"mlperf-dlrm-dcnv2"}, []string{bench.DefaultCluster}))(t)
	least := must.Get(bound.Simulated(context.Background(), &all[0].Problem, bound.Allowed{Operators: true}))(t)
	if least.Total < 3.72 {
		t.Errorf("got a bound of %v, want at least 3.72 ms", least.Total)
	}
}
