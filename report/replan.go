package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/unit"
)

// Replan writes whether to keep an old plan or to move to another one, the curve of cost
// against moved bytes, and what changed.
func Replan(w io.Writer, r *replan.Outcome, opt Options) error {
	p := &printer{w: w, opt: opt}
	p.headline(replanHeadline(r))
	if r.Result.Plan.Provenance.Status == interrupted {
		p.printf("%s: these are the plans found until then\n", p.paint(red, "INTERRUPTED"))
	}
	p.section("cost against moved bytes")
	curve(p, r)
	changes(p, r)
	transfer(p, r.Point().Transfer)
	reshard(p, r.Reshard)
	(&view{printer: p}).warnings(r.Result.Warnings())
	return p.err
}

// moved says what moves, and what is loaded or placed for the first time.
func moved(r *replan.Outcome) string {
	t := r.Point().Transfer
	var parts []string
	if t.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%v from a checkpoint", t.Lost))
	}
	if n := len(r.Changes.Added); n > 0 {
		parts = append(parts, plural(n, "added table"))
	}
	if t.Bytes > 0 {
		device, most := t.Busiest()
		parts = slices.Insert(parts, 0, fmt.Sprintf("%s of %s, %v (%v for the busiest device, %d%s)", count(int64(movedTables(t))), plural(len(r.Result.Plan.Tables), "table"), t.Bytes, most, device, times(t)))
	}
	if len(parts) == 0 {
		return "nothing between devices"
	}
	return strings.Join(parts, "; ")
}

// whyKeep says what the best other plan would bring.
func whyKeep(r *replan.Outcome) string {
	keep, best := r.Point(), r.Point()
	for i := range r.Curve {
		if r.Curve[i].Cost < best.Cost {
			best = &r.Curve[i]
		}
	}
	gain := 1 - float64(best.Cost/keep.Cost)
	switch {
	case best == keep:
		return "no other plan found costs less"
	case gain <= replan.TieBand:
		return fmt.Sprintf("the best other plan found saves %.2g %%, and gains up to %.2g %% are ties", 100*gain, 100*replan.TieBand)
	}
	return fmt.Sprintf("the best other plan found saves %.2g %%, and moves more bytes or pays back later than allowed", 100*gain)
}

// movedTables returns the number of tables with a part that moves to another device.
func movedTables(t *plan.Transfer) (n int) {
	for i := range t.Tables {
		if t.Tables[i].Bytes > 0 {
			n++
		}
	}
	return n
}

