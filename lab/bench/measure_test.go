package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/rank"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// quiet is a planner and a backend that notice when two of them are at work.
type quiet struct {
	busy atomic.Int32
	disturbed,
	measured, tasks atomic.Int32
	// fail, where not nil, is the error of the plan of that number.
	fail   error
	failAt int32
}

func (q *quiet) work() func() {
	if q.busy.Add(1) > 1 {
		q.disturbed.Add(1)
	}
	return func() { q.busy.Add(-1) }
}

func (q *quiet) plan(ctx context.Context, p *problem.Problem, opt neuroshard.Options, _ int) (*neuroshard.Result, error) {
	defer q.work()()
	return neuroshard.Plan(ctx, p, opt)
}

func (q *quiet) evaluate(ctx context.Context, p *problem.Problem, shards [][]problem.Shard, opt neuroshard.Options) (*neuroshard.Result, error) {
	defer q.work()()
	return neuroshard.Evaluate(ctx, p, shards, opt)
}

// measure takes a quarter more than was predicted, and half a ms of spread.
func (q *quiet) measure(_ context.Context, p *problem.Problem, plans []verify.Placement) ([]verify.Turn, error) {
	defer q.work()()
	turns := make([]verify.Turn, len(plans))
	for i, one := range plans {
		if n := q.measured.Add(1); q.fail != nil && n == q.failAt {
			turns[i].Err = q.fail
			continue
		}
		if err := plan.New(p, one.Shards).Validate(p); err != nil {
			return nil, err
		}
		if len(one.Predicted.Devices) != len(one.Shards) {
			return nil, fmt.Errorf("%d devices predicted of %d", len(one.Predicted.Devices), len(one.Shards))
		}
		turns[i].Result = &verify.Result{Measured: 1.25 * one.Predicted.Cost, Spread: .5}
	}
	q.tasks.Add(1)
	return turns, nil
}

// measuredComparison is comparison with a backend: 3 tasks with 3 methods. None of the
// methods finds a plan for the second task.
func measuredComparison(t testing.TB) ([]Task, Options, *quiet) {
	tasks, opt := comparison(t)
	q := &quiet{}
	opt.planner, opt.evaluator, opt.Measure, opt.Workers = q.plan, q.evaluate, q.measure, 8
	opt.Methods = []search.Method{search.Size, search.Paper, search.Default}
	return tasks, opt, q
}

// Plans are made and measured one at a time, whatever the number of workers, and
// the measured cost is what counts.
func TestRunMeasures(t *testing.T) {
	tasks, opt, q := measuredComparison(t)
	records, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	if got := q.disturbed.Load(); got > 0 {
		t.Errorf("%d plans were made or measured while another was", got)
	}
	valid := 0
	for _, r := range records {
		if !r.Valid {
			if r.MeasuredCostMS != nil || r.MeasuredSpreadMS != nil {
				t.Errorf("task %s by %s: got a measured cost, but no plan", r.Task, r.Method)
			}
			continue
		}
		valid++
		if r.MeasuredCostMS == nil || *r.MeasuredCostMS != 1.25**r.CostMS || r.MeasuredSpreadMS == nil || *r.MeasuredSpreadMS != .5 {
			t.Errorf("task %s by %s: got cost %v and spread %v, want %v and 0.5", r.Task, r.Method, r.MeasuredCostMS, r.MeasuredSpreadMS, 1.25**r.CostMS)
		} else if r.cost() != *r.MeasuredCostMS {
			t.Errorf("task %s by %s: compared by %v, want the measured %v", r.Task, r.Method, r.cost(), *r.MeasuredCostMS)
		}
	}
	if valid != 6 || int(q.measured.Load()) != valid {
		t.Errorf("got %d plans, %d measured, want 6 of each", valid, q.measured.Load())
	}
	if got := q.tasks.Load(); got != 2 {
		t.Errorf("got %d measurements, want one of each of the 2 tasks with plans, for its plans run in turns", got)
	}
	for _, s := range Summarise(records, search.Paper) {
		if s.Judge != Measured || s.BiasPercent > -20+1e-9 || s.BiasPercent < -20-1e-9 {
			t.Errorf("%s: got judge %q and bias %v %%, want %q and -20", s.Method, s.Judge, s.BiasPercent, Measured)
		}
	}

	// What is known is not measured again.
	opt.Known = records[:4]
	before := q.measured.Load()
	again, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(records, again, exceptTimes); diff != "" {
		t.Errorf("with 4 known (-whole +resumed):\n%s", diff)
	}
	if got := q.measured.Load() - before; got != 3 {
		t.Errorf("with 4 known, 3 of them plans: got %d measured, want the other 3", got)
	}
}

