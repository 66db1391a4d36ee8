package verify_test

import (
	"context"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
)

// With Fastest, the shortest time of each device counts, and the starts of the
// forward all-to-all follow from the shortest computes, not from a run in which one
// device was slow.
func TestFastest(t *testing.T) {
	p, shards := twoByTwo(t)
	quiet, noisy := newBackend(t), newBackend(t)
	calls := 0
	noisy.onCompute = func(_ *dataset.Group, timing *collect.Timing) error {
		calls++
		if calls <= 8 || calls > 16 {
			timing.Forward *= 3
		}
		return nil
	}
	exchanges := 0
	noisy.onComm = func(_ *dataset.Exchange, timing *collect.CommTiming) error {
		if exchanges++; exchanges%3 == 0 {
			for r := range timing.Forward {
				timing.Forward[r] += 5
				timing.Backward[r] += 5
			}
		}
		return nil
	}
	want := must.Get(verify.Plan(context.Background(), p, shards, plan.Breakdown{}, quiet, verify.Options{}))(t)
	got := must.Get(verify.Plan(context.Background(), p, shards, plan.Breakdown{}, noisy, verify.Options{Repeats: 5, Fastest: true}))(t)
	if got.Measured != want.Measured || len(got.Costs) != 5 || got.Spread == 0 {
		t.Errorf("got cost %v of %v, want the quiet backend's %v", got.Measured, got.Costs, want.Measured)
	}
	for d := range got.Devices {
		if got.Devices[d].Measured != want.Devices[d].Measured {
			t.Errorf("device %d: got %+v, want %+v", d, got.Devices[d].Measured, want.Devices[d].Measured)
		}
	}
	for i, e := range noisy.comms {
		if i < 5 && e.Start[0] != 0 || i >= 5 && e.Start[0] != quiet.comms[1].Start[0] {
			t.Errorf("exchange %d: got start %v, want 5 aligned ones, then those of the fastest computes, %v", i, e.Start, quiet.comms[1].Start)
		}
	}
	slow := must.Get(verify.Plan(context.Background(), p, shards, plan.Breakdown{}, noisy, verify.Options{Repeats: 5}))(t)
	if slow.Measured <= want.Measured {
		t.Errorf("medians: got cost %v, want more than %v", slow.Measured, want.Measured)
	}
}

// If the machine is busy for a moment, the request is repeated; if it stays busy,
// that is an error.
func TestBusyMachine(t *testing.T) {
	p, shards := twoByTwo(t)
	for _, c := range []struct {
		times int
		fails bool
	}{{1, false}, {4, false}, {5, true}} {
		m := newBackend(t)
		left := c.times
		m.onComm = func(*dataset.Exchange, *collect.CommTiming) error {
			if left--; left >= 0 {
				return &protocol.Error{Code: protocol.CodeDrift, Message: "the machine is too busy"}
			}
			return nil
		}
		_, err := verify.Plan(context.Background(), p, shards, plan.Breakdown{}, m, verify.Options{})
		if (err != nil) != c.fails || err != nil && !strings.Contains(err.Error(), "too busy") {
			t.Errorf("busy %d times: got error %v", c.times, err)
		}
	}
	// An error that is not a sign of a busy machine is not repeated.
	m := newBackend(t)
	m.onComm = func(*dataset.Exchange, *collect.CommTiming) error {
		return &protocol.Error{Code: protocol.CodeInternal, Message: "broken"}
	}
	if _, err := verify.Plan(context.Background(), p, shards, plan.Breakdown{}, m, verify.Options{}); err == nil || len(m.comms) != 1 {
		t.Errorf("broken: got error %v after %d exchanges, want one after the first", err, len(m.comms))
	}
}
