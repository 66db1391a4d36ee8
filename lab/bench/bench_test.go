package bench

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
)

func profile(t testing.TB, name string) hardware.Profile {
	t.Helper()
	p, err := hardware.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSummarise(t *testing.T) {
	solved := func(setting, task string, method search.Method, predicted, simulated, wall float64) Record {
		return Record{
			Setting: setting, Task: task, Method: method, Valid: true, CostMS: &predicted, SimulatedCostMS: &simulated,
			WallMS: wall, Status: search.Complete,
		}
	}
	unsolved := func(setting, task string, method search.Method, wall float64) Record {
		return Record{Setting: setting, Task: task, Method: method, WallMS: wall}
	}
	records := []Record{
		solved("a", "a/0", search.NeuroShard, 9, 10, 1),
		solved("a", "a/0", search.Paper, 20, 20, 2),
		solved("a", "a/0", search.Dim, 40, 40, 3),
		solved("a", "a/1", search.NeuroShard, 33, 30, 5),
		solved("a", "a/1", search.Paper, 33, 40, 4),
		unsolved("a", "a/1", search.Dim, 7),
		solved("a", "a/2", search.NeuroShard, 80, 80, 9),
		unsolved("a", "a/2", search.Paper, 6),
		unsolved("a", "a/2", search.Dim, 5),
		unsolved("b", "b/0", search.NeuroShard, 1),
		unsolved("b", "b/0", search.Paper, 1),
		unsolved("b", "b/0", search.Dim, 1),
	}
	want := []Summary{
		{
			Setting: "a", Method: search.NeuroShard, Judge: Simulated, Tasks: 3, Solved: 3, MeanMS: 40, MedianMS: 30,
			// All methods solve a/0 alone; with Paper it shares a/0 and a/1.
			CommonMS: 10, Common: 1, Ratio: (10./20 + 30./40) / 2,
			BiasPercent: 100 * (-.1 + .1 + 0) / 3, WallMedianMS: 5, WallP95MS: 9,
		},
		{
			Setting: "a", Method: search.Paper, Judge: Simulated, Tasks: 3, Solved: 2, MeanMS: 30, MedianMS: 40, CommonMS: 20, Common: 1, Ratio: 1,
			BiasPercent: 100 * (0 + 33./40 - 1) / 2, WallMedianMS: 4, WallP95MS: 6,
		},
		{
			Setting: "a", Method: search.Dim, Judge: Simulated, Tasks: 3, Solved: 1, MeanMS: 40, MedianMS: 40, CommonMS: 40, Common: 1, Ratio: 2,
			WallMedianMS: 5, WallP95MS: 7,
		},
		{Setting: "b", Method: search.NeuroShard, Judge: Predicted, Tasks: 1, WallMedianMS: 1, WallP95MS: 1},
		{Setting: "b", Method: search.Paper, Judge: Predicted, Tasks: 1, WallMedianMS: 1, WallP95MS: 1},
		{Setting: "b", Method: search.Dim, Judge: Predicted, Tasks: 1, WallMedianMS: 1, WallP95MS: 1},
	}
	for i, ratio := range []float64{10. / 20, 1, 2} {
		want[i].Against = &Against{search.Paper, Interval{ratio, ratio, ratio}} // a/0 alone
	}
	if diff := cmp.Diff(want, Summarise(records, search.Paper), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("summaries (-want +got):\n%s", diff)
	}
	some := Summarise(append(records[:1:1], solved("b", "b/0", search.Dim, 1, 1, 1)), search.Paper)
	if len(some) != 2 || some[0].Method != search.NeuroShard || some[1].Setting != "b" || some[1].Method != search.Dim {
		t.Errorf("a method for each setting: got %+v, want a summary of each", some)
	}
	if got := Summarise(nil, search.Paper); len(got) != 0 {
		t.Errorf("no records: got %v, want no summaries", got)
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, .5, 0},
		{[]float64{4}, .95, 4},
		{[]float64{3, 1, 2}, .5, 2},
		{[]float64{5, 1, 4, 2, 3}, 0, 1},
		{[]float64{5, 1, 4, 2, 3}, 1, 5},
		{[]float64{5, 1, 4, 2, 3}, .7, 4},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile(%v, %v): got %v, want %v", c.values, c.q, got, c.want)
		}
	}
}

