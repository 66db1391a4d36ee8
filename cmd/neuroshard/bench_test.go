package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/bench"
)

// comparison returns the command line of a comparison that takes a moment, with
// its tasks in a file: 4 tasks with 3 methods.
func comparison(t *testing.T, more ...string) []string {
	t.Helper()
	const reference = "../../cost/prototype/testdata/"
	text := must.Get(os.ReadFile(reference + "tasks/d4_m64.txt"))(t)
	tasks := filepath.Join(t.TempDir(), "tasks.txt")
	must.Do(t, os.WriteFile(tasks, bytes.Join(bytes.SplitAfter(text, []byte("\n"))[:4], nil), 0o666))
	return append([]string{
		"lab", "bench", "tasks", "--tables", reference + "table_configs.json.gz", "--tasks", tasks, "--set", "compute_model=" + reference + "models/compute.pt",
		"--set", "forward_model=" + reference + "models/comm_4_fw.pt", "--set", "backward_model=" + reference + "models/comm_4_bw.pt",
		"--methods", "dim,paper,neuroshard", "--set", "threads=1",
	}, more...)
}

func readBench(t *testing.T, path string) *bench.Results {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return must.Get(bench.ReadResults(path, bytes.NewReader(text)))(t)
}

// TestBenchGoesOn interrupts a comparison again and again: each run goes on
// where the last one was, and the end is as without interruptions.
func TestBenchGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans or trains for long, on few threads")
	}
	here := t.TempDir()
	whole, path := filepath.Join(here, "whole.json"), filepath.Join(here, "out.json")
	if r := runHere(t.Context(), quiet(), comparison(t, "--json", whole)...); r.code != exitOK || r.stderr != "" {
		t.Fatalf("got exit code %d: %s", r.code, r.stderr)
	}
	args := comparison(t, "--json", path)
	interrupted, before := 0, -1
	var r result
	// A run that is cut too early makes nothing; later ones are given more.
	for asked := int64(8); ; asked *= 2 {
		ctx := &countdown{Context: context.Background()}
		ctx.left.Store(asked)
		if r = runHere(ctx, quiet(), args...); r.code != exitInterrupted {
			break
		}
		interrupted++
		if r.stdout != "" || !strings.Contains(r.stderr, "of 12 records are in "+path+".partial") || !strings.Contains(r.stderr, "hint: give the same command again to continue") {
			t.Fatalf("got output %q and %q, want none and how to go on", r.stdout, r.stderr)
		}
		if _, err := os.Stat(path); err == nil {
			t.Fatal("got results of an interrupted run")
		}
		text, err := os.ReadFile(path + ".partial")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		lines := max(0, strings.Count(string(text), "\n")-1)
		if lines < before {
			t.Fatalf("got %d records after %d", lines, before)
		}
		before = lines
	}
	if r.code != exitOK {
		t.Fatalf("got exit code %d: %s", r.code, r.stderr)
	}
	if interrupted < 3 || before < 1 {
		t.Errorf("got %d interruptions, the last with %d records: want some, with some", interrupted, before)
	}
	want, got := readBench(t, whole), readBench(t, path)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(bench.Record{}, "WallMS"), cmpopts.IgnoreFields(bench.Summary{}, "WallMedianMS", "WallP95MS"),
		cmpopts.IgnoreFields(bench.Entry{}, "WallMS"), cmpopts.IgnoreFields(bench.Gains{}, "WallMS")); diff != "" {
		t.Errorf("(-whole +interrupted):\n%s", diff)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 1 {
		t.Errorf("got files %q and error %v, want the results alone", left, err)
	}
}

// A comparison without a file, or of given plans, that is interrupted leaves
// nothing.
func TestBenchInterruptedWithoutAFile(t *testing.T) {
	plans := filepath.Join(t.TempDir(), "plans.json")
	if r := runHere(t.Context(), quiet(), comparison(t, "--json", plans)...); r.code != exitOK {
		t.Fatalf("got exit code %d: %s", r.code, r.stderr)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	score := comparison(t)
	score = append(score[:len(score)-4], "--set", "score="+plans) // instead of methods and workers
	for _, args := range [][]string{comparison(t), comparison(t, "--json", "-"), score} {
		if r := runHere(ended, quiet(), args...); r.code != exitNothingFound || r.stdout != "" {
			t.Errorf("%q: got exit code %d, output %q and %q, want %d and none", args, r.code, r.stdout, r.stderr, exitNothingFound)
		}
	}
}
