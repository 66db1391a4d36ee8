package page

import "github.com/neuroshard/neuroshard/report"

// NewReplan returns the data of a re-plan's curve.
func NewReplan(o *report.ReplanObject) *Replan {
	d := &Replan{Verdict: string(o.Verdict), Points: []ReplanPoint{}}
	for _, line := range o.Lines {
		d.Lines = append(d.Lines, report.OneLine(line))
	}
	for i, p := range o.Curve {
		if p.Chosen {
			d.Chosen = i
		}
		d.Points = append(d.Points, ReplanPoint{Label: report.OneLine(p.Label), Moved: p.Moved, Cost: p.Cost, Simulated: p.Simulated, PaysBack: p.PaysBack})
	}
	return d
}
