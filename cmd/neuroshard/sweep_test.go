package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/neuroshard/neuroshard/internal/must"
)

// sweptTables is a small sweep: four cells.
var sweptTables = []string{"workload:paper-d4_m64-0", "--gpus", "2,4", "--gpu", "a100-80,h100-80", "--set", "max_evaluations=300"}

// sweepHere runs a sweep in this process.
func sweepHere(t *testing.T, ctx context.Context, env environment, args ...string) result {
	t.Helper()
	return runHere(ctx, env, append([]string{"sweep"}, args...)...)
}

// TestSweepInterrupted ends a sweep at any point: finished cells are in its file, the same
// command goes on from there, and the finished file is the one of a run that was not stopped.
func TestSweepInterrupted(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.jsonl")
	if r := sweepHere(t, t.Context(), quiet(), append(sweptTables, "-o", whole)...); r.code != exitOK {
		t.Fatalf("got exit code %d: %s", r.code, r.stderr)
	}
	want := must.Get(os.ReadFile(whole))(t)
	some, nothing := 0, 0
	for asked := int64(0); asked < 1<<30; asked = 2*asked + 1 {
		folder := t.TempDir()
		path := filepath.Join(folder, "sweep.jsonl")
		ctx := &countdown{Context: context.Background()}
		ctx.left.Store(asked)
		r := sweepHere(t, ctx, quiet(), append(sweptTables, "--set", "threads=1", "-o", path)...)
		left := must.Get(filepath.Glob(filepath.Join(folder, "*")))(t)
		switch r.code {
		case exitOK:
			if some == 0 || nothing == 0 {
				t.Errorf("got %d sweeps with some cells and %d with none, want both", some, nothing)
			}
			return
		case exitNothingFound:
			nothing++
			if len(left) != 0 || r.stdout != "" {
				t.Errorf("after %d: got files %q and output %q, want none", asked, left, r.stdout)
			}
		case exitInterrupted:
			some++
			if len(left) != 1 || !strings.Contains(r.stdout, "INTERRUPTED ") || !strings.Contains(r.stderr, "of 4 cells are in "+path) {
				t.Errorf("after %d: got files %q, stderr %q and %q, want the finished cells", asked, left, r.stderr, r.stdout)
			}
			if r := sweepHere(t, t.Context(), quiet(), append(sweptTables, "-o", path)...); r.code != exitOK {
				t.Fatalf("got exit code %d: %s", r.code, r.stderr)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
				t.Errorf("after %d: got another file than from one run, error %v", asked, err)
			}
		default:
			t.Fatalf("after %d: got exit code %d: %s", asked, r.code, r.stderr)
		}
	}
	t.Error("got no complete sweep however long the context lasted")
}

// TestSweepExamples runs the shell lines of the examples for Slurm and Kubernetes with the
// variables that these set, and joins the parts.
func TestSweepExamples(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	examples := must.Get(filepath.Abs("../../examples/sweep"))(t)
	var job struct {
		Spec struct {
			Completions int
			Template    struct {
				Spec struct {
					Containers []struct {
						Command, Args []string
						Env           []struct{ Name, Value string }
					}
				}
			}
		}
	}
	text := must.Get(os.ReadFile(filepath.Join(examples, "kubernetes.yaml")))(t)
	must.Do(t, yaml.Unmarshal(text, &job))
	container := job.Spec.Template.Spec.Containers[0]
	if container.Env[0].Name != "PARTS" || container.Env[0].Value != "8" || job.Spec.Completions != 8 {
		t.Errorf("got %d completions and %v, want the same number of parts", job.Spec.Completions, container.Env)
	}
	if strings.Join(container.Command, " ") != "sh -c" || len(container.Args) != 1 {
		t.Fatalf("got command %q and arguments %q, want one line for sh -c", container.Command, container.Args)
	}
	line := strings.Replace(container.Args[0], "neuroshard sweep workload:mlperf-dlrm-dcnv2 --gpus 4,8,16,32 --set devices_per_host=8 --gpu a100-80,h100-80", "neuroshard sweep "+strings.Join(sweptTables, " "), 1)
	if line == container.Args[0] {
		t.Fatalf("got line %q, want one with the sweep of docs/OPERATION.md", line)
	}
	single := sweepHere(t, t.Context(), quiet(), sweptTables...)
	for name, c := range map[string]struct {
		args  []string
		index func(i int) []string
	}{
		"slurm": {append([]string{filepath.Join(examples, "slurm.sh")}, sweptTables...), func(i int) []string {
			return []string{"SLURM_ARRAY_TASK_COUNT=3", "SLURM_CPUS_PER_TASK=1", "SLURM_ARRAY_TASK_ID=" + string(rune('1'+i))}
		}},
		"kubernetes": {[]string{"-c", line}, func(i int) []string {
			return []string{"PARTS=3", "DATA=.", "JOB_COMPLETION_INDEX=" + string(rune('0'+i))}
		}},
	} {
		folder := t.TempDir()
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			cmd := exec.CommandContext(ctx, shell, c.args...)
			cmd.Dir, cmd.Env = folder, append(os.Environ(), c.index(i)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: part %d: %v: %s", name, i, err, out)
			}
			cancel()
		}
		parts, err := filepath.Glob(filepath.Join(folder, "parts", "*.jsonl"))
		if err != nil || len(parts) != 3 {
			t.Fatalf("%s: got parts %q, want 3", name, parts)
		}
		if r := sweepHere(t, t.Context(), quiet(), append([]string{"join"}, parts...)...); r.code != exitOK || r.stdout != single.stdout {
			t.Errorf("%s: got exit code %d and table %s, want that of a single run", name, r.code, r.stdout)
		}
	}
}
