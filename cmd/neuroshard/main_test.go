package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "lab" {
		main() // a worker of the backend cpu is a process of the same program
	}
	debug.SetGCPercent(400)
	testscript.Main(m, map[string]func(){"neuroshard": main, "counting-worker": countingWorker})
}

func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it runs the command many hundred times; other tests run it with interrupts, terminals and clients")
	}
	runScripts(t, "testdata/script")
}

// runScripts runs the scripts of a folder: testdata/script always, and
// testdata/long behind the build tag "long".
func runScripts(t *testing.T, folder string) {
	t.Helper()
	absolute := func(path string) string {
		path = must.Get(filepath.Abs(path))(t)
		return path
	}
	folders := map[string]string{
		"EXAMPLES":  absolute("../../examples"),
		"REFERENCE": absolute("../../cost/prototype/testdata"), "MODELS": absolute("../../cost/pretrained/models"),
	}
	testscript.Run(t, testscript.Params{
		Dir:                 absolute(folder),
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			for name, folder := range folders {
				e.Setenv(name, folder)
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"append":   appendLine,
			"document": document,
			"exits":    exits,
			"json":     jsonValue,
			"cut":      cut,
			"run":      succeeds,
			"same":     sameValue,
			"stream":   stream,
			"trap":     trap,
		},
	})
}

// turn is held by the script whose command runs in the process of the tests, in the folder of the script.
var turn sync.Mutex

// inProcess runs the program as a process would, at a fraction of the time, and returns its exit code.
// It reads no standard input.
func inProcess(ts *testscript.TestScript, args []string) int {
	turn.Lock()
	defer turn.Unlock()
	home, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer func() { ts.Check(os.Chdir(home)) }()
	env := quiet()
	env.now = time.Now
	return run(context.Background(), strings.NewReader(""), ts.Stdout(), ts.Stderr(), args, env)
}

// succeeds runs the program, which must succeed: run neuroshard plan tables.json
func succeeds(ts *testscript.TestScript, neg bool, args []string) {
	if code := inProcess(ts, args[1:]); (code != exitOK) != neg {
		ts.Fatalf("%s: got exit code %d (negated: %v)", strings.Join(args, " "), code, neg)
	}
}

// exits runs the program and wants an exit code: exits 2 neuroshard plan. With exec it is a process,
// which reads standard input: exits 2 exec neuroshard plan -
func exits(ts *testscript.TestScript, _ bool, args []string) {
	code := 0
	if args[1] == "exec" {
		var exit *exec.ExitError
		if err := ts.Exec(args[2], args[3:]...); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else {
			ts.Check(err)
		}
	} else {
		code = inProcess(ts, args[2:])
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s: got exit code %d, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// jsonValue wants a value in a JSON file: json FILE PATH VALUE, where the path is
// of keys and positions, VALUE is JSON, and "*" is anything but null. With "!"
// the value must be something else.
func jsonValue(ts *testscript.TestScript, neg bool, args []string) {
	got := valueAt(ts, args[0], args[1])
	if matches := got == args[2] || args[2] == "*" && got != "null"; matches == neg {
		ts.Fatalf("%s: %s: got %s, want %s (negated: %v)", args[0], args[1], got, args[2], neg)
	}
}

// sameValue wants equal values in two JSON files: same FILE PATH FILE PATH.
func sameValue(ts *testscript.TestScript, neg bool, args []string) {
	got, want := valueAt(ts, args[0], args[1]), valueAt(ts, args[2], args[3])
	if (got == want) == neg {
		ts.Fatalf("%s: %s: got %s, want %s (negated: %v)", args[0], args[1], got, want, neg)
	}
}

// valueAt returns a value of a JSON file, as JSON.
func valueAt(ts *testscript.TestScript, file, path string) string {
	var value any
	if err := json.Unmarshal([]byte(ts.ReadFile(file)), &value); err != nil {
		ts.Fatalf("%s: %v", file, err)
	}
	for key := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			member, ok := v[key]
			if !ok {
				ts.Fatalf("%s: there is no %s", file, path)
			}
			value = member
		case []any:
			if key == "len" {
				value = len(v)
				continue
			}
			i := int(key[0] - '0')
			if i >= len(v) {
				ts.Fatalf("%s: %s: there are %d only", file, path, len(v))
			}
			value = v[i]
		default:
			ts.Fatalf("%s: %s: %v has no %s", file, path, v, key)
		}
	}
	text, err := json.Marshal(value)
	ts.Check(err)
	return string(text)
}

