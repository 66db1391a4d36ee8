package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/report"
)

// judge.go computes the costs and the alternatives of a plan. It needs the plan's problem and a cost
// model, because a plan file has neither.

// Explained says for which tables Judge computes the cheapest other place.
type Explained string

// The values of Explained. The empty string is ExplainAll if the number of tables times the number
// of devices is at most 2,000,000, which takes seconds, and ExplainCritical for larger plans.
const (
	ExplainAll Explained = "all"
	// ExplainCritical selects the tables on the critical device and the 100 largest tables.
	ExplainCritical Explained = "critical"
	ExplainNone     Explained = "none"
)

// Judgement are the options of Judge.
type Judgement struct {
	// Prices estimates costs.
	Prices neuroshard.Prices
	// Compared are plans of other planners, which the page lists as baselines of the plan.
	Compared []neuroshard.Baseline
	// Explained says which tables to explain.
	Explained Explained
	// OnStep, if set, is called from Judge's goroutine to report progress: what names the present
	// step, done is the number of tables that are explained, and of the number to explain. done and
	// of are 0 in the step that computes the costs.
	OnStep func(what string, done, of int)
}

// explainedAlways is the number of tables times devices up to which all tables are explained by
// default, and mostExplained the number of largest tables that are explained in larger plans.
const (
	explainedAlways = 2_000_000
	mostExplained   = 100
)

// Judge sets Alternatives and AlternativesOf of in, and Result unless it is set: with the simple methods,
// unless the plan is larger than explainedAlways. in must have the plan and its problem. If o.Prices cannot estimate the plan, Judge adds a sentence to in.Missing.
func Judge(ctx context.Context, in *Input, o Judgement) error {
	from := in.Plan.Provenance
	options := neuroshard.Options{Prices: o.Prices, Warnings: from.Warnings, Hidden: from.Hidden}
	of := *in.Problem
	if from.Hierarchy.On() {
		of.Hierarchy = from.Hierarchy
	}
	options.Search.ShardingTypes = problem.ShardingTypes()
	if from.ModelSource == plan.Measured {
		options.Search.ShardingTypes = []problem.ShardingType{problem.TableWise, problem.ColumnWise} // no backend measures the others
	}
	if in.Result == nil {
		o.step("the costs and the lower bound", 0, 0)
		r, err := o.judged(ctx, in.Plan, &of, options)
		if unknown(err, in) {
			return nil
		}
		if err != nil {
			return err
		}
		in.Result = r
	}
	return alternatives(ctx, in, &of, o, options)
}

// judged returns the costs of a plan, its lower bound and the compared plans.
func (o Judgement) judged(ctx context.Context, pl *plan.Plan, of *problem.Problem, options neuroshard.Options) (*neuroshard.Result, error) {
	planner, err := neuroshard.NewPlanner(ctx, of, options)
	if err != nil {
		return nil, err
	}
	r, err := planner.Evaluate(ctx, pl.ByDevice())
	if err == nil {
		err = planner.Certify(ctx, r)
	}
	if err == nil && len(pl.Tables)*len(pl.Devices) <= explainedAlways {
		err = planner.Baselines(ctx, r)
	}
	if err == nil {
		err = planner.Compare(r, o.Compared)
	}
	return r, err
}

func (o Judgement) step(what string, done, of int) {
	if o.OnStep != nil {
		o.OnStep(what, done, of)
	}
}

// unknown reports whether an error says that the prices cannot estimate the plan, and then adds
// the error to in.Missing.
func unknown(err error, in *Input) bool {
	none := (*neuroshard.Unpriceable)(nil)
	if !errors.As(err, &none) {
		return false
	}
	in.Missing = append(in.Missing, "without costs and alternatives: "+none.Error())
	return true
}

// alternatives sets the alternatives of the tables to explain.
func alternatives(ctx context.Context, in *Input, of *problem.Problem, o Judgement, options neuroshard.Options) error {
	tables := toExplain(in, o.Explained)
	if len(tables) == 0 {
		in.Missing = append(in.Missing, "the alternatives of tables were not asked for")
		return nil
	}
	e, err := neuroshard.NewExplainer(ctx, in.Plan, of, options)
	if unknown(err, in) {
		return nil
	}
	if err != nil {
		return err
	}
	all := make([]*neuroshard.Alternative, len(in.Plan.Tables))
	for done, i := range tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		o.step("the alternatives of tables", done, len(tables))
		a := e.Alternative(i)
		all[i] = &a
	}
	in.Alternatives, in.AlternativesOf = all, e.Cost()
	if n := len(all) - len(tables); n > 0 {
		in.Missing = append(in.Missing, fmt.Sprintf("%d tables have no alternative: alternatives were computed for the tables on the critical device and for the %d largest tables", n, mostExplained))
	}
	return nil
}

// toExplain returns the tables to explain.
func toExplain(in *Input, which Explained) []int {
	n := len(in.Plan.Tables)
	if which == "" {
		if which = ExplainAll; n*len(in.Plan.Devices) > explainedAlways {
			which = ExplainCritical
		}
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	switch which {
	case ExplainNone:
		return nil
	case ExplainAll:
		return all
	}
	slices.SortStableFunc(all, func(a, b int) int {
		s, t := &in.Plan.Tables[a], &in.Plan.Tables[b]
		return cmp.Compare(float64(t.Rows)*float64(t.Dim), float64(s.Rows)*float64(s.Dim))
	})
	critical := report.Critical(in.Plan)
	chosen := slices.Clone(all[:min(n, mostExplained)])
	for _, i := range all[len(chosen):] {
		if critical >= 0 && slices.ContainsFunc(in.Plan.Tables[i].Shards, func(s plan.Shard) bool { return s.Device == critical || s.Device < 0 }) {
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen)
	return chosen
}
