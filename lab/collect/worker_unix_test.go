//go:build unix

package collect

import (
	"context"
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
	w.opt.Deadline = time.Second
	if _, err := w.Compute(context.Background(), design.Compute.Tables, &design.Compute.Samples[0]); err == nil {
		t.Fatal("it did not hang")
	}
	content, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(content))
	child, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		t.Fatalf("the child's pid: %v in %q", err, content)
	}
	for start := time.Now(); alive(child); time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
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
