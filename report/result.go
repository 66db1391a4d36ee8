package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// simulated is the source of models and times that come from the simulated device.
const simulated = "simulated"

// The methods of plans that other tools made: Imported of those in TorchRec's form, and
// ImportedHugeCTR of those in HugeCTR's.
const (
	Imported        = "import"
	ImportedHugeCTR = "import from hugectr"
)

// importedFrom says, by the method of such a plan, what was imported.
var importedFrom = map[string]string{Imported: "a ShardingPlan", ImportedHugeCTR: "a shard matrix of HugeCTR"}

// interrupted is the status of a search that was cut short.
const interrupted = "interrupted"

// Result writes a finished result.
func Result(w io.Writer, r *neuroshard.Result, opt Options) error {
	v := newView(w, r.Plan, r.Predicted, opt)
	v.head()
	reserve(v, r.Step, opt.Problem)
	v.costs(r)
	if r.From != nil {
		v.printf("old plan   %s\n", firstLine(r.From))
	}
	v.body()
	if r.From != nil {
		transfer(v.printer, r.From.Point().Transfer)
	}
	v.baselines(r)
	if r.Step != nil {
		v.section("whole step")
		wholeStep(v, r.Step)
	}
	v.warnings(r.Warnings())
	return v.err
}

// Plan writes a plan, as read from a file.
func Plan(w io.Writer, pl *plan.Plan, opt Options) error {
	v := newView(w, pl, pl.Breakdown(), opt)
	v.head()
	v.predicted()
	v.balance()
	v.body()
	v.warnings(pl.Provenance.Warnings)
	return v.err
}

// view is a plan with its predicted step times.
type view struct {
	*printer
	plan   *plan.Plan
	prices plan.Breakdown
	loads  []load
	// critical is the busiest device: the one that the others wait for.
	critical int
}

func newView(w io.Writer, pl *plan.Plan, prices plan.Breakdown, opt Options) *view {
	v := &view{printer: &printer{w: w, opt: opt}, plan: pl, prices: prices}
	if v.loads = loads(prices); v.formulas() {
		v.loads = apart(prices)
	}
	for i, l := range v.loads {
		if l.busy() > v.loads[v.critical].busy() {
			v.critical = i
		}
	}
	return v
}

// formulas reports whether the times come from TorchRec's formulas, which have no waiting.
func (v *view) formulas() bool { return v.plan.Provenance.ModelSource == plan.ClosedForm }

func (v *view) head() {
	v.title()
	v.engine()
	v.placed()
	v.divided()
	v.laneRule()
	p := v.plan.Provenance
	status := p.Status
	switch status {
	case "budget":
		status = "ended by its budget of evaluations"
	case "time":
		status = "ended by its budget of time"
	case interrupted:
		status = v.paint(red, "INTERRUPTED")
	}
	if from, imported := importedFrom[p.Method]; imported {
		v.printf("found elsewhere: imported from %s\n", from)
	} else {
		by := name(p.Method)
		if p.Policy != "" {
			by += ", policy " + name(p.Policy)
		}
		v.printf("found by   method %s, seed %d, search %s\n", by, p.Seed, status)
	}
	if !v.plan.Priced() {
		v.printf("cost model none: the time of a step is not known\n")
		return
	}
	if v.formulas() {
		v.printf("cost model the formulas of TorchRec's own planner (%s), not by a trained model\n", name(p.Model))
		return
	}
	if p.ModelSource == plan.Custom {
		v.printf("cost model %s, which is not part of neuroshard\n", name(p.Model))
		return
	}
	v.printf("cost model %s, trained on %s\n", name(p.Model), kernels(p.ModelSource))
}

// engine reports the engine that the plan is for, and whether it keeps the engine's rules: a
// plan file that was changed since may not.
func (v *view) engine() {
	rules := v.plan.Cluster.Engine.Rules()
	if rules.Engine == "" {
		return
	}
	broken := v.plan.CheckEngine(rules)
	if len(broken) == 0 {
		v.printf("for        %s, whose rules the plan keeps\n", rules.Name)
		return
	}
	v.printf("for        %s, %s: %s%s\n", rules.Name, v.paint(red, "whose rules the plan breaks"),
		OneLine(broken[0].String()), words.More(", ", len(broken)-1))
}

