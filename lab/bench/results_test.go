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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// exceptTimes compares records but for how long they took.
var exceptTimes = cmpopts.IgnoreFields(Record{}, "WallMS")

// comparison is one to interrupt: 3 tasks with 4 methods; one method fails on
// some.
func comparison(t testing.TB) ([]Task, Options) {
	tasks := suite(t, "d4_m64", 4, 3)
	tasks[1].Problem.Topology.Memory = 1 << 20
	return tasks, Options{Prices: nets(t, ".pt"), Methods: []search.Method{search.Random, search.Size, search.Dim, search.Paper}, Seed: 5, Workers: 1}
}

// Keep goes on where an earlier Keep stopped, and gives what Run gives.
func TestKeep(t *testing.T) {
	tasks, opt := comparison(t)
	want, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "results.json")
	stop := errors.New("stop")
	opt.OnRecord = func(_ Record, done, _ int) error {
		if done == 5 {
			return stop
		}
		return nil
	}
	if _, err := Keep(context.Background(), path, tasks, opt); !errors.Is(err, stop) {
		t.Fatalf("got error %v, want %v", err, stop)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a stopped comparison has written its results")
	}
	made := 0
	opt.OnRecord = func(Record, int, int) error { made++; return nil }
	got, err := Keep(context.Background(), path, tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, exceptTimes); diff != "" {
		t.Errorf("got other records than Run's:\n%s", diff)
	}
	if made != len(want)-4 {
		t.Errorf("got %d records made, want the %d after the first four", made, len(want)-4)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if _, err := Keep(context.Background(), filepath.Join(path, "no folder"), tasks, opt); err == nil {
		t.Error("no folder: got no error")
	}
}

// Whatever is known is not planned again, and the rest is as if nothing had
// been.
func TestRunGoesOn(t *testing.T) {
	tasks, opt := comparison(t)
	whole, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) != 12 || !whole[0].Valid || whole[4].Valid {
		t.Fatalf("got %d records, want 12, the first valid and the fifth not", len(whole))
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		opt.Known = nil
		for _, i := range draw.Perm(len(whole))[:draw.IntN(len(whole)+1)] {
			opt.Known = append(opt.Known, whole[i])
		}
		// What belongs to no task and method of the comparison does not disturb.
		opt.Known = append(opt.Known, Record{Setting: "x", Task: "x/0", Method: search.Dim}, Record{Task: tasks[0].Name, Method: search.Lookup})
		known := len(opt.Known) - 2
		made := map[string]bool{}
		opt.OnRecord = func(r Record, done, of int) error {
			made[key(r.Task, r.Method)] = true
			if want := known + len(made); done != want || of != len(whole) {
				t.Errorf("got record %d of %d, want %d of %d", done, of, want, len(whole))
			}
			return nil
		}
		again, err := Run(context.Background(), tasks, opt)
		if err != nil {
			t.Fatal(err)
		}
		if len(made) != len(whole)-known {
			t.Errorf("with %d known: got %d made, want %d", known, len(made), len(whole)-known)
		}
		for _, r := range opt.Known {
			if made[key(r.Task, r.Method)] {
				t.Errorf("%s by %s was known: got it made again", r.Task, r.Method)
			}
		}
		if diff := cmp.Diff(whole, again, exceptTimes); diff != "" {
			t.Errorf("with %d known (-whole +resumed):\n%s", known, diff)
		}
	}
}

// A run that is cancelled returns what it made.
func TestRunCancelled(t *testing.T) {
	tasks, opt := comparison(t)
	whole, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	for stop := range len(whole) - 1 {
		ctx, cancel := context.WithCancel(context.Background())
		opt.OnRecord = func(_ Record, done, _ int) error {
			if done == stop+1 {
				cancel()
			}
			return nil
		}
		got, err := Run(ctx, tasks, opt)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d: got error %v, want %v", stop+1, err, context.Canceled)
		}
		if diff := cmp.Diff(whole[:stop+1], got, exceptTimes); diff != "" {
			t.Errorf("cancelled after %d (-want +got):\n%s", stop+1, diff)
		}
	}
}

// cutShort returns a planner whose searches by method Paper end before they are done.
func cutShort(cancel func()) func(context.Context, *problem.Problem, neuroshard.Options, int) (*neuroshard.Result, error) {
	return func(ctx context.Context, p *problem.Problem, opt neuroshard.Options, _ int) (*neuroshard.Result, error) {
		result, err := neuroshard.Plan(ctx, p, opt)
		if opt.Search.Method == search.Paper {
			cancel()
			result.Status = search.Interrupted
		}
		return result, err
	}
}

// A plan of a search that was cut short is no record: a run that goes on would
// keep it.
func TestRunDropsInterruptedPlans(t *testing.T) {
	tasks, opt := comparison(t)
	ctx, cancel := context.WithCancel(context.Background())
	opt.planner = cutShort(cancel)
	opt.Methods = []search.Method{search.Dim, search.Paper}
	got, err := Run(ctx, tasks[:1], opt)
	if !errors.Is(err, context.Canceled) || len(got) != 1 || got[0].Method != search.Dim {
		t.Errorf("got records %+v and error %v, want the one by dim, and %v", got, err, context.Canceled)
	}
}

