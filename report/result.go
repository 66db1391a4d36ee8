package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"

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

// Result writes the summary of a finished result and, with Options.Full, everything else.
func Result(w io.Writer, r *neuroshard.Result, opt Options) error {
	v := newView(w, r.Plan, opt)
	s := Summarize(r.Plan, r, opt.Problem)
	v.summary(s)
	if opt.Full {
		v.facts(headFacts(r.Plan))
		reserve(v, r.Step, opt.Problem)
		v.costs(r)
		v.body()
		if opt.From != nil {
			transfer(v.printer, opt.From.Point().Transfer)
		}
		measured(v, r.Measured)
		v.baselines(r)
		if r.Step != nil {
			v.section("whole step")
			wholeStep(v, r.Step)
		}
		v.printf("\n")
	}
	v.end(s.Warnings)
	return v.err
}

// Plan writes the summary of a plan, as read from a file, and, with Options.Full, everything else.
func Plan(w io.Writer, pl *plan.Plan, opt Options) error {
	v := newView(w, pl, opt)
	s := Summarize(pl, nil, opt.Problem)
	v.summary(s)
	if opt.Full {
		v.facts(headFacts(pl))
		v.body()
		v.printf("\n")
	}
	v.end(s.Warnings)
	return v.err
}

// view is a plan with its predicted step times.
type view struct {
	*printer
	plan  *plan.Plan
	loads []Load
}

func newView(w io.Writer, pl *plan.Plan, opt Options) *view {
	return &view{&printer{w: w, opt: opt}, pl, Loads(pl)}
}

// formulas reports whether the times of a plan come from TorchRec's formulas, which have no
// waiting.
func formulas(pl *plan.Plan) bool { return pl.Provenance.ModelSource == plan.ClosedForm }

// Fact is something that is said of a plan: its name, and a text without a full stop.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"value"`
}

// Facts returns what a plan file says of itself: its engine, operators and lane rule where they
// are not the usual ones, what found it, what estimated it, and what its cost counts. Texts are
// safe to print.
func Facts(pl *plan.Plan) []Fact {
	all := append(headFacts(pl), costFacts(pl)...)
	if text := engine(pl); text != "" {
		all = append([]Fact{{"engine", text}}, all...)
	}
	return all
}

// headFacts returns what the head of a full report says.
func headFacts(pl *plan.Plan) []Fact {
	var all []Fact
	for _, f := range []Fact{
		{"kernels", divided(pl)},
		{"lanes", laneRule(pl)},
		{"found by", foundBy(pl)},
		{"cost model", CostModel(pl)},
	} {
		if f.Text != "" {
			all = append(all, f)
		}
	}
	return all
}

// foundBy says what found a plan.
func foundBy(pl *plan.Plan) string {
	p := pl.Provenance
	if from, imported := importedFrom[p.Method]; imported {
		return "another planner: imported from " + from
	}
	found := "method " + name(p.Method)
	if p.Policy != "" {
		found += ", policy " + name(p.Policy)
	}
	found += fmt.Sprintf(", seed %d", p.Seed)
	switch p.Status {
	case "":
		return found
	case "budget":
		return found + ", search ended by its budget of evaluations"
	case "time":
		return found + ", search ended by its budget of time"
	}
	return found + ", search " + p.Status
}

// CostModel says what estimated the costs of a plan, such as "a100-80-8dc50398b50a, trained on
// SIMULATED kernels".
func CostModel(pl *plan.Plan) string {
	p := pl.Provenance
	switch {
	case !pl.Priced():
		return "none: the time of a step is not known"
	case formulas(pl):
		return fmt.Sprintf("the formulas of TorchRec's own planner (%s), not by a trained model", name(p.Model))
	case p.ModelSource == plan.Custom:
		return name(p.Model) + ", which is not part of neuroshard"
	}
	return fmt.Sprintf("%s, trained on %s", name(p.Model), kernels(p.ModelSource))
}

// engine says which engine and pipeline the plan is for, and whether the plan keeps the engine's rules: a plan
// file that was changed since may not. It returns nothing if the plan states neither.
func engine(pl *plan.Plan) string {
	rules, pipeline := pl.Cluster.Engine.Rules(), ""
	switch stated := pl.Cluster.Pipeline; {
	case stated != "":
		pipeline = "; pipeline " + string(stated)
	case rules.Engine == problem.TorchRec:
		pipeline = fmt.Sprintf("; pipeline %s (default)", problem.SparseDistPipeline)
	}
	if rules.Engine == "" {
		return strings.TrimPrefix(pipeline, "; ")
	}
	broken := pl.CheckEngine(rules)
	if len(broken) == 0 {
		return rules.Name + ", whose rules the plan keeps" + pipeline
	}
	return fmt.Sprintf("%s, whose rules the plan BREAKS: %s%s%s", rules.Name, OneLine(broken[0].String()), words.More(", ", len(broken)-1), pipeline)
}