// title writes what was planned, for which cluster.
func (v *view) title() {
	pl := v.plan
	shards := 0
	for i := range pl.Tables {
		shards += len(pl.Tables[i].Shards)
	}
	c := pl.Cluster
	title := fmt.Sprintf("%s in %s on %d x %s", plural(len(pl.Tables), "table"), plural(shards, "shard"), c.Devices, name(c.Profile))
	if c.DevicesPerHost > 0 && c.DevicesPerHost < c.Devices {
		title += fmt.Sprintf(" (%d a host%s)", c.DevicesPerHost, joined(c))
	}
	switch v.opt.Name {
	case "":
	case "-":
		title = "standard input: " + title
	default:
		title = path(v.opt.Name) + ": " + title
	}
	sent := ""
	if c.CommPrecision != problem.FP32 {
		sent = fmt.Sprintf(", exchanges in %v", c.CommPrecision)
	}
	v.printf("%s, batch %s%s\n", v.paint(bold, title), count(int64(c.Batch)), sent)
}

// placed reports the number of tables of each sharding type, unless all tables are whole
// or cut by columns.
func (v *view) placed() {
	if v.plan.Plain() {
		return
	}
	var parts []string
	count := v.plan.ShardingTypes()
	for _, shardingType := range problem.ShardingTypes() {
		if n := count[shardingType]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, shardingType))
		}
	}
	text := strings.Join(parts, ", ")
	if hosted, cached := v.plan.Hosted(); hosted > 0 {
		text += fmt.Sprintf("; %s in host memory", plural(hosted, "table"))
		if cached > 0 {
			text += fmt.Sprintf(", %d of them cached", cached)
		}
	}
	v.printf("sharding   %s\n", text)
}

// divided reports the number of tables whose operators have another number than 0, if there
// are any.
func (v *view) divided() {
	if n := v.plan.Divided(); n > 0 {
		v.printf("operators  %s in operators of another number than 0\n", plural(n, "table"))
	}
}

// laneRule reports the lane rule that the plan was made under, unless it is the default.
func (v *view) laneRule() {
	if v.plan.Cluster.LaneRule == problem.LanesByTable {
		v.printf("lanes      each table has its own, as the problem states\n")
	}
}

// kernels says what a model was trained on.
func kernels(from string) string { return source(from) + " kernels" }

// source prints where times come from, with SIMULATED in capitals so that nobody takes
// these times for measured ones.
func source(s string) string {
	if s == simulated {
		return "SIMULATED"
	}
	return name(s)
}

func (v *view) predicted() {
	if !v.plan.Priced() {
		return
	}
	note := ""
	switch {
	case v.plan.Provenance.ModelSource == simulated:
		note = " (by a model trained on SIMULATED kernels)"
	case v.formulas():
		note = " (by TorchRec's formulas, not measured)"
	}
	v.printf("\npredicted cost  %v%s\n", v.plan.Predicted, note)
	if h := v.plan.Provenance.Hierarchy; h.On() {
		v.printf("exchange        %s\n", exchange(h))
	}
	v.hidden()
}

// hidden reports how much of the exchanges the cost leaves out, if the plan was made for a
// training system that hides some.
func (v *view) hidden() {
	hidden := v.plan.Provenance.Hidden
	if hidden == (plan.Hidden{}) {
		return
	}
	d := v.prices.Devices[v.prices.Critical]
	beside := ""
	if hidden.Replicas {
		beside = " and the lookups of replicas"
	}
	v.printf("hidden          %v of the exchanges forward and %v backward run beside the dense part%s: the cost leaves them out\n", d.ForwardHidden, d.BackwardHidden, beside)
}

func (v *view) costs(r *neuroshard.Result) {
	v.predicted()
	label := "predicted"
	if bySimulation(r) {
		label = "SIMULATED"
	}
	if r.Judged() {
		v.printf("simulated cost  %v (on the SIMULATED device, not measured)\n", r.Simulated.Cost)
		v.lanes(r.Lanes)
	}
	if gap, ok := r.Gap(); ok {
		v.printf("optimality      at most %s above the best possible plan, which costs %v or more (SIMULATED)\n", percent(gap, 1), r.Bound.Total)
	}
	if r.Optimal {
		v.printf("                no plan with undivided operators has a lower predicted cost: all of them were tried\n")
	}
	v.freeSlices(r)
	if best := bestBaseline(r); best != nil {
		v.printf("gain            %s (%s %v)\n", gain(r, best), label, baselineCost(r, best))
	} else if len(r.Baselines) > 0 && string(r.Status) != interrupted {
		v.printf("gain            no baseline found a plan that fits\n")
	}
	v.balance()
}

// lanes reports the costs under both lane rules, if they differ.
func (v *view) lanes(l neuroshard.Lanes) {
	if asLong(l.Own, l.Widest) {
		return
	}
	v.printf("lanes           %v if the widest table of an operator sets them, %v if each table sets its own (SIMULATED; no GPU has settled it)\n", l.Widest, l.Own)
}

