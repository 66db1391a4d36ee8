package bench

import (
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard/search"
)

// solved is a record with a plan of a predicted and a simulated cost.
func solved(setting, task string, method search.Method, predicted, simulated, wall float64) Record {
	return Record{Setting: setting, Task: task, Method: method, Valid: true, CostMS: &predicted, SimulatedCostMS: &simulated, WallMS: wall, Status: search.Complete}
}

func unsolved(setting, task string, method search.Method, wall float64) Record {
	return Record{Setting: setting, Task: task, Method: method, WallMS: wall}
}

// The means of samples of two values are three, with known shares: a quarter each at the ends,
// so the interval of 95 % has both.
func TestMeanOf(t *testing.T) {
	if diff := cmp.Diff(Interval{1.5, 1, 2}, meanOf([]float64{1, 2})); diff != "" {
		t.Errorf("two values (-want +got):\n%s", diff)
	}
	// Of n values, half 0 and half 1, the mean has the standard deviation 1/(2 sqrt n).
	const n = 400
	values := make([]float64, n)
	for i := range n / 2 {
		values[i] = 1
	}
	got, width := meanOf(values), 1.96/(2*math.Sqrt(n))
	if math.Abs(got.Low-(.5-width)) > .005 || math.Abs(got.High-(.5+width)) > .005 {
		t.Errorf("got %+v, want about 0.5 -+ %.3f", got, width)
	}
}

func TestSummarise(t *testing.T) {
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
	}
	want := []Summary{
		{
			Setting: "a", Method: search.NeuroShard, Judge: Simulated, Tasks: 3, Solved: 3, MeanMS: 40, MedianMS: 30,
			// All methods solve a/0 alone; with Paper it shares a/0 and a/1.
			CommonMS: 10, Common: 1, Ratio: (10./20 + 30./40) / 2,
			BiasPercent: 100 * (-.1 + .1 + 0) / 3, WallMedianMS: 5, WallP95MS: 9,
		},
		{
			Setting: "a", Method: search.Paper, Judge: Simulated, Tasks: 3, Solved: 2, MeanMS: 30, MedianMS: 20, CommonMS: 20, Common: 1, Ratio: 1,
			BiasPercent: 100 * (0 + 33./40 - 1) / 2, WallMedianMS: 4, WallP95MS: 6,
		},
		{
			Setting: "a", Method: search.Dim, Judge: Simulated, Tasks: 3, Solved: 1, MeanMS: 40, MedianMS: 40, CommonMS: 40, Common: 1, Ratio: 2,
			WallMedianMS: 5, WallP95MS: 7,
		},
		{Setting: "b", Method: search.NeuroShard, Judge: Predicted, Tasks: 1, WallMedianMS: 1, WallP95MS: 1},
	}
	for i, ratio := range []float64{10. / 20, 1, 2} {
		want[i].Against = &Against{search.Paper, Interval{ratio, ratio, ratio}} // a/0 alone
	}
	if diff := cmp.Diff(want, Summarise(records, search.Paper), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("summaries (-want +got):\n%s", diff)
	}
	if got := Summarise(records, search.Size)[0].Against; got != nil {
		t.Errorf("a reference that was not tried: got %+v, want nil", got)
	}
	if got := Summarise(nil, search.Paper); len(got) != 0 {
		t.Errorf("no records: got %v, want no summaries", got)
	}
}

func TestCurves(t *testing.T) {
	contenders := []Contender{{Name: "a", Search: search.Options{Method: search.Dim}}, {Name: "b", Search: search.Options{Method: search.DreamShard}}}
	budgets := []time.Duration{time.Millisecond, time.Second}
	timed := Anytime(contenders, budgets)
	if timed[1].Name != "a 1s" || timed[1].Search.Budget != time.Second || timed[1].Search.Samples != 0 || timed[2].Search.Samples == 0 {
		t.Errorf("got %+v, want budgets, and samples of the policy", timed)
	}
	records := []Record{
		unsolved("s", "0", "a 1ms", 2), solved("s", "0", "a 1s", 4, 3, 5), solved("s", "0", "b 1ms", 3, 3, 1), solved("s", "0", "b 1s", 5, 2, 7),
	}
	records[3].CPUMS = 6
	at := func(budget, ratio, wall, cpu float64) Point {
		p := Point{BudgetMS: budget, Tasks: 1, WallMS: wall, CPUMS: cpu}
		if ratio > 0 {
			p.Solved, p.Ratio = 1, &Interval{ratio, ratio, ratio}
		}
		return p
	}
	for predicted, want := range map[bool][]Curve{
		false: {{"s", "a", Simulated, []Point{at(1, 0, 2, 0), at(1000, 1.5, 5, 0)}}, {"s", "b", Simulated, []Point{at(1, 1.5, 1, 0), at(1000, 1, 7, 6)}}},
		true:  {{"s", "a", Predicted, []Point{at(1, 0, 2, 0), at(1000, 4./3, 5, 0)}}, {"s", "b", Predicted, []Point{at(1, 1, 1, 0), at(1000, 5./3, 7, 6)}}},
	} {
		got := Curves(records, Options{Contenders: contenders, Budgets: budgets, Predicted: predicted})
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
			t.Errorf("predicted %v (-want +got):\n%s", predicted, diff)
		}
		if err := PlotCurves(io.Discard, got); err != nil {
			t.Error(err)
		}
	}
}