func TestRunRefusesTwoTasksOfOneName(t *testing.T) {
	tasks, opt := comparison(t)
	tasks[2].Name = tasks[0].Name
	if _, err := Run(context.Background(), tasks, opt); err == nil || !strings.Contains(err.Error(), `"d4_m64/0"`) {
		t.Errorf("Run: got error %v, want one of the name", err)
	}
	if _, err := Score(context.Background(), tasks, nil, opt); err == nil || !strings.Contains(err.Error(), `"d4_m64/0"`) {
		t.Errorf("Score: got error %v, want one of the name", err)
	}
}

func TestRunEndsAtTheErrorOfOnRecord(t *testing.T) {
	tasks, opt := comparison(t)
	full := errors.New("disk full")
	opt.OnRecord = func(_ Record, done, _ int) error {
		if done == 3 {
			return full
		}
		return nil
	}
	if got, err := Run(context.Background(), tasks, opt); !errors.Is(err, full) || len(got) != 3 {
		t.Errorf("got %d records and error %v, want 3 and %v", len(got), err, full)
	}
}

// A journal may be cut at any byte: what was whole is still there, once, and
// the run ends as if it had not been stopped.
func TestJournalSurvivesAKill(t *testing.T) {
	tasks, opt := comparison(t)
	path := filepath.Join(t.TempDir(), "out.json")
	whole := fill(t, path, tasks, opt)
	text, err := os.ReadFile(path + ".partial")
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(text, []byte("\n")); got != len(whole)+1 {
		t.Fatalf("got a journal of %d lines, want %d", got, len(whole)+1)
	}
	draw := rand.New(rand.NewPCG(3, 4))
	cuts := []int{0, 1, len(text) - 1, len(text)}
	for i, c := range text {
		if c == '\n' {
			cuts = append(cuts, i, i+1)
		}
	}
	for range 40 {
		cuts = append(cuts, draw.IntN(len(text)))
	}
	for _, at := range cuts {
		if err := os.WriteFile(path+".partial", text[:at], 0o666); err != nil {
			t.Fatal(err)
		}
		// A record without its line's end is whole if the end is all that lacks.
		want := bytes.Count(text[:min(at+1, len(text))], []byte("\n")) - 1
		if want < 0 || at < bytes.IndexByte(text, '\n') {
			want = 0
		}
		j, known, err := OpenJournal(path, tasks, opt)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole[:want], known, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", at, diff)
		}
		for _, r := range whole[want:] {
			if err := j.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if again, err := os.ReadFile(path + ".partial"); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("cut at %d: got another journal than without the cut, error %v", at, err)
		}
	}

	// The run as the command does it, from a journal cut in a line.
	if err := os.WriteFile(path+".partial", text[:len(text)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	j, known, err := OpenJournal(path, tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	if len(known) == 0 || len(known) == len(whole) {
		t.Fatalf("got %d records known, want some", len(known))
	}
	opt.Known, opt.OnRecord = known, func(r Record, _, _ int) error { return j.Add(r) }
	records, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Finish(records); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 1 {
		t.Errorf("got files %q and error %v, want the results alone", left, err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	results, err := ReadResults(path, file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, results.Records, exceptTimes); diff != "" {
		t.Errorf("results (-whole +resumed):\n%s", diff)
	}
	if diff := cmp.Diff(whole[:len(known)], results.Records[:len(known)]); diff != "" {
		t.Errorf("what was known (-before +after):\n%s", diff)
	}
}

// fill runs a comparison and leaves it in a journal.
func fill(t *testing.T, path string, tasks []Task, opt Options) []Record {
	t.Helper()
	j, known, err := OpenJournal(path, tasks, opt)
	if err != nil || len(known) > 0 {
		t.Fatalf("got %d records of a new journal and error %v", len(known), err)
	}
	opt.OnRecord = func(r Record, _, _ int) error { return j.Add(r) }
	records, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return records
}

// A journal is gone on from by the same comparison only.
func TestJournalOfAnotherComparison(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(tasks []Task, opt *Options)
		same   bool
	}{
		{"the same", func([]Task, *Options) {}, true},
		{"more workers", func(_ []Task, o *Options) { o.Workers = 7 }, true},
		{"another seed", func(_ []Task, o *Options) { o.Seed++ }, false},
		{"fewer methods", func(_ []Task, o *Options) { o.Methods = o.Methods[1:] }, false},
		{"other nets", func(_ []Task, o *Options) { o.Prices = neuroshard.Prototype(changed(models(t, ".pt"))) }, false},
		{"our models", func(_ []Task, o *Options) { o.Prices = nil }, false},
		{"another memory", func(tasks []Task, _ *Options) { tasks[0].Problem.Topology.Memory *= 2 }, false},
		{"another dim", func(tasks []Task, _ *Options) { tasks[0].Problem.Tables[0].Dim *= 2 }, false},
		{"another setting", func(tasks []Task, _ *Options) { tasks[0].Setting = "x" }, false},
	} {
		tasks, opt := comparison(t)
		opt.Methods = opt.Methods[:2]
		path := filepath.Join(t.TempDir(), "out.json")
		want := len(fill(t, path, tasks, opt))
		if !c.same {
			want = 0
		}
		c.change(tasks, &opt)
		j, known, err := OpenJournal(path, tasks, opt)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(known) != want {
			t.Errorf("%s: got %d records known, want %d", c.name, len(known), want)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	// Embedded models are known by their ids, profile by profile.
	here, err := identity(suite(t, "d4_m16", 4, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	model, err := identity(suite(t, "d4_m16", 4, 1), Options{Prices: nets(t, ".pt")})
	if err != nil || here == model || !strings.HasPrefix(here, ResultsFormat+" ") {
		t.Errorf("got identities %q and %q, error %v: want two that differ", here, model, err)
	}
}

func TestJournalCannotBeWritten(t *testing.T) {
	tasks, opt := comparison(t)
	here := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"missing/out.json": func(string) error { return nil },
		"folder.json":      func(path string) error { return os.Mkdir(path, 0o777) },
		"partial.json":     func(path string) error { return os.MkdirAll(filepath.Join(path+".partial", "x"), 0o777) },
	} {
		path := filepath.Join(here, name)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if _, _, err := OpenJournal(path, tasks, opt); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	left, err := filepath.Glob(filepath.Join(here, ".*"))
	if err != nil || len(left) != 0 {
		t.Errorf("got files %q and error %v, want none left behind", left, err)
	}
	// Where the results cannot be written, the journal stays.
	path := filepath.Join(here, "late.json")
	j, _, err := OpenJournal(path, tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := j.Finish(nil); err == nil {
		t.Error("results over a folder: got no error")
	}
	if _, err := os.Stat(path + ".partial"); err != nil {
		t.Errorf("results over a folder: the journal is gone: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func TestResultsRoundTrip(t *testing.T) {
	tasks, opt := comparison(t)
	records, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	for name, records := range map[string][]Record{"full": records, "empty": nil} {
		path := filepath.Join(t.TempDir(), "out.json")
		if err := WriteResults(path, records, opt); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadResults(path, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(NewResults(records, opt), got); diff != "" {
			t.Errorf("%s (-written +read):\n%s", name, diff)
		}
		if got.Models != opt.Prices.String() || got.Seed != 5 {
			t.Errorf("%s: got models %q and seed %d, want %q and 5", name, got.Models, got.Seed, opt.Prices.String())
		}
		if !bytes.Contains(text, []byte(`"records": [`)) || !bytes.Contains(text, []byte(`"summary": [`)) {
			t.Errorf("%s: got no lists in %.200s", name, text)
		}
	}
	if got := NewResults(nil, Options{}).Models; got != "embedded" {
		t.Errorf("no engine: got models %q, want embedded", got)
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
	change := func(old, new string) string {
		if !strings.Contains(sound, old) {
			t.Fatalf("%q is not in the sound record", old)
		}
		return head + sound + "," + strings.Replace(sound, old, new, 1) + tail
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "f: "},
		{"cut", head + sound, "f: unexpected end"},
		{"a list", "[]", "f: "},
		{"another format", strings.Replace(head, "neuroshard-bench", "neuroshard-plan", 1) + tail, `format "neuroshard-plan" version 1`},
		{"another version", strings.Replace(head, `"version": 1`, `"version": 2`, 1) + tail, "version 2"},
		{"valid without a cost", change(`2.5`, `null`), `record 1: task "s/0": valid is true`},
		{"a cost, but not valid", change(`true`, `false`), `record 1: task "s/0": valid is false`},
		{"cost 0", change(`2.5`, `0`), "cost 0 is not above 0"},
		{"negative simulated cost", change(`"simulated_cost_ms": 2`, `"simulated_cost_ms": -2`), "cost -2 is not above 0"},
		{"a cost that is no number", change(`2.5`, `"2.5"`), "cost_ms"},
		{"a number too large", change(`2.5`, `1e999`), "1e999"},
		{"something behind it", head + sound + tail + "{}", "f: "},
	} {
		if _, err := ReadResults("f", strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
	broken := errors.New("broken")
	if _, err := ReadResults("f", failing{broken}); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: got error %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

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
	p := suite(f, "d4_m16", 4, 1)[0].Problem
	p.Tables = p.Tables[:1]
	p.Tables[0].Name = "0:a"
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
		for _, g := range GivenResults(results) {
			shards, err := g.Place(&p)
			for _, held := range shards {
				for _, s := range held {
					if err == nil && (s.Columns.Start < 0 || s.Columns.End > int64(p.Tables[0].Dim) || s.Columns.Len() < 1) {
						t.Errorf("got columns %v of a table of %d", s.Columns, p.Tables[0].Dim)
					}
				}
			}
		}
		text, err := json.Marshal(results)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadResults("f", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(results, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("written and read again (-want +got):\n%s", diff)
		}
	})
}
