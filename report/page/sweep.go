package page

import (
	"slices"

	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// NewSweep returns the data of a sweep, its cells in the order of r.
func NewSweep(r *sweep.Results) *Sweep {
	s := &Sweep{Name: r.Name, Headline: report.SweepHeadline(r), Facts: report.SweepFacts(r), Axes: []string{}, Cells: []SweepCell{}}
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
	s.Warnings = warningsOf(r)
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