// A task that all solve, one where the published search fails, one where all but it
// fail, and one that was not planned by the default method.
func TestGains(t *testing.T) {
	least := 7.5
	first := solved("a", "a/0", search.NeuroShard, 1, 9, 2)
	first.BoundMS, first.BoundWallMS, first.Plan = &least, 1, make([]Placed, 3)
	late := unsolved("a", "a/1", search.Paper, 8)
	late.Status = search.OutOfTime
	g := NewGains([]Record{
		first,
		solved("a", "a/0", search.Paper, 100, 12, 4),
		solved("a", "a/0", search.Size, 1, 36, 6),
		solved("a", "a/0", search.Dim, 100, 18, 6), // the judge is the simulated device, not the model
		solved("a", "a/1", search.NeuroShard, 1, 10, 4),
		late,
		unsolved("a", "a/1", search.Size, 8),
		solved("a", "a/1", search.Dim, 1, 8, 6),
		unsolved("a", "a/2", search.NeuroShard, 8),
		solved("a", "a/2", search.Paper, 1, 8, 6),
		unsolved("a", "a/2", search.Dim, 8),
		solved("a", "a/3", search.Paper, 1, 8, 6),
	})
	value := func(v float64) *float64 { return &v }
	entry := func(method search.Method, cost, wall float64) *Entry {
		return &Entry{Method: method, CostMS: &cost, WallMS: wall, Status: search.Complete}
	}
	own := entry(search.NeuroShard, 9, 2)
	own.Shards = 3
	want := &Gains{
		Tasks: []Gain{
			{
				Setting: "a", Task: "a/0", Judge: Simulated, Default: own, Paper: entry(search.Paper, 12, 4), Baseline: entry(search.Dim, 18, 6),
				Baselines: 2, BaselinesSolved: 2, OverPaper: value(25), OverBaseline: value(50), BoundMS: value(7.5), Gap: value(.2),
			},
			{
				Setting: "a", Task: "a/1", Judge: Simulated,
				Default: entry(search.NeuroShard, 10, 4), Paper: &Entry{Method: search.Paper, WallMS: 8, Status: search.OutOfTime},
				Baseline: entry(search.Dim, 8, 6), Baselines: 2, BaselinesSolved: 1, OverBaseline: value(-25),
			},
			{
				Setting: "a", Task: "a/2", Judge: Simulated,
				Default: &Entry{Method: search.NeuroShard, WallMS: 8}, Paper: entry(search.Paper, 8, 6), Baseline: &Entry{}, Baselines: 1,
			},
			{Setting: "a", Task: "a/3", Judge: Simulated, Paper: entry(search.Paper, 8, 6)},
		},
		OverPaper: Stat{25, 25, 1}, OverBaseline: Stat{12.5, -25, 2}, Gap: Stat{.2, .2, 1}, WallMS: Stat{14. / 3, 4, 3},
	}
	if diff := cmp.Diff(want, g, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("gains (-want +got):\n%s", diff)
	}
	for name, records := range map[string][]Record{
		"no records": nil, "others alone": {solved("a", "a/0", search.Paper, 1, 1, 1)}, "the default alone": {first},
		"not on the same task": {first, solved("a", "a/1", search.Paper, 1, 1, 1)},
	} {
		if got := NewGains(records); got != nil {
			t.Errorf("%s: got %+v, want no gains", name, got)
		}
	}
}

// TestPlot draws summaries with and without plans, ratios and times.
func TestPlot(t *testing.T) {
	two := []Summary{
		{Setting: "d4_m16", Method: search.Paper, Tasks: 3, Solved: 3, Judge: Simulated, MeanMS: 4, Ratio: 1, WallMedianMS: 5, WallP95MS: 9},
		{Setting: "a<b>", Method: search.Dim, Tasks: 1, Judge: Predicted, WallMedianMS: 1, WallP95MS: 1},
		{Setting: "a<b>", Method: search.Size, Tasks: 1, Judge: Measured, MeanMS: 3},
	}
	for _, all := range [][]Summary{nil, two, two[:1], two[1:2], two[2:]} {
		if err := Plot(io.Discard, all); err != nil {
			t.Errorf("%+v: %v", all, err)
		}
	}
	broken := errors.New("broken")
	if err := Plot(failing{broken}, two); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: got error %v, want %v", err, broken)
	}
}
