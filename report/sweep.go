package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/unit"
)

// mostDoubts is the number of warnings of a sweep that are printed.
const mostDoubts = 10

// Sweep writes the cells of a sweep, one on each line, with the marks of the best ones, and
// then why cells have no plan.
func Sweep(w io.Writer, r *sweep.Results, opt Options) error {
	s := &sweepReport{printer{w: w, opt: opt}, r}
	s.opt.Name, s.opt.Next = r.Name, planNext(r)
	s.headline(SweepHeadline(r))
	s.printf("\n")
	s.facts(SweepFacts(r))
	s.cells()
	s.reasons()
	s.warnings()
	return s.err
}

type sweepReport struct {
	printer
	*sweep.Results
}

// planNext is the command that plans for the fastest cluster.
func planNext(r *sweep.Results) string {
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; slices.Contains(r.Marks[i], sweep.Fastest) {
			batch := ""
			if o.BatchPerDevice > 0 {
				batch = fmt.Sprintf(" --batch %d", o.Batch)
			}
			return fmt.Sprintf("neuroshard plan %s --gpus %d --gpu %s%s -o plan.json, with the other flags of the sweep", path(r.Name), o.Devices, name(o.Device), batch)
		}
	}
	return ""
}

// SweepFacts says what was swept, what all cells have in common, what their times and prices come from,
// and which cells are missing.
func SweepFacts(r *sweep.Results) []Fact {
	all := []Fact{}
	add := func(name, format string, args ...any) { all = append(all, Fact{name, fmt.Sprintf(format, args...)}) }
	var axes []string
	for _, x := range r.Varying() {
		axes = append(axes, fmt.Sprintf("%s (%d)", x.Name, len(x.Values)))
	}
	if len(axes) == 0 {
		axes = []string{"no axis varies"}
	}
	add("swept", "%s, %s: %s", plural(r.Tables, "table"), plural(r.Head.Cells, "cell"), strings.Join(axes, " x "))
	if r.Part.Count > 1 {
		add("part", "%v: join all parts with: neuroshard sweep join FILES", r.Part)
	}
	if n := r.Missing(); n > 0 {
		add("INTERRUPTED", "%d of %s are planned", len(r.Outcomes), plural(len(r.Outcomes)+n, "cell"))
	}
	if common := inCommon(r); common != "" {
		add("all cells", "%s", common)
	}
	switch {
	case r.Stack != "":
		add("times", "%s; whole steps under %s", r.Judge(), r.Stack)
	case r.Judge() == "SIMULATED":
		add("times", "SIMULATED (± %d %%: %s); of the embeddings alone: --set dense=NAME or --set step=TIME adds the rest of the step", SimulatedError, simulatedErrorOf)
	default:
		add("times", "%s; of the embeddings alone: --set dense=NAME or --set step=TIME adds the rest of the step", r.Judge())
	}
	if r.Prices != "" {
		add("prices", "%s", OneLine(r.Prices))
	}
	return all
}

// inCommon lists what all cells have in common: what no axis varies, and what is equal in all of them.
func inCommon(r *sweep.Results) string {
	if len(r.Outcomes) == 0 {
		return ""
	}
	most := 0 // devices of a full host
	for i := range r.Outcomes {
		most = max(most, r.Outcomes[i].DevicesPerHost)
	}
	var all []string
	for _, f := range []struct {
		axis, text string
		of         func(c *sweep.Cell) string
	}{
		{"device", "device %s", func(c *sweep.Cell) string { return c.Device }},
		{"devices", "%s", func(c *sweep.Cell) string { return plural(c.Devices, "device") }},
		{"devices-per-host", "%s a host", func(c *sweep.Cell) string {
			if c.DevicesPerHost == min(c.Devices, most) { // the cells of one host may have fewer
				return plural(most, "device")
			}
			return plural(c.DevicesPerHost, "device")
		}},
		{"batch", "%s", func(c *sweep.Cell) string {
			if c.BatchPerDevice > 0 {
				return plural(c.BatchPerDevice, "sample") + " a device"
			}
			return "global batch " + count(int64(c.Batch))
		}},
		{"precision", "weights %s", func(c *sweep.Cell) string { return c.Precision }},
		{"comm-precision", "exchanges %s", func(c *sweep.Cell) string { return c.CommPrecision }},
		{"sharding-types", "sharding types %s", func(c *sweep.Cell) string { return c.ShardingTypes }},
		{"for", "engine %s", func(c *sweep.Cell) string { return c.Engine }},
	} {
		first := f.of(&r.Outcomes[0].Cell)
		varies := slices.ContainsFunc(r.Varying(), func(x sweep.Axis) bool { return x.Name == f.axis }) ||
			slices.ContainsFunc(r.Outcomes, func(o sweep.Outcome) bool { return f.of(&o.Cell) != first })
		if !varies {
			all = append(all, fmt.Sprintf(f.text, first))
		}
	}
	return strings.Join(all, ", ")
}

