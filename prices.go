package neuroshard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/cost/torchrec"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// PriceList estimates the costs of one problem's placements. Trained models, TorchRec's
// formulas and the published prototype's nets implement it. It serves one search at a time.
type PriceList interface {
	// NewScorer returns an empty placement for the search. It is a search.Factory.
	NewScorer() search.Scorer
	// Price returns the estimate of a whole placement, shards listed by device. It must
	// not be called while a search uses Scorers of the list.
	Price(shards [][]problem.Shard) plan.Breakdown
	// Doubts returns the doubts about the estimate of a placement, one sentence each: for
	// example, that the placement is outside the range of the model's samples.
	Doubts(shards [][]problem.Shard) []string
	// Estimator returns the origin of the estimates, as plans state it.
	Estimator() plan.Estimator
	// Supports reports whether the list estimates slices in the form. Every list
	// estimates the zero form.
	Supports(form problem.Form) bool
}

// Hiding is an optional interface of PriceLists that estimate exposed costs: costs without
// what the training system hides of the exchanges.
type Hiding interface {
	// Hide sets what is hidden. It is called before all other methods, or not at all. It
	// fails if hidden.Check fails.
	Hide(hidden plan.Hidden) error
}

// Prices is the choice of what estimates the costs of placements. Pretrained, Trained,
// TorchRec, Prototype and Scored return one.
type Prices interface {
	// String names the choice: a model's id, for instance.
	String() string
	// Model returns the id of the model for a cluster. It fails if the choice has no
	// model for the cluster.
	Model(t hardware.Topology) (string, error)
	// List returns the price list of a valid problem, which must not change while the
	// list is in use. It fails if Model fails for the problem's cluster, if the problem has
	// tables that the choice does not estimate, or, with a *problem.Invalid, if the cluster
	// states what the choice does not read. Plan calls it for each of its searches, several
	// times for a search on several threads, and maybe at the same time. Lists of one problem
	// are used at the same time and give the same estimates. If ctx ends first, List returns the
	// error of ctx.
	List(ctx context.Context, p *problem.Problem) (PriceList, error)
}

// prices returns the choice made, or the default.
func (o Options) prices() Prices {
	if o.Prices == nil {
		return Pretrained()
	}
	return o.Prices
}

// exposed returns the options with Hidden set to what Step hides in the problem, and the problem to
// price: p with the exchange of the step's stack, in the number format in which that exchanges.
func (o Options) exposed(p *problem.Problem) (Options, *problem.Problem, error) {
	if o.Step == nil {
		return o, p, errors.Join(o.Hidden.Check(), p.Hierarchy.Check())
	}
	in := *o.Step
	in.Problem = p
	hidden, err := in.Hidden()
	hierarchy := in.Stack.Hierarchy()
	if err != nil || in.Dense == nil && !hierarchy.On() {
		return o, p, errors.Join(err, o.Hidden.Check(), p.Hierarchy.Check())
	}
	if in.Dense != nil && o.Hidden != (plan.Hidden{}) {
		return o, p, errors.New("both a step with a dense part and hidden times are stated: leave Options.Hidden zero")
	}
	if hierarchy.On() && p.Hierarchy.On() && p.Hierarchy != hierarchy {
		return o, p, errors.New("both a stack with a hierarchical exchange and a hierarchical exchange are stated: leave Problem.Hierarchy zero")
	}
	if in.Dense != nil {
		o.Hidden = hidden
	}
	priced, warning, err := inFormatOf(&in.Stack, p)
	if warning != "" {
		o.Warnings = append(slices.Clip(o.Warnings), warning)
	}
	if hierarchy.On() && hierarchy != priced.Hierarchy {
		other := *priced
		other.Hierarchy = hierarchy
		priced = &other
	}
	return o, priced, errors.Join(err, o.Hidden.Check(), priced.Hierarchy.Check())
}

