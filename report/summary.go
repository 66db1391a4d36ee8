package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// Summary is the verdict on a plan: what a reader wants to know first. Texts, JSON and pages
// show it. Values that are not known are nil, empty or absent.
type Summary struct {
	// Title says how many tables in how many shards lie on which cluster, at which batch.
	Title string `json:"title"`
	// Time is the time of the lookups and exchanges of the slowest device, from Source: "simulated",
	// "measured", "closed_form", "custom" or "none".
	Time   *unit.Millis `json:"time_ms"`
	Source string       `json:"source"`
	// Error is the error bar of Time in percent, and ErrorOf says what it was found on.
	Error   *float64 `json:"error_percent"`
	ErrorOf string   `json:"error_of,omitempty"`
	// Gain compares the plan with the best simple method, and Against with each other planner.
	Gain    *Gain  `json:"gain"`
	Against []Gain `json:"against,omitempty"`
	// Bound is a time that no plan undercuts, and Left the percent of Time above it.
	Bound *unit.Millis `json:"bound_ms"`
	Left  *float64     `json:"left_percent"`
	// Waiting is the percent of Time that devices wait for the slowest one, in the mean.
	Waiting *float64 `json:"waiting_percent"`
	// Fullest and Emptiest are the devices that use the most and the least of their memory.
	Fullest  DeviceMemory `json:"fullest"`
	Emptiest DeviceMemory `json:"emptiest"`
	// Sharding counts the tables of each sharding type, in the order of the documentation.
	Sharding []Count `json:"sharding_types"`
	// Busiest are at most three devices by their time without waiting, the longest first; Idlest
	// has the shortest time.
	Busiest []DeviceTime `json:"busiest"`
	Idlest  *DeviceTime  `json:"idlest"`
	// Binds are the parts of tables that the busiest device reads most, the largest first: without
	// the problem, those with most weights.
	Binds    []string `json:"binds"`
	Warnings []string `json:"warnings"`
	// Lines are all of the above but the title in words, as the report prints them.
	Lines []Fact `json:"lines"`
}

type (
	// Gain is how much less time a plan takes than the plan of another method: Percent of Time,
	// negative if it takes more. Time and Percent are nil if the method has no valid plan.
	Gain struct {
		Method  string       `json:"method"`
		Time    *unit.Millis `json:"ms"`
		Percent *float64     `json:"percent"`
		Reason  string       `json:"reason,omitempty"`
	}
	// DeviceMemory is what tables use of a device's memory, and what they may use.
	DeviceMemory struct {
		Device int        `json:"device"`
		Used   unit.Bytes `json:"used_bytes"`
		Of     unit.Bytes `json:"of_bytes"`
	}
	// DeviceTime is a device's time without waiting.
	DeviceTime struct {
		Device int         `json:"device"`
		Time   unit.Millis `json:"ms"`
	}
	// Count is a number of tables.
	Count struct {
		Name   string `json:"name"`
		Tables int    `json:"tables"`
	}
)

// SimulatedError is the error of simulated costs in percent: the worst of 36 plans that ran on one H200
// (docs/RESULTS.md).
const (
	SimulatedError   = 12
	simulatedErrorOf = "36 plans measured on one H200"
)

// Summarize sums up a plan. r judges it and may be nil, as for a plan file. With the plan's
// problem, which may be nil, Binds goes by the bytes read.
func Summarize(pl *plan.Plan, r *neuroshard.Result, p *problem.Problem) *Summary {
	s := &Summary{Title: Title(pl), Source: pl.Provenance.ModelSource, Sharding: shardingTypes(pl), Warnings: pl.Provenance.Warnings}
	loads := Loads(pl)
	if pl.Priced() {
		s.timed(pl, r, loads)
	}
	if r != nil {
		s.judged(r)
		s.Warnings = r.Warnings()
	}
	s.memory(pl)
	if c := reasonsOf(pl, p, loads); c.head != "" && len(s.Busiest) > 0 {
		s.Binds = c.binds
	}
	s.Warnings = warningsOf(pl, s.Warnings)
	s.Lines = s.lines(pl, r, p)
	return s
}