// The measured cost counts before the simulated one, and that before the
// predicted one.
func TestCostIsTheBestJudges(t *testing.T) {
	predicted, simulated, measured := 1., 2., 3.
	r := Record{CostMS: &predicted}
	if got := r.cost(); got != predicted {
		t.Errorf("predicted alone: got %v, want %v", got, predicted)
	}
	r.SimulatedCostMS = &simulated
	if got := r.cost(); got != simulated {
		t.Errorf("simulated too: got %v, want %v", got, simulated)
	}
	r.MeasuredCostMS = &measured
	if got := r.cost(); got != measured {
		t.Errorf("measured too: got %v, want %v", got, measured)
	}
}

// A backend that fails ends the run; what was measured until then is kept.
func TestRunEndsAtTheErrorOfAMeter(t *testing.T) {
	tasks, opt, q := measuredComparison(t)
	q.fail, q.failAt = errors.New("the worker died"), 5
	var kept []Record
	opt.OnRecord = func(r Record, _, _ int) error { kept = append(kept, r); return nil }
	records, err := Run(context.Background(), tasks, opt)
	if !errors.Is(err, q.fail) || !strings.HasSuffix(err.Error(), ", method size: method paper: the worker died") {
		t.Errorf("got error %v, want the backend's, with the task and the method", err)
	}
	if len(records) != 6 || q.measured.Load() != 6 {
		t.Errorf("got %d records, %d plans measured, want those of the tasks before the error, and none after it", len(records), q.measured.Load())
	}
	if diff := cmp.Diff(records, kept); diff != "" {
		t.Errorf("records returned (-) and told of (+):\n%s", diff)
	}
}

// Given plans are measured as found ones are.
func TestScoreMeasures(t *testing.T) {
	tasks, opt, q := measuredComparison(t)
	records, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	given := GivenResults(NewResults(records, opt))
	scored, err := Score(context.Background(), tasks, given, opt)
	if err != nil {
		t.Fatal(err)
	}
	if got := q.disturbed.Load(); got > 0 {
		t.Errorf("%d plans were priced or measured while another was", got)
	}
	if diff := cmp.Diff(records, scored, exceptTimes, cmpopts.IgnoreFields(Record{}, "Evaluations", "Status")); diff != "" {
		t.Errorf("found (-) and given (+):\n%s", diff)
	}
	q.fail, q.failAt = errors.New("the worker died"), q.measured.Load()+1
	if _, err := Score(context.Background(), tasks, given, opt); !errors.Is(err, q.fail) {
		t.Errorf("got error %v, want %v", err, q.fail)
	}
}