// freeSlices reports what the rules of the plan's engine cost, as predicted.
func (v *view) freeSlices(r *neuroshard.Result) {
	free := r.FreeSlices
	if free == nil {
		return
	}
	cost, name := r.Predicted.Cost, r.Plan.Cluster.Engine.Rules().Name
	if asLong(free.Predicted, cost) {
		v.printf("for %-12sno plan with free slices was found that costs less\n", name)
		return
	}
	v.printf("for %-12s%v; with free slices %v (%s less)\n", name, cost, free.Predicted, percent(float64(cost-free.Predicted), float64(cost)))
}

// gain says how much less time the plan takes than the best baseline.
func gain(r *neuroshard.Result, best *neuroshard.Baseline) string {
	cost, other := ownCost(r), baselineCost(r, best)
	switch {
	case asLong(cost, other):
		return fmt.Sprintf("none: the best baseline, %s, takes as long", best.Method)
	case cost > other:
		return fmt.Sprintf("none: the best baseline, %s, takes %s less", best.Method, percent(float64(cost-other), float64(cost)))
	}
	return fmt.Sprintf("%s less time than the best baseline, %s", percent(float64(other-cost), float64(other)), best.Method)
}

// bySimulation reports whether plans are compared by their simulated costs: if they have
// one, and the search did not go by TorchRec's formulas.
func bySimulation(r *neuroshard.Result) bool {
	return r.Judged() && r.Plan.Provenance.ModelSource != plan.ClosedForm
}

// ownCost returns the plan's cost to compare with baselines: simulated if bySimulation, else
// predicted. baselineCost returns a baseline's cost in the same way.
func ownCost(r *neuroshard.Result) unit.Millis {
	if bySimulation(r) {
		return r.Simulated.Cost
	}
	return r.Predicted.Cost
}

func baselineCost(r *neuroshard.Result, b *neuroshard.Baseline) unit.Millis {
	if bySimulation(r) {
		return b.Simulated
	}
	return b.Predicted
}

// compare says how much less time a takes than b.
func compare(a, b unit.Millis) string {
	switch {
	case asLong(a, b):
		return "as long"
	case a > b:
		return percent(float64(a-b), float64(b)) + " MORE time"
	}
	return percent(float64(b-a), float64(b)) + " less time"
}

// asLong reports whether two times are so near that their difference prints as 0 percent.
func asLong(a, b unit.Millis) bool {
	return b <= 0 || math.Abs(float64(a-b)) < 0.0005*float64(b)
}

// bestBaseline returns the cheapest valid baseline by baselineCost, the first of several; nil
// if no baseline is valid.
func bestBaseline(r *neuroshard.Result) *neuroshard.Baseline {
	var best *neuroshard.Baseline
	for i := range r.Baselines {
		if b := &r.Baselines[i]; b.Valid && (best == nil || baselineCost(r, b) < baselineCost(r, best)) {
			best = b
		}
	}
	return best
}

// balance compares the busiest device with the mean: 1 is perfect.
func (v *view) balance() {
	if len(v.loads) < 2 {
		return
	}
	if mean := meanLoad(v.loads).busy(); mean > 0 {
		v.printf("balance         %.3f, the busiest device over the mean (1 is perfect)\n", float64(v.loads[v.critical].busy()/mean))
	}
}

func (v *view) body() {
	v.devices()
	why(v)
	splits(v.printer, v.plan)
	replicas(v.printer, v.plan)
	hosted(v.printer, v.plan)
}

func (v *view) baselines(r *neuroshard.Result) {
	if len(r.Baselines) == 0 {
		return
	}
	if string(r.Status) == interrupted && bestBaseline(r) == nil {
		return // they were not run either
	}
	v.section("baselines")
	columns := []string{"<method", "<valid", "predicted", "SIMULATED", "<this plan takes"}
	row := func(method, valid, predicted, simulated, takes string) []string {
		if !r.Judged() {
			return []string{method, valid, predicted, takes}
		}
		return []string{method, valid, predicted, simulated, takes}
	}
	if !r.Judged() {
		columns = []string{"<method", "<valid", "predicted", "<this plan takes"}
	}
	rows := [][]string{row("this plan", "yes", r.Predicted.Cost.String(), r.Simulated.Cost.String(), "")}
	for _, b := range r.Baselines {
		if !b.Valid {
			rows = append(rows, row(string(b.Method), "no", "-", "-", "found no plan that fits"))
			continue
		}
		rows = append(rows, row(string(b.Method), "yes", b.Predicted.String(), b.Simulated.String(), compare(ownCost(r), baselineCost(r, &b))))
	}
	v.grid(columns, rows)
}

func (v *view) warnings(list []string) {
	if len(list) == 0 {
		return
	}
	v.section("warnings")
	for _, warning := range list {
		v.printf("%s %s\n", v.paint(yellow, "-"), OneLine(warning))
	}
}

// OneLine makes a text from a file or another process safe to print on one line: control
// characters become spaces.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
