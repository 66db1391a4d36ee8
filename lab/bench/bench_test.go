package bench

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// The default method against the others, and with one worker against several.
func TestRunComparesMethods(t *testing.T) {
	tasks, err := PaperTasks(must.Get(hardware.ByName("a100-80"))(t), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	tasks = tasks[2:4]
	methods := search.Untrained()
	told := 0
	records, err := Run(context.Background(), tasks, Options{Workers: 2, Certificate: true, OnRecord: func(_ Record, done, of int) error {
		if told++; done != told || of != len(tasks)*len(methods) {
			t.Errorf("got record %d of %d, want %d of %d", done, of, told, len(tasks)*len(methods))
		}
		return nil
	}})
	if err != nil || len(records) != len(tasks)*len(methods) || told != len(records) {
		t.Fatalf("got %d records, %d told of, and error %v", len(records), told, err)
	}
	best := map[string]Record{}
	for i, r := range records {
		task, method := tasks[i/len(methods)], methods[i%len(methods)]
		if r.Task != task.Name || r.Setting != task.Setting || r.Method != method || r.check() != nil || !(r.WallMS > 0) {
			t.Fatalf("record %d: got %+v, want one of %s by %s: %v", i, r, task.Name, method, r.check())
		}
		if (r.BoundMS != nil) != (r.Valid && r.Method == search.Default) || r.BoundMS != nil && !(0 < *r.BoundMS && *r.BoundMS <= *r.SimulatedCostMS) {
			t.Errorf("task %s by %s: got bound %v, want one of the default method's plans alone, not above the cost", r.Task, r.Method, r.BoundMS)
		}
		if r.Method == search.Default {
			best[r.Task] = r
		}
	}
	for _, r := range records {
		if !r.Valid {
			continue
		}
		// On problems as small as these, package search promises that the default is
		// never more expensive than any other method.
		if own := best[r.Task]; !own.Valid || *own.CostMS > *r.CostMS*(1+1e-9) {
			t.Errorf("task %s: got predicted cost %v ms by default, want at most the %v ms of %s", r.Task, own.CostMS, *r.CostMS, r.Method)
		}
		// The model is within a few percent of the simulated device; farthest off, by 5.3 %, for
		// a plan of dim.
		if bias := *r.CostMS / *r.SimulatedCostMS - 1; math.Abs(bias) > .06 {
			t.Errorf("task %s by %s: predicted %v ms, simulated %v ms: want within 6 %%", r.Task, r.Method, *r.CostMS, *r.SimulatedCostMS)
		}
	}
	alone := must.Get(Run(context.Background(), tasks[:1], Options{Workers: 1, Certificate: true}))(t)
	if diff := cmp.Diff(records[:len(alone)], alone, cmpopts.IgnoreFields(Record{}, "WallMS", "BoundWallMS")); diff != "" {
		t.Errorf("2 workers (-) and 1 worker (+) differ:\n%s", diff)
	}
}

// TestRunEnds: whatever ends a run, it returns the records made until then.
func TestRunEnds(t *testing.T) {
	tasks, opt := comparison(t)
	whole, err := Run(context.Background(), tasks, opt)
	if err != nil || len(whole) != 9 || !whole[0].Valid || whole[3].Valid || whole[3].CostMS != nil {
		t.Fatalf("got %d records and error %v, want 9, none valid of the task without memory", len(whole), err)
	}
	full := errors.New("disk full")
	for stop := range len(whole) - 1 {
		for _, want := range []error{context.Canceled, full} {
			ctx, cancel := context.WithCancel(context.Background())
			opt.OnRecord = func(_ Record, done, _ int) error {
				switch {
				case done < stop+1:
				case errors.Is(want, full):
					return full
				default:
					cancel()
				}
				return nil
			}
			got, err := Run(ctx, tasks, opt)
			if diff := cmp.Diff(whole[:stop+1], got, exceptTimes); diff != "" || !errors.Is(err, want) {
				t.Errorf("ended after %d with %v (-want +got):\n%s", stop+1, err, diff)
			}
			cancel()
		}
	}
	opt.OnRecord = nil
	broken := append([]Task{}, tasks...)
	broken[1].Problem.Batch = -3
	var invalid *problem.Invalid
	if _, err := Run(context.Background(), broken, opt); !errors.As(err, &invalid) || !strings.Contains(err.Error(), broken[1].Name) {
		t.Errorf("a broken problem: got error %v, want *problem.Invalid naming task %s", err, broken[1].Name)
	}
	broken[2].Name = broken[0].Name
	if _, err := Run(context.Background(), broken, opt); err == nil || !strings.Contains(err.Error(), `"d4_m64/0"`) {
		t.Errorf("two tasks of one name: got error %v", err)
	}
	opt.Contenders = []Contender{{Name: search.Dim}}
	if _, err := Run(context.Background(), tasks, opt); err == nil || !strings.Contains(err.Error(), `"dim"`) {
		t.Errorf("a contender's name that is taken: got error %v", err)
	}
}

// slow plans until the context ends: with a plan, or by method Dim without.
func slow(ctx context.Context, _ *problem.Problem, opt neuroshard.Options, _ int) (*neuroshard.Result, error) {
	<-ctx.Done()
	if opt.Search.Method == search.Dim {
		return nil, ctx.Err()
	}
	times := plan.Breakdown{Cost: 2}
	return &neuroshard.Result{Status: search.Interrupted, Predicted: times, Simulated: times}, nil
}

// A search that the time limit ends is a record; one that the caller interrupts is none.
func TestTimeLimit(t *testing.T) {
	tasks := suite(t, "d4_m16", 4, 1)
	opt := Options{planner: slow, Methods: []search.Method{search.Paper, search.Dim}, TimeLimit: time.Millisecond}
	records, err := Run(context.Background(), tasks, opt)
	if err != nil || len(records) != 2 {
		t.Fatalf("got %d records and error %v, want 2", len(records), err)
	}
	for i, valid := range []bool{true, false} {
		if r := records[i]; r.Valid != valid || r.Status != search.OutOfTime || !(r.WallMS >= 1) || r.check() != nil {
			t.Errorf("%s: got %+v, want valid %v and status %q after 1 ms or more", r.Method, r, valid, search.OutOfTime)
		}
	}
	for _, limit := range []time.Duration{0, time.Hour} {
		opt.TimeLimit = limit
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		if records, err := Run(ctx, tasks, opt); !errors.Is(err, context.Canceled) || len(records) != 0 {
			t.Errorf("limit %v, interrupted: got %d records and error %v, want none and %v", limit, len(records), err, context.Canceled)
		}
	}
}

// Budgets are budgets of processor time if it is known. A processor whose time goes on by a
// millisecond with each look ends a search at the same place on every machine.
func TestBudgetsOfProcessorTime(t *testing.T) {
	tasks := suite(t, "d4_m16", 4, 1)
	run := func(budget time.Duration) Record {
		var used atomic.Int64
		records, err := Run(context.Background(), tasks, Options{
			Methods: []search.Method{search.NeuroShard}, Budgets: []time.Duration{budget}, Workers: 1,
			Processor: func() float64 { return float64(used.Add(1)) / 1000 },
		})
		if err != nil || len(records) != 1 || !records[0].Valid || records[0].Status != search.OutOfTime {
			t.Fatalf("got %+v and error %v, want a plan with status %q", records, err, search.OutOfTime)
		}
		return records[0]
	}
	first, again, longer := run(50*time.Millisecond), run(50*time.Millisecond), run(250*time.Millisecond)
	if first.Evaluations != again.Evaluations || *first.CostMS != *again.CostMS {
		t.Errorf("got %d and %d evaluations, costs %v and %v, want the same", first.Evaluations, again.Evaluations, *first.CostMS, *again.CostMS)
	}
	// The same cost on devices in another order can differ by the rounding of a sum.
	if longer.Evaluations <= first.Evaluations || *longer.CostMS > (1+1e-12)**first.CostMS {
		t.Errorf("five times the budget: got %d evaluations after %d, cost %v after %v", longer.Evaluations, first.Evaluations, *longer.CostMS, *first.CostMS)
	}
}

// TestEstimable keeps the tasks with the nets' number of devices, or all if there are none.
func TestEstimable(t *testing.T) {
	prices := nets(t)
	four, eight := suite(t, "d4_m16", 4, 1), suite(t, "d4_m16", 8, 1)
	eight[0].Name = "d8_m16/0"
	if got := Estimable(append(four, eight...), prices); len(got) != 1 || got[0].Name != four[0].Name || Check(got, prices) != nil {
		t.Errorf("got %d tasks, want the one of 4 devices", len(got))
	}
	if got := Estimable(eight, prices); len(got) != 1 {
		t.Errorf("got %d tasks, want all", len(got))
	}
	if err := Check(eight, prices); err == nil || !strings.Contains(err.Error(), "d8_m16/0: 8 devices, but the comm nets are for 4") {
		t.Errorf("8 devices: got error %v, want one of the number of devices", err)
	}
}

// meter is a backend that takes a quarter more than was predicted, and half a ms of spread. It
// notices when a plan is made while another is measured.
type meter struct {
	busy, disturbed, plans, tasks atomic.Int32
	// failAt is the number of the plan whose error is errMeter.
	failAt int32
}

var errMeter = errors.New("the worker died")

func (m *meter) work() func() {
	if m.busy.Add(1) > 1 {
		m.disturbed.Add(1)
	}
	return func() { m.busy.Add(-1) }
}

func (m *meter) plan(ctx context.Context, p *problem.Problem, opt neuroshard.Options, _ int) (*neuroshard.Result, error) {
	defer m.work()()
	return neuroshard.Plan(ctx, p, opt)
}

func (m *meter) measure(_ context.Context, p *problem.Problem, plans []verify.Placement) ([]verify.Turn, error) {
	defer m.work()()
	m.tasks.Add(1)
	turns := make([]verify.Turn, len(plans))
	for i, one := range plans {
		if m.plans.Add(1) == m.failAt {
			turns[i].Err = errMeter
			continue
		}
		if err := plan.New(p, one.Shards).Validate(p); err != nil {
			return nil, err
		}
		turns[i].Result = &verify.Result{Measured: 1.25 * one.Predicted.Cost, Spread: .5}
	}
	return turns, nil
}

// Plans are made and measured one at a time, those of a task in turns, and the measured cost is
// what counts: of found plans, of given ones, and of those that a run goes on from.
func TestMeasured(t *testing.T) {
	tasks, opt := comparison(t)
	m := &meter{}
	opt.planner, opt.Measure, opt.Workers = m.plan, m.measure, 8
	records, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	if m.disturbed.Load() > 0 || m.plans.Load() != 6 || m.tasks.Load() != 2 {
		t.Errorf("%d disturbed, %d plans of %d tasks measured, want 0, 6 of 2", m.disturbed.Load(), m.plans.Load(), m.tasks.Load())
	}
	for _, r := range records {
		if r.Valid != (r.MeasuredCostMS != nil) || r.Valid && (*r.MeasuredCostMS != 1.25**r.CostMS || *r.MeasuredSpreadMS != .5 || r.cost() != *r.MeasuredCostMS) {
			t.Errorf("task %s by %s: got measured cost %v, want 1.25 times the predicted", r.Task, r.Method, r.MeasuredCostMS)
		}
	}
	for _, s := range Summarise(records, search.Paper) {
		if s.Judge != Measured || math.Abs(s.BiasPercent+20) > 1e-9 {
			t.Errorf("%s: got judge %q and bias %v %%, want %q and -20", s.Method, s.Judge, s.BiasPercent, Measured)
		}
	}
	scored, err := Score(context.Background(), tasks, GivenResults(NewResults(records, opt)), opt)
	if diff := cmp.Diff(records, scored, exceptTimes, cmpopts.IgnoreFields(Record{}, "Evaluations", "Status")); err != nil || diff != "" {
		t.Errorf("error %v, found (-) and given (+):\n%s", err, diff)
	}
	opt.Known = records[:4]
	before := m.plans.Load()
	again, err := Run(context.Background(), tasks, opt)
	if diff := cmp.Diff(records, again, exceptTimes); err != nil || diff != "" || m.plans.Load()-before != 3 {
		t.Errorf("with 4 known: error %v, %d measured (-whole +resumed):\n%s", err, m.plans.Load()-before, diff)
	}
	// A backend that fails ends the run; what was measured until then is kept.
	opt.Known, m.failAt = nil, m.plans.Load()+5
	if records, err = Run(context.Background(), tasks, opt); !errors.Is(err, errMeter) || !strings.HasSuffix(err.Error(), ", method size: the worker died") || len(records) != 6 {
		t.Errorf("got %d records and error %v, want 6 and the backend's, with the task and the method", len(records), err)
	}
}