// A comparison by measured cost does not go on from one by other costs, nor the
// other way round.
func TestJournalTellsMeasuredApart(t *testing.T) {
	tasks, opt, _ := measuredComparison(t)
	opt.Workers = 1 // then records are made in their order
	for _, first := range []bool{true, false} {
		measured, priced := opt, opt
		priced.Measure = nil
		if !first {
			measured, priced = priced, measured
		}
		path := filepath.Join(t.TempDir(), "out.json")
		made := fill(t, path, tasks, measured)
		j, known, err := OpenJournal(path, tasks, measured)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(made, known); diff != "" {
			t.Errorf("measured first %v: the same comparison (-made +known):\n%s", first, diff)
		}
		j, known, err = OpenJournal(path, tasks, priced)
		if err != nil {
			t.Fatal(err)
		}
		if len(known) > 0 {
			t.Errorf("measured first %v: the other comparison goes on from %d records, want none", first, len(known))
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMeasuredResultsRoundTrip(t *testing.T) {
	tasks, opt, _ := measuredComparison(t)
	records, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
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
		t.Errorf("(-written +read):\n%s", diff)
	}
	if got.Verified == nil || got.Verified.Plans != 6 || got.Verified.Tasks != 2 || got.Verified.Method != string(search.Default) {
		t.Errorf("got %+v, want what sums up 6 plans of 2 tasks", got.Verified)
	}

	// The names that docs/COMMANDS.md states.
	var file struct {
		Records []map[string]any `json:"records"`
		Summary []map[string]any `json:"summary"`
		// Verified holds numbers, lists and objects.
		Verified map[string]json.RawMessage `json:"verified"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if r := file.Records[0]; r["measured_cost_ms"] == nil || r["measured_spread_ms"] != .5 || file.Summary[0]["judge"] != "measured" {
		t.Errorf("got record %v and summary %v, want measured costs", r, file.Summary[0])
	}
	want := []string{"best_other", "mean_error", "method", "methods", "noise", "p95_error", "plans", "tasks", "tau", "tau_within_tasks"}
	if diff := cmp.Diff(want, keys(file.Verified)); diff != "" {
		t.Errorf("keys of verified (-want +got):\n%s", diff)
	}
	var methods []map[string]json.RawMessage
	if err := json.Unmarshal(file.Verified["methods"], &methods); err != nil {
		t.Fatal(err)
	}
	want = []string{"losses", "mean_ms", "method", "p_value", "ratio", "tasks", "wins"}
	if diff := cmp.Diff(want, keys(methods[0])); diff != "" || len(methods) != 3 {
		t.Errorf("%d methods, keys of the first (-want +got):\n%s", len(methods), diff)
	}
}

func keys(of map[string]json.RawMessage) []string {
	var all []string
	for key := range of {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

func TestVerified(t *testing.T) {
	record := func(task string, method search.Method, predicted, measured, spread float64) Record {
		return Record{Task: task, Method: method, Valid: true, CostMS: &predicted, MeasuredCostMS: &measured, MeasuredSpreadMS: &spread}
	}
	records := []Record{
		record("a", search.Default, 8, 10, 1),
		record("a", search.Size, 30, 20, 0),
		record("b", search.Default, 30, 30, 3),
		record("b", search.Size, 20, 25, 0),
		{Task: "b", Method: search.Dim},
	}
	// A plan without a spread, and one that was not measured.
	records[1].MeasuredSpreadMS = nil
	priced := record("a", search.Dim, 1, 1, 0)
	priced.MeasuredCostMS = nil
	want := &verify.Comparison{
		// Of 6 pairs, the predicted 30 of both tasks are tied; the others agree.
		Plans: 4, Tasks: 2, Tau: rank.Kendall([]float64{8, 30, 30, 20}, []float64{10, 20, 30, 25}), TaskTau: 1,
		MeanError: (.2 + .5 + 0 + .2) / 4, P95Error: .5, Noise: (.1 + .1) / 4, Method: string(search.Default),
		Methods: []verify.MethodCost{
			{Method: string(search.Default), Tasks: 2, Mean: 20, Ratio: 1, PValue: 1},
			{Method: string(search.Size), Tasks: 2, Mean: 22.5, Ratio: (.5 + 1.2) / 2, Wins: 1, Losses: 1, PValue: .5},
		},
		Best: verify.MethodCost{Tasks: 2, Mean: 22.5, Ratio: (.5 + 1.2) / 2, Wins: 1, Losses: 1, PValue: .5},
	}
	if diff := cmp.Diff(want, Verified(append(records, priced)), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, some := range map[string][]Record{
		"nothing":            nil,
		"one method":         {records[0], records[2]},
		"others only":        {records[1], records[3]},
		"nothing measured":   {priced},
		"no task in common":  {records[0], records[3]},
		"nothing that fits":  {records[4]},
		"two of one task":    {records[0], records[0], records[1]},
		"another's not made": {records[0], records[4]},
	} {
		if got := Verified(some); got != nil {
			t.Errorf("%s: got %+v, want nothing", name, got)
		}
	}
}
