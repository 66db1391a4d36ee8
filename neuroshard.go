// Package neuroshard plans how the embedding tables of a recommendation model
// are split and placed over devices, so that the slowest device is as fast as
// it can be.
//
// Plan is the entry point: it takes tables and a cluster and returns a validated plan,
// found by the pre-train-and-search method of NeuroShard (Zha et al., MLSys 2023) with
// a cost model that ships with this package.
//
//	problem -> feature -> cost -> search -> plan
//
// Prices is the choice of the cost model. Evaluate validates and judges a placement that
// was made elsewhere, and Price estimates the times of a plan.
package neuroshard

import (
	"context"
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

// Version is the version of this module. Releases set it when they are linked.
var Version = "0.1.0-dev"

// Options steer Plan. The zero value plans with the default method and the
// pre-trained model of the topology's profile.
type Options struct {
	// Search steers the search: its method, seed, budget and events. ColumnsOnly is set
	// if Prices estimates slices of columns in HBM only.
	Search search.Options
	// Prices is what estimates the costs of placements; nil takes Pretrained.
	Prices Prices
	// Baselines also plans with each baseline method, to compare with.
	Baselines bool
	// Certificate also bounds what every plan costs on the simulated device (package
	// bound).
	Certificate bool
	// Warnings are doubts about the input, such as a table whose accesses are
	// assumed. They become part of the plan.
	Warnings []string
}

// Result is a plan with its costs and with the record of the search.
type Result struct {
	Plan *plan.Plan
	// Shards are the plan's shards by device.
	Shards [][]problem.Shard
	// Predicted is the estimate of the plan, device by device. Simulated is its cost on
	// the simulated device, which the search does not use; it has no devices if the
	// simulated device is no judge (Judged).
	Predicted, Simulated plan.Breakdown
	// Bound, if asked for, is a lower bound on the simulated cost of every plan in the
	// sharding types and memories that the search tries. It is the zero value if the
	// simulated device is no judge. Only its Total is set if the search tries more than
	// slices of columns in HBM.
	Bound bound.Bound
	// Optimal says that no plan has a lower predicted cost: the search tried all plans.
	Optimal bool
	// Status and Stats are the search's; both are zero values if there was no search.
	Status search.Status
	Stats  search.Stats
	// Baselines, if asked for, are in the order of search.Baselines.
	Baselines []Baseline
}

// Judged reports whether the simulated device judged the plan. It does where it is a
// device of the cluster's profile and the estimates do not come from measured samples.
func (r *Result) Judged() bool { return len(r.Simulated.Devices) > 0 }

// Gap returns by how much the plan's simulated cost is above the bound, as a share
// of the bound, and whether there is one.
func (r *Result) Gap() (gap float64, ok bool) {
	if !r.Judged() || !(r.Bound.Total > 0) {
		return 0, false
	}
	return bound.Gap(r.Simulated.Cost, r.Bound.Total), true
}

// Baseline is the plan of a simple method for the same problem, in short.
type Baseline struct {
	Method search.Method
	// Valid is false where the method found no plan that fits; the costs are 0
	// then.
	Valid bool
	// Predicted is the plan's estimated cost, and Simulated its cost on the simulated
	// device, 0 where the simulated device is no judge.
	Predicted, Simulated unit.Millis
}

// Plan finds a plan for the problem and validates it. It fails with
// *problem.Invalid on a broken problem and with *search.Infeasible where
// nothing fits. When ctx ends early, the best plan so far is returned with
// status search.Interrupted, or ctx's error if there is none yet.
func Plan(ctx context.Context, p *problem.Problem, opt Options) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	l, err := newLine(p, opt)
	if err != nil {
		return nil, err
	}
	found, err := l.search(ctx, opt.Search)
	if err != nil {
		return nil, err
	}
	result, err := l.result(found)
	if invalid := (*plan.Invalid)(nil); errors.As(err, &invalid) {
		return nil, fmt.Errorf("the plan found is not valid, which is a bug of the planner: %w", err)
	}
	if err == nil && opt.Baselines {
		result.Baselines, err = l.baselines(ctx)
	}
	return result, err
}