// cut truncates a file, or takes bytes off its end: cut FILE BYTES, cut FILE -BYTES
func cut(ts *testscript.TestScript, _ bool, args []string) {
	var size int64
	ts.Check(json.Unmarshal([]byte(args[1]), &size))
	if size < 0 {
		info, err := os.Stat(ts.MkAbs(args[0]))
		ts.Check(err)
		size += info.Size()
	}
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

// trap writes a checkpoint whose pickle is a shell command: trap FILE COMMAND
func trap(ts *testscript.TestScript, _ bool, args []string) {
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "net/data.pkl"}) // stored, as torch.save does
	ts.Check(err)
	_, err = fmt.Fprintf(w, "cos\nsystem\n(S'%s'\ntR.", args[1])
	ts.Check(err)
	ts.Check(z.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), archive.Bytes(), 0o666))
}

// result is what a run in this process did.
type result struct {
	code           int
	stdout, stderr string
}

func runHere(ctx context.Context, env environment, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(ctx, strings.NewReader(""), &stdout, &stderr, args, env)
	return result{code, stdout.String(), stderr.String()}
}

// quiet is an environment without terminals. GOGC is set: the settings of memory that suit one command
// slow a process that runs many.
func quiet() environment {
	return environment{
		getenv:   func(name string) string { return map[string]string{"GOGC": "400"}[name] },
		terminal: func(any) (int, bool) { return 0, false },
		now:      func() time.Time { return time.Unix(1e9, 0) },
	}
}

// countdown is a context that ends once it was asked for its error n times.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterrupted ends a search at any point: there is a whole plan, marked, or
// none at all.
func TestInterrupted(t *testing.T) {
	found, nothing := 0, 0
	for asked := int64(0); asked < 1<<20; asked = 2*asked + 1 {
		path := filepath.Join(t.TempDir(), "plan.json")
		ctx := &countdown{Context: context.Background()}
		ctx.left.Store(asked)
		r := runHere(ctx, quiet(), "plan", "workload:nvidia-synthetic-tiny", "--set", "threads=1", "--json", "-o", path)
		left := must.Get(filepath.Glob(filepath.Join(filepath.Dir(path), "*")))(t)
		switch r.code {
		case exitOK:
			if found == 0 || nothing == 0 {
				t.Errorf("got %d interrupted plans and %d times none, want both", found, nothing)
			}
			return
		case exitInterrupted:
			found++
			pl := must.Get(plan.Load(path))(t)
			if got := pl.Provenance.Status; got != "interrupted" {
				t.Errorf("after %d: got status %q, want interrupted", asked, got)
			}
			if !strings.Contains(strings.Join(pl.Provenance.Warnings, "\n"), "interrupted") {
				t.Errorf("after %d: got warnings %q, want one of the interruption", asked, pl.Provenance.Warnings)
			}
			w := must.Get(workload.ByName("nvidia-synthetic-tiny"))(t)
			p := w.Problem()
			if err := pl.Validate(&p); err != nil {
				t.Errorf("after %d: %v", asked, err)
			}
			if len(left) != 1 {
				t.Errorf("after %d: got files %q, want the plan alone", asked, left)
			}
			if !strings.Contains(r.stdout, `"status": "interrupted"`) {
				t.Errorf("after %d: got no status in %.300s", asked, r.stdout)
			}
		case exitNothingFound:
			nothing++
			if len(left) != 0 || r.stdout != "" {
				t.Errorf("after %d: got files %q and output %q, want none", asked, left, r.stdout)
			}
		default:
			t.Fatalf("after %d: got exit code %d: %s", asked, r.code, r.stderr)
		}
	}
	t.Error("got no complete plan however long the context lasted")
}

// TestSignal sends Ctrl-C, or the signal of a terminal that is closed, to a real process
// in a search that would take minutes.
func TestSignal(t *testing.T) {
	signals := []os.Signal{os.Interrupt}
	if runtime.GOOS != "windows" {
		signals = append(signals, syscall.SIGHUP)
	}
	for _, s := range signals {
		t.Run(s.String(), func(t *testing.T) { interruptSearch(t, s) })
	}
}

func interruptSearch(t *testing.T, signal os.Signal) {
	program := must.Get(os.Executable())(t)
	for wait := 250 * time.Millisecond; wait < time.Minute; wait *= 2 {
		path := filepath.Join(t.TempDir(), "plan.json")
		cmd := exec.Command(program, "plan", "workload:nvidia-synthetic-small", "--set", "method=paper",
			"--set", "beam_steps=100000", "--set", "beam_candidates=1000", "--set", "baselines=false", "-o", path)
		cmd.Args[0] = "neuroshard" // for TestMain
		must.Do(t, cmd.Start())
		time.Sleep(wait)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatalf("after %v the search was over already: %v", wait, err)
		}
		_ = cmd.Wait() // its exit code says more
		switch code := cmd.ProcessState.ExitCode(); code {
		case exitInterrupted:
			pl := must.Get(plan.Load(path))(t)
			if got := pl.Provenance.Status; got != "interrupted" {
				t.Errorf("got status %q, want interrupted", got)
			}
			return
		case exitNothingFound, -1: // -1: it came before the handler was there
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("with exit code %d: got a plan file, want none", code)
			}
		default:
			t.Fatalf("got exit code %d, want %d or %d", code, exitInterrupted, exitNothingFound)
		}
	}
	t.Error("got no plan of an interrupted search, however late the signal came")
}

