package watch_test

import (
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/watch"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// TestMemory: a device differs if it holds less than the plan counts, or more than the plan counts with the reserve.
func TestMemory(t *testing.T) {
	pl := &plan.Plan{Devices: make([]plan.Device, 2)}
	pl.Devices[1].Memory = problem.Memory{
		Weights: 600 * unit.MiB, Optimizer: 300 * unit.MiB, Cache: 100 * unit.MiB,
		Inputs: 10 * unit.MiB, Permuted: 20 * unit.MiB, Indices: 30 * unit.MiB, Outputs: 40 * unit.MiB, Received: 50 * unit.MiB, Gradients: 50 * unit.MiB,
		Allocator: 20 * unit.MiB, Reserve: 180 * unit.MiB, Host: unit.GiB,
	}
	counted := watch.CountedBy(pl)
	if want := (watch.Counted{Held: 1000 * unit.MiB, Buffers: 200 * unit.MiB, Total: 1400 * unit.MiB}); counted[1] != want {
		t.Fatalf("got %+v counted, want %+v", counted[1], want)
	}
	for _, c := range []struct {
		start, peak unit.Bytes // in MiB
		differs     watch.Differs
		text        string
	}{
		{1000, 1200, "", ""},
		{950, 1140, "", ""},
		{949, 1400, watch.HeldLess, "device 1: the 949 MiB at the start of a step are 5 % less than the 1000 MiB of weights, optimizer states and cache that the plan counts"},
		{1000, 1080, watch.PeakLess, "device 1: the peak of 1.05 GiB, with the dense part, is 10 % less than the 1.17 GiB that the plan counts: it counts buffers of 200 MiB, and steps take 80.0 MiB above their start"},
		{1100, 1400, "", ""},
		{1210, 1401, watch.HeldMore, "device 1: the peak of 1.37 GiB, with the dense part, is more than the 1.37 GiB that the plan counts with the reserve: at the start of a step there are 210 MiB beside weights, optimizer states and cache"},
		{1000, 1500, watch.BuffersMore, "device 1: the peak of 1.46 GiB, with the dense part, is more than the 1.37 GiB that the plan counts with the reserve: steps take 500 MiB above their start, and the plan counts buffers of 200 MiB"},
	} {
		w := must.Get(watch.New([]unit.Millis{1, 1}, watch.Options{Window: 2, Counted: counted}))(t)
		var events []watch.Event
		for step := range int64(5) {
			l := watch.Line{Step: step, Device: 1, Forward: 1, Start: c.start * unit.MiB, Peak: c.peak * unit.MiB, Reserved: 2 * unit.GiB}
			if step == 0 {
				l.Start, l.Peak = 1, 1 // the first step, which another one outdoes
			}
			events = append(events, w.Add(l)...)
		}
		events = append(events, w.Add(watch.Line{Step: 5, Device: 1, Forward: 1})...) // without memory
		events = append(events, w.End()...)
		var texts []string
		for _, e := range events {
			if e.Topic == watch.TopicMemory {
				texts = append(texts, e.Text)
				if e.Device != 1 || e.Step != 1 || e.Since != 0 {
					t.Errorf("got %+v, want device 1 at step 1", e)
				}
			}
		}
		if got := strings.Join(texts, "\n"); got != c.text {
			t.Errorf("%d to %d MiB:\ngot  %s\nwant %s", c.start, c.peak, got, c.text)
		}
		s := w.Summary()
		if len(s.Memory) != 1 || s.Memory[0].Differs != c.differs || s.Memory[0].Beside() != (c.peak-1200)*unit.MiB || s.Outcome != watch.Steady {
			t.Errorf("%d to %d MiB: got %+v", c.start, c.peak, s.Memory)
		}
	}
	// Bytes of few lines are judged at the end; without counted bytes there is nothing to compare with.
	for _, counted := range [][]watch.Counted{counted, nil} {
		w, _ := watch.New([]unit.Millis{1, 1}, watch.Options{Counted: counted})
		w.Add(watch.Line{Device: 1, Forward: 1, Start: 1, Peak: 1, Reserved: 1})
		memory := 0
		for _, e := range w.End() {
			if e.Topic == watch.TopicMemory {
				memory++
			}
		}
		if want := min(1, len(counted)); memory != want || len(w.Summary().Memory) != want {
			t.Errorf("got %d events and %+v, want %d", memory, w.Summary().Memory, want)
		}
	}
}
