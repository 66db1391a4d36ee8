package plan_test

import (
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/plan"
)

func TestNewBreakdown(t *testing.T) {
	b := plan.NewBreakdown([]plan.StepTimes{
		{Forward: 1, ForwardComm: 20, BackwardComm: 300, Backward: 4000},
		{Forward: 4000, ForwardComm: 300, BackwardComm: 20, Backward: 2},
		{Forward: 4322},
	})
	if b.Cost != 4322 || b.Critical != 1 {
		t.Errorf("got cost %v of device %d, want 4322 of the first that reaches it, 1", b.Cost, b.Critical)
	}
	if got := b.Devices[0].Total(); got != 4321 {
		t.Errorf("got total %v, want 4321", got)
	}
}

// A plan carries the times that were written into it, and nothing of a breakdown for another
// number of devices.
func TestBreakdownOfAPlan(t *testing.T) {
	pl := &plan.Plan{Devices: make([]plan.Device, 2)}
	want := plan.NewBreakdown([]plan.StepTimes{{Forward: 1, Backward: 2}, {ForwardComm: 3, BackwardComm: 4}})
	pl.SetBreakdown(want)
	got := pl.Breakdown()
	if !slices.Equal(got.Devices, want.Devices) || got.Cost != 7 || got.Critical != 1 || pl.Predicted != 7 {
		t.Errorf("got %+v and cost %v, want %+v", got, pl.Predicted, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("got no panic from a breakdown of one device for a plan of two")
		}
	}()
	pl.SetBreakdown(plan.NewBreakdown(want.Devices[:1]))
}