// TestProgressInAPipe wants no line for short work, and one a minute for long work.
func TestProgressInAPipe(t *testing.T) {
	var told bytes.Buffer
	clock := time.Unix(1e9, 0)
	bar := &progressBar{to: &told, now: func() time.Time { return clock }, told: clock}
	for range 180 {
		clock = clock.Add(time.Second)
		bar.at(clock.Second(), 200, "planning")
	}
	if got := strings.Count(told.String(), "\n"); got != 3 || !strings.HasPrefix(told.String(), "neuroshard: planning (") {
		t.Errorf("got %d lines in three minutes, want 3: %q", got, told.String())
	}
}

// TestProgressNeverFallsBack has a search that counts its work anew, and finds more of it.
func TestProgressNeverFallsBack(t *testing.T) {
	var drawn bytes.Buffer
	bar := &progressBar{to: &drawn, terminal: true, eager: true}
	clock := time.Unix(1e9, 0)
	p := &planProgress{now: func() time.Time { clock = clock.Add(time.Second); return clock }, start: clock, bar: bar}
	for _, e := range []search.Event{
		{Level: 1, Levels: 10, Evaluations: 100, Limit: 1000, Best: math.Inf(1)},
		{Level: 5, Levels: 10, Evaluations: 500, Limit: 1000, Best: 3},
		{Level: 2, Levels: 10, Evaluations: 520, Limit: 4000, Best: 3},
		{Level: 0, Levels: 20, Evaluations: 0, Limit: 0, Best: 2},
		{Level: 6, Levels: 10, Evaluations: 5000, Limit: 4000, Best: 2},
	} {
		p.event(e)
	}
	share, step := 0, 0
	for _, at := range regexp.MustCompile(`step (\d+) of \d+, .*? (\d+)%`).FindAllStringSubmatch(drawn.String(), -1) {
		nextStep, _ := strconv.Atoi(at[1])
		nextShare, _ := strconv.Atoi(at[2])
		if nextShare < share || nextStep < step {
			t.Errorf("got step %d at %d %% after step %d at %d %%", nextStep, nextShare, step, share)
		}
		share, step = nextShare, nextStep
	}
	if share < 99 || step != 6 {
		t.Errorf("got step %d at %d %% in the end, want 6 at 99: %q", step, share, drawn.String())
	}
}

// TestTerminal shows progress and colours on a terminal, and neither elsewhere.
func TestTerminal(t *testing.T) {
	args := []string{"plan", "workload:nvidia-synthetic-tiny"}
	clock := time.Unix(1e9, 0)
	terminal := quiet()
	terminal.terminal = func(any) (int, bool) { return 100, true }
	terminal.now = func() time.Time { clock = clock.Add(time.Second); return clock }

	on := runHere(t.Context(), terminal, args...)
	if on.code != exitOK {
		t.Fatalf("got exit code %d: %s", on.code, on.stderr)
	}
	for _, want := range []string{"searching, step", "now the lower bound", "now baseline size", "now baseline random"} {
		if !strings.Contains(on.stderr, want) {
			t.Errorf("on a terminal: got %q on stderr, want %q in it", on.stderr, want)
		}
	}
	if !strings.Contains(on.stdout, "\x1b[") {
		t.Errorf("on a terminal: got no colour")
	}
	off := runHere(t.Context(), quiet(), args...)
	if off.stderr != "" || strings.Contains(off.stdout, "\x1b") {
		t.Errorf("in a pipe: got stderr %q and colours %v, want none", off.stderr, strings.Contains(off.stdout, "\x1b"))
	}
	terminal.getenv = func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }
	if plain := runHere(t.Context(), terminal, args...); strings.Contains(plain.stdout, "\x1b") {
		t.Errorf("with NO_COLOR: got colours, want none")
	}
	// A search that is over at once shows nothing.
	fast := quiet()
	fast.terminal = terminal.terminal
	if r := runHere(t.Context(), fast, args...); r.stderr != "" {
		t.Errorf("within %v: got progress %q, want none", patience, r.stderr)
	}
}

