package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// A plan that divides operators is scored with these operators.
func TestScoreKeepsOperators(t *testing.T) {
	tasks, opt := comparison(t)
	opt.Methods = []search.Method{search.Dim}
	records := must.Get(Run(context.Background(), tasks[:1], opt))(t)
	divided := records[0]
	divided.Plan = append([]Placed(nil), divided.Plan...)
	// One of the several tables of a device gets an operator of its own.
	device := slices.IndexFunc(divided.Devices, func(d Device) bool { return d.Shards > 1 })
	first := slices.IndexFunc(divided.Plan, func(s Placed) bool { return s.Device == device })
	divided.Plan[first].Operator = 1
	scored := must.Get(Score(context.Background(), tasks[:1], GivenResults(NewResults([]Record{divided}, opt)), opt))(t)
	if diff := cmp.Diff(divided.Plan, scored[0].Plan); diff != "" {
		t.Errorf("the plan (-given +scored):\n%s", diff)
	}
	if got := scored[0].Devices[device].ComputeMS; got == records[0].Devices[device].ComputeMS {
		t.Errorf("device %d: got the time %v ms of operators that are not divided", device, got)
	}
}

// The prototype's plans cost what it says, under our names of its methods; what
// it marks as not valid stays so.
func TestScorePrototypeResults(t *testing.T) {
	prices := nets(t)
	names := map[string]search.Method{
		"neuroshard": search.Paper, "size_greedy": search.Size, "dim_greedy": search.Dim, "lookup_greedy": search.Lookup,
		"size_lookup_greedy": search.SizeLookup, "random": search.Random,
	}
	for _, setting := range []string{"d4_m16", "d4_m64"} {
		tasks := suite(t, setting, 4, 30)
		var given []Given
		var saved []prototype.Result
		for theirs := range names {
			file := setting + "_" + theirs + ".json.gz"
			results := must.Get(prototype.ReadResults(file, open(t, "results", file)))(t)
			given, saved = append(given, GivenPrototype("elsewhere", results)...), append(saved, results...)
		}
		records := must.Get(Score(context.Background(), tasks, given, Options{Prices: prices}))(t)
		if len(records) != 180 {
			t.Fatalf("%s: got %d records, want 180", setting, len(records))
		}
		for i, r := range records {
			if r.Valid != saved[i].Valid || r.Method != names[saved[i].Method] {
				t.Errorf("%s: record %d by %s: got valid %v, want %v by %s", setting, i, r.Method, r.Valid, saved[i].Valid, saved[i].Method)
			} else if r.Valid && math.Abs(*r.CostMS / *saved[i].Cost - 1) > 1e-4 {
				t.Errorf("%s: task %s by %s: got %v ms, want %v", setting, r.Task, r.Method, *r.CostMS, *saved[i].Cost)
			}
		}
	}
}