// timed sets what follows from the times of the devices.
func (s *Summary) timed(pl *plan.Plan, r *neuroshard.Result, loads []Load) {
	cost := pl.Predicted
	if r != nil {
		cost = ownCost(r)
	}
	s.Time = &cost
	if bar, of := modelError(s.Source, r); bar > 0 {
		s.Error, s.ErrorOf = &bar, of
	}
	if len(loads) < 2 {
		return
	}
	if !formulas(pl) && pl.Predicted > 0 {
		waiting := 100 * float64(meanLoad(loads).Wait/pl.Predicted)
		s.Waiting = &waiting
	}
	order := byBusy(loads)
	last := order[len(order)-1]
	for _, d := range order[:min(3, len(order)-1)] {
		s.Busiest = append(s.Busiest, DeviceTime{d, loads[d].Busy()})
	}
	s.Idlest = &DeviceTime{last, loads[last].Busy()}
}

// modelError returns the error bar of a plan's time in percent, 0 if it is not known, and what it was
// found on. r may be nil.
func modelError(source string, r *neuroshard.Result) (bar float64, of string) {
	switch {
	case source == plan.Simulated:
		return SimulatedError, simulatedErrorOf
	case source == plan.Measured && r != nil:
		return r.ModelError, "measured samples that the model was not trained on"
	}
	return 0, ""
}

// judged sets what other plans and the bound say.
func (s *Summary) judged(r *neuroshard.Result) {
	for i := range r.Baselines {
		if b := &r.Baselines[i]; !slices.Contains(search.Baselines(), b.Method) {
			s.Against = append(s.Against, gainOver(r, b))
		}
	}
	s.Gain = GainOf(r)
	if _, ok := r.Gap(); ok && bySimulation(r) {
		left := max(0, 100*float64(1-r.Bound.Total/r.Simulated.Cost))
		s.Bound, s.Left = &r.Bound.Total, &left
	}
}

// GainOf compares a result with the best simple method; nil if none was run or found a plan.
func GainOf(r *neuroshard.Result) *Gain {
	var best *neuroshard.Baseline
	for i := range r.Baselines {
		if b := &r.Baselines[i]; slices.Contains(search.Baselines(), b.Method) && b.Valid && (best == nil || baselineCost(r, b) < baselineCost(r, best)) {
			best = b
		}
	}
	if best == nil {
		return nil
	}
	gain := gainOver(r, best)
	return &gain
}

// gainOver compares a result with another plan.
func gainOver(r *neuroshard.Result, b *neuroshard.Baseline) Gain {
	g := Gain{Method: string(b.Method), Reason: OneLine(b.Reason)}
	if b.Valid || b.Predicted > 0 {
		cost, other := ownCost(r), baselineCost(r, b)
		percent := 0.0 // of two plans that take no time
		if cost != other {
			percent = 100 * float64(1-cost/other)
		}
		g.Time, g.Percent = &other, &percent
	}
	return g
}

// memory sets the fullest and the emptiest device.
func (s *Summary) memory(pl *plan.Plan) {
	t := pl.Cluster.Topology()
	of := func(d int) DeviceMemory { return DeviceMemory{d, used(&pl.Devices[d]), t.Usable(d)} }
	for d := range pl.Devices {
		one := of(d)
		if d == 0 || one.share() > s.Fullest.share() {
			s.Fullest = one
		}
		if d == 0 || one.share() < s.Emptiest.share() {
			s.Emptiest = one
		}
	}
}

func (m DeviceMemory) share() float64 { return float64(m.Used) / float64(max(1, m.Of)) }

// shardingTypes counts the tables of each sharding type.
func shardingTypes(pl *plan.Plan) []Count {
	all := []Count{}
	of := pl.ShardingTypes()
	for _, k := range problem.ShardingTypes() {
		if n := of[k]; n > 0 {
			all = append(all, Count{string(k), n})
		}
	}
	return all
}

// warningsOf returns warnings that are safe to print: an optimizer that had to be assumed comes
// first, because the memory depends on it, and what Source says is not repeated.
func warningsOf(pl *plan.Plan, list []string) []string {
	all := []string{}
	if pl.Provenance.Status == interrupted {
		all = append(all, "the search was INTERRUPTED: this is the best plan found until then")
	}
	for _, w := range list {
		if strings.Contains(w, problem.NoOptimizer) {
			all = slices.Insert(all, 0, OneLine(w))
		} else if w != plan.SimulatedNote {
			all = append(all, OneLine(w))
		}
	}
	return all
}