// times says how long a transfer takes; nothing if the bandwidths are not known.
func times(t *plan.Transfer) string {
	var parts []string
	if t.Inside > 0 {
		parts = append(parts, seconds(t.Inside)+" inside hosts")
	}
	if t.Between > 0 {
		parts = append(parts, seconds(t.Between)+" between hosts")
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// seconds prints a time in seconds, or in milliseconds if it is below one.
func seconds(m unit.Millis) string {
	switch s := float64(m) / 1000; {
	case m == 0:
		return "0 s"
	case s < 0.001:
		return m.String()
	case s >= 10:
		return count(int64(math.Round(s))) + " s"
	default:
		return fmt.Sprintf("%.2g s", s)
	}
}

// steps prints a number of steps.
func steps(n int64) string {
	if n == 1 {
		return "1 step"
	}
	return count(n) + " steps"
}

// long prints a duration in the unit that suits it.
func long(s float64) string {
	switch {
	case s < 1:
		return seconds(unit.Millis(1000 * s))
	case s < 90:
		return fmt.Sprintf("%.0f s", s)
	case s < 90*60:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.0f h", s/3600)
	}
	return count(int64(math.Round(s/86400))) + " days"
}

// curve lists the points, the chosen one with an arrow.
func curve(p *printer, r *replan.Outcome) {
	largest := unit.Millis(0)
	for i := range r.Curve {
		largest = max(largest, r.Curve[i].Cost, r.Curve[i].Simulated)
	}
	cost := alignTo(largest)
	titles := []string{"<", "<may move", "moved", "?share", "?tables", "?busiest device", "?time", "cost in ms"}
	if r.Judged {
		titles = append(titles, "?SIMULATED")
	}
	titles = append(titles, "gain", "pays back after")
	var rows [][]string
	for i := range r.Curve {
		point := &r.Curve[i]
		t := point.Transfer
		mark := ""
		if i == r.Chosen {
			mark = "->"
		}
		_, busiest := t.Busiest()
		row := []string{
			mark, pointLabel(point), t.Bytes.String(), percent(float64(t.Bytes), float64(r.Total)), count(int64(movedTables(t))),
			busiest.String(), transferTime(point), cost.ms(point.Cost),
		}
		if r.Judged {
			row = append(row, cost.ms(point.Simulated))
		}
		rows = append(rows, append(row, gained(r, i), payback(point, i)))
	}
	p.grid(titles, rows)
}

// untimed reports whether the time of a point's transfer is not known.
func untimed(point *replan.Point) bool {
	return !point.Transfer.Timed && point.Transfer.Bytes > 0
}

// transferTime is the time of a point's transfer.
func transferTime(point *replan.Point) string {
	if untimed(point) {
		return "-"
	}
	return seconds(point.Seconds())
}

// pointLabel says what a point of the curve may move.
func pointLabel(point *replan.Point) string {
	switch point.Label {
	case "keep":
		return "nothing: the old plan"
	case "0":
		return "what must move"
	case "free":
		if point.Whole {
			return "anything: a whole search"
		}
		return "anything"
	case "price":
		return "what pays its price"
	case "budget":
		return "your budget"
	}
	return point.Label
}

// gained is the gain of a point above the first one, in percent.
func gained(r *replan.Outcome, i int) string {
	if i == 0 {
		return "-"
	}
	base := r.Curve[0].Cost
	return unsigned(fmt.Sprintf("%.1f", 100*float64(1-r.Curve[i].Cost/base))) + " %"
}

// payback is the number of steps after which a point has paid back.
func payback(point *replan.Point, i int) string {
	switch {
	case i == 0:
		return "-"
	case untimed(point):
		return "-"
	case point.PaysBack < 0:
		return "never"
	}
	return steps(point.PaysBack)
}

// changes lists what differs between the old plan and the problem.
func changes(p *printer, r *replan.Outcome) {
	if unchanged(r) {
		return
	}
	p.section("what changed since the old plan")
	for _, f := range changeFacts(p, r) {
		p.printf("%-14s  %s\n", f.Name, f.Text)
	}
}

// unchanged reports whether the problem is that of the old plan.
func unchanged(r *replan.Outcome) bool {
	c := &r.Changes
	return len(c.Added)+len(c.Removed)+len(c.Resized)+len(c.Converted)+len(c.Lost) == 0 && c.Cluster == nil
}

// changeFacts returns what differs between the old plan and the problem.
func changeFacts(p *printer, r *replan.Outcome) []Fact {
	c := &r.Changes
	var all []Fact
	if c.Cluster != nil {
		all = append(all, Fact{"cluster", cluster(c.Cluster.Before) + " -> " + cluster(c.Cluster.After)})
	}
	if len(c.Lost) > 0 {
		all = append(all, Fact{"lost devices", numbers(c.Lost)})
	}
	for _, list := range []struct {
		name   string
		tables []string
	}{{"added", c.Added}, {"removed", c.Removed}, {"resized", c.Resized}, {"converted", c.Converted}} {
		if len(list.tables) > 0 {
			all = append(all, Fact{list.name, p.names(list.tables)})
		}
	}
	if t := r.Point().Transfer; t.Added > 0 {
		all = append(all, Fact{"initialised", t.Added.String()})
	}
	return all
}

// replanFacts says what changed since the old plan, and how a TorchRec job gets to the new plan.
func replanFacts(r *replan.Outcome) []Fact {
	p, all := &printer{}, []Fact{}
	if r.Result.Plan.Provenance.Status == interrupted {
		all = append(all, Fact{"INTERRUPTED", "these are the plans found until then"})
	}
	if !unchanged(r) {
		all = append(all, changeFacts(p, r)...)
	}
	if r.Reshard != nil {
		all = append(all, reshardFacts(p, r.Reshard)...)
	}
	for i := range all {
		all[i].Text = strings.TrimSuffix(all[i].Text, ": "+everyChange)
	}
	return all
}

// transfer lists the tables that move, in parts or whole, those with the most bytes first.
func transfer(p *printer, t *plan.Transfer) {
	moved := slices.Clone(t.Tables)
	moved = slices.DeleteFunc(moved, func(t plan.TableTransfer) bool { return t.Bytes == 0 })
	if len(moved) == 0 {
		return
	}
	slices.SortStableFunc(moved, func(a, b plan.TableTransfer) int { return int(max(-1, min(1, b.Bytes-a.Bytes))) })
	p.section("tables that move")
	var rows [][]string
	for i := range moved[:min(len(moved), p.mostChanges())] {
		rows = append(rows, tableTransfer(&moved[i]))
	}
	p.grid([]string{"<table", "bytes", "between hosts", "<from device", "<to device"}, rows)
	p.more(len(moved)-len(rows), "list every table with --full")
}

// tableTransfer is the row of a table that moves.
func tableTransfer(t *plan.TableTransfer) []string {
	var from, to []int
	between := unit.Bytes(0)
	for _, m := range t.Moves {
		from, to = append(from, m.From), append(to, m.To)
		if m.Link == plan.LinkBetween {
			between += m.Bytes
		}
	}
	for _, list := range []*[]int{&from, &to} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return []string{name(t.Name), t.Bytes.String(), between.String(), numbers(from), numbers(to)}
}

// reshard says how a TorchRec job gets to the plan.
func reshard(p *printer, r *replan.Reshard) {
	if r == nil {
		return
	}
	p.section("under TorchRec")
	for _, f := range reshardFacts(p, r) {
		p.printf("%-14s  %s\n", f.Name, f.Text)
	}
}

// reshardFacts says how a TorchRec job gets to the plan.
func reshardFacts(p *printer, r *replan.Reshard) []Fact {
	all := []Fact{{"while it runs", fmt.Sprintf("%v, with neuroshard_torchrec.reshard", r.Live)}}
	if r.Restart != "" {
		all[0] = Fact{"by checkpoint", fmt.Sprintf("%v: %s", r.Checkpoint, OneLine(r.Restart))}
	}
	if len(r.Stay) > 0 {
		all = append(all, Fact{"stay", p.names(r.Stay)})
	}
	return all
}

// CurvePoint is a point of the curve of a re-plan.
type CurvePoint struct {
	// Label says in words what the point may move.
	Label     string       `json:"label"`
	Budget    string       `json:"budget"`
	Limit     *unit.Bytes  `json:"limit_bytes"`
	Moved     unit.Bytes   `json:"moved_bytes"`
	Share     float64      `json:"moved_share"`
	Tables    int          `json:"moved_tables"`
	Busiest   unit.Bytes   `json:"busiest_device_bytes"`
	Seconds   float64      `json:"seconds"`
	Cost      unit.Millis  `json:"cost_ms"`
	Simulated *unit.Millis `json:"simulated_cost_ms"`
	PaysBack  *int64       `json:"pays_back_after_steps"`
	// PaysBackText is PaysBack in words.
	PaysBackText string `json:"pays_back"`
	Whole        bool   `json:"whole_search"`
	Chosen       bool   `json:"chosen"`
}

// replanJSON is what ReplanJSON writes. Bytes of Total count every copy of the old plan, and
// Busiest is the device with the most bytes in or out.
type replanJSON struct {
	Verdict        replan.Verdict `json:"verdict"`
	OldCost        *unit.Millis   `json:"old_cost_ms"` // nil if the old plan cannot stay
	Cost           unit.Millis    `json:"cost_ms"`
	Simulated      *unit.Millis   `json:"simulated_cost_ms"`
	Moved          unit.Bytes     `json:"moved_bytes"`
	Total          unit.Bytes     `json:"total_bytes"`
	Busiest        int            `json:"busiest_device"`
	BusiestBytes   unit.Bytes     `json:"busiest_device_bytes"`
	Seconds        float64        `json:"seconds"`
	SecondsInside  float64        `json:"seconds_inside"`
	SecondsBetween float64        `json:"seconds_between"`
	PaysBack       *int64         `json:"pays_back_after_steps"` // nil if it never does
	Status         string         `json:"status"`
	Headline
	Facts    []Fact          `json:"facts"`
	Changes  map[string]any  `json:"changes"`
	Curve    []CurvePoint    `json:"curve"`
	Transfer *plan.Transfer  `json:"transfer"`
	Unfit    string          `json:"old_plan_unfit,omitempty"`
	Reshard  *replan.Reshard `json:"torchrec,omitempty"`
	planObject
}

// ReplanJSON writes the outcome as one object.
func ReplanJSON(w io.Writer, r *replan.Outcome) error {
	point, answer := r.Point(), ReplanOf(r)
	t, chosen := point.Transfer, answer.Curve[r.Chosen]
	o := replanJSON{
		Verdict: r.Verdict, OldCost: r.OldCost, Cost: point.Cost, Simulated: chosen.Simulated, Moved: t.Bytes, Total: r.Total,
		Seconds: chosen.Seconds, SecondsInside: float64(t.Inside) / 1000, SecondsBetween: float64(t.Between) / 1000, PaysBack: chosen.PaysBack,
		Status: r.Result.Plan.Provenance.Status, Headline: answer.Headline, Facts: answer.Facts, Changes: changesOf(&r.Changes), Curve: answer.Curve, Transfer: t,
		Unfit: r.Unfit, Reshard: r.Reshard,
	}
	o.Busiest, o.BusiestBytes = t.Busiest()
	var err error
	if o.planObject, err = objectOfResult(r.Result, nil); err != nil {
		return err
	}
	return writeObject(w, o)
}

// pointOf returns a point of the curve as JSON has it.
func pointOf(r *replan.Outcome, i int) CurvePoint {
	point := &r.Curve[i]
	t := point.Transfer
	_, busiest := t.Busiest()
	one := CurvePoint{
		Label: pointLabel(point), Budget: point.Label, Moved: t.Bytes, Tables: movedTables(t), Busiest: busiest, Seconds: float64(point.Seconds()) / 1000,
		Cost: point.Cost, PaysBackText: payback(point, i), Whole: point.Whole, Chosen: i == r.Chosen,
	}
	if r.Total > 0 {
		one.Share = float64(t.Bytes) / float64(r.Total)
	}
	if point.Limit >= 0 {
		one.Limit = &point.Limit
	}
	if r.Judged {
		one.Simulated = &point.Simulated
	}
	if point.PaysBack >= 0 && !untimed(point) {
		one.PaysBack = &point.PaysBack
	}
	return one
}

// transferJSON is how a plan comes from an old plan.
type transferJSON struct {
	Verdict replan.Verdict `json:"verdict"`
	OldCost *unit.Millis   `json:"old_cost_ms"`
	CurvePoint
}

// transferOf returns how a plan comes from an old plan as JSON has it.
func transferOf(r *replan.Outcome) *transferJSON {
	return &transferJSON{r.Verdict, r.OldCost, pointOf(r, r.Chosen)}
}

// changesOf returns what changed as JSON has it.
func changesOf(c *replan.Changes) map[string]any {
	list := func(names []string) []string { return append([]string{}, names...) }
	return map[string]any{
		"added": list(c.Added), "removed": list(c.Removed), "resized": list(c.Resized), "converted": list(c.Converted),
		"lost_devices": append([]int{}, c.Lost...), "cluster": c.Cluster,
	}
}
