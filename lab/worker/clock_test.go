package worker

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/lab/protocol"
)

// withProcessorTime skips the test on a system that does not tell processor time.
func withProcessorTime(t *testing.T) Options {
	t.Helper()
	if _, known := processorTime(); !known {
		t.Skip("this system does not tell processor time")
	}
	opt := small()
	opt.Threads, opt.ProcessorTime = 1, true
	return opt
}

// A group's processor time is above 0, and the device's name says which time it is.
func TestProcessorTimeOfAGroup(t *testing.T) {
	opt := withProcessorTime(t)
	responses := talk(t, opt, `{"op":"hello","v":1}`, initWarm, tableLine(0, 1000, 8),
		`{"op":"compute","id":"a","group":[{"t":0,"dim":16}],"opt":"sgd","dtype":"fp32"}`)
	if device := responses[0].Device; !strings.HasSuffix(device, ", processor time of 1 thread") {
		t.Errorf("got device %q", device)
	}
	if r := responses[3]; r.Op != protocol.OpCompute || r.N != 3 || !(r.ForwardMS > 0 && r.BackwardMS > 0) {
		t.Errorf("got %+v, want times above 0", r)
	}
	opt.Threads = 2
	if err := Serve(context.Background(), strings.NewReader(""), io.Discard, opt); err == nil || !strings.Contains(err.Error(), "one thread") {
		t.Errorf("two threads: got error %v", err)
	}
}

// With processor time the wait for the last rank is counted, and no rank waits in fact: the
// starts are an hour apart.
func TestProcessorTimeOfRanks(t *testing.T) {
	withProcessorTime(t)
	g := newRanks(t)
	g.processorTime = true
	times, err := g.allToAll(sizes{Batch: 32, Dims: []int{4, 4, 4}}, offsets(3, 1, time.Hour), 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	const hour = 3600e3
	for r := range 3 {
		for i := range 2 {
			forward, backward := times.forward[r][i], times.backward[r][i]
			if waits := r != 1; waits != (forward > hour) || !(forward > 0 && backward > 0) || backward > hour {
				t.Errorf("rank %d, run %d: got forward %v ms and backward %v ms, want the wait of an hour in the forward of all but rank 1", r, i, forward, backward)
			}
		}
	}
}
