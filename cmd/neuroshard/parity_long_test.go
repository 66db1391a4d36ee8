//go:build long

package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/search"
)

// TestParity runs the published prototype's tasks with its nets, by our methods and by its saved plans. The greedy
// methods ask no nets and have no ties to break otherwise: all their costs are the prototype's. Method paper solves as
// many tasks at the same mean cost, and the default costs less in the mean.
func TestParity(t *testing.T) {
	const data = "../../cost/prototype/testdata/"
	var saved []string
	for _, setting := range []string{"d4_m16_", "d4_m64_"} {
		for _, method := range []string{"size_greedy", "dim_greedy", "lookup_greedy", "size_lookup_greedy", "neuroshard"} {
			saved = append(saved, data+"results/"+setting+method+".json.gz")
		}
	}
	run := func(args ...string) *bench.Results {
		path := filepath.Join(t.TempDir(), "out.json")
		args = append([]string{
			"lab", "bench", "tasks", "--tables", data + "table_configs.json.gz",
			"--tasks", data + "tasks/d4_m16.txt," + data + "tasks/d4_m64.txt", "--set", "task_devices=4", "--memory", "4GiB",
			"--set", "compute_model=" + data + "models/compute.pt", "--set", "forward_model=" + data + "models/comm_4_fw.pt",
			"--set", "backward_model=" + data + "models/comm_4_bw.pt", "--json", path,
		}, args...)
		if r := runHere(t.Context(), quiet(), args...); r.code != exitOK {
			t.Fatalf("%q: got exit code %d: %s", args, r.code, r.stderr)
		}
		return readBench(t, path)
	}
	ours := run("--methods", "size,dim,lookup,size-lookup,paper,neuroshard")
	type job struct {
		setting, task string
		method        search.Method
	}
	theirs := map[job]bench.Record{}
	for _, r := range run("--set", "score="+strings.Join(saved, ",")).Records {
		theirs[job{r.Setting, r.Task, r.Method}] = r
	}
	type sum struct {
		both      int
		mine, its float64
		lost      int
	}
	sums := map[search.Method]sum{}
	for _, r := range ours.Records {
		against := r.Method
		if against == search.Default {
			against = search.Paper
		}
		other, ok := theirs[job{r.Setting, r.Task, against}]
		if !ok {
			t.Fatalf("the prototype has no plan by %s for task %s", against, r.Task)
		}
		s := sums[r.Method]
		switch {
		case other.Valid && r.Valid:
			s.both, s.mine, s.its = s.both+1, s.mine+*r.CostMS, s.its+*other.CostMS
			if r.Method != search.Paper && r.Method != search.Default && math.Abs(*r.CostMS / *other.CostMS - 1) > 1e-4 {
				t.Errorf("task %s by %s: got %v ms, want the prototype's %v", r.Task, r.Method, *r.CostMS, *other.CostMS)
			}
		case other.Valid:
			s.lost++
		}
		sums[r.Method] = s
	}
	for method, s := range sums {
		if s.lost > 0 || s.both == 0 || method == search.Paper && math.Abs(s.mine/s.its-1) > 1e-3 || method == search.Default && s.mine > s.its {
			t.Errorf("%s: got %v ms in all over %d tasks, with %d not solved; the prototype has %v ms", method, s.mine, s.both, s.lost, s.its)
		}
	}
}
