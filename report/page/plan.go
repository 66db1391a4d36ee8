package page

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// Input is a plan to show, with everything that the page shows about it. Only Plan must be set.
type Input struct {
	// Name is the plan's name on the page, such as its file, and Model the name of what was planned; it
	// may be empty.
	Name, Model string
	Plan        *plan.Plan
	// Problem is the plan's problem, for which the plan must be valid; nil if only the plan is known.
	Problem *problem.Problem
	// Result judges the plan: what neuroshard.Plan returned, or what Judge computed. nil if
	// nothing judged the plan.
	Result *neuroshard.Result
	// Alternatives are the cheapest other places of the tables, nil for tables whose
	// alternative was not computed, and AlternativesOf is the cost that they are compared with.
	Alternatives   []*neuroshard.Alternative
	AlternativesOf unit.Millis
	// Step is the whole training step; nil if it was not priced.
	Step *neuroshard.Step
	// Warnings are warnings about the input, in addition to those in the plan.
	Warnings []string
	// Missing are sentences. Each says what could not be computed, and which input to add.
	Missing []string
}

// Title returns the title of a page of plans: their models and GPUs.
func Title(plans ...*Input) string {
	var parts []string
	for i, in := range plans {
		part := cmp.Or(in.Model, in.Name)
		if i > 0 && in.Model != "" && in.Model == plans[0].Model {
			part = ""
		}
		parts = append(parts, strings.TrimSpace(part+" on "+report.GPUs(in.Plan)))
	}
	if len(parts) == 2 && strings.HasSuffix(parts[0], parts[1]) {
		return parts[0] + ", before and after"
	}
	return strings.Join(parts, " and ")
}

// tieOfCosts is the share by which two estimates of one plan may differ without a warning.
const tieOfCosts = 0.001

// New returns the data of a plan. It fails if a shard lies on a device that the plan does not
// have; other violations become warnings of the page.
func New(in Input) (Plan, error) {
	pl := in.Plan
	if err := drawable(pl); err != nil {
		return Plan{}, err
	}
	if !pl.Priced() && in.Result != nil { // a model was named for a plan that was made without one
		priced := *pl
		priced.Devices = append([]plan.Device(nil), pl.Devices...)
		priced.SetBreakdown(in.Result.Predicted)
		from := in.Result.Plan.Provenance
		priced.Provenance.Model, priced.Provenance.ModelSource = from.Model, from.ModelSource
		priced.Provenance.Hidden, priced.Provenance.Hierarchy = from.Hidden, from.Hierarchy
		pl = &priced
	}
	b := builder{in: &in, plan: pl, loads: report.Loads(pl), held: heldBy(pl, in.Problem)}
	tables, shards := b.tables()
	d := Plan{
		Name: in.Name, Report: report.Summarize(pl, in.Result, in.Problem), Cluster: pl.Cluster,
		Costs: b.costs(), Devices: b.devices(), Memory: b.memory(),
		Tables: tables, Shards: shards, Critical: report.Critical(pl),
		Warnings: b.warnings(), Provenance: b.provenance(), Missing: in.Missing,
	}
	if in.Result != nil {
		d.Baselines = baselines(in.Result)
	}
	step := in.Step
	if step == nil && in.Result != nil {
		step = in.Result.Step
	}
	if step != nil {
		d.Step = report.NewStepObject(step)
	}
	return d, nil
}

// drawable returns an error for a plan whose devices cannot be drawn.
func drawable(pl *plan.Plan) error {
	if pl == nil {
		return errors.New("page: there is no plan")
	}
	for i := range pl.Tables {
		for k, s := range pl.Tables[i].Shards {
			if s.Device < -1 || s.Device >= len(pl.Devices) {
				return fmt.Errorf("table %q, shard %d: the plan has no device %d", pl.Tables[i].Name, k, s.Device)
			}
		}
	}
	return nil
}

// builder makes the parts of a Plan.
type builder struct {
	in *Input
	// plan is the plan with its times.
	plan  *plan.Plan
	loads []report.Load
	held  *problem.Problem
}

// costs returns the costs of the plan.
func (b *builder) costs() Costs {
	c := Costs{}
	if b.plan.Priced() {
		c.Predicted = known(b.plan.Predicted)
	}
	if r := b.in.Result; r != nil && r.Judged() {
		c.Simulated = known(r.Simulated.Cost)
	}
	return c
}

// known returns a time as a value that may be null.
func known(m unit.Millis) *unit.Millis { return &m }

