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
// was made elsewhere, Price estimates the times of a plan, PriceStep its whole training step,
// and Alternatives says for each table which other place would be the cheapest.
package neuroshard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// Version is the version of this module. Releases set it when they are linked.
var Version = "0.1.0-dev"

// ComparedTables is the least number of tables for which Options.FreeSlices has a plan made if
// the problem's engine is TorchRec.
const ComparedTables = 24

// Options are the options of Plan. The zero value plans with the default method and with
// the pre-trained model of the topology's profile.
type Options struct {
	// Search are the options of the search: its method, seed, budget and events. If ShardingTypes
	// is nil, all sharding types are allowed, as in the command; but only slices of columns
	// (search.Columns) if plans or samples are measured, because no measurement has others. Plan sets ColumnsOnly itself if Prices estimates only slices of columns in HBM, and always sets
	// Beside (lanes.go).
	Search search.Options
	// Prices is what estimates the costs of placements; nil takes Pretrained.
	Prices Prices
	// Hidden is what the training system hides of the exchanges, for callers that know it
	// without a Step. It must be zero if Step has a dense part.
	Hidden plan.Hidden
	// Hierarchy is the hierarchical exchange of the training system, for callers that know it
	// without a Step; zero takes that of the problem. It must be zero if Step's stack has one.
	Hierarchy problem.Hierarchy
	// Baselines says to plan with each baseline method as well, for comparison.
	Baselines bool
	// Compared are plans of other planners, for comparison: each has an entry in Result.Baselines.
	// They do not change the plan. Their names must differ from each other, and from the methods
	// of package search.
	Compared []Compared
	// FreeSlices says, for a problem with an engine, to plan without the engine's rules as
	// well, for comparison. If the plan found there keeps to the rules and is cheaper, Plan
	// returns it. The search takes about twice the time. For TorchRec, a
	// problem of fewer than ComparedTables tables has no such plan: a training job waits for
	// it, and TorchRec's planner takes less than both searches.
	FreeSlices bool
	// OneLaneRule says to plan by the lane rule of the problem alone: of plans with nearly equal
	// costs, Plan then does not prefer the one that is cheap under the other rule, too (lanes.go).
	OneLaneRule bool
	// Certificate says to compute Result.Bound as well, if the plan has no rows on devices that
	// it chose (plan.Table.Blocks), which the bound leaves out: a lower bound on the simulated
	// cost of every plan (package bound). The bound is computed beside the search, unless the
	// search has one worker or a budget of time.
	Certificate bool
	// Step is the whole training step to price: Plan sets Result.Step. Its Problem and Shards
	// are ignored. A measured step without Shards is taken to be one of the plan itself. If its
	// dense part is known, all costs are exposed costs: what its stack hides of the exchanges is
	// free (step.Input.Hidden). If its stack reduces vectors inside hosts first, all costs count
	// that exchange, in the stack's number format. nil prices the embeddings alone, with nothing hidden.
	Step *step.Input
	// Measure, if not nil, has finalists run on a measurement backend, and the fastest is the plan
	// (measure.go). It needs method NeuroShard and prices of tables that backends run. Searches for
	// finalists have the options of Search, its budget among them.
	Measure *Measure
	// OnStep, if set, is called from Plan's goroutine when Plan begins a step after the search,
	// with what the step does: "the lower bound" or "baseline dim", for example. Events of the
	// search go to Search.OnEvent.
	OnStep func(step string)
	// Warnings are doubts about the input: for example, that the accesses of a table are
	// assumed. The plan lists them.
	Warnings []string
}