func TestPaperTasks(t *testing.T) {
	hw := profile(t, "a100-80")
	tasks, err := PaperTasks(hw, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]int{}
	names := map[string]bool{}
	for _, task := range tasks {
		settings[task.Setting]++
		names[task.Name] = true
		if err := task.Problem.Validate(); err != nil {
			t.Errorf("task %s: %v", task.Name, err)
		}
		if task.Problem.Topology.Profile != hw {
			t.Errorf("task %s: got profile %q, want %q", task.Name, task.Problem.Topology.Profile.Name, hw.Name)
		}
	}
	want := map[string]int{}
	for _, s := range workload.PaperSettings() {
		want[s.Name] = 3
	}
	if diff := cmp.Diff(want, settings); diff != "" || len(names) != len(tasks) {
		t.Errorf("got %d names of %d tasks; tasks by setting (-want +got):\n%s", len(names), len(tasks), diff)
	}
	again, err := PaperTasks(hw, 3, 1)
	if err != nil || !reflect.DeepEqual(tasks, again) {
		t.Errorf("same seed: got other tasks, error %v", err)
	}
	if other, err := PaperTasks(hw, 3, 2); err != nil || reflect.DeepEqual(tasks, other) {
		t.Errorf("another seed: got the same tasks, error %v", err)
	}
}

