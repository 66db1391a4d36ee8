package main

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/watch"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// watch_advice.go says what live features have to do with a change that was found.

// adviser knows the plan, the tables that were planned, and where the live features are.
type adviser struct {
	a            *app
	planPath     string
	plan         *plan.Plan
	tables, live string
	prices       neuroshard.Prices
	planned      []unit.Millis
}

// newAdviser returns nil if no live features are stated. It reads the tables and the features
// once, so that what is wrong with them is an error at the start.
func newAdviser(ctx context.Context, a *app, f *watchFlags, planPath string, pl *plan.Plan) (*adviser, error) {
	switch {
	case f.tables == "" && f.features == "":
		return nil, nil
	case f.tables == "":
		return nil, usagef("add the tables that were planned: --tables TABLES", "watch: --features needs --tables")
	case f.features == "":
		return nil, usagef("make them with: neuroshard lab profile TRACE --tables "+f.tables+" -o live.json", "watch: --tables needs live features: --features FILE")
	}
	v := &adviser{a: a, planPath: planPath, plan: pl, tables: f.tables, live: f.features}
	l, err := planned(a, pl, f.tables, &clusterFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)})
	if err != nil {
		return nil, err
	}
	prices, missing, err := pricesOf(a, pl, l.problem, f.model)
	if err != nil {
		return nil, err
	}
	if prices == nil {
		return nil, usagef("", "watch: the live features cannot be priced: %s", missing)
	}
	v.prices = prices
	if v.planned, err = v.busy(ctx, l); err != nil {
		return nil, err
	}
	_, err = v.features()
	return v, err
}

// features reads the problem with the live features.
func (v *adviser) features() (loaded, error) {
	flags := &clusterFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
	own := clusterOf(v.plan, flags)
	l, err := loadProblem(v.a, v.live, flags, own)
	if err != nil {
		return l, err
	}
	for i := range v.plan.Tables {
		t := &v.plan.Tables[i]
		if i >= len(l.problem.Tables) || l.problem.Tables[i].Name != t.Name || l.problem.Tables[i].Rows != t.Rows || l.problem.Tables[i].Dim != t.Dim {
			return l, usagef("make the file with: neuroshard lab profile TRACE --tables "+v.tables+" -o "+v.live, "%s: the tables are not those of the plan: table %d of the plan is %q", v.live, i+1, t.Name)
		}
	}
	if len(l.problem.Tables) > len(v.plan.Tables) {
		return l, usagef("", "%s: the tables are not those of the plan: the plan has %d, and the file %d", v.live, len(v.plan.Tables), len(l.problem.Tables))
	}
	return l, nil
}

// busy returns the predicted busy times of the plan's placement for a problem.
func (v *adviser) busy(ctx context.Context, l loaded) ([]unit.Millis, error) {
	priced := *v.plan
	priced.Devices = slices.Clone(v.plan.Devices)
	if err := neuroshard.Price(ctx, &priced, l.problem, neuroshard.Options{Prices: v.prices}); err != nil {
		return nil, bad(err, "")
	}
	return watch.Predicted(&priced), nil
}

// advise explains the changes of a summary, sets the outcome that is left, and says what
// re-planning would save.
func (v *adviser) advise(ctx context.Context, s *watch.Summary) (*report.WatchAdvice, error) {
	l, err := v.features()
	if err != nil {
		return nil, err
	}
	live, err := v.busy(ctx, l)
	if err != nil {
		return nil, err
	}
	explained, outcome := watch.Explain(s, v.planned, live)
	s.Outcome = outcome
	found, err := replan.Plan(ctx, l.problem, v.plan, replan.Options{Options: neuroshard.Options{
		Prices: v.prices, Search: search.Options{ShardingTypes: problem.ShardingTypes()},
	}})
	if err != nil && ctx.Err() == nil {
		return nil, replanError(err, v.planPath)
	}
	return report.NewWatchAdvice(explained, found, v.planPath, v.live), nil
}