// TestFullDisk wants no command to end well whose output was lost.
func TestFullDisk(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"list", "devices"}, {"list", "workloads", "--json"}, {"help", "exit-codes"}, {"plan", "workload:nvidia-synthetic-tiny"}} {
		var stderr bytes.Buffer
		code := run(t.Context(), strings.NewReader(""), full{}, &stderr, args, quiet())
		if want := "neuroshard: error: disk full\n"; code != exitBad || stderr.String() != want {
			t.Errorf("%q: got exit code %d and %q, want %d and %q", args, code, stderr.String(), exitBad, want)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// A command that waits for input ends when it is interrupted.
func TestInterruptedWaitingForInput(t *testing.T) {
	for _, args := range [][]string{{"show", "-"}, {"plan", "-", "--gpus", "2", "--gpu", "a100-80"}, {"convert", "-", "--from", "torchrec", "--gpus", "2", "--gpu", "a100-80"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stdin, end := io.Pipe()
			var stdout, stderr bytes.Buffer
			time.AfterFunc(100*time.Millisecond, cancel)
			code := run(ctx, stdin, &stdout, &stderr, args, quiet())
			if code != exitNothingFound || !strings.Contains(stderr.String(), "interrupted before there was a result") {
				t.Errorf("%v: got exit code %d, and %q; want %d", args, code, stderr.String(), exitNothingFound)
			}
			_ = end // an end that is closed would wake the command, which goes on
		})
	}
}

// faultyReader panics when it is read.
type faultyReader struct{}

func (faultyReader) Read([]byte) (int, error) { panic("a reader of the test") }

// A command that panics ends with the exit code of an error of neuroshard itself.
func TestPanicked(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), faultyReader{}, &stdout, &stderr, []string{"show", "-"}, quiet())
	if code != exitInternal || stdout.Len() > 0 {
		t.Errorf("got exit code %d and output %q, want %d and none", code, stdout.String(), exitInternal)
	}
	for _, want := range []string{"faultyReader", "neuroshard: error: panic: a reader of the test\n", "neuroshard: hint: this should not happen: please report it"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("got %q, want it to hold %q", stderr.String(), want)
		}
	}
}

// stream writes the lines of a job that runs a plan 20 % slower than predicted:
// stream PLAN FILE STEPS [drift|slow|first]. From step 4000 on, with drift all devices take
// 10 % more time, with slow device 2 does, and with first device 0 takes 3 times as long.
func stream(ts *testscript.TestScript, _ bool, args []string) {
	pl, err := plan.Load(ts.MkAbs(args[0]))
	ts.Check(err)
	steps, err := strconv.Atoi(args[2])
	ts.Check(err)
	var b bytes.Buffer
	for step := range steps {
		for d := range pl.Devices {
			factor := 1.2
			switch {
			case step < 4000 || len(args) < 4:
			case args[3] == "first" && d == 0:
				factor *= 3
			case args[3] == "drift" || args[3] == "slow" && d == 2:
				factor *= 1.1
			}
			of := pl.Devices[d].StepTimes
			fmt.Fprintf(&b, `{"step":%d,"device":%d,"forward_ms":%v,"backward_ms":%v,"wait_ms":0.1}`+"\n", step, d, factor*float64(of.Forward), factor*float64(of.Backward))
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b.Bytes(), 0o600))
}

// appendLine adds a line to a file: append FILE LINE
func appendLine(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	_, err = fmt.Fprintln(f, args[1])
	ts.Check(errors.Join(err, f.Close()))
}

// TestZeroOptions wants of Go's zero Options the plan, and the cost, of the command without flags.
func TestZeroOptions(t *testing.T) {
	const tables = "name,rows,dim,pooling_factor,zipf,optimizer\na,1000,8,20,1,sgd\nb,500,8,20,1,sgd\nc,2000,4,100,1,sgd\n"
	folder := t.TempDir()
	source, file := filepath.Join(folder, "tables.csv"), filepath.Join(folder, "plan.json")
	must.Do(t, os.WriteFile(source, []byte(tables), 0o666))
	if r := runHere(t.Context(), quiet(), "plan", source, "--gpu", "h100-80", "--gpus", "4", "-o", file); r.code != exitOK {
		t.Fatalf("got exit code %d: %s", r.code, r.stderr)
	}
	commands := must.Get(plan.Load(file))(t)
	parts := input.Parts{Overrides: input.Overrides{"device": "h100-80", "devices": "4"}}
	parts.Tables, parts.TablesErr = input.Tables(source, strings.NewReader(tables), parts.Overrides.Options())
	p, _ := must.Get2(parts.Problem())(t)
	ours := must.Get(neuroshard.Plan(t.Context(), p, neuroshard.Options{}))(t)
	if got, want := ours.Plan.Predicted, commands.Predicted; got != want {
		t.Errorf("got a cost of %v, want %v", got, want)
	}
	if diff := cmp.Diff(commands.Tables, ours.Plan.Tables); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(commands.Tables, func(t plan.Table) bool { return t.ShardingType.Joint() }) {
		t.Error("the plan has slices of columns alone: it does not tell the options apart")
	}
}
