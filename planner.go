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
)

// MaxPlanned is the most tables that a Planner takes. The search of 60,000 tables on 4,096
// devices takes up to a minute, and that of a million tables takes too
// long to wait for.
const MaxPlanned = 1 << 17

// Planner is one problem with the prices of its placements. It finds and judges plans, and adds
// to a Result what a caller wants to know of its plan. It is for one goroutine.
type Planner struct {
	problem *problem.Problem
	// priced is the problem in the number format in which the stack exchanges.
	priced *problem.Problem
	// stated are the options as the caller states them, and opt what they come to: with the exchanges that a stack hides.
	stated, opt Options
	prices      PriceList
	// judge is nil if the simulated device does not judge (see simulated).
	judge *simulate.Pricer
	// beside are the Scorers of the other lane rule, nil if there are none, once besideKnown.
	beside      search.Factory
	besideKnown bool
	// choices are the Planners of all choices of deduplicated tables that Plan tried (dedup.go).
	choices []*Planner
}

// NewPlanner returns the Planner of a problem, which must not change while the Planner is in use.
// It fails if Check fails, with *StepError if opt.Step has no
// price, and if opt.Prices has no price list for the problem (Prices.List).
func NewPlanner(ctx context.Context, p *problem.Problem, opt Options) (*Planner, error) {
	if err := Check(p); err != nil {
		return nil, err
	}
	if err := checkStep(p, &opt); err != nil {
		return nil, err
	}
	stated := opt
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
		opt.Search.ShardingTypes = usualTypes(prices)
	}
	l := &Planner{problem: p, priced: priced, stated: stated, opt: opt, prices: prices}
	if simulated(p.Topology.Profile, prices.Estimator().ModelSource) {
		if l.judge, err = simulate.NewPricerContext(ctx, priced); err == nil {
			l.judge, err = l.judge.Hiding(opt.Hidden)
		}
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// usualTypes returns the sharding types that are allowed if nobody states them.
func usualTypes(prices PriceList) []problem.ShardingType {
	if source := prices.Estimator().ModelSource; source != plan.Simulated && source != plan.ClosedForm {
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

// Options returns the options, with the defaults of the search's method and sharding types.
func (l *Planner) Options() Options { return l.opt }

// Plan finds a plan and validates it, as the function Plan does. If tables have ChooseDedup, l becomes the Planner of
// the problem in which the plan has decided them.
func (l *Planner) Plan(ctx context.Context) (*Result, error) {
	if choices := problem.DedupChoices(l.problem); len(choices) > 1 && !l.priced.Hierarchy.On() {
		found, tried, err := l.chooseDedup(ctx, choices)
		if err != nil {
			return nil, err
		}
		result, err := l.Found(ctx, found)
		if err == nil {
			result.Dedup = tried
		}
		return result, err
	}
	found, err := l.Search(ctx, l.opt.Search)
	if err != nil {
		return nil, err
	}
	return l.Found(ctx, found)
}

// Check returns *problem.Invalid if a problem is not valid, or has more than MaxPlanned tables.
func Check(p *problem.Problem) error {
	if n := len(p.Tables); n > MaxPlanned {
		return &problem.Invalid{Faults: []problem.Fault{{
			Message: fmt.Sprintf("%d tables: a plan has at most %d", n, MaxPlanned),
			Hint:    "plan parts of the tables, each for devices of its own",
		}}}
	}
	return p.Validate()
}

// Search finds a placement with other options of the search than those of the Planner. It takes
// the best finalist (finalists.go), unless opt.From is set. Errors are those of Plan.
func (l *Planner) Search(ctx context.Context, opt search.Options) (search.Result, error) {
	found, err := l.search(ctx, opt)
	if err == nil && opt.From == nil {
		found, err = bestFinalist(ctx, l, opt, found)
	}
	return found, err
}

// Found returns the placement that a search found as a validated plan with its costs. It does so
// even if ctx has ended: a search that ctx ended has a plan.
func (l *Planner) Found(ctx context.Context, found search.Result) (*Result, error) {
	result, err := l.result(context.WithoutCancel(ctx), found)
	if invalid := (*plan.Invalid)(nil); errors.As(err, &invalid) {
		return nil, fmt.Errorf("the plan found is not valid, which is a bug of the planner: %w", err)
	}
	return result, err
}

// instead returns another placement than r's as a Result, with what was added to r.
func (l *Planner) instead(ctx context.Context, r *Result, found search.Result) (*Result, error) {
	other, err := l.Found(ctx, found)
	if err == nil {
		other.FreeSlices, other.Tried, other.Untried, other.Doubts, other.Dedup = r.FreeSlices, r.Tried, r.Untried, r.Doubts, r.Dedup
	}
	return other, err
}

// Evaluate validates and judges a placement that was made elsewhere, as the function Evaluate does.
func (l *Planner) Evaluate(ctx context.Context, shards [][]problem.Shard) (*Result, error) {
	if l.problem.Engine.Rules().AnyDevices {
		shards = plan.New(l.problem, shards).ByDevice() // with Shard.Blocks, which a caller may leave out
	}
	return l.result(ctx, search.Result{Shards: shards})
}

// Costs returns the predicted cost of a placement, and the one on the simulated device; 0 if that
// does not judge.
func (l *Planner) Costs(shards [][]problem.Shard) (predicted, simulated plan.Breakdown, err error) {
	predicted = l.prices.Price(shards)
	if l.judge != nil {
		simulated, err = l.judge.Price(shards)
	}
	return predicted, simulated, err
}

// Judges reports whether the simulated device judges plans (Result.Judged).
func (l *Planner) Judges() bool { return l.judge != nil }

// Priceable returns an *Unpriceable if the prices do not estimate the plan.
func (l *Planner) Priceable(pl *plan.Plan) error { return priceable(pl, l.prices) }

// search finds a placement for the planner's problem.
func (l *Planner) search(ctx context.Context, opt search.Options) (_ search.Result, err error) {
	if !l.besideKnown && opt.Method == search.NeuroShard {
		if l.beside, err = l.otherLanes(ctx); err != nil {
			return search.Result{}, err
		}
		l.besideKnown = true
	}
	opt.Beside = l.beside
	return inMeanCuts(ctx, l, opt)
}

// searchIn finds a placement of p, which is the planner's problem or one that allows fewer widths of
// slices, with the Scorers of the price list.
func (l *Planner) searchIn(ctx context.Context, p *problem.Problem, opt search.Options) (search.Result, error) {
	opt.ColumnsOnly = opt.ColumnsOnly || !beyondColumns(l.prices)
	opt.ChosenRows = l.prices.Supports(problem.Form{Blocks: 2})
	opt.Apart = func() search.Factory { return l.apart(ctx) }
	return search.Run(ctx, p, l.prices.NewScorer, opt)
}

// apart returns the Factory of another price list of the problem, for searches on several threads
// (search.Options.Apart).
func (l *Planner) apart(ctx context.Context) search.Factory {
	opt := l.opt
	if t, ok := l.prices.(trainedList); ok {
		opt.Prices = t.trained // the model that is loaded already
	}
	prices, err := opt.list(ctx, l.priced)
	if err != nil {
		return nil // ctx ended: NewPlanner made such a list. The search then has one thread
	}
	return prices.NewScorer
}

// On an H200 neither lane rule holds exactly (problem.LaneRule, docs/RESULTS.md). So a plan is
// priced under both rules (Result.Lanes). The search goes by LanesByWidest, which the code
// of FBGEMM's kernels says, and takes from plans of nearly equal cost one that is cheap
// under LanesByTable, too (search.Options.Beside). A problem that states LanesByTable says that
// the rule is known, and has one price list.

// otherLanes returns the Scorers of the problem under LanesByTable. It returns nil if the
// problem states that rule, if the rule cannot matter, or if the prices know no lanes.
func (l *Planner) otherLanes(ctx context.Context) (search.Factory, error) {
	if l.problem.LaneRule != problem.LanesByWidest || l.prices.Estimator().ModelSource != plan.Simulated || !mixesLanes(l.problem) {
		return nil, nil
	}
	own := *l.priced
	own.LaneRule = problem.LanesByTable
	prices, err := l.opt.list(ctx, &own)
	if err != nil {
		return nil, err
	}
	return prices.NewScorer, nil
}

// mixesLanes reports whether two tables that are looked up would have different lanes, each
// alone.
func mixesLanes(p *problem.Problem) bool {
	first := 0
	for i := range p.Tables {
		t := &p.Tables[i]
		if t.PoolingFactor() == 0 {
			continue
		}
		lanes := p.Topology.Profile.Lanes(t.Dim)
		if first == 0 {
			first = lanes
		}
		if lanes != first {
			return true
		}
	}
	return false
}

// result returns a placement as a validated plan, with its estimate, provenance, warnings,
// simulated cost and whole step.
func (l *Planner) result(ctx context.Context, found search.Result) (*Result, error) {
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
	if err := estimate(pl, l.priced, l.prices, found.Shards, found.Status, &l.opt); err != nil {
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
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.judge != nil {
		if err := l.simulate(result); err != nil {
			return nil, err
		}
	}
	if l.opt.Step != nil {
		result.Step, err = PriceStep(l.problem, found.Shards, *l.opt.Step)
	}
	return result, errors.Join(err, ctx.Err())
}

// simulate sets the costs of the result on the simulated device, under each lane rule.
func (l *Planner) simulate(r *Result) (err error) {
	if r.Simulated, err = l.judge.Price(r.Shards); err != nil {
		return err
	}
	r.Lanes = Lanes{Widest: r.Simulated.Cost, Own: r.Simulated.Cost}
	other, cost := problem.LanesByTable, &r.Lanes.Own
	if l.problem.LaneRule == other {
		other, cost = problem.LanesByWidest, &r.Lanes.Widest
	}
	simulated, err := l.judge.Under(other).Price(r.Shards)
	*cost = simulated.Cost
	return err
}

// begin tells the caller which step begins.
func (l *Planner) begin(step string) {
	if l.opt.OnStep != nil {
		l.opt.OnStep(step)
	}
}

// Certify sets r.Bound, a lower bound on the simulated cost of every plan with the sharding types
// and tiers that the search tries, and with divided operators if the search or the plan divides
// them. If the search tries more than slices of columns in HBM, only its Total is set. There is no
// bound, and Certify does nothing, if the search does not minimise an estimate of simulated cost, or
// tries rows on devices that it chooses, or if the plan has such rows (plan.Table.Blocks).
func (l *Planner) Certify(ctx context.Context, r *Result) error {
	opt := l.opt.Search
	opt.ChosenRows = l.prices.Supports(problem.Form{Blocks: 2})
	if l.judge == nil || l.prices.Estimator().ModelSource != plan.Simulated || opt.Chooses(l.problem) || r.Plan.Chosen() > 0 {
		return nil
	}
	l.begin("the lower bound")
	a := bound.Allowed{Hidden: l.opt.Hidden, Operators: opt.Divides(l.problem) || r.Plan.Divided() > 0}
	if opt.Method == search.NeuroShard && l.problem.Accounting != problem.CountWeights {
		a.ShardingTypes, a.Host = opt.ShardingTypes, true
	}
	var err error
	r.Bound, err = l.lowest(ctx, a)
	return err
}

// refused reports whether a search found that it has no placement.
func refused(err error) bool {
	var infeasible *search.Infeasible
	var idle *search.Idle
	var noType *search.NoShardingType
	return errors.As(err, &infeasible) || errors.As(err, &idle) || errors.As(err, &noType)
}
