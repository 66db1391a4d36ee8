package neuroshard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// Baseline is the outcome of a baseline method, or of another planner, for the same problem. Of
// another planner, a caller states Method, Plan or Reason, and Wall (Planner.Compare).
type Baseline struct {
	// Method is the method, or the name of the other planner.
	Method search.Method
	// Valid is false if the method found no plan that fits. The costs are then 0, unless
	// another planner has a plan that breaks a rule of the problem.
	Valid bool
	// Reason says in one line why another planner has no valid plan; empty for a baseline method.
	Reason string
	// Wall is the time that another planner took; 0 if it is not known.
	Wall unit.Millis
	// Plan is the plan of another planner; nil without a plan, and for a baseline method. Of its
	// cluster only the numbers of devices and of devices per host count: its placement is judged on
	// the cluster of the problem. It is not modified.
	Plan *plan.Plan
	// Memory is the most bytes that Plan uses of a device, as the problem counts them; 0 without a
	// plan.
	Memory unit.Bytes
	// Predicted is the plan's estimated cost. Simulated is its cost on the simulated
	// device, or 0 if the simulated device does not judge.
	Predicted, Simulated unit.Millis
}

// Check returns nil if b has no plan, or a plan that places p's tables, in p's order, on the
// numbers of devices and of devices per host that p has. Otherwise it returns a *plan.Invalid with
// what differs.
// The plan may break the other rules of p, such as its memory and its constraints. p must be valid.
func (b *Baseline) Check(p *problem.Problem) error {
	if b.Plan == nil {
		return nil
	}
	var foreign []plan.Violation
	has, want := b.Plan.Cluster, p.Topology
	if has.Devices != want.Devices || has.DevicesPerHost != want.PerHost() {
		message := fmt.Sprintf("the plan was made for %d devices, %d a host, the problem has %d, %d a host", has.Devices, has.DevicesPerHost, want.Devices, want.PerHost())
		foreign = append(foreign, plan.Violation{Rule: plan.RuleCluster, Shard: -1, Device: -1, Message: message})
	}
	for _, v := range violations(b.Plan.Validate(p)) {
		if v.Rule == plan.RuleTables {
			foreign = append(foreign, v)
		}
	}
	// Validate would also report sharding types and devices that only a constraint of p excludes.
	for _, v := range b.Plan.CheckTables() {
		if slices.Contains([]plan.Rule{plan.RuleCover, plan.RuleShardingType, plan.RuleDevice}, v.Rule) {
			foreign = append(foreign, v)
		}
	}
	if foreign == nil {
		return nil
	}
	return &plan.Invalid{Violations: foreign}
}

// violations returns the violations that Plan.Validate found.
func violations(err error) []plan.Violation {
	var invalid *plan.Invalid
	if !errors.As(err, &invalid) {
		return nil
	}
	return invalid.Violations
}

// Baselines sets r.Baselines to the plans of the baseline methods, in the order of
// search.Baselines. If a method finds no plan, or ctx ended before, that is not an error: its
// Baseline is not valid. If r has a whole step, Baselines sets that of baseline Size, too.
func (l *Planner) Baselines(ctx context.Context, r *Result) error {
	for _, method := range search.Baselines() {
		l.begin("baseline " + string(method))
		_, found, err := l.variant(ctx, func(other *Planner) { other.opt.Search.Method = method })
		if err != nil {
			return err
		}
		one := Baseline{Method: method}
		if found != nil {
			one, err = l.baseline(method, found.Shards)
		}
		if err != nil {
			return err
		}
		r.Baselines = append(r.Baselines, one)
		if found == nil {
			continue
		}
		if method != search.Size || r.Step == nil {
			continue
		}
		size, err := PriceStep(l.problem, found.Shards, r.Step.Input)
		if err != nil {
			return err
		}
		r.Step.Size = &size.Times
	}
	return nil
}

// variant finds a placement with other options, prices or another problem than the planner's, and
// returns what found it. There is no placement (nil) if none fits, or if ctx ended.
func (l *Planner) variant(ctx context.Context, change func(other *Planner)) (*Planner, *search.Result, error) {
	other := *l
	opt := &other.opt.Search
	opt.OnEvent, opt.Brief = nil, true
	change(&other)
	if opt.Method != l.opt.Search.Method {
		opt.Policy, opt.Samples = nil, 0
	}
	found, err := other.search(ctx, *opt)
	if ctx.Err() != nil || refused(err) || errors.Is(err, search.ErrOutOfTime) {
		return &other, nil, nil
	}
	return &other, &found, err
}