// inFormatOf returns the problem in the number format in which the stack exchanges. A price
// list knows one format for both directions: if the stack has two, it is the wider one, and
// the warning says so. A problem that states a format narrower than fp32 must state the
// stack's.
func inFormatOf(stack *step.Stack, p *problem.Problem) (priced *problem.Problem, warning string, err error) {
	if stack.Forward == nil && stack.Backward == nil {
		return p, "", nil
	}
	forward, backward := p.CommPrecision, p.CommPrecision
	if stack.Forward != nil {
		forward = *stack.Forward
	}
	if stack.Backward != nil {
		backward = *stack.Backward
	}
	wider := forward
	if backward.Bytes() > wider.Bytes() {
		wider = backward
	}
	if p.CommPrecision != problem.FP32 && wider.Bytes() != p.CommPrecision.Bytes() {
		return p, "", &StepError{fmt.Errorf("stack %q exchanges in %v, and the problem states %v: state the same number format in both", stack.Name, wider, p.CommPrecision)}
	}
	if forward.Bytes() != backward.Bytes() {
		warning = fmt.Sprintf("the stack exchanges in %v forward and in %v backward: the search counts both in %v", forward, backward, wider)
	}
	if wider.Bytes() == p.CommPrecision.Bytes() {
		return p, warning, nil
	}
	other := *p
	other.CommPrecision = wider
	return &other, fmt.Sprintf("the times are those of exchanges in %v, as stack %q sends them, and the problem states none", wider, stack.Name), nil
}

// list returns the price list of a problem, of exposed costs if something is hidden.
func (o Options) list(ctx context.Context, p *problem.Problem) (PriceList, error) {
	prices, err := o.prices().List(ctx, p)
	if err != nil {
		return nil, err
	}
	if p.Hierarchy.On() && !countsHierarchy(prices) {
		return nil, &StepError{fmt.Errorf("cost model %s knows only flat exchanges, and the training system reduces vectors inside hosts first: choose a trained model, or a stack with flat exchanges", o.prices())}
	}
	if p.Hierarchy.On() && slices.ContainsFunc(p.Tables, func(t problem.Table) bool { return t.IndexDedup }) {
		return nil, &StepError{errors.New("the training system reduces vectors inside hosts first, and those of tables with index_dedup travel apart: choose a stack with flat exchanges")}
	}
	if o.Hidden == (plan.Hidden{}) {
		return prices, nil
	}
	hiding, ok := prices.(Hiding)
	if !ok {
		return nil, &StepError{fmt.Errorf("cost model %s does not tell exchanges from compute, so it cannot leave out exchanges that are hidden: choose a trained model, or a stack that hides none of them", o.prices())}
	}
	return prices, hiding.Hide(o.Hidden)
}

// countsHierarchy reports whether the list counts the problem's hierarchical exchange.
func countsHierarchy(prices PriceList) bool {
	h, ok := prices.NewScorer().(search.Hierarchical)
	return ok && h.HostSize() > 0
}

// Pretrained returns the choice of the models that ship with this package. The cluster's
// profile decides which model is used.
func Pretrained() Prices { return pretrainedModels{} }

type pretrainedModels struct{}

func (pretrainedModels) String() string { return "embedded" }

func (pretrainedModels) Model(t hardware.Topology) (string, error) {
	file, err := pretrained.File(t.Profile.Name)
	if err != nil {
		return "", err
	}
	return file.Manifest.ID, nil
}

func (pretrainedModels) List(ctx context.Context, p *problem.Problem) (PriceList, error) {
	file, err := pretrained.File(p.Topology.Profile.Name)
	if err != nil {
		return nil, err
	}
	model, err := cost.Load(file)
	if err != nil {
		return nil, err
	}
	return Trained(model, 0).List(ctx, p)
}

// Trained returns the choice of a trained model. riskPenalty, at least 0, is the number of
// standard deviations of an ensemble's members that the search adds to the members' mean
// (cost.Estimates.NewScorer). The plan's predicted times are the mean without it. It has no
// effect on a model that is not an ensemble.
func Trained(model *cost.Model, riskPenalty float64) Prices { return trained{model, riskPenalty} }

type trained struct {
	model       *cost.Model
	riskPenalty float64
}