// Result is a plan with its costs and with the record of the search.
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
	// Bound is a lower bound on the simulated cost of every plan with the sharding types
	// and tiers that the search tries, and with divided operators if the search or the plan
	// divides them. It is the zero value if Options.Certificate is
	// false or the simulated device did not judge the plan. If the search tries more than
	// slices of columns in HBM, only Total is set.
	Bound bound.Bound
	// Step is the whole training step of the plan; nil if Options.Step is nil. Its Size is set
	// if Options.Baselines is true.
	Step *Step
	// Optimal is true if the search tried all plans with undivided operators, so that none of
	// these plans has a lower predicted cost (search.Result.Optimal).
	Optimal bool
	// Status and Stats are those of the search, and zero values if there was no search.
	Status search.Status
	Stats  search.Stats
	// Baselines are the plans of the baseline methods, in the order of search.Baselines, if
	// Options.Baselines is true; then those of Options.Compared, in their order.
	Baselines []Baseline
	// FreeSlices is the plan without the rules of the problem's engine; nil if
	// Options.FreeSlices is false, the problem has no engine or, for TorchRec, fewer than
	// ComparedTables tables, or the search was interrupted. It is
	// not more expensive than Plan as predicted: Plan itself is such a plan.
	FreeSlices *Baseline
	// Tried are the numbers of sharding groups that PlanReplicas tried, ascending; nil for a
	// plan of one number.
	Tried []Replication
	// Untried are the numbers of sharding groups that divide the devices and that a caller of
	// PlanReplicas had no problem for, ascending: the caller sets them, for reports.
	Untried []Untried
	// Measured is the measurement by which the plan was chosen; nil if Options.Measure is nil, or
	// if the search or the measurement was interrupted.
	Measured *Measured
	// From is the re-plan that the plan comes from; nil for a plan of Plan or Evaluate.
	From *Replanned
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
// simulated cost. The doubts about a transfer from an old plan come first.
func (r *Result) Warnings() []string {
	all := append(r.From.doubts(), r.Plan.Provenance.Warnings...)
	if !r.Judged() || !(r.ModelError > 0) || !(r.Simulated.Cost > 0) {
		return all
	}
	off := 100 * math.Abs(float64(r.Predicted.Cost/r.Simulated.Cost)-1)
	if off > r.ModelError {
		all = append(all, fmt.Sprintf("the predicted cost is %.1f %% off the SIMULATED one, and the model's card states that 95 %% of its errors are below %.1f %%: this plan is harder to estimate than the samples of the model", off, r.ModelError))
	}
	return all
}

// Baseline is the outcome of a baseline method, or of another planner, for the same problem.
type Baseline struct {
	Method search.Method
	// Valid is false if the method found no plan that fits. The costs are then 0, unless
	// another planner has a plan that breaks a rule of the problem.
	Valid bool
	// Reason says why another planner has no valid plan; empty for a baseline method.
	Reason string
	// Wall is the time that another planner took; 0 if it is not known.
	Wall unit.Millis
	// Plan is the plan of another planner, as Options.Compared has it; nil without a plan, and for
	// a baseline method. It must not be modified.
	Plan *plan.Plan
	// Memory is the most bytes that Plan uses of a device, as the problem counts them; 0 without a
	// plan.
	Memory unit.Bytes
	// Predicted is the plan's estimated cost. Simulated is its cost on the simulated
	// device, or 0 if the simulated device does not judge.
	Predicted, Simulated unit.Millis
}