// Title says in one line how many tables a plan places in how many shards, for which cluster
// and batch.
func Title(pl *plan.Plan) string {
	shards := 0
	for i := range pl.Tables {
		shards += len(pl.Tables[i].Shards)
	}
	c := pl.Cluster
	title := fmt.Sprintf("%s in %s on %s", plural(len(pl.Tables), "table"), plural(shards, "shard"), GPUs(pl))
	if c.DevicesPerHost > 0 && c.DevicesPerHost < c.Devices {
		title += joined(c)
	}
	if n := c.ReplicaCount(); n > 1 {
		title += fmt.Sprintf(" in %d sharding groups", n)
	}
	title += ", batch " + count(int64(c.Batch))
	if c.ReplicaCount() > 1 {
		title += " of each group"
	}
	if c.CommPrecision != problem.FP32 {
		title += fmt.Sprintf(", exchanges in %v", c.CommPrecision)
	}
	return title + torchRecBytes(c)
}

// GPUs names a plan's cluster, such as "2 hosts x 8 h100-80".
func GPUs(pl *plan.Plan) string { return hosts(&pl.Cluster) + " " + name(pl.Cluster.Profile) }

// hosts says how many devices are on how many hosts, such as "2 hosts x 8".
func hosts(c *plan.Cluster) string {
	t := c.Topology().Whole()
	per := max(1, t.PerHost())
	text := fmt.Sprintf("%s x %d", plural(t.Devices/per, "host"), per)
	if last := t.Devices % per; last > 0 {
		text += fmt.Sprintf(" and 1 x %d", last)
	}
	return text
}

// placed says how many tables have each sharding type.
func placed(pl *plan.Plan) string {
	var parts []string
	for _, c := range shardingTypes(pl) {
		parts = append(parts, fmt.Sprintf("%d %s", c.Tables, c.Name))
	}
	text := strings.Join(parts, ", ")
	if pl.Cluster.Engine == problem.TorchRec && pl.ShardingTypes()[problem.DataParallel] > 0 {
		text += ", which the optimizer of the training script must train"
	}
	if hosted, cached := pl.Hosted(); hosted > 0 {
		text += fmt.Sprintf("; %s in host memory", plural(hosted, "table"))
		if cached > 0 {
			text += fmt.Sprintf(", %d of them cached", cached)
		}
	}
	return text
}

// divided says how many tables run in kernels apart from the others, if there are any.
func divided(pl *plan.Plan) string {
	if n := pl.Divided(); n > 0 {
		return plural(n, "table") + " in fused kernels apart from the others"
	}
	return ""
}