func (t trained) String() string {
	if t.riskPenalty > 0 {
		return fmt.Sprintf("%s, risk penalty %v", t.model.Manifest().ID, t.riskPenalty)
	}
	return t.model.Manifest().ID
}

func (t trained) Model(on hardware.Topology) (string, error) {
	return t.model.Manifest().ID, t.model.FitsProfile(on)
}

func (t trained) List(ctx context.Context, p *problem.Problem) (PriceList, error) {
	if err := unread(&p.Topology); err != nil {
		return nil, err
	}
	estimates, err := cost.NewEstimates(ctx, t.model, p)
	if err != nil {
		return nil, err
	}
	// Not for tables that are both in host memory and cut by rows or replicated.
	supports := func(form problem.Form) bool {
		return !form.Tier.OnHost() || !form.ShardingType.Joint() && form.Blocks == 0
	}
	return trainedList{origin{t.model.Estimator(), supports}, t, p, estimates}, nil
}

// unread returns a *problem.Invalid if the topology states bandwidths or multipliers, which nets do
// not read: their samples are of the device profile.
func unread(t *hardware.Topology) error {
	var faults []problem.Fault
	if t.Bandwidths != (hardware.Bandwidths{}) {
		faults = append(faults, problem.Fault{
			Message: "the cluster states a bandwidth of links, device memory or host memory, which only TorchRec's formulas read",
			Hint:    "plan with the model torchrec, or leave the bandwidth out and choose the device profile",
		})
	}
	if t.Multipliers != (hardware.Multipliers{}) {
		faults = append(faults, problem.Fault{
			Message: "the cluster states a multiplier of the backward, which only TorchRec's formulas read",
			Hint:    "plan with the model torchrec, or leave the multiplier out: this cost model estimates the backward from its samples",
		})
	}
	if len(faults) == 0 {
		return nil
	}
	return &problem.Invalid{Faults: faults}
}

// untimed returns a *problem.Invalid if the topology states fixed compute, which the named costs do
// not add.
func untimed(t *hardware.Topology, costs string) error {
	if t.FixedTimes() == nil {
		return nil
	}
	return &problem.Invalid{Faults: []problem.Fault{{
		Message: "a fixed load states a time, which " + costs + " does not add",
		Hint:    "leave its time out, or plan with a trained model or the model torchrec",
	}}}
}

// origin is what price lists have alike: where their estimates come from, and no doubts.
type origin struct {
	by       plan.Estimator
	supports func(problem.Form) bool
}

func (origin) Doubts([][]problem.Shard) []string { return nil }

func (o origin) Estimator() plan.Estimator { return o.by }

func (o origin) Supports(form problem.Form) bool { return o.supports(form) }

type trainedList struct {
	origin
	trained
	problem *problem.Problem
	*cost.Estimates
}

func (l trainedList) NewScorer() search.Scorer { return l.Estimates.NewScorer(l.riskPenalty) }

func (l trainedList) Doubts(shards [][]problem.Shard) []string {
	return l.model.Doubts(l.problem, shards)
}

// TorchRec returns the choice of the closed formulas of TorchRec's own planner (package
// torchrec), as in the newest release that is known.
func TorchRec() Prices { return TorchRecOf(problem.NewestTorchRec()) }

// TorchRecOf returns the same as in a release of TorchRec.
func TorchRecOf(r problem.TorchRecRelease) Prices { return formulas{r} }

type formulas struct{ release problem.TorchRecRelease }

func (f formulas) String() string { return f.release.Model() }

func (f formulas) Model(hardware.Topology) (string, error) { return f.release.Model(), nil }

func (f formulas) List(_ context.Context, p *problem.Problem) (PriceList, error) {
	by := plan.Estimator{
		Model: f.release.Model(), ModelSource: plan.ClosedForm,
		Note: "times are those of the closed formulas of TorchRec's own planner, neither predicted by a trained model nor measured",
	}
	// TorchRec's planner has no rows on devices that a plan chose.
	return formulaList{origin{by, func(form problem.Form) bool { return form.Blocks == 0 }}, torchrec.NewEstimates(p, f.release)}, nil
}

