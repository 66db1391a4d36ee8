package service

import (
	"context"
	"net/http"
	"strings"
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
		method: http.MethodPost, path: "/v1/plan", id: "plan", summary: "Find a plan, or return the one that is known", body: PlanBody{}, answer: Answer{},
		statuses: map[string]string{"202": "The job that plans; its address is in the header Location"},
	}, func(ctx context.Context, in *asked) (*reply, error) {
		a, job, err := s.planner.plan(ctx, bodyOf(ctx), in.detached())
		if err != nil {
			return nil, err
		}
		if a == nil {
			out, err := jsonReply(http.StatusAccepted, statusOf(job))
			if err == nil {
				out.Location = "/v1/jobs/" + job.ID()
			}
			return out, err
		}
		return &reply{Status: http.StatusOK, ContentType: "application/json", Body: a.bytes()}, nil
	})
	register(s, operation{method: http.MethodGet, path: "/v1/plans/{id}", id: "get-plan", summary: "A plan, byte for byte as neuroshard plan -o writes it"},
		func(ctx context.Context, in *byID) (*reply, error) {
			record, err := s.shelf.record(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return &reply{Status: http.StatusOK, ContentType: "application/json", Body: record.Plan}, nil
		})
}