// Plan finds a plan for the problem and validates it. It fails with *problem.Invalid if
// the problem is not valid or has more than MaxPlanned tables, with *search.Infeasible if the search finds no placement that
// fits, with *search.Idle if a device stays empty and the problem's engine does not run
// that, with *search.NoShardingType if the allowed sharding types cannot place the tables,
// with *StepError if opt.Step has no price, and with *MeasureError if the finalists of
// opt.Measure cannot be run. If ctx ends early, Plan returns the best plan so far with status
// search.Interrupted, or ctx's error if there is no plan yet.
func Plan(ctx context.Context, p *problem.Problem, opt Options) (*Result, error) {
	if err := checkPlanned(p); err != nil {
		return nil, err
	}
	l, err := newLine(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	if err := checkMeasure(l); err != nil {
		return nil, err
	}
	if l.opt.Search.Beside, err = l.beside(ctx); err != nil {
		return nil, err
	}
	free, err := freeOf(ctx, l)
	if err != nil {
		return nil, err
	}
	l.certificate = certify(ctx, l)
	defer l.certificate.stop()
	free.begin(ctx)
	defer free.stop()
	found, err := l.search(ctx, l.opt.Search)
	if err == nil {
		found, err = bestFinalist(ctx, l, found)
	}
	if err != nil {
		return nil, err
	}
	compared, err := free.compare(ctx, &found)
	if err != nil {
		return nil, err
	}
	found, measured, err := measure(ctx, l, found)
	if err != nil {
		return nil, err
	}
	result, err := l.finish(ctx, found)
	if err == nil {
		result.FreeSlices = compared
		measured.describe(result)
	}
	return result, err
}

// MaxPlanned is the most tables that Plan and Replan take. The search of 60,000 tables on 4,096
// devices takes up to a minute (docs/RESULTS.md), and that of a million tables takes too
// long to wait for.
const MaxPlanned = 1 << 17

// checkPlanned returns *problem.Invalid if the problem is not valid or has too many tables.
func checkPlanned(p *problem.Problem) error {
	if n := len(p.Tables); n > MaxPlanned {
		return &problem.Invalid{Faults: []problem.Fault{{
			Message: fmt.Sprintf("%d tables: a plan has at most %d", n, MaxPlanned),
			Hint:    "plan parts of the tables, each for devices of its own",
		}}}
	}
	return p.Validate()
}

// finish returns the placement that a search found as a validated plan, with the baselines and
// the whole step that the options ask for. opt.Compared must have been checked.
func (l *line) finish(ctx context.Context, found search.Result) (*Result, error) {
	// A search that ctx ended has a plan, which is finished.
	result, err := l.result(context.WithoutCancel(ctx), found)
	if invalid := (*plan.Invalid)(nil); errors.As(err, &invalid) {
		return nil, fmt.Errorf("the plan found is not valid, which is a bug of the planner: %w", err)
	}
	if err == nil && l.opt.Baselines {
		result.Baselines, err = l.baselines(ctx)
	}
	if err == nil {
		var others []Baseline
		others, err = compared(l)
		result.Baselines = append(result.Baselines, others...)
	}
	if err == nil {
		err = wholeStep(l, result)
	}
	return result, err
}

// Evaluate returns for a given placement, as shards by device, what Plan returns for the
// placement that its search found: a validated plan with its estimate and its simulated
// cost. The problem must be valid. Evaluate fails with *plan.Invalid if the placement is
// not valid, and with *Unpriceable if opt.Prices does not estimate it. It ignores
// opt.Baselines, and all fields of opt.Search except Method, Seed and ShardingTypes. If ctx
// ends first, Evaluate returns the error of ctx.
func Evaluate(ctx context.Context, p *problem.Problem, shards [][]problem.Shard, opt Options) (*Result, error) {
	l, err := newLine(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	if p.Engine.Rules().AnyDevices {
		shards = plan.New(p, shards).ByDevice() // with Shard.Blocks, which a caller may leave out
	}
	result, err := l.result(ctx, search.Result{Shards: shards})
	if err == nil {
		result.Baselines, err = compared(l)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = wholeStep(l, result)
	}
	return result, err
}

// line is a problem with what the steps from a problem to a plan need.
type line struct {
	problem *problem.Problem
	// stated is the problem of the caller. Replan narrows problem for some engines.
	stated *problem.Problem
	// priced is the problem in the number format in which the stack exchanges.
	priced *problem.Problem
	opt    Options
	prices PriceList
	// judge is nil if the simulated device does not judge (see simulated).
	judge *simulate.Pricer
	// size is the placement of baseline Size, by device; nil if there is none.
	size [][]problem.Shard
	// certificate is the lower bound that is computed beside the search; nil if there is none.
	certificate *certificate
}

func newLine(ctx context.Context, p *problem.Problem, opt Options) (*line, error) {
	if err := errors.Join(checkStep(p, &opt), checkCompared(p, opt.Compared)); err != nil {
		return nil, err
	}
	opt, priced, err := opt.exposed(p)
	if err != nil {
		return nil, err
	}
	prices, err := opt.list(ctx, priced)
	if err != nil {
		return nil, err
	}
	if opt.Search.Method == "" {
		opt.Search.Method = search.Default
	}
	if opt.Search.ShardingTypes == nil {
		opt.Search.ShardingTypes = opt.usualTypes(prices)
	}
	l := &line{problem: p, stated: p, priced: priced, opt: opt, prices: prices}
	if simulated(p.Topology.Profile, prices.Estimator().ModelSource) {
		l.judge, err = judge(ctx, priced, opt.Hidden)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// judge returns the simulated device's prices of a problem.
func judge(ctx context.Context, p *problem.Problem, hidden plan.Hidden) (*simulate.Pricer, error) {
	pricer, err := simulate.NewPricerContext(ctx, p)
	if err != nil {
		return nil, err
	}
	return pricer.Hiding(hidden)
}

// usualTypes returns the sharding types that are allowed if nobody states them.
func (o *Options) usualTypes(prices PriceList) []problem.ShardingType {
	source := prices.Estimator().ModelSource
	if o.Measure != nil || source != plan.Simulated && source != plan.ClosedForm {
		return search.Columns()
	}
	return problem.ShardingTypes()
}

// simulated reports whether the simulated device judges plans for the profile. It can
// simulate only the known GPUs. It does not judge estimates that come from measured
// samples or from the nets of another project.
func simulated(profile hardware.Profile, modelSource string) bool {
	return hardware.Known(profile.Name) && (modelSource == plan.Simulated || modelSource == plan.ClosedForm)
}

// search finds a placement for the line's problem.
func (l *line) search(ctx context.Context, opt search.Options) (search.Result, error) {
	return inMeanCuts(ctx, l, opt)
}

// searchIn finds a placement of p, which is the line's problem or one that allows fewer widths of
// slices, with the Scorers of the price list. Each device keeps the memory free that it needs for the backward
// (search.Options.BackwardRoom). If there is no such placement, or the search can try all placements, the
// tables are placed without that room.
func (l *line) searchIn(ctx context.Context, p *problem.Problem, opt search.Options) (search.Result, error) {
	opt.ColumnsOnly = opt.ColumnsOnly || !beyondColumns(l.prices)
	opt.ChosenRows = l.prices.Supports(problem.Form{Blocks: 2})
	opt.Apart = func() search.Factory { return l.apart(ctx) }
	if p.BackwardRoom() == 0 {
		return search.Run(ctx, p, l.prices.NewScorer, opt)
	}
	started, roomy := time.Now(), opt
	roomy.BackwardRoom, roomy.Brief = true, true
	found, err := search.Run(ctx, p, l.prices.NewScorer, roomy)
	// Any error may be for want of the room: the search without it says what is wrong.
	if err == nil && !found.Optimal {
		return found, nil
	}
	if opt.Budget > 0 {
		opt.Budget = max(time.Nanosecond, opt.Budget-time.Since(started))
	}
	return search.Run(ctx, p, l.prices.NewScorer, opt)
}

// apart returns the Factory of another price list of the problem, for searches on several threads
// (search.Options.Apart).
func (l *line) apart(ctx context.Context) search.Factory {
	opt := l.opt
	if t, ok := l.prices.(trainedList); ok {
		opt.Prices = t.trained // the model that is loaded already
	}
	prices, err := opt.list(ctx, l.priced)
	if err != nil {
		return nil // ctx ended: newLine made such a list. The search then has one thread
	}
	return prices.NewScorer
}

// result returns a placement as a validated plan, with its estimate, provenance, warnings
// and simulated cost.
func (l *line) result(ctx context.Context, found search.Result) (*Result, error) {
	pl := plan.New(l.problem, found.Shards)
	pl.Provenance = plan.Provenance{
		Tool: "neuroshard", Version: Version, Method: string(l.opt.Search.Method), Seed: l.opt.Search.Seed,
		Status: string(found.Status), Input: plan.Digest(l.problem),
	}
	if policy, ok := l.opt.Search.Policy.(interface{ ID() string }); ok {
		pl.Provenance.Policy = policy.ID()
	}
	sync, err := simulate.SyncOf(l.problem, found.Shards)
	if err != nil {
		return nil, err
	}
	pl.Sync = sync
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := estimate(pl, l.prices, found.Shards, found.Status, &l.opt); err != nil {
		return nil, err
	}
	if err := pl.Validate(l.problem); err != nil {
		return nil, err
	}
	result := &Result{
		Plan: pl, Shards: found.Shards, Predicted: pl.Breakdown(),
		ModelError: l.prices.Estimator().Error,
		Optimal:    found.Optimal, Status: found.Status, Stats: found.Stats,
	}
	if err := ctx.Err(); err != nil || l.judge == nil {
		return result, err
	}
	if result.Simulated, err = l.judge.Price(found.Shards); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := l.lanes(result); err != nil {
		return nil, err
	}
	if l.certified() && pl.Chosen() == 0 {
		l.begin("the lower bound")
		result.Bound, err = l.certificate.wait(ctx, l, l.allowed(pl))
	}
	return result, err
}

// chooses reports whether the search tries rows on chosen devices, which the bound leaves out.
func (l *line) chooses() bool {
	opt := l.opt.Search
	opt.ChosenRows = l.prices.Supports(problem.Form{Blocks: 2})
	return opt.Chooses(l.problem)
}

// begin tells the caller which step begins.
func (l *line) begin(step string) {
	if l.opt.OnStep != nil {
		l.opt.OnStep(step)
	}
}

// certified reports whether the result has a lower bound: if the options ask for one, the
// search minimises an estimate of simulated cost, and it tries no rows on chosen devices.
func (l *line) certified() bool {
	return l.opt.Certificate && l.judge != nil && l.prices.Estimator().ModelSource == plan.Simulated && !l.chooses()
}

// allowed returns the sharding types, tiers and operators that the search tries, for the
// bound; and operators if the plan found, if there is one yet, has some.
func (l *line) allowed(found *plan.Plan) bound.Allowed {
	a := bound.Allowed{Hidden: l.opt.Hidden, Operators: l.opt.Search.Divides(l.problem) || found != nil && found.Divided() > 0}
	if l.opt.Search.Method == search.NeuroShard && l.problem.Accounting != problem.CountWeights {
		a.ShardingTypes, a.Host = l.opt.Search.ShardingTypes, true
	}
	return a
}

// baselines plans with each baseline method. If a method finds no plan, that is not an
// error.
func (l *line) baselines(ctx context.Context) ([]Baseline, error) {
	var all []Baseline
	for _, method := range search.Baselines() {
		l.begin("baseline " + string(method))
		opt := l.opt.Search
		opt.Method, opt.OnEvent, opt.Brief = method, nil, true
		opt.Policy, opt.Samples = nil, 0
		found, err := l.search(ctx, opt)
		if refused(err) || ctx.Err() != nil {
			all = append(all, Baseline{Method: method})
			continue
		}
		if err != nil {
			return nil, err
		}
		if method == search.Size {
			l.size = found.Shards
		}
		one, err := l.baseline(method, found)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// refused reports whether a search found that it has no placement.
func refused(err error) bool {
	var infeasible *search.Infeasible
	var idle *search.Idle
	var noType *search.NoShardingType
	return errors.As(err, &infeasible) || errors.As(err, &idle) || errors.As(err, &noType)
}

// baseline returns the costs of a placement that is compared with the plan.
func (l *line) baseline(method search.Method, found search.Result) (Baseline, error) {
	one := Baseline{Method: method, Valid: true, Predicted: l.prices.Price(found.Shards).Cost}
	if l.judge == nil {
		return one, nil
	}
	simulated, err := l.judge.Price(found.Shards)
	one.Simulated = simulated.Cost
	return one, err
}