type formulaList struct {
	origin
	*torchrec.Estimates
}

func (l formulaList) NewScorer() search.Scorer { return l.Estimates.NewScorer() }

// Prototype returns the choice of the published prototype's nets. The nets were not
// trained on the simulated device, so the simulated device does not judge their plans. The
// nets must not change while the choice is in use.
func Prototype(models *prototype.Models) Prices {
	hash := sha256.New()
	// No error is possible: finite numbers always encode, and a hash takes every write.
	_ = json.NewEncoder(hash).Encode(models)
	return nets{models, "prototype-" + hex.EncodeToString(hash.Sum(nil))[:12]}
}

type nets struct {
	models *prototype.Models
	// id holds a digest of the nets' numbers.
	id string
}

func (n nets) String() string { return n.id }

func (n nets) Model(t hardware.Topology) (string, error) {
	if got, want := t.Devices, n.models.Devices(); got != want {
		return "", fmt.Errorf("%d devices, but the comm nets are for %d", got, want)
	}
	return n.id, nil
}

func (n nets) List(_ context.Context, p *problem.Problem) (PriceList, error) {
	if err := errors.Join(unread(&p.Topology), untimed(&p.Topology, n.id)); err != nil {
		return nil, err
	}
	estimates, err := n.models.NewEstimates(p)
	if err != nil {
		return nil, err
	}
	return netList{origin{plan.Estimator{Model: n.id, ModelSource: plan.Published}, plainSlice}, estimates}, nil
}

type netList struct {
	origin
	*prototype.Estimates
}

func (l netList) NewScorer() search.Scorer { return l.Estimates.NewScorer() }

// plainSlice reports whether the form is a slice of columns in HBM with no number of an operator.
func plainSlice(form problem.Form) bool {
	return !form.ShardingType.Joint() && !form.Tier.OnHost() && form.Operator == 0 && form.Blocks == 0
}

// beyondColumns reports whether the price list supports other forms than slices of columns
// in HBM.
func beyondColumns(prices PriceList) bool {
	return prices.Supports(problem.Form{ShardingType: problem.RowWise}) || prices.Supports(problem.Form{Tier: problem.Host})
}

// Unpriceable is the error of a plan that has tables in forms that the price list does not
// estimate.
type Unpriceable struct {
	// Tables are the names of these tables, in the plan's order.
	Tables []string
	// Why says which forms are not estimated.
	Why string
}

// Error names the first of the tables.
func (e *Unpriceable) Error() string { return e.Why + ": " + words.Quoted(e.Tables, 3) }

// priceable returns nil, or an *Unpriceable.
func priceable(pl *plan.Plan, prices PriceList) error {
	var tables []string
	chosen := false
	for i := range pl.Tables {
		t := &pl.Tables[i]
		blocks := t.Blocks(&pl.Cluster)
		if slices.ContainsFunc(t.Shards, func(s plan.Shard) bool {
			return !prices.Supports(problem.Form{ShardingType: t.ShardingType, Tier: s.Tier, Cache: s.Cache, Operator: t.Operator, Blocks: blocks})
		}) {
			tables = append(tables, t.Name)
			chosen = chosen || blocks > 0
		}
	}
	if len(tables) == 0 {
		return nil
	}
	e := &Unpriceable{tables, "no model estimates tables that are cut by rows or replicated and also in host memory"}
	switch {
	case !beyondColumns(prices):
		e.Why = "only slices of columns in HBM can be estimated, and the plan has tables in other forms"
	case chosen:
		e.Why = "rows on devices that a plan chose are estimated only by trained models, and the plan has such tables"
	}
	return e
}

// Price writes the estimate into a plan for p that another tool may have made: the
// predicted times, the model that predicted them, and the warnings. p must be valid, and
// the plan must place every table on devices that exist; Price does not check whether the
// plan fits or keeps to constraints. It fails with *Unpriceable, and does not change the
// plan, if the plan has tables that opt.Prices does not estimate. It uses opt.Prices,
// opt.Step, opt.Hidden and opt.Warnings only. If ctx ends first, Price returns the
// error of ctx.
func Price(ctx context.Context, pl *plan.Plan, p *problem.Problem, opt Options) error {
	p = pl.Decided(p)
	opt, priced, err := opt.exposed(p)
	if err != nil {
		return err
	}
	prices, err := opt.list(ctx, priced)
	if err != nil {
		return err
	}
	return estimate(pl, priced, prices, pl.ByDevice(), "", &opt)
}

