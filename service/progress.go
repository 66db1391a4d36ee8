package service

import (
	"math"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/service/jobs"
	"github.com/neuroshard/neuroshard/unit"
)

// Progress is how far a job is.
type Progress struct {
	Phase string `json:"phase" doc:"What the job does now" example:"anneal"`
	// Share never falls.
	Share float64 `json:"share" doc:"Share of the work that is done, 0 to 1; an estimate"`
	// Best is the predicted cost of the best plan so far.
	Best        *unit.Millis `json:"best_ms,omitempty" doc:"Predicted cost of the best plan so far, in ms"`
	Evaluations int64        `json:"evaluations,omitempty" doc:"Cost estimates so far"`
	// Done and Of count the cells of a sweep.
	Done int `json:"done,omitempty" doc:"Finished cells of a sweep"`
	Of   int `json:"of,omitempty" doc:"All cells of a sweep"`
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
		j.Report(now)
	}
	o.OnStep = func(step string) {
		now.Phase, now.Share = step, 1
		j.Report(now)
	}
}