// lines returns the summary in words. r and p may be nil.
func (s *Summary) lines(pl *plan.Plan, r *neuroshard.Result, p *problem.Problem) []Fact {
	var all []Fact
	add := func(name, text string) {
		if text != "" {
			all = append(all, Fact{name, text})
		}
	}
	add("time", s.timeText(pl, r))
	if r != nil && r.Step != nil {
		add("step", stepText(r.Step))
	}
	if s.Gain != nil {
		add("gain", s.Gain.text("the best simple method, "+s.Gain.Method+","))
	} else if r != nil && len(r.Baselines) > len(s.Against) && string(r.Status) != interrupted {
		add("gain", "no simple method found a plan that fits")
	}
	for _, g := range s.Against {
		add("against", g.text(OneLine(g.Method)))
	}
	if s.Bound != nil {
		add("bound", fmt.Sprintf("no plan%s takes less than %v: at most %s less", boundOf(pl, r, p), *s.Bound, percent(*s.Left, 100)))
	}
	if s.Waiting != nil {
		add("waiting", fmt.Sprintf("devices wait %s of the time for the slowest one, in the mean", percent(*s.Waiting, 100)))
	}
	add("memory", s.memoryText(pl))
	add("sharding", placed(pl))
	add("engine", engine(pl))
	all = append(all, costFacts(pl)...)
	if r != nil && r.Measured != nil {
		add("kept", kept(r.Measured))
	}
	add("busiest", s.busiestText())
	if len(s.Binds) > 0 {
		of := "of the weights of"
		if p != nil {
			of = "of the bytes read by"
		}
		add("binds", fmt.Sprintf("%s, %s device %d", strings.Join(s.Binds, ", "), of, s.Busiest[0].Device))
	}
	add("hot rows", hotRows(p))
	return all
}

// timeText says what a step's embeddings take, and where this time comes from.
// r may be nil.
func (s *Summary) timeText(pl *plan.Plan, r *neuroshard.Result) string {
	if s.Time == nil {
		return "not known: no cost model estimated the plan"
	}
	text := fmt.Sprintf("%v, %s: lookups and exchanges of the slowest device", *s.Time, estimatedBy(pl, r != nil && bySimulation(r)))
	if s.Error != nil {
		text += fmt.Sprintf(" (± %.0f %%: %s)", math.Ceil(*s.Error), s.ErrorOf)
	}
	return text
}

// estimatedBy says where a time of a plan comes from: the times that plan files state are those of the
// nets, also if these were trained on the simulated device.
func estimatedBy(pl *plan.Plan, simulated bool) string {
	switch pl.Provenance.ModelSource {
	case plan.Simulated:
		if !simulated {
			return "predicted from simulated kernels"
		}
		return "simulated"
	case plan.Measured:
		return "by a model of measured kernels"
	case plan.ClosedForm:
		return "by the formulas of " + name(pl.Provenance.Model)
	}
	return "by " + name(pl.Provenance.Model)
}

// stepText says what the whole step takes.
func stepText(s *neuroshard.Step) string {
	return fmt.Sprintf("%v%s with the dense part, %s samples/s; %s", s.Step, errorBar(s.Times), large(s.SamplesPerSecond), limit(s.Bound))
}

// text says how much less time a plan takes than another one.
func (g Gain) text(than string) string {
	switch {
	case g.Time == nil:
		return than + ": " + cmp.Or(g.Reason, "no plan")
	case math.Abs(*g.Percent) < 0.05:
		return fmt.Sprintf("none: %s takes as long%s", than, g.invalid())
	case *g.Percent < 0:
		return fmt.Sprintf("none: %s takes %s less (%v%s)", than, percent(-*g.Percent, 100-*g.Percent), *g.Time, g.invalid())
	}
	return fmt.Sprintf("%s less time than %s (%v%s)", percent(*g.Percent, 100), strings.TrimSuffix(than, ","), *g.Time, g.invalid())
}

func (g Gain) invalid() string {
	if g.Reason == "" {
		return ""
	}
	return ", not valid here: " + g.Reason
}