// The default method against the others, and with one worker against several.
func TestRunComparesMethods(t *testing.T) {
	tasks, err := PaperTasks(profile(t, "a100-80"), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	var progress []int
	records, err := Run(context.Background(), tasks, Options{Workers: 2, OnRecord: func(_ Record, done, of int) error {
		progress = append(progress, done)
		if of != len(tasks)*len(search.Untrained()) {
			t.Errorf("got %d records in all, want %d", of, len(tasks)*len(search.Untrained()))
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, done := range progress {
		if done != i+1 {
			t.Errorf("progress %d: got %d, want %d", i, done, i+1)
		}
	}
	if len(progress) != len(records) || len(records) != len(tasks)*len(search.Untrained()) {
		t.Fatalf("got %d records and %d reports of progress, want %d", len(records), len(progress), len(tasks)*len(search.Untrained()))
	}
	of := map[string]Record{}
	for i, r := range records {
		task, method := tasks[i/len(search.Untrained())], search.Untrained()[i%len(search.Untrained())]
		if r.Task != task.Name || r.Setting != task.Setting || r.Method != method {
			t.Fatalf("record %d: got %s by %s, want %s by %s", i, r.Task, r.Method, task.Name, method)
		}
		if r.Valid != (r.CostMS != nil) || r.Valid != (r.SimulatedCostMS != nil) || r.Valid != (r.Status != "") || !(r.WallMS > 0) {
			t.Errorf("record %d: got %+v, want costs and a status just where the plan is valid, and a wall time", i, r)
		}
		if r.Method == search.NeuroShard {
			of[r.Task] = r
		}
	}
	for _, r := range records {
		best := of[r.Task]
		if !r.Valid {
			continue
		}
		// On problems as small as these, package search promises that the default is
		// never more expensive than any other method.
		const allowed = 1 + 1e-9
		if !best.Valid {
			t.Errorf("task %s: the default method fails where %s succeeds", r.Task, r.Method)
		} else if *best.CostMS > *r.CostMS*allowed {
			t.Errorf("task %s: got predicted cost %v ms, want at most %v of that of %s, %v ms", r.Task, *best.CostMS, allowed, r.Method, *r.CostMS)
		}
		// The model is within a few percent of the simulated device; farthest off, by 5.3 %, for
		// a plan of dim.
		if bias := *r.CostMS / *r.SimulatedCostMS - 1; math.Abs(bias) > .06 {
			t.Errorf("task %s by %s: predicted %v ms, simulated %v ms: want within 6 %%", r.Task, r.Method, *r.CostMS, *r.SimulatedCostMS)
		}
	}
	for _, s := range Summarise(records, search.Paper) {
		if s.Method == search.NeuroShard && !(s.Solved == s.Tasks && s.Ratio > 0 && s.Ratio < 1) {
			t.Errorf("setting %s: got %d of %d tasks solved and a mean ratio of %v to the paper's search, want all and below 1", s.Setting, s.Solved, s.Tasks, s.Ratio)
		}
	}

	alone, err := Run(context.Background(), tasks[:1], Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(records[:len(alone)], alone, cmpopts.IgnoreFields(Record{}, "WallMS")); diff != "" {
		t.Errorf("2 workers (-) and 1 worker (+) differ:\n%s", diff)
	}
}

func TestRunFailures(t *testing.T) {
	hw := profile(t, "a100-80")
	tasks, err := PaperTasks(hw, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ended, tasks, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: got error %v, want %v", err, context.Canceled)
	}
	tasks[1].Problem.Batch = -3
	_, err = Run(context.Background(), tasks[:2], Options{Methods: []search.Method{search.Dim}, Workers: 2})
	var invalid *problem.Invalid
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tasks[1].Name) {
		t.Errorf("a broken problem: got error %v, want *problem.Invalid naming task %s", err, tasks[1].Name)
	}
	// No room at all is a record, not an error.
	tasks[0].Problem.Topology.Memory = 1 << 20
	records, err := Run(context.Background(), tasks[:1], Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Valid || r.CostMS != nil || r.SimulatedCostMS != nil {
			t.Errorf("1 MiB devices: got %+v, want no plan and null costs", r)
		}
	}
	for _, s := range Summarise(records, search.Paper) {
		if s.Solved != 0 || s.Common != 0 || s.MeanMS != 0 || s.Ratio != 0 {
			t.Errorf("1 MiB devices: got %+v, want nothing solved", s)
		}
	}
}

func TestRank(t *testing.T) {
	hw := profile(t, "a100-80")
	all, err := rankings(context.Background(), hw, nil, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range all {
		if r.Random < .9 || r.NearOptimal < .9 || r.BestTenth < .8 || r.BestTenthPlans < 30 || r.RegretPercent < 0 || r.RegretPercent > 1 {
			t.Errorf("task %d: got %+v, want taus of at least 0.9, 0.9 and 0.8 over 30 plans, and a regret of 0 to 1 %%", i, r)
		}
	}
	if all[0].Task != "0" || all[1].Task != "1" || all[0].Random == all[1].Random {
		t.Errorf("got %+v, want tasks 0 and 1, which differ", all)
	}
	again, err := rankings(context.Background(), hw, nil, 1, 1)
	if err != nil || again[0] != all[0] {
		t.Errorf("same seed: got %+v, error %v, want %+v", again, err, all[0])
	}
	mean := meanRanking(all)
	if want := (all[0].BestTenth + all[1].BestTenth) / 2; mean.Task != "mean" || math.Abs(mean.BestTenth-want) > 1e-12 {
		t.Errorf("mean: got %+v, want a tau of %v within 10 %%", mean, want)
	}
	if want := (all[0].RegretPercent + all[1].RegretPercent) / 2; math.Abs(mean.RegretPercent-want) > 1e-12 {
		t.Errorf("mean: got regret %v, want %v", mean.RegretPercent, want)
	}
}

// scatter and disturb deal the same shards out again.
func TestPlansKeepTheirShards(t *testing.T) {
	plan := make([][]problem.Shard, 5)
	for i := range 40 {
		plan[i%3] = append(plan[i%3], problem.Shard{Table: i})
	}
	before := make([][]problem.Shard, len(plan))
	for d := range plan {
		before[d] = append(before[d], plan[d]...)
	}
	// home returns each table's device, none where it is missing or twice there.
	home := func(shards [][]problem.Shard) [40]int {
		var of [40]int
		for i := range of {
			of[i] = -1
		}
		for d, held := range shards {
			for _, s := range held {
				if of[s.Table] >= 0 {
					return [40]int{}
				}
				of[s.Table] = d
			}
		}
		return of
	}
	draw := rand.New(rand.NewPCG(1, 2))
	scattered := home(scatter(draw, plan))
	used := map[int]bool{}
	for _, d := range scattered {
		used[d] = true
	}
	if used[-1] || len(used) != 5 {
		t.Errorf("scatter: got devices %v, want each shard once and all devices in use", used)
	}
	if !reflect.DeepEqual(plan, before) {
		t.Error("the plan that others are made from has changed")
	}
}
