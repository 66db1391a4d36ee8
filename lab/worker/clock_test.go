package worker

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/lab/protocol"
)

// withProcessorTime skips the test on a system that does not tell processor time.
func withProcessorTime(t *testing.T) Options {
	t.Helper()
	if !hasProcessorTime {
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
