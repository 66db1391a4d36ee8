package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// NewSweep returns the data of a sweep, its cells in the order of r.
func NewSweep(r *sweep.Results) *Sweep {
	s := &Sweep{Name: r.Name, Lines: report.SweepLines(r), Axes: []string{}, Cells: []SweepCell{}}
	axes := r.Varying()
	for _, x := range axes {
		s.Axes = append(s.Axes, x.Name)
	}
	for _, i := range r.Order {
		o := &r.Outcomes[i]
		cell := SweepCell{Number: o.Number, Values: []string{}, Device: o.Device, Devices: o.Devices, Reason: report.OneLine(o.Reason)}
		for _, x := range axes {
			cell.Values = append(cell.Values, o.Value(x.Name))
		}
		if o.Remedy != "" {
			cell.Reason += "; " + report.OneLine(o.Remedy)
		}
		for _, m := range r.Marks[i] {
			cell.Marks = append(cell.Marks, string(m))
		}
		if o.Plan != nil {
			cell.planned(o.Plan)
		}
		s.Cells = append(s.Cells, cell)
	}
	s.Verdict, s.Warnings = verdict(s.Cells), warningsOf(r)
	return s
}

// planned sets the numbers of a plan.
func (c *SweepCell) planned(p *sweep.Planned) {
	c.Step, c.Throughput = known(unit.Millis(p.Step)), &p.SamplesPerSecond
	if p.PricePerBillion > 0 {
		c.Price = &p.PricePerBillion
	}
	if p.Budget > 0 {
		share := float64(p.Memory) / float64(p.Budget)
		c.Memory = &share
	}
	if p.ErrorPercent > 0 || p.Measured {
		c.Error = &p.ErrorPercent
	}
	c.Bind = report.Binds(p.Binds)
}

// warningsOf returns the warnings of all plans, each once.
func warningsOf(r *sweep.Results) []string {
	all := []string{}
	for i := range r.Outcomes {
		if p := r.Outcomes[i].Plan; p != nil {
			for _, w := range p.Warnings {
				if w = report.OneLine(w); !slices.Contains(all, w) {
					all = append(all, w)
				}
			}
		}
	}
	return all
}

// verdict names the fastest and the cheapest cluster.
func verdict(cells []SweepCell) string {
	var all []string
	for _, m := range []sweep.Mark{sweep.Fastest, sweep.Cheapest} {
		for _, c := range cells {
			if slices.Contains(c.Marks, string(m)) {
				all = append(all, fmt.Sprintf("%d x %s is the %s, %v a step", c.Devices, c.Device, m, *c.Step))
			}
		}
	}
	if len(all) == 0 {
		return "No cluster holds the tables."
	}
	return strings.Join(all, "; ") + "."
}
