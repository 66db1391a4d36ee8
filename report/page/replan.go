package page

import (
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
)

// NewReplan returns the data of a re-plan's curve.
func NewReplan(r *replan.Outcome) *Replan {
	d := &Replan{Verdict: string(r.Verdict), Lines: report.ReplanLines(r), Points: []ReplanPoint{}, Chosen: r.Chosen}
	for i := range r.Curve {
		point := &r.Curve[i]
		one := ReplanPoint{Label: report.PointLabel(point), Moved: point.Transfer.Bytes, Cost: point.Cost}
		if r.Judged {
			one.Simulated = known(point.Simulated)
		}
		if steps, ok := report.PaysBack(point); ok {
			one.PaysBack = &steps
		}
		d.Points = append(d.Points, one)
	}
	return d
}