// Evaluate makes the result of a given placement, shards by device, as Plan does of the
// placement that its search found: a validated plan with its estimate, and the judgement
// of the simulated device. The problem must be valid. It fails with *plan.Invalid on a
// placement that is not valid, and with *Unpriceable on one that opt.Prices does not
// estimate. Of opt.Search it takes Method, Seed and ShardingTypes.
func Evaluate(p *problem.Problem, shards [][]problem.Shard, opt Options) (*Result, error) {
	l, err := newLine(p, opt)
	if err != nil {
		return nil, err
	}
	return l.result(search.Result{Shards: shards})
}

// line is one problem on its way through the line.
type line struct {
	problem *problem.Problem
	opt     Options
	prices  PriceList
	// judge is nil where the simulated device is no judge (simulated).
	judge *simulate.Pricer
}

func newLine(p *problem.Problem, opt Options) (*line, error) {
	prices, err := opt.prices().List(p)
	if err != nil {
		return nil, err
	}
	if opt.Search.Method == "" {
		opt.Search.Method = search.Default
	}
	l := &line{problem: p, opt: opt, prices: prices}
	if simulated(p.Topology.Profile, prices.Estimator().ModelSource) {
		l.judge = simulate.NewPricer(p)
	}
	return l, nil
}

// simulated reports whether the simulated device may judge plans for the profile. It is one
// of the known GPUs, so it says nothing of others; and it says nothing against estimates
// that come from measured samples or are of another project.
func simulated(profile hardware.Profile, modelSource string) bool {
	return hardware.Known(profile.Name) && (modelSource == plan.Simulated || modelSource == plan.ClosedForm)
}

// search finds a placement with the Scorers of the price list.
func (l *line) search(ctx context.Context, opt search.Options) (search.Result, error) {
	opt.ColumnsOnly = opt.ColumnsOnly || !beyondColumns(l.prices)
	return search.Run(ctx, l.problem, l.prices.NewScorer, opt)
}

// result writes a placement as a validated plan, with its estimate, provenance and
// warnings, and has the simulated device judge it.
func (l *line) result(found search.Result) (*Result, error) {
	pl := plan.New(l.problem, found.Shards)
	pl.Provenance = plan.Provenance{
		Tool: "neuroshard", Version: Version, Method: string(l.opt.Search.Method), Seed: l.opt.Search.Seed,
		Status: string(found.Status), Input: plan.Digest(l.problem),
	}
	if err := estimate(pl, l.prices, found.Shards, found.Status, l.opt.Warnings); err != nil {
		return nil, err
	}
	if err := pl.Validate(l.problem); err != nil {
		return nil, err
	}
	result := &Result{
		Plan: pl, Shards: found.Shards, Predicted: pl.Breakdown(),
		Optimal: found.Optimal, Status: found.Status, Stats: found.Stats,
	}
	if l.judge == nil {
		return result, nil
	}
	var err error
	if result.Simulated, err = l.judge.Price(found.Shards); err != nil {
		return nil, err
	}
	// The certificate bounds the cost that the search minimised.
	if l.opt.Certificate && l.prices.Estimator().ModelSource == plan.Simulated {
		result.Bound, err = bound.Simulated(l.problem, l.allowed())
	}
	return result, err
}

// allowed returns the ways to place tables that the search tries.
func (l *line) allowed() bound.Allowed {
	if l.opt.Search.Method != search.NeuroShard || l.problem.Accounting == problem.CountWeights {
		return bound.Allowed{}
	}
	return bound.Allowed{ShardingTypes: l.opt.Search.ShardingTypes, Host: true}
}

// baselines plans with each simple method. One that finds no plan is not an
// error.
func (l *line) baselines(ctx context.Context) ([]Baseline, error) {
	var all []Baseline
	for _, method := range search.Baselines() {
		opt := l.opt.Search
		opt.Method, opt.OnEvent, opt.Brief = method, nil, true
		found, err := l.search(ctx, opt)
		var infeasible *search.Infeasible
		if errors.As(err, &infeasible) || ctx.Err() != nil {
			all = append(all, Baseline{Method: method})
			continue
		}
		if err != nil {
			return nil, err
		}
		one := Baseline{Method: method, Valid: true, Predicted: l.prices.Price(found.Shards).Cost}
		if l.judge != nil {
			simulated, err := l.judge.Price(found.Shards)
			if err != nil {
				return nil, err
			}
			one.Simulated = simulated.Cost
		}
		all = append(all, one)
	}
	return all, nil
}
