package neuroshard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// openDedup returns a problem of tables with ChooseDedup on two hosts.
func openDedup(t *testing.T, engine problem.Engine, pooling problem.Pooling, zipf float64) *problem.Problem {
	p := &problem.Problem{
		Batch: 65536, Engine: engine,
		Topology: hardware.Topology{Profile: must.Get(hardware.ByName("h100-80"))(t), Devices: 16, DevicesPerHost: 8},
	}
	for i := range 12 {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint("t", i), Module: "m", Rows: 1000 << i, Dim: 128, Pooling: pooling, ChooseDedup: true, Optimizer: problem.RowwiseAdagrad,
			Features: []problem.Feature{{PoolingFactor: 1 + 8*float64(i%2)}}, Access: access.Distribution{Kind: access.Zipf, Exponent: zipf},
		})
	}
	return p
}

// decided returns the problem with IndexDedup of all of its tables.
func decided(p *problem.Problem, dedup bool) *problem.Problem {
	own := *p
	own.Tables = nil
	for _, t := range p.Tables {
		t.ChooseDedup, t.IndexDedup = false, dedup
		own.Tables = append(own.Tables, t)
	}
	return &own
}

// certified returns a certified plan.
func certified(t *testing.T, p *problem.Problem) *neuroshard.Result {
	t.Helper()
	l, err := neuroshard.NewPlanner(context.Background(), p, neuroshard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Plan(context.Background())
	if err == nil {
		err = l.Certify(context.Background(), r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDedupOfSequences: the plan of sequences under TorchRec is the cheaper one of those with and without
// deduplication, no plan is below its bound, and it is a plan of the problem that leaves the choice open.
func TestDedupOfSequences(t *testing.T) {
	p := openDedup(t, problem.TorchRec, problem.PoolingNone, 1.1)
	with, without, r := certified(t, decided(p, true)), certified(t, decided(p, false)), certified(t, p)
	if with.Predicted.Cost >= without.Predicted.Cost {
		t.Fatalf("got %v with deduplication and %v without, want less", with.Predicted.Cost, without.Predicted.Cost)
	}
	if r.Predicted.Cost != with.Predicted.Cost || len(r.Dedup) != 2 || r.Dedup[0].Time != without.Predicted.Cost || r.Dedup[1].Tables != 12 {
		t.Errorf("got %v after %v, want %v with deduplication and %v without", r.Predicted.Cost, r.Dedup, with.Predicted.Cost, without.Predicted.Cost)
	}
	if want := min(with.Bound.Total, without.Bound.Total); r.Bound.Total != want {
		t.Errorf("bound: got %v, want %v", r.Bound.Total, want)
	}
	for i := range r.Plan.Tables {
		if !r.Plan.Tables[i].IndexDedup {
			t.Errorf("table %d: the plan does not say that it deduplicates", i)
		}
	}
	again(t, p, r)
	var file bytes.Buffer
	if err := export.TorchRec(&file, r.Plan, export.Options{}); err != nil || !strings.Contains(file.String(), "use_index_dedup=True") {
		t.Errorf("got %v, and no word of use_index_dedup", err)
	}
}

// TestDedupOfBags: HugeCTR exchanges distinct indices of some pooled tables, where the plan is cheaper so.
func TestDedupOfBags(t *testing.T) {
	for _, engine := range []problem.Engine{problem.HugeCTR, ""} {
		p := openDedup(t, engine, problem.SumPooling, 1.1)
		without, r := certified(t, decided(p, false)), certified(t, p)
		chosen := 0
		for i := range r.Plan.Tables {
			if r.Plan.Tables[i].IndexDedup {
				chosen++
			}
		}
		least := r.Dedup[0].Time
		for _, d := range r.Dedup {
			least = min(least, d.Time)
		}
		if r.Dedup[0].Time != without.Predicted.Cost || r.Predicted.Cost != least || chosen == 0 || r.Predicted.Cost > without.Predicted.Cost*.95 {
			t.Errorf("%q: got %v with %d tables of %v, want less than %v without", engine, r.Predicted.Cost, chosen, r.Dedup, without.Predicted.Cost)
		}
		again(t, p, r)
		if engine == "" {
			if r.Simulated.Cost < r.Bound.Total {
				t.Errorf("got %v, below the bound %v", r.Simulated.Cost, r.Bound.Total)
			}
			continue
		}
		var file bytes.Buffer
		must.Do(t, export.HugeCTR(&file, r.Plan, export.Options{}))
		read := must.Get(export.ReadHugeCTR("x", &file))(t)
		back := must.Get(read.Place(p))(t)
		for i := range back.Tables {
			if back.Tables[i].IndexDedup != r.Plan.Tables[i].IndexDedup {
				t.Errorf("table %d: got %v of the exported plan, want %v", i, back.Tables[i].IndexDedup, r.Plan.Tables[i].IndexDedup)
			}
		}
	}
}

// interrupting are prices that call a function for each problem.
type interrupting struct {
	neuroshard.Prices
	of func(p *problem.Problem)
}

func (i interrupting) List(ctx context.Context, p *problem.Problem) (neuroshard.PriceList, error) {
	i.of(p)
	return i.Prices.List(ctx, p)
}

// TestDedupInterrupted: a choice that ends before all searches have ended says so, is the best plan until then, and
// lists no search that found nothing as one that does not fit.
func TestDedupInterrupted(t *testing.T) {
	p := openDedup(t, problem.TorchRec, problem.PoolingNone, 1.1)
	without := certified(t, decided(p, false)).Predicted.Cost
	for _, c := range []struct {
		until func(e search.Event) bool     // ends a search
		lists func(p *problem.Problem) bool // ends the choice between two searches
		want  int                           // of the searches that are listed
	}{
		{func(e search.Event) bool { return !math.IsInf(e.Best, 1) }, nil, 1},
		{func(e search.Event) bool { return e.Best < .9*float64(without) }, nil, 2},
		{nil, func(p *problem.Problem) bool { return p.Tables[0].IndexDedup }, 1},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		opt := neuroshard.Options{Prices: interrupting{neuroshard.Pretrained(), func(p *problem.Problem) {
			if c.lists != nil && c.lists(p) {
				cancel()
			}
		}}}
		opt.Search.OnEvent = func(e search.Event) {
			if c.until != nil && c.until(e) {
				cancel()
			}
		}
		r, err := neuroshard.Plan(ctx, p, opt)
		if cancel(); err != nil {
			t.Fatal(err)
		}
		if r.Status != search.Interrupted || r.Optimal || len(r.Dedup) != c.want {
			t.Errorf("got status %s, optimal %v and %v tried, want %d, interrupted", r.Status, r.Optimal, r.Dedup, c.want)
		}
		for i, d := range r.Dedup {
			if !d.Fits || d.Time < r.Predicted.Cost || d.Tables != i*12 {
				t.Errorf("tried %+v, want plans, none better than %v", r.Dedup, r.Predicted.Cost)
			}
		}
		again(t, p, r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := neuroshard.Plan(ctx, p, neuroshard.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: got %v, want %v", err, context.Canceled)
	}
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	full := *p // without deduplication nothing fits
	full.Topology.Memory, full.Topology.ReserveShare = p.DeviceMemory(0)[problem.LossBackward].Used(), hardware.NoReserve
	opt := neuroshard.Options{Prices: interrupting{neuroshard.Pretrained(), func(p *problem.Problem) {
		if p.Tables[0].IndexDedup {
			cancel()
		}
	}}}
	if _, err := neuroshard.Plan(ctx, &full, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled after a choice that does not fit: got %v, want %v", err, context.Canceled)
	}
}

// TestDedupBesideHiddenExchanges: the deduplicated tables are chosen by whole steps whose stack hides exchanges, too.
func TestDedupBesideHiddenExchanges(t *testing.T) {
	p := openDedup(t, problem.HugeCTR, problem.SumPooling, 1.3)
	stack, err := step.StackByName("hugectr")
	if err != nil {
		t.Fatal(err)
	}
	dense := step.Dense{Bottom: []int{13, 256, 128}, Interaction: step.Dot, Top: []int{512, 1}, Precision: step.FP16}
	in := &step.Input{Dense: &dense, Stack: stack}
	r, err := neuroshard.Plan(context.Background(), p, neuroshard.Options{Step: in, Search: search.Options{MaxEvaluations: 1000}})
	if err != nil || len(r.Dedup) < 2 || r.Plan.Provenance.Hidden == (plan.Hidden{}) {
		t.Fatalf("got %+v and %v, want several choices under hidden exchanges", r, err)
	}
}

// TestDedupWithoutEffect: a plan says which tables it did not deduplicate although it had the choice.
func TestDedupWithoutEffect(t *testing.T) {
	p := openDedup(t, problem.TorchRec, problem.SumPooling, 1.1)
	r := certified(t, p)
	want := "choose_dedup has no effect on t0, t1, t2, t3 and 8 more: TorchRec deduplicates indices of sequences only"
	if !slices.Contains(r.Warnings(), want) || len(r.Dedup) != 0 {
		t.Errorf("got %q, want %q among them", r.Warnings(), want)
	}
	moved, err := replan.Plan(context.Background(), p, r.Plan, replan.Options{})
	kept := "choose_dedup: the re-plan keeps the old plan's choice, to deduplicate the indices of 0 of 12 tables: neuroshard plan chooses again"
	if err != nil || !slices.Contains(moved.Result.Warnings(), kept) {
		t.Errorf("re-plan: got %v, %q, want %q among them", err, moved.Result.Warnings(), kept)
	}
}

// TestDedupOfOtherSequences: the sequences that come under TorchRec after a plan was made are deduplicated as those
// of the plan are, and a plan that deduplicates only some of them is not valid.
func TestDedupOfOtherSequences(t *testing.T) {
	p := openDedup(t, problem.TorchRec, problem.PoolingNone, 1.1)
	fewer := *p
	fewer.Tables = p.Tables[1:]
	r := certified(t, &fewer)
	moved := must.Get(replan.Plan(context.Background(), p, r.Plan, replan.Options{}))(t)
	for i := range moved.Result.Plan.Tables {
		if !moved.Result.Plan.Tables[i].IndexDedup {
			t.Errorf("table %d: the re-plan does not deduplicate its indices", i)
		}
	}
	r.Plan.Tables[3].IndexDedup = false
	want := "its indices are not deduplicated, and those of other sequences are: TorchRec does so of all or of none"
	if err := r.Plan.Validate(&fewer); !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// again checks that the plan is one of the open problem, and has the same price for it.
func again(t *testing.T, p *problem.Problem, r *neuroshard.Result) {
	t.Helper()
	if err := r.Plan.Validate(p); err != nil || !r.Plan.MadeFrom(p) {
		t.Errorf("got %v, or a plan of other input, want a plan of the open problem", err)
	}
	back, err := plan.Read(strings.NewReader(written(t, r.Plan)))
	if err == nil {
		err = neuroshard.Price(context.Background(), back, p, neuroshard.Options{})
	}
	if off := func(a, b unit.Millis) bool { return a > b*(1+1e-9) || b > a*(1+1e-9) }; err != nil || off(back.Predicted, r.Predicted.Cost) {
		t.Errorf("read and priced: got %v, %v, want %v", back.Predicted, err, r.Predicted.Cost)
	}
}
