package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

var errStop = errors.New("stop")

// Keep goes on where an earlier Keep was stopped or killed, and ends as if it had not been: a kill
// may cut the file of records at any byte.
func TestKeep(t *testing.T) {
	tasks, opt := comparison(t)
	want := must.Get(Run(context.Background(), tasks, opt))(t)
	path := filepath.Join(t.TempDir(), "results.json")
	opt.OnRecord = func(_ Record, done, _ int) error {
		if done == len(want) {
			return errStop
		}
		return nil
	}
	if _, err := Keep(context.Background(), path, tasks, opt); !errors.Is(err, errStop) {
		t.Fatalf("got error %v, want %v", err, errStop)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a stopped comparison has written its results")
	}
	text := must.Get(os.ReadFile(path + ".partial"))(t)
	draw := rand.New(rand.NewPCG(3, 4))
	cuts := []int{0, 1, len(text) - 1, len(text), bytes.IndexByte(text, '\n'), bytes.IndexByte(text, '\n') + 1}
	for range 10 {
		cuts = append(cuts, draw.IntN(len(text)))
	}
	for _, at := range cuts {
		must.Do(t, os.WriteFile(path+".partial", text[:at], 0o666))
		known := max(0, bytes.Count(text[:at], []byte("\n"))-1)
		made := 0
		opt.OnRecord = func(Record, int, int) error { made++; return nil }
		got, err := Keep(context.Background(), path, tasks, opt)
		if diff := cmp.Diff(want, got, exceptTimes); err != nil || diff != "" || made != len(want)-known {
			t.Fatalf("cut at %d: %d made of %d, error %v, other records than Run's:\n%s", at, made, len(want)-known, err, diff)
		}
		if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 1 {
			t.Errorf("got files %q and error %v, want the results alone", left, err)
		}
	}
	for _, bad := range []string{filepath.Join(path, "no folder"), t.TempDir()} {
		if _, err := Keep(context.Background(), bad, tasks, opt); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}

// TestIdentity: a comparison goes on from the records of the same one only.
func TestIdentity(t *testing.T) {
	tasks, opt := comparison(t)
	same := must.Get(identity(tasks, opt))(t)
	for name, change := range map[string]func(tasks []Task, opt *Options){
		"more workers":    func(_ []Task, o *Options) { o.Workers = 7 },
		"another seed":    func(_ []Task, o *Options) { o.Seed++ },
		"fewer methods":   func(_ []Task, o *Options) { o.Methods = o.Methods[1:] },
		"a contender":     func(_ []Task, o *Options) { o.Contenders = []Contender{Annealing()} },
		"other prices":    func(_ []Task, o *Options) { o.Prices = nets(t) },
		"a limit":         func(_ []Task, o *Options) { o.TimeLimit = time.Second },
		"a bound":         func(_ []Task, o *Options) { o.Certificate = true },
		"budgets":         func(_ []Task, o *Options) { o.Budgets = []time.Duration{1} },
		"another memory":  func(tasks []Task, _ *Options) { tasks[0].Problem.Topology.Memory *= 2 },
		"another setting": func(tasks []Task, _ *Options) { tasks[0].Setting = "x" },
		"measured": func(_ []Task, o *Options) {
			o.Measure = func(context.Context, *problem.Problem, []verify.Placement) ([]verify.Turn, error) { return nil, nil }
		},
	} {
		tasks, opt := comparison(t)
		change(tasks, &opt)
		if got, err := identity(tasks, opt); err != nil || (got == same) != (name == "more workers") {
			t.Errorf("%s: got the same identity: %v, error %v", name, got == same, err)
		}
	}
}

const (
	head  = `{"format": "neuroshard-bench", "version": 1, "models": "embedded", "seed": 1, "records": [`
	tail  = `], "summary": []}`
	sound = `{"setting": "s", "task": "s/0", "method": "dim", "valid": true, "cost_ms": 2.5, "simulated_cost_ms": 2, "wall_ms": 1,
		"plan": [{"table": "0:a", "columns": [0, 8], "device": 0}]}`
)

func TestReadResultsRefuses(t *testing.T) {
	if _, err := ReadResults("f", strings.NewReader(head+sound+tail)); err != nil {
		t.Fatalf("sound: got error %v, want none", err)
	}
	change := func(old, new string) string { return head + sound + "," + strings.Replace(sound, old, new, 1) + tail }
	for _, c := range []struct{ text, want string }{
		{"", "f: "},
		{head + sound, "f: unexpected end"},
		{strings.Replace(head, "neuroshard-bench", "neuroshard-plan", 1) + tail, `format "neuroshard-plan" version 1`},
		{strings.Replace(head, `"version": 1`, `"version": 2`, 1) + tail, "version 2"},
		{change(`2.5`, `null`), `record 1: task "s/0": valid is true`},
		{change(`true`, `false`), `record 1: task "s/0": valid is false`},
		{change(`2.5`, `0`), "cost 0 is not above 0"},
		{change(`"simulated_cost_ms": 2`, `"simulated_cost_ms": -2`), "cost -2 is not above 0"},
		{change(`"method": "dim", `, ``), `task "s/0", method ""`},
		{change(`"wall_ms": 1`, `"wall_ms": -1`), "times of -1 and 0 ms are below 0"},
		{head + sound + tail + "{}", "f: "},
	} {
		if _, err := ReadResults("f", strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.text, err, c.want)
		}
	}
	broken := errors.New("broken")
	if _, err := ReadResults("f", failing{broken}); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: got error %v, want %v", err, broken)
	}
}

// Results that are read can be summed up, priced and written again, whatever
// they hold.
func FuzzReadResults(f *testing.F) {
	f.Add([]byte(head + tail))
	f.Add([]byte(head + sound + "," + strings.Replace(sound, "dim", "paper", 1) + tail))
	f.Add([]byte(head + `{"task": "s/0", "method": "dim"}` + tail))
	f.Add([]byte(head + strings.Replace(sound, "[0, 8]", "[-4, 9223372036854775807]", 1) + tail))
	f.Add([]byte(head + strings.Replace(sound, "2.5", "5e-324", 1) + tail))
	f.Add([]byte(head + strings.Replace(sound, `"wall_ms"`, `"measured_cost_ms": 3, "measured_spread_ms": 0, "wall_ms"`, 1) + `], "summary": [],
		"verified": {"plans": 2, "tau": -1, "methods": [{"method": "size", "ratio": 0.5}], "best_other": {"wins": 1}}}`))
	task := suite(f, "d4_m16", 4, 1)[0]
	task.Name, task.Problem.Tables = "s/0", task.Problem.Tables[:1]
	task.Problem.Tables[0].Name = "0:a"
	f.Fuzz(func(t *testing.T, data []byte) {
		results, err := ReadResults("f", bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, s := range Summarise(results.Records, search.Paper) {
			if s.Solved > s.Tasks || s.Common > s.Solved {
				t.Errorf("got %+v, want no more solved than tasks", s)
			}
		}
		// Plans may be wrong, but are no trouble.
		_, _ = Score(t.Context(), []Task{task}, GivenResults(results), Options{Workers: 1})
		text := must.Get(json.Marshal(results))(t)
		again := must.Get(ReadResults("f", bytes.NewReader(text)))(t)
		if diff := cmp.Diff(results, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("written and read again (-want +got):\n%s", diff)
		}
	})
}