// cells writes the table.
func (s *sweepReport) cells() {
	whole, priced := false, false
	for i := range s.Outcomes {
		if p := s.Outcomes[i].Plan; p != nil {
			whole, priced = whole || p.Whole, priced || p.PricePerBillion > 0
		}
	}
	titles := []string{"cell"}
	axes := s.Varying()
	for _, x := range axes {
		title := x.Name
		if _, err := strconv.Atoi(x.Values[0]); err != nil {
			title = "<" + title
		}
		titles = append(titles, title)
	}
	titles = append(titles, "<fits", "?embeddings")
	if whole {
		titles = append(titles, "step")
	}
	titles = append(titles, "samples/s")
	if priced {
		titles = append(titles, "$/1e9")
	}
	titles = append(titles, "?memory", "?used", "<binds", "<marks")
	var rows [][]string
	for _, i := range s.Order {
		o := &s.Outcomes[i]
		row := []string{strconv.Itoa(o.Number)}
		for _, x := range axes {
			row = append(row, o.Value(x.Name))
		}
		rows = append(rows, append(row, planCells(o, whole, priced, s.Marks[i])...))
	}
	s.printf("\n")
	s.grid(titles, rows)
}

// planCells are the columns of a plan.
func planCells(o *sweep.Outcome, whole, priced bool, marks []sweep.Mark) []string {
	p := o.Plan
	if p == nil {
		fits := "no"
		if o.Status == sweep.Impossible {
			fits = "-"
		}
		return []string{fits}
	}
	row := []string{"yes", unit.Millis(p.Embeddings()).String()}
	if whole {
		row = append(row, unit.Millis(p.Step).String())
	}
	row = append(row, large(p.SamplesPerSecond))
	switch {
	case priced && p.PricePerBillion > 0:
		row = append(row, money(p.PricePerBillion))
	case priced:
		row = append(row, "-")
	}
	row = append(row, p.Memory.String(), percent(float64(p.Memory), float64(p.Budget)), Binds(p.Binds))
	var said []string
	for _, m := range marks {
		said = append(said, string(m))
	}
	return append(row, strings.Join(said, ", "))
}

// Binds is what binds, in the words of the report.
func Binds(b sweep.Bind) string {
	switch b {
	case sweep.HBM:
		return "HBM"
	case sweep.HostMemory:
		return "host memory"
	case sweep.NVLink:
		return "NVLink"
	}
	return string(b)
}

// reasons says why cells have no plan. Equal reasons are written once.
func (s *sweepReport) reasons() {
	type why struct{ status, reason, remedy string }
	var order []why
	cells := map[why][]int{}
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		if o.Plan != nil {
			continue
		}
		w := why{string(o.Status), o.Reason, o.Remedy}
		if cells[w] == nil {
			order = append(order, w)
		}
		cells[w] = append(cells[w], o.Number)
	}
	if len(order) == 0 {
		return
	}
	s.section("cells without a plan")
	for _, w := range order {
		s.printf("- %s, %s: %s\n", numbers(cells[w]), w.status, OneLine(w.reason))
		if w.remedy != "" {
			s.printf("  change: %s\n", OneLine(w.remedy))
		}
	}
}

// warnings writes the warnings of the plans, each once.
func (s *sweepReport) warnings() {
	var order []string
	cells := map[string]int{}
	plans := 0
	for i := range s.Outcomes {
		p := s.Outcomes[i].Plan
		if p == nil {
			continue
		}
		plans++
		for _, w := range p.Warnings {
			if cells[w] == 0 {
				order = append(order, w)
			}
			cells[w]++
		}
	}
	if len(order) == 0 {
		return
	}
	s.section("warnings")
	for _, w := range order[:min(mostDoubts, len(order))] {
		where := ""
		if n := cells[w]; n < plans {
			where = plural(n, "cell") + ": "
		}
		s.printf("- %s%s\n", where, OneLine(w))
	}
	if more := words.More("", len(order)-mostDoubts); more != "" {
		s.printf("%s: see --json\n", more)
	}
}
