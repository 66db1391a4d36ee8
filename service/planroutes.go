package service

import (
	"context"
	"net/http"
	"strings"

	"github.com/neuroshard/neuroshard/service/jobs"
)

// asked says how a caller wants the answer.
type asked struct {
	Async  bool   `query:"async" doc:"Answer with the job at once"`
	Prefer string `header:"Prefer" doc:"respond-async is the same as async=true"`
}

// detached reports whether the caller wants the job.
func (a *asked) detached() bool {
	return a.Async || strings.Contains(strings.ToLower(a.Prefer), "respond-async")
}

// byID is the input of operations on one plan or one job.
type byID struct {
	ID string `path:"id" maxLength:"32" doc:"Id: 32 hex digits"`
}

// planRoutes registers the making and reading of plans.
func planRoutes(s *Service) {
	register(s, operation{
		method: http.MethodPost, path: "/v1/plan", id: "plan", summary: "Find a plan, or return the kept plan of the same input", body: PlanBody{}, answer: Answer{},
		job: true,
	}, func(ctx context.Context, in *asked) (*reply, error) {
		a, job, err := s.planner.plan(ctx, bodyOf(ctx), in.detached())
		return answerOrJob(a, job, err)
	})
	register(s, operation{
		method: http.MethodPost, path: "/v1/replan", id: "replan", summary: "Plan again from an old plan: keep the old plan, or move few bytes", body: ReplanBody{}, answer: ReplanAnswer{},
		job: true,
	}, func(ctx context.Context, in *asked) (*reply, error) {
		a, job, err := s.planner.replan(ctx, bodyOf(ctx), in.detached())
		return answerOrJob(a, job, err)
	})
	register(s, operation{
		method: http.MethodPost, path: "/v1/sweep", id: "sweep", summary: "Plan for many clusters; the answer is always a job", body: SweepBody{}, answer: JobStatus{},
		job: true,
	}, func(ctx context.Context, _ *none) (*reply, error) {
		job, err := s.planner.sweep(bodyOf(ctx))
		return answerOrJob(nil, job, err)
	})
}

// answerOrJob returns the answer of a job that was waited for, or the job.
func answerOrJob(a *answer, job *jobs.Job, err error) (*reply, error) {
	if err != nil {
		return nil, err
	}
	if a != nil {
		return &reply{Status: http.StatusOK, ContentType: "application/json", Body: a.bytes()}, nil
	}
	out, err := jsonReply(http.StatusAccepted, statusOf(job, true))
	if err == nil {
		out.Location = "/v1/jobs/" + job.ID()
	}
	return out, err
}