func TestScoreRefuses(t *testing.T) {
	tasks, opt := comparison(t)
	tasks, opt.Methods = tasks[:1], []search.Method{search.Dim}
	sound := must.Get(Run(context.Background(), tasks, opt))(t)
	const invalid = "task d4_m64/0, method dim: "
	for _, c := range []struct {
		name   string
		change func(r *Record)
		want   string
	}{
		{"another task", func(r *Record) { r.Task = "x/9" }, `task "x/9", which is not among the 1 tasks`},
		{"another table", func(r *Record) { r.Plan[2].Table = "none" }, `table "none", which the task does not have`},
		{"device 4", func(r *Record) { r.Plan[2].Device = 4 }, "on device 4 of 4"},
		{"device -1", func(r *Record) { r.Plan[2].Device = -1 }, "on device -1 of 4"},
		{"operator 3", func(r *Record) { r.Plan[2].Operator = 3 }, invalid},
		{"columns before the first", func(r *Record) { r.Plan[2].Columns[0] = -4 }, invalid},
		{"columns behind the last", func(r *Record) { r.Plan[2].Columns[1] += 4 }, invalid},
		{"no columns", func(r *Record) { r.Plan[2].Columns[1] = 0 }, invalid},
		{"turned round", func(r *Record) { r.Plan[2].Columns = [2]int64{8, 4} }, invalid},
		{"huge", func(r *Record) { r.Plan[2].Columns = [2]int64{math.MinInt64, math.MaxInt64} }, invalid},
		{"a table missing", func(r *Record) { r.Plan = r.Plan[1:] }, invalid},
		{"a table twice", func(r *Record) { r.Plan = append(r.Plan, r.Plan[0]) }, invalid},
		{"no table", func(r *Record) { r.Plan = nil }, invalid},
	} {
		r := sound[0]
		r.Plan = slices.Clone(r.Plan)
		c.change(&r)
		if records, err := Score(context.Background(), tasks, GivenResults(&Results{Records: []Record{r}}), opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %d records and error %v, want an error with %q", c.name, len(records), err, c.want)
		}
	}
	if _, err := Score(context.Background(), tasks, GivenResults(&Results{Records: append(sound, sound...)}), opt); err == nil || !strings.Contains(err.Error(), "two plans by method") {
		t.Errorf("two by one method: got error %v", err)
	}
	small := tasks[0]
	small.Problem.Topology.Memory = unit.Bytes(sound[0].Devices[0].Bytes) - 1
	if _, err := Score(context.Background(), []Task{small}, GivenResults(&Results{Records: sound}), opt); err == nil || !strings.Contains(err.Error(), invalid) {
		t.Errorf("a byte too large for device 0: got error %v, want one of the plan", err)
	}
	theirs := prototype.Result{Setting: "d4_m64", Method: "x", Valid: true, Shards: make([][]int, 5)}
	if _, err := Score(context.Background(), tasks, GivenPrototype("", []prototype.Result{theirs}), opt); err == nil || !strings.Contains(err.Error(), "5 devices, want 4") {
		t.Errorf("the prototype's plan on 5 devices: got error %v, want one of the devices", err)
	}
}

// Plans come from a plan file, from our results and from the prototype's.
func TestReadGiven(t *testing.T) {
	tasks := suite(t, "d4_m64", 4, 2)
	opt := Options{Methods: []search.Method{search.Size}, Workers: 1}
	made, err := neuroshard.Plan(context.Background(), &tasks[1].Problem, neuroshard.Options{Search: search.Options{Method: search.Size}})
	if err != nil {
		t.Fatal(err)
	}
	records := must.Get(Run(context.Background(), tasks, opt))(t)
	var planFile bytes.Buffer
	must.Do(t, made.Plan.Write(&planFile))
	results := must.Get(json.Marshal(NewResults(records, opt)))(t)
	z := must.Get(gzip.NewReader(open(t, "results", "d4_m64_random.json.gz")))(t)
	prototypes := must.Get(io.ReadAll(z))(t)
	for _, c := range []struct {
		name, text, task string
		method           search.Method
		plans            int
	}{
		{"a/theirs.json", planFile.String(), "d4_m64/1", "theirs", 1},
		{"ours.json", string(results), "d4_m64/0", search.Size, 2},
		{"d4_m64_random.json", string(prototypes), "d4_m64/0", search.Random, 30},
		{"elsewhere.json", string(prototypes), "d4_m64/0", search.Random, 30},
	} {
		given, err := ReadGiven(c.name, strings.NewReader(c.text), tasks)
		if err != nil || len(given) != c.plans || given[0].Task != c.task || given[0].Method != c.method {
			t.Errorf("%s: got %d plans and error %v, want %d, the first of %s by %s", c.name, len(given), err, c.plans, c.task, c.method)
		}
	}
	given := must.Get(ReadGiven("theirs.json", strings.NewReader(planFile.String()), tasks))(t)
	scored, err := Score(context.Background(), tasks, given, Options{})
	if err != nil || *scored[0].CostMS != float64(made.Predicted.Cost) {
		t.Errorf("got %+v and error %v, want the cost %v", scored, err, made.Predicted.Cost)
	}
	for _, c := range []struct {
		text, want string
		tasks      []Task
	}{
		{planFile.String(), `theirs.json: it is not a plan for task "d4_m64/0"`, tasks[:1]},
		{planFile.String(), "it is a plan for none of the 2 tasks", []Task{tasks[0], tasks[0]}},
		{planFile.String(), "no tasks", nil},
		{"", "theirs.json", tasks},
		{"{}", "theirs.json", tasks},
		{`{"format": "neuroshard-plan", "version": 1}`, `key "predicted" is missing`, tasks},
		{"408 16\n", "theirs.json", tasks},
	} {
		if _, err := ReadGiven("theirs.json", strings.NewReader(c.text), c.tasks); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s: got error %v, want one with %q", c.text, err, c.want)
		}
	}
}