// baseline returns the costs of a placement that is compared with the plan.
func (l *Planner) baseline(method search.Method, shards [][]problem.Shard) (Baseline, error) {
	predicted, simulated, err := l.Costs(shards)
	return Baseline{Method: method, Valid: true, Predicted: predicted.Cost, Simulated: simulated.Cost}, err
}

// FreeSlices plans without the rules of the problem's engine and sets r.FreeSlices to that plan,
// or to r's if that is cheaper as predicted. It returns r; or, if the plan found keeps to the rules
// and is cheaper, that plan. There is no such plan, and FreeSlices returns r as it is, if the
// problem has no engine or, for TorchRec, fewer than ComparedTables tables, or if a search was
// interrupted or refused.
func (l *Planner) FreeSlices(ctx context.Context, r *Result) (*Result, error) {
	few := l.problem.Engine == problem.TorchRec && len(l.problem.Tables) < ComparedTables
	if l.problem.Engine == "" || few || r.Status == search.Interrupted {
		return r, nil
	}
	l.begin("free slices")
	anyEngine := *l.problem
	anyEngine.Engine = ""
	_, found, err := l.variant(ctx, func(free *Planner) { free.problem = &anyEngine })
	if err != nil || found == nil {
		return r, err // nothing to compare with
	}
	one, err := l.baseline(l.opt.Search.Method, found.Shards)
	if err != nil {
		return r, err
	}
	switch {
	case one.Predicted > r.Predicted.Cost:
		one.Predicted, one.Simulated = r.Predicted.Cost, r.Simulated.Cost
	case one.Predicted < r.Predicted.Cost && len(plan.New(l.problem, found.Shards).CheckEngine(l.problem.Engine.Rules())) == 0:
		if r, err = l.instead(ctx, r, *found); err != nil {
			return nil, err
		}
	}
	r.FreeSlices = &one
	return r, nil
}

// ComparedTables is the least number of tables for which FreeSlices has a plan made if
// the problem's engine is TorchRec: a training job waits for the plan, and TorchRec's planner takes
// less than both searches.
const ComparedTables = 24

// Compare adds the plans of other planners to r.Baselines. They do not change the plan. Their names
// must differ from each other, and from the methods of package search. It fails if a plan fails
// Baseline.Check.
func (l *Planner) Compare(r *Result, others []Baseline) error {
	taken := search.Methods()
	for i, one := range others {
		if one.Method == "" || slices.Contains(taken, one.Method) {
			return fmt.Errorf("compared plan %d: name %q is empty, is the name of a method, or is used twice", i, one.Method)
		}
		taken = append(taken, one.Method)
		err := one.Check(l.problem)
		if err == nil {
			err = l.judgeOther(&one)
		}
		if err != nil {
			return fmt.Errorf("the plan of %s: %w", one.Method, err)
		}
		r.Baselines = append(r.Baselines, one)
	}
	return nil
}

// judgeOther sets the costs of a compared plan, and the first rule of the problem that it breaks.
func (l *Planner) judgeOther(b *Baseline) error {
	if b.Plan == nil {
		b.Reason = cmp.Or(b.Reason, "it found no plan")
		return nil
	}
	pl := plan.New(l.problem, b.Plan.ByDevice())
	if err := priceable(pl, l.prices); err != nil {
		b.Reason = "no estimate: " + err.Error()
		return nil
	}
	shards := pl.ByDevice()
	var err error
	if pl.Sync, err = simulate.SyncOf(l.problem, shards); err != nil {
		return err
	}
	predicted, simulated, err := l.Costs(shards)
	b.Valid, b.Reason, b.Predicted, b.Simulated = true, "", predicted.Cost, simulated.Cost
	for d := range pl.Devices {
		b.Memory = max(b.Memory, pl.Devices[d].Memory.Used())
	}
	if broken := violations(pl.Validate(l.problem)); len(broken) > 0 {
		b.Valid, b.Reason = false, breach(broken)
	}
	return err
}

// breach says which rule a plan breaks: that of the memory if the plan breaks it, else the first
// one.
func breach(broken []plan.Violation) string {
	first := max(0, slices.IndexFunc(broken, func(v plan.Violation) bool { return v.Rule == plan.RuleMemory }))
	text := broken[first].String()
	if more := len(broken) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}