// boundOf names the plans that the bound counts, if not all.
func boundOf(pl *plan.Plan, r *neuroshard.Result, p *problem.Problem) string {
	if pl.Cluster.WeightsOnly {
		return " of tables whole or cut by columns"
	}
	chosen := func(t problem.Table) bool { return t.ChooseDedup }
	if p != nil && slices.ContainsFunc(p.Tables, chosen) && (r == nil || len(r.Dedup) != 2 || r.Status == search.Interrupted) {
		return " that deduplicates the tables of a set that was tried"
	}
	return ""
}

func (s *Summary) memoryText(pl *plan.Plan) string {
	if len(pl.Devices) == 0 {
		return ""
	}
	f, e := s.Fullest, s.Emptiest
	text := fmt.Sprintf("%v of %v for tables (%s) on the fullest device, %d", f.Used, f.Of, percent(f.share(), 1), f.Device)
	if e.Device != f.Device {
		text += fmt.Sprintf("; %v on the emptiest, %d", e.Used, e.Device)
	}
	t := pl.Cluster.Topology()
	if pools := pl.Devices[f.Device].Pools; pools > t.DeviceMemory(f.Device) {
		text += fmt.Sprintf("; PyTorch's allocator would take about %v", pools)
	}
	host := unit.Bytes(0)
	for i := range pl.Devices {
		host = max(host, pl.Devices[i].Memory.Host)
	}
	if host > 0 {
		text += fmt.Sprintf("; up to %v of host memory for a device", host)
	}
	if !pl.Cluster.WeightsOnly {
		text += "; " + optimizers(pl)
	}
	return text
}

// optimizers names the optimizers of the tables, whose states are a part of the memory.
func optimizers(pl *plan.Plan) string {
	var all []string
	for i := range pl.Tables {
		if o := pl.Tables[i].Optimizer.String(); !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	if len(all) == 1 {
		return "optimizer " + all[0]
	}
	slices.Sort(all)
	return "optimizers " + words.List(all, 4)
}

func (s *Summary) busiestText() string {
	if len(s.Busiest) == 0 {
		return ""
	}
	numbers := make([]string, len(s.Busiest))
	for i, d := range s.Busiest {
		numbers[i] = fmt.Sprint(d.Device)
	}
	noun, most, least := "device ", s.Busiest[0].Time, s.Busiest[len(s.Busiest)-1].Time
	if len(numbers) > 1 {
		noun = "devices "
	}
	work := most.String()
	if least.String() != work {
		work = fmt.Sprintf("%v to %v", most, least)
	}
	return fmt.Sprintf("%s%s: %s of work; idlest %d: %v", noun, words.List(numbers, 3), work, s.Idlest.Device, s.Idlest.Time)
}

// byBusy returns the devices, those with the longest time without waiting first.
func byBusy(all []Load) []int {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[b].Busy(), all[a].Busy()) })
	return order
}

// mostWarned is the number of warnings that a report without Options.Full prints.
const mostWarned = 5

// summary writes the verdict.
func (v *view) summary(s *Summary) {
	v.title(s.Title)
	v.facts(s.Lines)
	if v.opt.From != nil {
		v.facts([]Fact{{"old plan", replanHeadline(v.opt.From).inOneLine()}})
	}
}

// title writes what was planned, for which cluster.
func (p *printer) title(title string) {
	switch p.opt.Name {
	case "":
		title = strings.ToUpper(title[:1]) + title[1:]
	case "-":
		title = "standard input: " + title
	default:
		title = path(p.opt.Name) + ": " + title
	}
	p.printf("%s\n\n", p.paint(bold, title))
}

// facts writes lines with titles.
func (p *printer) facts(all []Fact) {
	for _, f := range all {
		p.printf("%-10s %s\n", f.Name, f.Text)
	}
}

// nextFacts say what was written and what to do next.
func (p *printer) nextFacts() []Fact {
	return slices.DeleteFunc([]Fact{{"wrote", p.opt.Wrote}, {"next", p.opt.Next}}, func(f Fact) bool { return f.Text == "" })
}

// end writes the warnings, what was written and what to do next.
func (v *view) end(warnings []string) {
	shown := warnings
	if !v.opt.Full {
		shown = warnings[:min(mostWarned, len(warnings))]
	}
	for _, w := range shown {
		v.printf("%s %s\n", v.paint(yellow, fmt.Sprintf("%-10s", "warning")), w)
	}
	if more := words.More("", len(warnings)-len(shown)); more != "" {
		v.facts([]Fact{{"", more + ": --full"}})
	}
	v.facts(v.nextFacts())
}
