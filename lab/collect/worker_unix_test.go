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
	w := startFake(t, fakeOptions("parent", envNote+"="+note))
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
		if _, pid, whole := strings.Cut(string(content), "compute\n"); whole && strings.HasSuffix(pid, "\n") {
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

// TestNoPipes puts a pipe, to which nobody listens, under each name that a run writes to.
func TestNoPipes(t *testing.T) {
	for _, name := range []string{lockName, journalName, passPrefix + "1"} {
		folder := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(folder, name), 0o600); err != nil {
			t.Fatal(err)
		}
		design := drawn(t, 12, 0)
		w := startFake(t, fakeOptions("good"))
		_, err := Run(context.Background(), design, w, folder, Options{Tool: "test", Passes: 2})
		if err == nil || !strings.Contains(err.Error(), filepath.Join(folder, name)+" is not a file") {
			t.Errorf("%s: got error %v, want one that names the pipe", name, err)
		}
	}
}

// TestNoLinks puts a link under each name that a run writes to: nothing may be written to
// where the link leads.
func TestNoLinks(t *testing.T) {
	for _, name := range []string{lockName, journalName, passPrefix + "1", passPrefix + "2"} {
		folder, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
		if err := os.Symlink(elsewhere, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		design := drawn(t, 12, 0)
		w := startFake(t, fakeOptions("good"))
		_, err := Run(context.Background(), design, w, folder, Options{Tool: "test", Passes: 2})
		if err == nil || !strings.Contains(err.Error(), filepath.Join(folder, name)+" is a link") {
			t.Errorf("%s: got error %v, want one that names the link", name, err)
		}
		if _, err := os.Lstat(elsewhere); err == nil {
			t.Errorf("%s: the run wrote to where the link leads", name)
		}
	}
}
