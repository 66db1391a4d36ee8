//go:build unix

package collect

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A worker's children end with it.
func TestChildrenDie(t *testing.T) {
	design := drawn(t, 12, 0)
	note := filepath.Join(t.TempDir(), "note")
	w := startFake(t, fakeOptions("parent", "note="+note))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := w.Compute(ctx, design.Compute.Tables, &design.Compute.Samples[0])
		ended <- err
	}()
	child := 0
	for start := time.Now(); child == 0; time.Sleep(time.Millisecond) {
		content, _ := os.ReadFile(note)
		if _, pid, whole := strings.Cut(string(content), "compute 0\n"); whole && strings.HasSuffix(pid, "\n") {
			child, _ = strconv.Atoi(strings.TrimSpace(pid))
		}
		if time.Since(start) > hanging {
			t.Fatalf("the worker noted no child, but %q", content)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, want a worker that hangs until it is cancelled", err)
	}
	for start := time.Now(); alive(child); time.Sleep(time.Millisecond) {
		if time.Since(start) > hanging {
			t.Fatalf("the worker's child %d lives on", child)
		}
	}
}

// alive reports whether a process runs; a process that ended and was not waited for
// does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}
