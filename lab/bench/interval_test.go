package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/chart"
	"github.com/neuroshard/neuroshard/search"
)

// The means of samples of two values are three, with known shares: a quarter each at the ends,
// so the interval of 95 % has both.
func TestMeanOf(t *testing.T) {
	if diff := cmp.Diff(Interval{1.5, 1, 2}, meanOf([]float64{1, 2})); diff != "" {
		t.Errorf("two values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Interval{3, 3, 3}, meanOf([]float64{3})); diff != "" {
		t.Errorf("one value (-want +got):\n%s", diff)
	}
	// Of n values, half 0 and half 1, the mean has the standard deviation 1/(2 sqrt n).
	const n = 400
	values := make([]float64, n)
	for i := range n / 2 {
		values[i] = 1
	}
	got := meanOf(values)
	width := 1.96 / (2 * math.Sqrt(n))
	if math.Abs(got.Low-(.5-width)) > .005 || math.Abs(got.High-(.5+width)) > .005 {
		t.Errorf("got %+v, want about 0.5 -+ %.3f", got, width)
	}
}

// Only tasks that all methods solved are compared, each with itself.
func TestAgainst(t *testing.T) {
	record := func(task string, m search.Method, cost float64) Record {
		return Record{Task: task, Method: m, Valid: cost > 0, CostMS: &cost}
	}
	records := []Record{
		record("0", search.Dim, 10), record("0", search.Size, 20),
		record("1", search.Dim, 300), record("1", search.Size, 200),
		record("2", search.Dim, 7), record("2", search.Size, 0),
	}
	all := Summarise(records, search.Size)
	if got, want := *all[0].Against, (Against{search.Size, Interval{1, .5, 1.5}}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := *all[1].Against, (Against{search.Size, Interval{1, 1, 1}}); got != want {
		t.Errorf("the reference itself: got %+v, want %+v", got, want)
	}
	if got := Summarise(records, search.Paper)[0].Against; got != nil {
		t.Errorf("a reference that was not tried: got %+v, want nil", got)
	}
}

func TestCurves(t *testing.T) {
	contenders := []Contender{{Name: "a", Search: search.Options{Method: search.Dim}}, {Name: "b", Search: search.Options{Method: search.DreamShard}}}
	budgets := []time.Duration{time.Millisecond, time.Second}
	timed := Anytime(contenders, budgets)
	var names []string
	for _, c := range timed {
		names = append(names, string(c.Name))
	}
	if got, want := strings.Join(names, ", "), "a 1ms, a 1s, b 1ms, b 1s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if timed[1].Search.Budget != time.Second || timed[1].Search.Samples != 0 || timed[2].Search.Samples == 0 {
		t.Errorf("got %+v, want budgets, and samples of the policy", timed)
	}
	cost := func(v float64) *float64 { return &v }
	records := []Record{
		{Setting: "s", Task: "0", Method: "a 1ms", WallMS: 2, Status: search.OutOfTime},
		{Setting: "s", Task: "0", Method: "a 1s", WallMS: 5, Valid: true, CostMS: cost(4)},
		{Setting: "s", Task: "0", Method: "b 1ms", WallMS: 1, Valid: true, CostMS: cost(3)},
		{Setting: "s", Task: "0", Method: "b 1s", WallMS: 7, CPUMS: 6, Valid: true, CostMS: cost(2), SimulatedCostMS: cost(2)},
		{Setting: "s", Task: "0", Method: "solver 2s", WallMS: 1900, CPUMS: 1800, Valid: true, CostMS: cost(3)},
		{Setting: "s", Task: "0", Method: "rule", WallMS: 1, Valid: true, CostMS: cost(8)},
	}
	given := []Given{{Task: "0", Method: "solver 2s"}, {Task: "0", Method: "rule"}}
	want := []Curve{
		{Setting: "s", Contender: "a", Judge: Predicted, Points: []Point{
			{BudgetMS: 1, Tasks: 1, WallMS: 2}, {BudgetMS: 1000, Tasks: 1, Solved: 1, Ratio: &Interval{2, 2, 2}, WallMS: 5},
		}},
		{Setting: "s", Contender: "b", Judge: Simulated, Points: []Point{
			{BudgetMS: 1, Tasks: 1, Solved: 1, Ratio: &Interval{1.5, 1.5, 1.5}, WallMS: 1}, {BudgetMS: 1000, Tasks: 1, Solved: 1, Ratio: &Interval{1, 1, 1}, WallMS: 7, CPUMS: 6},
		}},
		{Setting: "s", Contender: "solver", Judge: Predicted, Points: []Point{{BudgetMS: 2000, Tasks: 1, Solved: 1, Ratio: &Interval{1.5, 1.5, 1.5}, WallMS: 1900, CPUMS: 1800}}},
		{Setting: "s", Contender: "rule", Judge: Predicted, Points: []Point{{Tasks: 1, Solved: 1, Ratio: &Interval{4, 4, 4}, WallMS: 1}}},
	}
	got := Curves(records, Options{Contenders: contenders, Budgets: budgets, Given: given})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var svg strings.Builder
	if err := PlotCurves(&svg, got); err != nil || !strings.Contains(svg.String(), "ratio to the least one") {
		t.Errorf("plot: got error %v and %d bytes", err, svg.Len())
	}
	if err := PlotCurves(&svg, nil); err != nil {
		t.Errorf("plot of no curves: %v", err)
	}
}

// Curves of one colour have other marks.
func TestMarksOfCurves(t *testing.T) {
	var all []Curve
	for i := range chart.Colours() + 1 {
		all = append(all, Curve{Setting: "s", Contender: search.Method(fmt.Sprint("method ", i)), Points: []Point{{Ratio: &Interval{1, 1, 1}, WallMS: 1}}})
	}
	first, last := all[0].series(0), all[chart.Colours()].series(chart.Colours())
	if first.Colour != last.Colour || first.Mark == last.Mark {
		t.Errorf("got colours %s and %s, marks %v and %v, want one colour and two marks", first.Colour, last.Colour, first.Mark, last.Mark)
	}
	if err := PlotCurves(io.Discard, all); err != nil {
		t.Error(err)
	}
}

// A search that has no plan when its budget of time ends is a record, not an error.
func TestContendersRun(t *testing.T) {
	tasks, err := PaperTasks(profile(t, "a100-80"), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	records, err := Run(context.Background(), tasks[:1], Options{Contenders: []Contender{
		{Name: "one step", Search: search.Options{Method: search.Paper, Steps: 1}},
		{Name: "no time", Search: search.Options{Method: search.NeuroShard, Budget: 1}},
	}})
	if err != nil || len(records) != 2 || records[0].Method != "one step" || !records[0].Valid || records[1].Status != search.OutOfTime {
		t.Fatalf("got %+v and error %v", records, err)
	}
	_, err = Run(context.Background(), tasks[:1], Options{Methods: []search.Method{search.Dim}, Contenders: []Contender{{Name: search.Dim}}})
	if err == nil || !strings.Contains(err.Error(), `"dim"`) {
		t.Errorf("a name that is taken: got error %v", err)
	}
}

// Budgets are budgets of processor time if it is known. A processor whose time goes on by a
// millisecond with each look ends a search at the same place on every machine.
func TestBudgetsOfProcessorTime(t *testing.T) {
	tasks, err := PaperTasks(profile(t, "a100-80"), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	run := func(budget time.Duration) Record {
		var used atomic.Int64
		records, err := Run(context.Background(), tasks[:1], Options{
			Methods: []search.Method{search.NeuroShard}, Budgets: []time.Duration{budget}, Workers: 1,
			Processor: func() float64 { return float64(used.Add(1)) / 1000 },
		})
		if err != nil || len(records) != 1 || !records[0].Valid || records[0].Status != search.OutOfTime {
			t.Fatalf("got %+v and error %v, want a plan with status %q", records, err, search.OutOfTime)
		}
		return records[0]
	}
	first, again, longer := run(100*time.Millisecond), run(100*time.Millisecond), run(time.Second)
	if first.Evaluations != again.Evaluations || *first.CostMS != *again.CostMS {
		t.Errorf("got %d and %d evaluations, costs %v and %v, want the same", first.Evaluations, again.Evaluations, *first.CostMS, *again.CostMS)
	}
	// The same cost on devices in another order can differ by the rounding of a sum.
	if longer.Evaluations <= first.Evaluations || *longer.CostMS > (1+1e-12)**first.CostMS {
		t.Errorf("ten times the budget: got %d evaluations after %d, cost %v after %v", longer.Evaluations, first.Evaluations, *longer.CostMS, *first.CostMS)
	}
}

// With Options.Predicted the curves compare predicted costs, also of plans that the simulated
// device judged.
func TestCurvesOfPredictedCosts(t *testing.T) {
	cost := func(v float64) *float64 { return &v }
	records := []Record{
		{Setting: "s", Task: "0", Method: "a 1s", Valid: true, CostMS: cost(2), SimulatedCostMS: cost(5)},
		{Setting: "s", Task: "0", Method: "b 1s", Valid: true, CostMS: cost(3), SimulatedCostMS: cost(4)},
	}
	opt := Options{Contenders: []Contender{{Name: "a"}, {Name: "b"}}, Budgets: []time.Duration{time.Second}}
	for _, predicted := range []bool{false, true} {
		opt.Predicted = predicted
		got := Curves(records, opt)
		judge, first, second := Simulated, 1.25, 1.0
		if predicted {
			judge, first, second = Predicted, 1, 1.5
		}
		if got[0].Judge != judge || got[0].Points[0].Ratio.Mean != first || got[1].Points[0].Ratio.Mean != second {
			t.Errorf("predicted %v: got %s, %v and %v, want %s, %v and %v", predicted, got[0].Judge, got[0].Points[0].Ratio.Mean, got[1].Points[0].Ratio.Mean, judge, first, second)
		}
	}
}
