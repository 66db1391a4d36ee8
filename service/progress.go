package service

import (
	"cmp"
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/service/jobs"
	"github.com/neuroshard/neuroshard/unit"
)

// Progress is how far a job is.
type Progress struct {
	Phase string `json:"phase" doc:"What the job does now" example:"anneal"`
	Text  string `json:"text" doc:"All of this in words"`
	// Share never falls.
	Share float64 `json:"share" doc:"Share of the work that is done, 0 to 1; an estimate"`
	// Best is the predicted cost of the best plan so far.
	Best        *unit.Millis `json:"best_ms,omitempty" doc:"Predicted cost of the best plan so far, in ms"`
	Evaluations int64        `json:"evaluations,omitempty" doc:"Cost estimates so far"`
	// Done and Of count the cells of a sweep.
	Done int `json:"done,omitempty" doc:"Finished cells of a sweep"`
	Of   int `json:"of,omitempty" doc:"All cells of a sweep"`
}

// phases say what a search does, by the names of its phases.
var phases = map[string]string{
	"start": "first plans", "beam": "splitting tables", "forms": "choosing sharding types", "operators": "grouping tables into operators", "anneal": "refining the plan",
}

// report reports the progress, in words, too.
func (p Progress) report(j *jobs.Job) {
	p.Text = cmp.Or(phases[p.Phase], p.Phase)
	if p.Of > 0 {
		p.Text += fmt.Sprintf(", %d of %d", p.Done, p.Of)
	}
	if p.Best != nil {
		p.Text += fmt.Sprintf(", best %v", *p.Best)
	}
	if p.Evaluations > 0 {
		p.Text += ", " + words.Plural(int(p.Evaluations), "evaluation")
	}
	j.Report(p)
}

// follow has a search report its progress.
func follow(o *neuroshard.Options, j *jobs.Job) {
	now := Progress{Phase: "start"}
	o.Search.OnEvent = func(e search.Event) {
		done, all := float64(e.Level), float64(max(1, e.Levels))
		if e.Limit > 0 {
			done, all = float64(e.Evaluations), float64(e.Limit)
		}
		now.Phase, now.Share, now.Evaluations = e.Phase, min(1, max(now.Share, done/all)), e.Evaluations
		if best := unit.Millis(e.Best); !math.IsInf(e.Best, 1) {
			now.Best = &best
		}
		now.report(j)
	}
	o.OnStep = func(step string) {
		now.Phase, now.Share = step, 1
		now.report(j)
	}
}
