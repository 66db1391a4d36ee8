package collect_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

func TestWorkersDoNotChangeTimes(t *testing.T) {
	hw := must.Get(hardware.ByName("h100-80"))(t)
	var computes []*dataset.Compute
	var comms []*dataset.Comm
	for _, workers := range []int{1, 8} {
		compute, comm := design.Compute(4, 60, 600, 1, 10), design.Comm(4, 60, hw)
		must.Do(t, collect.SimulateCompute(context.Background(), compute, hw, workers))
		must.Do(t, collect.SimulateComm(context.Background(), comm, hw, workers))
		computes, comms = append(computes, compute), append(comms, comm)
	}
	if !reflect.DeepEqual(computes[0], computes[1]) {
		t.Error("8 workers take other times of groups than 1")
	}
	if !reflect.DeepEqual(comms[0], comms[1]) {
		t.Error("8 workers take other times of exchanges than 1")
	}
}

// The times are those of the simulated device for the same operators, one by one.
func TestComputeTimesAreTheDevices(t *testing.T) {
	hw := must.Get(hardware.ByName("v100-16"))(t)
	set := design.Compute(9, 80, 60, 1, design.MaxShards)
	must.Do(t, collect.SimulateCompute(context.Background(), set, hw, 0))
	device := simulate.NewDevice(hw)
	for i, g := range set.Samples {
		op := simulate.Op{
			Batch: g.Operation.Batch, WeightBytes: int(g.Operation.Precision.Bytes()), OutputBytes: 4, IndexBytes: 8,
			Optimizer: g.Operation.Optimizer, Weighted: g.Operation.Weighted,
			LaneRule: g.Operation.LaneRule, Pooling: set.Tables[g.Members[0].Table].Pooling,
		}
		for _, m := range g.Members {
			table := set.Tables[m.Table]
			op.Tables = append(op.Tables, simulate.Table{
				Rows: table.Rows, Dim: int(m.Dim), Bags: table.Bags(),
				Counts: table.Access.At(table.Rows, table.PoolingFactor(), g.Operation.Batch), LengthCV: table.LengthCV(),
			})
		}
		forward, backward := device.Compute(op)
		if g.Forward != forward || g.Backward != backward || !(forward > 0) || !(backward > 0) {
			t.Errorf("sample %d: got %v and %v, want %v and %v", i, g.Forward, g.Backward, forward, backward)
		}
	}
}

func TestCommTimesContainTheWait(t *testing.T) {
	hw := must.Get(hardware.ByName("b200"))(t)
	set := design.Comm(2, 200, hw)
	must.Do(t, collect.SimulateComm(context.Background(), set, hw, 0))
	device := simulate.NewDevice(hw)
	for i, e := range set.Samples {
		aligned, backward := must.Get2(device.Comm(simulate.Comm{PerHost: e.DevicesPerHost, Batch: e.Batch, DimSums: e.DimSums}))(t)
		if !slices.Equal(e.Backward, backward) {
			t.Errorf("sample %d: backward: got other times than the device's", i)
		}
		last := slices.Max(e.Start)
		for r, got := range e.Forward {
			want := aligned[r] + last - e.Start[r]
			if math.Abs(float64(got-want)) > 1e-9 {
				t.Errorf("sample %d, device %d: got forward %v, want %v: %v and a wait of %v", i, r, got, want, aligned[r], last-e.Start[r])
			}
		}
	}
}

func TestCancel(t *testing.T) {
	hw := must.Get(hardware.ByName("a100-80"))(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := collect.SimulateCompute(ended, design.Compute(1, 20, 300, 1, 3), hw, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("groups, cancelled before: got error %v, want %v", err, context.Canceled)
	}
	if err := collect.SimulateComm(ended, design.Comm(1, 10, hw), hw, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("exchanges, cancelled before: got error %v, want %v", err, context.Canceled)
	}
}