// estimate writes the estimate of a placement into its plan: the times, the model that
// predicted them, what they assume to be hidden, the exchange of the priced problem, and the warnings.
func estimate(pl *plan.Plan, priced *problem.Problem, prices PriceList, shards [][]problem.Shard, status search.Status, opt *Options) error {
	if err := priceable(pl, prices); err != nil {
		return err
	}
	pl.SetBreakdown(prices.Price(shards))
	by := prices.Estimator()
	pl.Provenance.Model, pl.Provenance.ModelSource = by.Model, by.ModelSource
	pl.Provenance.Hidden, pl.Provenance.Hierarchy = opt.Hidden, priced.Hierarchy
	pl.Provenance.Warnings = warnings(prices, shards, status, slices.Concat(opt.Warnings, problem.Undecided(priced)))
	return nil
}

// warnings returns the doubts about a placement's estimate, then the input's warnings,
// then those that say how the plan was made.
func warnings(prices PriceList, shards [][]problem.Shard, status search.Status, input []string) []string {
	all := append(slices.Clone(prices.Doubts(shards)), input...)
	if note := prices.Estimator().Note; note != "" {
		all = append(all, note)
	}
	switch status {
	case search.Interrupted:
		all = append(all, "the search was interrupted: this is the best plan found until then")
	case search.OutOfTime:
		all = append(all, "the search was ended by its budget of time: another run may find another plan")
	}
	return all
}

// Scored returns the choice of a caller's own cost model, under the given name. newFactory
// returns, for a valid problem, a factory of the model's Scorers, or an error if the model
// does not estimate the problem. Plan asks the Scorers for slices of columns in HBM only,
// and the problem must not change while they are in use; package searchtest checks a Scorer.
//
// A Scorer does not divide its estimate by phases of a step. So in the plan, Forward is a
// device's whole Compute, and ForwardComm is the rest of the cost. A model that estimates
// phases or other forms can implement Prices itself.
func Scored(name string, newFactory func(p *problem.Problem) (search.Factory, error)) Prices {
	return scored{name, newFactory}
}

type scored struct {
	name       string
	newFactory func(p *problem.Problem) (search.Factory, error)
}

func (s scored) String() string { return s.name }

func (s scored) Model(hardware.Topology) (string, error) { return s.name, nil }

func (s scored) List(_ context.Context, p *problem.Problem) (PriceList, error) {
	if err := untimed(&p.Topology, s.name); err != nil {
		return nil, err
	}
	factory, err := s.newFactory(p)
	if err != nil {
		return nil, fmt.Errorf("cost model %s: %w", s.name, err)
	}
	by := plan.Estimator{Model: s.name, ModelSource: plan.Custom, Note: "times are predicted by a cost model that is not part of neuroshard"}
	return scoredList{origin{by, plainSlice}, p, factory}, nil
}

type scoredList struct {
	origin
	problem *problem.Problem
	factory search.Factory
}

func (l scoredList) NewScorer() search.Scorer { return l.factory() }

func (l scoredList) Price(shards [][]problem.Shard) plan.Breakdown {
	scorer := l.factory()
	scorer.Reset()
	for d, held := range shards {
		for _, s := range held {
			scorer.Add(d, scorer.Item(s.Table, s.Dim(), l.problem.Form(s)))
		}
	}
	devices := make([]plan.StepTimes, len(shards))
	for d := range devices {
		compute := scorer.Compute(d) + scorer.Shared()
		devices[d] = plan.StepTimes{Forward: unit.Millis(compute), ForwardComm: unit.Millis(max(0, scorer.Cost()-compute))}
	}
	return plan.NewBreakdown(devices)
}
