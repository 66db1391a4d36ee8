package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/internal/must"
)

// printed is an output that a test reads while a command writes it.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// wait waits until the output has a text; the limit is only for a command that hangs.
func (p *printed) wait(t *testing.T, want string) {
	t.Helper()
	for range 30_000 {
		if strings.Contains(p.String(), want) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("got %q, want %q", p.String(), want)
}

// TestWatchFollows wants a followed file to be read as it grows, a line that is written in two
// parts to be whole, a file that is written anew to be read from its start, and Ctrl-C to end
// the watch with what was found.
func TestWatchFollows(t *testing.T) {
	t.Chdir(t.TempDir())
	env := environment{getenv: func(string) string { return "" }, now: time.Now, terminal: func(any) (int, bool) { return 0, false }}
	if code := run(t.Context(), strings.NewReader(""), io.Discard, io.Discard, []string{"plan", "workload:criteo-kaggle", "--gpus", "2", "--gpu", "a100-80", "--set", "method=size", "-o", "plan.json"}, env); code != exitOK {
		t.Fatalf("plan: got exit code %d", code)
	}
	lines := func(from, to int, factor float64) string {
		var b strings.Builder
		for step := from; step < to; step++ {
			fmt.Fprintf(&b, `{"step":%d,"device":0,"forward_ms":1,"backward_ms":1}`+"\n", step)
			fmt.Fprintf(&b, `{"step":%d,"device":1,"forward_ms":%v,"backward_ms":1}`+"\n", step, factor)
		}
		return b.String()
	}
	file := filepath.Join(t.TempDir(), "times.jsonl")
	write := func(text string, flag int) {
		t.Helper()
		f := must.Get(os.OpenFile(file, flag|os.O_CREATE|os.O_WRONLY, 0o600))(t)
		defer f.Close()
		must.Get(io.WriteString(f, text))(t)
	}
	write(lines(0, 1000, 1), 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var stdout, stderr printed
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, strings.NewReader(""), &stdout, &stderr, []string{"watch", "plan.json", file}, env)
	}()
	more := lines(1000, 4000, 1)
	write(more[:len(more)/2+7], os.O_APPEND)
	write(more[len(more)/2+7:], os.O_APPEND)
	stdout.wait(t, "ready: steps 0 to 2999 are the reference")
	write(lines(4000, 5000, 1.5), os.O_APPEND)
	stdout.wait(t, "slow: from step 4000 on, device 1 takes 25.0 % more time")
	write(lines(0, 400, 1.5), os.O_TRUNC)
	stderr.wait(t, "the file became shorter: it is read again from its start")
	stdout.wait(t, "restart: the steps went back")
	stop()
	if code := <-ended; code != exitInterrupted {
		t.Errorf("got exit code %d, want %d", code, exitInterrupted)
	}
	if got, want := stdout.String(), "slow: device 1 takes 25.0 % more time beside the others than in the reference\n"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
