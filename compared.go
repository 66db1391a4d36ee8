package neuroshard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// Compared is what another planner found for the same problem: its plan, or the reason why it
// has none.
type Compared struct {
	// Name names the planner. It is the method of its entry in Result.Baselines.
	Name search.Method
	// Plan is the planner's plan; nil if it found none. Plan does not modify it. Of its cluster
	// only the numbers of devices and of devices per host count: its placement is judged on the
	// cluster of the problem.
	Plan *plan.Plan
	// Reason says why the planner found no plan, in one line. It is ignored if Plan is set.
	Reason string
	// Wall is the time that the planner took; 0 if it is not known.
	Wall unit.Millis
}

// Check returns nil if c has no plan, or a plan that places p's tables, in p's order, on the
// numbers of devices and of devices per host that p has. Otherwise it returns a *plan.Invalid with
// what differs.
// The plan may break the other rules of p, such as its memory and its constraints. p must be valid.
func (c *Compared) Check(p *problem.Problem) error {
	if c.Plan == nil {
		return nil
	}
	var foreign []plan.Violation
	has, want := c.Plan.Cluster, p.Topology
	if has.Devices != want.Devices || has.DevicesPerHost != want.PerHost() {
		message := fmt.Sprintf("the plan was made for %d devices, %d a host, the problem has %d, %d a host", has.Devices, has.DevicesPerHost, want.Devices, want.PerHost())
		foreign = append(foreign, plan.Violation{Rule: plan.RuleCluster, Shard: -1, Device: -1, Message: message})
	}
	for _, v := range violations(c.Plan.Validate(p)) {
		if v.Rule == plan.RuleTables {
			foreign = append(foreign, v)
		}
	}
	// Validate would also report sharding types and devices that only a constraint of p excludes.
	for _, v := range c.Plan.CheckTables() {
		if slices.Contains([]plan.Rule{plan.RuleCover, plan.RuleShardingType, plan.RuleDevice}, v.Rule) {
			foreign = append(foreign, v)
		}
	}
	if foreign == nil {
		return nil
	}
	return &plan.Invalid{Violations: foreign}
}

// checkCompared checks the plans of other planners, and that each has a name of its own.
func checkCompared(p *problem.Problem, all []Compared) error {
	var errs []error
	taken := search.Methods()
	for i := range all {
		c := &all[i]
		if c.Name == "" || slices.Contains(taken, c.Name) {
			errs = append(errs, fmt.Errorf("compared plan %d: name %q is empty, is the name of a method, or is used twice", i, c.Name))
		}
		taken = append(taken, c.Name)
		if err := c.Check(p); err != nil {
			errs = append(errs, fmt.Errorf("the plan of %s: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// violations returns the violations that Plan.Validate found.
func violations(err error) []plan.Violation {
	var invalid *plan.Invalid
	if !errors.As(err, &invalid) {
		return nil
	}
	return invalid.Violations
}

// compared judges the plans of opt.Compared, which were checked before, as baselines.
func compared(l *line) ([]Baseline, error) {
	var all []Baseline
	for i := range l.opt.Compared {
		c := &l.opt.Compared[i]
		one, err := judged(l, c)
		if err != nil {
			return nil, fmt.Errorf("the plan of %s: %w", c.Name, err)
		}
		one.Method, one.Wall, one.Plan = c.Name, c.Wall, c.Plan
		all = append(all, one)
	}
	return all, nil
}

// judged returns the costs of a compared plan, and the first rule of the problem that it breaks.
func judged(l *line, c *Compared) (Baseline, error) {
	if c.Plan == nil {
		return Baseline{Reason: cmp.Or(c.Reason, "it found no plan")}, nil
	}
	pl := plan.New(l.stated, c.Plan.ByDevice())
	if err := priceable(pl, l.prices); err != nil {
		return Baseline{Reason: "no estimate: " + err.Error()}, nil
	}
	shards := pl.ByDevice()
	sync, err := simulate.SyncOf(l.stated, shards)
	if err != nil {
		return Baseline{}, err
	}
	pl.Sync = sync
	one, err := l.baseline(c.Name, search.Result{Shards: shards})
	for d := range pl.Devices {
		one.Memory = max(one.Memory, pl.Devices[d].Memory.Tables()+pl.Devices[d].Memory.Received)
	}
	if broken := violations(pl.Validate(l.stated)); len(broken) > 0 {
		one.Valid, one.Reason = false, breach(broken)
	}
	return one, err
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
