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
// A Planner does the same, and adds to a Result what callers want to know of the plan: a lower
// bound (Certify), the plans of other methods and planners (Baselines, Compare, FreeSlices), and
// times on hardware (Measure). Package replan plans again from an old plan.
//
// Prices is the choice of the cost model. Evaluate validates and judges a placement that
// was made elsewhere, Price estimates the times of a plan, PriceStep its whole training step,
// and Alternatives says for each table which other place would be the cheapest.
package neuroshard

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// Version is the version of this module. Releases set it when they are linked.
var Version = "0.1.0-dev"

// Options are the options of a Planner. The zero value plans with the default method and with
// the pre-trained model of the topology's profile, as the command does.
type Options struct {
	// Search are the options of the search: its method, seed, budget and events. If ShardingTypes
	// is nil, all sharding types are allowed, as in the command; but only slices of columns
	// (search.Columns) if samples were measured, because no measurement has others. A Planner
	// sets ColumnsOnly itself if Prices estimates only slices of columns in HBM, and always sets
	// Beside (planner.go).
	Search search.Options
	// Prices is what estimates the costs of placements; nil takes Pretrained.
	Prices Prices
	// Hidden is what the training system hides of the exchanges, for callers that know it
	// without a Step. It must be zero if Step has a dense part.
	Hidden plan.Hidden
	// Step is the whole training step to price: results have a Step. Its Problem and Shards
	// are ignored. A measured step without Shards is taken to be one of the plan itself. If its
	// dense part is known, all costs are exposed costs: what its stack hides of the exchanges is
	// free (step.Input.Hidden). If its stack reduces vectors inside hosts first, all costs count
	// that exchange, in the stack's number format. nil prices the embeddings alone, with nothing hidden.
	Step *step.Input
	// OnStep, if set, is called from the caller's goroutine when a Planner begins a step that is
	// not the first search, with what the step does: "the lower bound" or "baseline dim", for
	// example. Events of the search go to Search.OnEvent.
	OnStep func(step string)
	// Warnings are doubts about the input: for example, that the accesses of a table are
	// assumed. The plan lists them.
	Warnings []string
}

// Result is a validated plan with its costs and with the record of the search.
type Result struct {
	Plan *plan.Plan
	// Shards are the plan's shards by device.
	Shards [][]problem.Shard
	// Predicted is the estimate of the plan, device by device. Simulated is the cost of the
	// plan on the simulated device, which the search does not use; it has no devices if
	// the simulated device did not judge the plan (Judged).
	Predicted, Simulated plan.Breakdown
	// Lanes are the costs of the plan on the simulated device under each lane rule: Simulated
	// under the rule of the problem, and under the other one. They are 0 if the simulated
	// device did not judge the plan.
	Lanes Lanes
	// ModelError is the relative error, in percent, below which 95 % of the model's estimates
	// stay, as its card states it; 0 if that is not known.
	ModelError float64
	// Step is the whole training step of the plan; nil if Options.Step is nil.
	Step *Step
	// Optimal is true if the search tried all plans with undivided operators, so that none of
	// these plans has a lower predicted cost (search.Result.Optimal).
	Optimal bool
	// Status and Stats are those of the search, and zero values if there was no search.
	Status search.Status
	Stats  search.Stats

	// Bound is what Certify found: a lower bound on the simulated cost of every plan.
	Bound bound.Bound
	// Baselines are the plans of Baselines, in the order of search.Baselines, and of Compare.
	Baselines []Baseline
	// FreeSlices is the plan of FreeSlices, without the rules of the problem's engine; nil if there
	// is none. It is not more expensive than Plan as predicted.
	FreeSlices *Baseline
	// Measured is the measurement by which Measure chose the plan.
	Measured *Measured
	// Tried are the numbers of sharding groups that PlanReplicas tried, ascending; nil for a
	// plan of one number.
	Tried []Replication
	// Untried are the numbers of sharding groups that divide the devices and that a caller of
	// PlanReplicas had no problem for, ascending: the caller sets them, for reports.
	Untried []Untried
	// Dedup are the choices of deduplicated tables that Plan tried, the one without any first; nil if there
	// was no choice.
	Dedup []DedupChoice
	// Doubts are those about a move from an old plan (package replan). They come first in Warnings.
	Doubts []string
}

// Lanes are the costs of one placement under each lane rule: on an H200 neither rule
// holds exactly (problem.LaneRule, docs/RESULTS.md).
type Lanes struct{ Widest, Own unit.Millis }

// Judged reports whether the simulated device judged the plan. It judges if it simulates
// the cluster's profile and the estimates come from simulated samples or from TorchRec's
// formulas.
func (r *Result) Judged() bool { return len(r.Simulated.Devices) > 0 }

// Gap returns by how much the plan's simulated cost is above the bound, as a share of the
// bound. ok is false if there is no bound.
func (r *Result) Gap() (gap float64, ok bool) {
	if !r.Judged() || !(r.Bound.Total > 0) {
		return 0, false
	}
	return bound.Gap(r.Simulated.Cost, r.Bound.Total), true
}

// Warnings returns the plan's warnings, and one if the predicted and the simulated cost
// differ by more than the errors that the model's card states: the search may then have
// followed an error of the model. That warning is not in the plan, which does not state its
// simulated cost.
func (r *Result) Warnings() []string {
	all := slices.Concat(r.Doubts, r.Plan.Provenance.Warnings)
	if !r.Judged() || !(r.ModelError > 0) || !(r.Simulated.Cost > 0) {
		return all
	}
	off := 100 * math.Abs(float64(r.Predicted.Cost/r.Simulated.Cost)-1)
	if off > r.ModelError {
		all = append(all, fmt.Sprintf("the predicted cost is %.1f %% off the SIMULATED one, and the model's card states that 95 %% of its errors are below %.1f %%: this plan is harder to estimate than the samples of the model", off, r.ModelError))
	}
	return all
}

// Plan finds a plan for the problem and validates it. It fails with *problem.Invalid if
// the problem is not valid or has more than MaxPlanned tables, with *search.Infeasible if the search finds no placement that
// fits, with *search.Idle if a device stays empty and the problem's engine does not run
// that, with *search.NoShardingType if the allowed sharding types cannot place the tables,
// and with *StepError if opt.Step has no price. If ctx ends early, Plan returns the best plan so far with status
// search.Interrupted, or ctx's error if there is no plan yet.
func Plan(ctx context.Context, p *problem.Problem, opt Options) (*Result, error) {
	l, err := NewPlanner(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	return l.Plan(ctx)
}

// Evaluate returns for a given placement, as shards by device, what Plan returns for the
// placement that its search found: a validated plan with its estimate and its simulated
// cost. It fails with *problem.Invalid if the problem is not valid, with *plan.Invalid if the placement is
// not valid, and with *Unpriceable if opt.Prices does not estimate it. It ignores
// all fields of opt.Search except Method, Seed and ShardingTypes. If ctx
// ends first, Evaluate returns the error of ctx.
func Evaluate(ctx context.Context, p *problem.Problem, shards [][]problem.Shard, opt Options) (*Result, error) {
	l, err := NewPlanner(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	return l.Evaluate(ctx, shards)
}