// laneRule says which lane rule the plan was made under, unless it is the default.
func laneRule(pl *plan.Plan) string {
	if pl.Cluster.LaneRule == problem.LanesByTable {
		return "each table has its own, as the problem states"
	}
	return ""
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

// costFacts says what the cost of a plan counts and leaves out, if that is not the usual: the
// hierarchical exchange, and what the plan's training system hides of the exchanges.
func costFacts(pl *plan.Plan) []Fact {
	var all []Fact
	if fact := syncFact(pl); fact.Text != "" {
		all = append(all, fact)
	}
	var dedup []string
	for i := range pl.Tables {
		if t := &pl.Tables[i]; t.IndexDedup {
			dedup = append(dedup, OneLine(t.Name))
		}
	}
	if len(dedup) > 0 {
		all = append(all, Fact{"dedup", fmt.Sprintf("the indices of %d of %d tables are deduplicated: %s", len(dedup), len(pl.Tables), words.List(dedup, 4))})
	}
	if !pl.Priced() {
		return all
	}
	if h := pl.Provenance.Hierarchy; h.On() {
		all = append(all, Fact{"exchange", exchange(h)})
	}
	if hidden := pl.Provenance.Hidden; hidden != (plan.Hidden{}) && len(pl.Devices) > 0 {
		b := pl.Breakdown()
		d := b.Devices[b.Critical]
		beside := ""
		if hidden.Replicas {
			beside = " and the lookups of replicas"
		}
		all = append(all, Fact{"hidden", fmt.Sprintf("%v of the exchanges forward and %v backward run beside the dense part%s: the cost leaves them out", d.ForwardHidden, d.BackwardHidden, beside)})
	}
	return all
}

// syncFact says what the all-reduce of the replicas takes; nothing if there is one sharding group.
func syncFact(pl *plan.Plan) Fact {
	c := &pl.Cluster
	if c.ReplicaCount() == 1 {
		return Fact{}
	}
	links := ", on the links inside hosts"
	if c.ReplicaCount() > max(1, c.ReplicasPerHost, c.ReplicasPerDomain) {
		links = ", over the network"
	}
	every := "every step"
	if c.SyncEvery > 1 {
		every = fmt.Sprintf("every %d steps", c.SyncEvery)
	}
	text := fmt.Sprintf("%v %s (SIMULATED): the all-reduce of %d replicas, %v on the fullest device%s", pl.Sync.Time, every, c.ReplicaCount(), pl.Sync.Bytes, links)
	if pl.Priced() {
		text += fmt.Sprintf("; a step with its share: %v", pl.Predicted+pl.SyncCost())
	}
	return Fact{"sync", text}
}

// tries says what a step takes with each number of sharding groups, and with each choice of deduplicated tables, that
// was tried.
func (v *view) tries(r *neuroshard.Result) {
	list := func(name string, tried []string, each string) {
		if len(tried) > 0 {
			v.printf("%-10s %s (each is %s)\n", name, strings.Join(tried, "; "), each)
		}
	}
	try := func(what string, fits bool, time unit.Millis) string {
		if !fits {
			return what + ": does not fit"
		}
		return fmt.Sprintf("%s: %v", what, time)
	}
	var groups, dedup []string
	for _, g := range r.Tried {
		groups = append(groups, try(fmt.Sprint(g.Replicas), g.Fits, g.Step))
	}
	for _, c := range r.Dedup {
		dedup = append(dedup, try(fmt.Sprintf("%d tables", c.Tables), c.Fits, c.Time))
	}
	list("groups", groups, "the time of a step with the replicas' all-reduce, by the number of sharding groups")
	list("tried", dedup, "the time by the number of tables whose indices are deduplicated")
}

// costs writes what the costs of a result are beside its summary.
func (v *view) costs(r *neuroshard.Result) {
	v.printf("predicted  %v\n", r.Predicted.Cost)
	if r.Judged() {
		v.printf("simulated  %v (on the SIMULATED device, not measured)\n", r.Simulated.Cost)
		v.lanes(r.Lanes)
	}
	if r.Optimal {
		v.printf("optimal    no plan with undivided operators has a lower predicted cost: all of them were tried\n")
	}
	v.tries(r)
	v.freeSlices(r)
}

// lanes reports the costs under both lane rules, if they differ.
func (v *view) lanes(l neuroshard.Lanes) {
	if asLong(l.Own, l.Widest) {
		return
	}
	v.printf("lanes      %v if the widest table of an operator sets them, %v if each table sets its own (SIMULATED; on an H200 the first was nearer)\n", l.Widest, l.Own)
}

// freeSlices reports what the rules of the plan's engine cost, as predicted.
func (v *view) freeSlices(r *neuroshard.Result) {
	free := r.FreeSlices
	if free == nil {
		return
	}
	cost, name := r.Predicted.Cost, r.Plan.Cluster.Engine.Rules().Name
	if asLong(free.Predicted, cost) {
		v.printf("engine     no plan without the rules of %s was found that costs less\n", name)
		return
	}
	v.printf("engine     %v with the rules of %s, %v without (%s less)\n", cost, name, free.Predicted, percent(float64(cost-free.Predicted), float64(cost)))
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

func (v *view) body() {
	v.devices()
	why(v)
	splits(v.printer, v.plan)
	replicas(v.printer, v.plan)
	hosted(v.printer, v.plan)
	vectors(v.printer, v.plan)
}

func (v *view) baselines(r *neuroshard.Result) {
	if len(r.Baselines) == 0 {
		return
	}
	run := func(b neuroshard.Baseline) bool { return b.Valid || b.Reason != "" }
	if string(r.Status) == interrupted && !slices.ContainsFunc(r.Baselines, run) {
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
		if string(r.Status) == interrupted && !run(b) {
			continue
		}
		if !b.Valid && b.Predicted == 0 {
			takes := "found no plan that fits"
			if b.Reason != "" {
				takes = "not compared, see below"
			}
			rows = append(rows, row(string(b.Method), "no", "-", "-", takes))
			continue
		}
		valid := "yes"
		if !b.Valid {
			valid = "no"
		}
		rows = append(rows, row(string(b.Method), valid, b.Predicted.String(), b.Simulated.String(), compare(ownCost(r), baselineCost(r, &b))))
	}
	v.grid(columns, rows)
	v.planners(r)
}

// planners says of the plans of other planners why they are not valid, which sharding types their
// tables have, and how long they took.
func (v *view) planners(r *neuroshard.Result) {
	for i := range r.Baselines {
		b := &r.Baselines[i]
		if b.Reason != "" && b.Predicted > 0 {
			v.printf("%s is not valid here: %s\n", b.Method, OneLine(b.Reason))
		} else if b.Reason != "" {
			v.printf("%s: %s\n", b.Method, OneLine(b.Reason))
		}
		if b.Plan != nil {
			v.printf("%s placed %s\n", b.Method, placed(b.Plan))
		}
		if fullest := Fullest(r.Plan); b.Memory > 0 && fullest >= 0 {
			v.printf("%s uses %v of its fullest device, this plan %v\n", b.Method, b.Memory, used(&r.Plan.Devices[fullest]))
		}
		if b.Wall > 0 {
			v.printf("%s planned in %s\n", b.Method, seconds(b.Wall))
		}
	}
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

// OneLine makes a text from a file or another process safe to print on one line: characters that
// are not printed, such as those that control the terminal, become spaces.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
