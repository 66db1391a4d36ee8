package plan_test

import (
	"math"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/unit"
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

// Hide takes from each exchange no more than it takes, and no more than is hidden of it.
func TestHide(t *testing.T) {
	times := plan.StepTimes{Forward: 1, ForwardComm: 4, BackwardComm: 3, Backward: 2}
	for _, c := range []struct {
		hidden            plan.Hidden
		forward, backward unit.Millis
	}{
		{plan.Hidden{}, 0, 0},
		{plan.Hidden{Forward: 1.5}, 1.5, 0},
		{plan.Hidden{Forward: 5, Backward: 2}, 4, 2},
		{plan.Hidden{Forward: 1.5, Backward: 4, Replicas: true}, 2, 3},
		{plan.Hidden{Forward: 3.75, Replicas: true}, 4, 0},
	} {
		got := times
		c.hidden.Hide(&got, 0.5)
		want := plan.StepTimes{
			Forward: 1, ForwardComm: 4 - c.forward, BackwardComm: 3 - c.backward, Backward: 2,
			ForwardHidden: c.forward, BackwardHidden: c.backward,
		}
		if got != want {
			t.Errorf("%+v: got %+v, want %+v", c.hidden, got, want)
		}
		if full := plan.NewBreakdown([]plan.StepTimes{got}).Full(); full.Devices[0] != times || full.Cost != times.Total() {
			t.Errorf("%+v: got %+v in full, want %+v", c.hidden, full, times)
		}
		if total := times.Total() - c.forward - c.backward; got.Total() != total {
			t.Errorf("%+v: got a total of %v, want %v", c.hidden, got.Total(), total)
		}
	}
}

func TestHiddenCheck(t *testing.T) {
	if err := (plan.Hidden{Forward: 1, Replicas: true}).Check(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	for _, ms := range []unit.Millis{-1, unit.Millis(math.NaN()), unit.Millis(math.Inf(1))} {
		if (plan.Hidden{Forward: ms}).Check() == nil || (plan.Hidden{Backward: ms}).Check() == nil {
			t.Errorf("%v ms hidden: got no error, want one", float64(ms))
		}
	}
}
