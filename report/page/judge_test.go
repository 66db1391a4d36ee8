package page_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/report/page"
	"github.com/neuroshard/neuroshard/unit"
)

// Judge explains the tables that it is asked for, and says how many it left out.
func TestJudge(t *testing.T) {
	pl, p := large(112, 4)
	for _, c := range []struct {
		explained page.Explained
		tables    int
		missing   string
	}{
		{"", 112, ""},

		{page.ExplainNone, 0, "the alternatives of tables were not asked for"},
		{page.ExplainCritical, 105, "7 tables have no alternative: "},
	} {
		in := page.Input{Name: "plan.json", Plan: pl, Problem: p}
		calls := 0
		must.Do(t, page.Judge(t.Context(), &in, page.Judgement{Prices: neuroshard.Pretrained(), Explained: c.explained, OnStep: func(string, int, int) { calls++ }}))
		if gap, ok := in.Result.Gap(); !ok || gap < 0 {
			t.Errorf("%q: got gap %v, %v, want one of at least 0", c.explained, gap, ok)
		}
		got := 0
		for _, a := range in.Alternatives {
			if a != nil {
				got++
			}
		}
		if got != c.tables || calls != 1+c.tables {
			t.Errorf("%q: got %d alternatives and %d calls, want %d and %d", c.explained, got, calls, c.tables, 1+c.tables)
		}
		if missing := strings.Join(in.Missing, "\n"); !strings.HasPrefix(missing, c.missing) || c.missing == "" && missing != "" {
			t.Errorf("%q: got missing %q, want %q", c.explained, missing, c.missing)
		}
		d := one(t, in)
		checkPage(t, d)
		made := func(w string) bool { return strings.HasPrefix(w, "the plan states a cost of ") }
		if !slices.ContainsFunc(d.Plans[0].Warnings, made) {
			t.Errorf("got warnings %q, want that the made-up cost is not the model's", d.Plans[0].Warnings)
		}
	}
}

// A problem with a hierarchical exchange has it under a plan that states none.
func TestJudgeKeepsTheExchange(t *testing.T) {
	pl, p := large(16, 4)
	p.Topology.DevicesPerHost = 2
	cost := func(h problem.Hierarchy) unit.Millis {
		of := *p
		of.Hierarchy = h
		in := page.Input{Plan: pl, Problem: &of}
		must.Do(t, page.Judge(t.Context(), &in, page.Judgement{Prices: neuroshard.Pretrained(), Explained: page.ExplainNone}))
		return in.Result.Predicted.Cost
	}
	if flat, inHosts := cost(problem.Hierarchy{}), cost(problem.Hierarchy{Sent: 1, Inside: 1, Between: 1}); flat == inHosts {
		t.Errorf("got %v with and without a hierarchical exchange", flat)
	}
}

// A plan that was made without a cost model gets the times of the one that is named.
func TestJudgePricesPlan(t *testing.T) {
	pl, p := large(8, 2)
	pl.Provenance.Model, pl.Provenance.ModelSource = "", plan.Unpriced
	pl.SetBreakdown(plan.NewBreakdown(make([]plan.StepTimes, len(pl.Devices))))
	in := page.Input{Plan: pl, Problem: p}
	must.Do(t, page.Judge(t.Context(), &in, page.Judgement{Prices: neuroshard.TorchRec()}))
	d := one(t, in).Plans[0]
	if d.Costs.Predicted == nil || *d.Costs.Predicted != in.Result.Predicted.Cost || len(d.Devices.Forward) != 2 || d.Critical < 0 {
		t.Errorf("got costs %+v and critical device %d, want those of TorchRec's formulas", d.Costs, d.Critical)
	}
	if d.Report.Bound != nil {
		t.Errorf("got the bound %v, want none", *d.Report.Bound)
	}
	if pl.Priced() || pl.Predicted != 0 {
		t.Errorf("the caller's plan has changed")
	}
}

// Judge ends when its caller does.
func TestJudgeInterrupted(t *testing.T) {
	pl, p := large(8, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := page.Input{Plan: pl, Problem: p}
	if err := page.Judge(ctx, &in, page.Judgement{Prices: neuroshard.Pretrained()}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}
