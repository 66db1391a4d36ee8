// Package neuroshard plans how the embedding tables of a recommendation model
// are split and placed over devices, so that the slowest device is as fast as
// it can be.
//
// Plan is the whole line: tables and a cluster in, a validated plan out, found
// by the pre-train-and-search method of NeuroShard (Zha et al., MLSys 2023) on a
// cost model that ships with this package.
//
//	problem -> feature -> cost -> search -> plan
package neuroshard

import (
	"context"
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
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
	// Search steers the search: its method, seed, budget and events.
	Search search.Options
	// Model is the cost model to ask; nil takes the pre-trained one.
	Model *cost.Model
	// TorchRec prices plans as TorchRec's own planner does (package torchrec) in place
	// of a model; Model and Caution are not asked.
	TorchRec bool
	// Caution is how many deviations of an ensemble's members the search prices a plan
	// above their mean (cost.Pool.NewScorer). The plan's predictions are the
	// mean all the same. It needs a Model that is an ensemble.
	Caution float64
	// Baselines also plans with each baseline method, to compare with.
	Baselines bool
	// Certificate also says what no plan can cost less than (package bound).
	Certificate bool
	// Warnings are doubts about the input, such as a table whose accesses are
	// assumed. They become part of the plan.
	Warnings []string
}

// Result is a plan and what is known of it.
type Result struct {
	Plan *plan.Plan
	// Shards are the plan's shards by device.
	Shards [][]problem.Shard
	// Predicted is the model's price of the plan, device by device, and Simulated
	// the simulated device's: the judge that the search did not ask. Simulated has
	// no devices where the model was made of measured samples (Judged).
	Predicted, Simulated plan.Breakdown
	// Bound, if asked for, is a lower bound on the simulated cost of every plan in the
	// kinds and memories that the search tries; its zero value says that there is none, as
	// where the simulated device is no judge. Only its Total is known where those are
	// others than slices of columns in HBM.
	Bound bound.Bound
	// Optimal says that no plan is cheaper as predicted: all were tried.
	Optimal bool
	Status  search.Status
	Stats   search.Stats
	// Baselines, if asked for, are in the order of search.Baselines.
	Baselines []Baseline
}

// Baseline is what a simple method makes of the same problem.
type Baseline struct {
	Method search.Method
	// Valid is false where the method found no plan that fits; the costs are 0
	// then.
	Valid bool
	// Predicted and Simulated are the plan's costs under the model and on the
	// simulated device, 0 where that was not asked.
	Predicted, Simulated unit.Millis
}

// Plan finds a plan for the problem and proves it valid. It fails with
// *problem.Invalid on a broken problem and with *search.Infeasible where
// nothing fits. When ctx ends early, the best plan so far is returned with
// status search.Interrupted, or ctx's error if there is none yet.
func Plan(ctx context.Context, p *problem.Problem, opt Options) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	prices, err := opt.pricing(p)
	if err != nil {
		return nil, err
	}
	found, err := search.Run(ctx, p, prices.scorers, opt.Search)
	if err != nil {
		return nil, err
	}
	result := &Result{Shards: found.Shards, Predicted: prices.price(found.Shards), Optimal: found.Optimal, Status: found.Status, Stats: found.Stats}
	// The simulated device is one of the known GPUs: it says nothing of others, and
	// nothing against what was measured.
	var judge *simulate.Pricer
	if hardware.Known(p.Topology.Profile.Name) && !prices.measured {
		judge = simulate.NewPricer(p)
		if result.Simulated, err = judge.Price(found.Shards); err != nil {
			return nil, err
		}
		// The certificate is of what was minimised.
		if opt.Certificate && !opt.TorchRec {
			if result.Bound, err = bound.SimulatedKinds(p, opt.allowed(p)); err != nil {
				return nil, err
			}
		}
	}
	result.Plan = describe(p, found, result.Predicted, prices, opt)
	if err := result.Plan.Validate(p); err != nil {
		return nil, fmt.Errorf("the plan found is not valid, which is a bug of the planner: %w", err)
	}
	if opt.Baselines {
		result.Baselines, err = baselines(ctx, p, prices, judge, opt.Search)
	}
	return result, err
}

// allowed returns the ways to place tables that the search tries.
func (o Options) allowed(p *problem.Problem) bound.Allowed {
	if o.Search.Method != "" && o.Search.Method != search.NeuroShard || p.Accounting == problem.CountWeights {
		return bound.Allowed{}
	}
	return bound.Allowed{Kinds: o.Search.Kinds, Host: true}
}

// Gap returns by how much the plan's simulated cost is above the bound, as a share
// of it, and whether there is one.
func (r *Result) Gap() (gap float64, ok bool) {
	if !r.Judged() || !(r.Bound.Total > 0) {
		return 0, false
	}
	return bound.Gap(r.Simulated.Cost, r.Bound.Total), true
}

// Judged reports whether the simulated device priced the result: it does where the
// model is of that device, and not where it was made of measured samples.
func (r *Result) Judged() bool { return len(r.Simulated.Devices) > 0 }

// CostModel returns the model to ask for a profile: Model, or the pre-trained
// one.
func (o Options) CostModel(profile hardware.Profile) (*cost.Model, error) {
	if o.Model != nil {
		return o.Model, nil
	}
	file, err := pretrained.File(profile.Name)
	if err != nil {
		return nil, err
	}
	return cost.Load(file)
}

// describe makes a plan of the placement found: with predictions, provenance
// and warnings.
func describe(p *problem.Problem, found search.Result, predicted plan.Breakdown, prices *pricing, opt Options) *plan.Plan {
	pl := plan.New(p, found.Shards)
	pl.SetBreakdown(predicted)
	method := opt.Search.Method
	if method == "" {
		method = search.Default
	}
	pl.Provenance = plan.Provenance{
		Tool: "neuroshard", Version: Version, Method: string(method), Seed: opt.Search.Seed, Status: string(found.Status),
		Model: prices.model, ModelSource: prices.source, Input: plan.Digest(p), Warnings: prices.warnings(found.Status, found.Shards, opt.Warnings),
	}
	return pl
}

// baselines plans with each simple method. One that finds no plan is not an
// error. judge may be nil.
func baselines(ctx context.Context, p *problem.Problem, prices *pricing, judge *simulate.Pricer, opt search.Options) ([]Baseline, error) {
	var all []Baseline
	for _, method := range search.Baselines() {
		opt.Method, opt.OnEvent, opt.Brief = method, nil, true
		found, err := search.Run(ctx, p, prices.plain, opt)
		var infeasible *search.Infeasible
		if errors.As(err, &infeasible) || ctx.Err() != nil {
			all = append(all, Baseline{Method: method})
			continue
		}
		if err != nil {
			return nil, err
		}
		one := Baseline{Method: method, Valid: true, Predicted: prices.price(found.Shards).Cost}
		if judge != nil {
			simulated, err := judge.Price(found.Shards)
			if err != nil {
				return nil, err
			}
			one.Simulated = simulated.Cost
		}
		all = append(all, one)
	}
	return all, nil
}