// devices returns the devices as columns.
func (b *builder) devices() Devices {
	pl := b.plan
	n, t := len(pl.Devices), pl.Cluster.Topology()
	d := Devices{
		Count: n, Shards: make([]int, n), DimSum: make([]int, n), Memory: make([]problem.Memory, n), Used: make([]unit.Bytes, n),
		Capacity: t.Usable(t.Largest()), HostCapacity: t.MostHostMemory() / unit.Bytes(max(1, t.DevicesPerHost)),
	}
	if t.Uneven() {
		d.Capacities, d.HostCapacities = make([]unit.Bytes, n), make([]unit.Bytes, n)
		for i := range n {
			d.Capacities[i], d.HostCapacities[i] = t.Usable(i), t.HostBudget(i)
		}
	}
	for i := range pl.Devices {
		one := &pl.Devices[i]
		d.Shards[i], d.DimSum[i], d.Memory[i] = one.Shards, one.DimSum, one.Memory
		d.Memory[i].Reserve = 0
		d.Used[i] = one.Memory.Used()
	}
	if !pl.Priced() {
		return d
	}
	times := func(of func(i int) unit.Millis) []unit.Millis {
		all := make([]unit.Millis, n)
		for i := range all {
			all[i] = digits(of(i))
		}
		return all
	}
	d.Forward = times(func(i int) unit.Millis { return b.loads[i].Forward })
	d.Wait = times(func(i int) unit.Millis { return b.loads[i].Wait })
	d.ForwardComm = times(func(i int) unit.Millis { return b.loads[i].ForwardComm })
	d.ForwardHidden = times(func(i int) unit.Millis { return pl.Devices[i].ForwardHidden })
	d.BackwardComm = times(func(i int) unit.Millis { return b.loads[i].BackwardComm })
	d.BackwardHidden = times(func(i int) unit.Millis { return pl.Devices[i].BackwardHidden })
	d.Backward = times(func(i int) unit.Millis { return b.loads[i].Backward })
	return d
}

// digits returns a time with six digits, which is more than a cost model knows: columns of times
// are most of a large document.
func digits(m unit.Millis) unit.Millis {
	short, err := strconv.ParseFloat(strconv.FormatFloat(float64(m), 'g', 6, 64), 64)
	if err != nil {
		return m
	}
	return unit.Millis(short)
}

// warnings returns all warnings about the plan, each once.
func (b *builder) warnings() []string {
	stated := b.plan.Provenance.Warnings
	all := []string{}
	for _, v := range b.plan.Check() {
		if len(all) == mostViolations {
			all = append(all, "the plan has more violations: neuroshard check PLAN TABLES lists them")
			break
		}
		all = append(all, "the plan is not valid: "+v.String())
	}
	r := b.in.Result
	if r != nil && b.in.Plan.Priced() && math.Abs(float64(b.plan.Predicted-r.Predicted.Cost)) > tieOfCosts*float64(r.Predicted.Cost) {
		all = append(all, fmt.Sprintf("the plan states a cost of %v, and with these tables and this model the cost is %v: the plan was made for other lookups, or with another model", b.plan.Predicted, r.Predicted.Cost))
	}
	seen := map[string]bool{}
	lists := [][]string{stated, b.in.Warnings}
	if r != nil {
		lists = append(lists, r.Warnings())
	}
	for _, list := range lists {
		for _, w := range list {
			if !seen[w] {
				seen[w] = true
				all = append(all, w)
			}
		}
	}
	for i := range all {
		all[i] = report.OneLine(all[i])
	}
	return all
}

// mostViolations is the number of violations that a page lists.
const mostViolations = 3

// provenance says how the plan was made.
func (b *builder) provenance() []report.Fact {
	p := b.plan.Provenance
	all := report.Facts(b.plan)
	for i := range b.plan.Cluster.Fixed {
		all = append(all, report.Fact{Name: "fixed", Text: report.Fixed(&b.plan.Cluster.Fixed[i])})
	}
	if p.Tool != "" {
		all = append(all, report.Fact{Name: "written by", Text: p.Tool + " " + p.Version})
	}
	if p.Input != "" {
		all = append(all, report.Fact{Name: "input", Text: "SHA-256 " + p.Input})
	}
	return all
}

// baselines returns what the baseline methods and other planners found.
func baselines(r *neuroshard.Result) []Baseline {
	var all []Baseline
	for i := range r.Baselines {
		one := &r.Baselines[i]
		b := Baseline{Method: string(one.Method), Valid: one.Valid, Reason: report.OneLine(one.Reason), Wall: one.Wall}
		if one.Valid || one.Predicted > 0 {
			b.Predicted = known(one.Predicted)
			if r.Judged() {
				b.Simulated = known(one.Simulated)
			}
		}
		all = append(all, b)
	}
	return all
}
