package service

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/report/page"
	"github.com/neuroshard/neuroshard/service/jobs"
	"github.com/neuroshard/neuroshard/service/store"
)

// pages makes the data of pages.
type pages struct{ *planner }

// document returns the page of a plan, or of two plans. The alternatives of tables are computed when the
// page is first asked for.
func (s *pages) document(ctx context.Context, id, with string) (*reply, error) {
	var records []*store.Record
	weight := int64(0)
	for _, one := range []string{id, with} {
		if one == "" {
			continue
		}
		record, err := s.record(ctx, one)
		if err != nil {
			return nil, err
		}
		records = append(records, record)
		weight += planWeight(record.Tables, record.Devices)
	}
	key := "page " + id + with
	if value, ok := s.answers.get(key); ok {
		return &reply{Status: http.StatusOK, ContentType: "application/json", Body: value.(text)}, nil
	}
	return s.inTurn(ctx, "page", key, weight, func(ctx context.Context, j *jobs.Job) (text, error) {
		d := page.Document{Tool: neuroshard.Version, Plans: []page.Plan{}}
		var inputs []page.Input
		for _, record := range records {
			in, err := s.shown(ctx, record, j)
			if err != nil {
				return nil, err
			}
			one, err := page.New(*in)
			if err != nil {
				return nil, err
			}
			d.Plans, inputs = append(d.Plans, one), append(inputs, *in)
		}
		d.Title = page.Title(&inputs[0])
		if len(inputs) == 2 {
			if d.Plans[0].Name == d.Plans[1].Name {
				for i := range d.Plans {
					d.Plans[i].Name += " " + records[i].ID[:8]
				}
			}
			d.Title = page.Title(&inputs[0], &inputs[1])
			d.Changes = page.Compare(inputs[0].Plan, inputs[1].Plan)
		}
		return s.draw(key, &d)
	})
}

// shown returns a kept plan with its problem and its result, as far as they are known.
func (s *pages) shown(ctx context.Context, record *store.Record, j *jobs.Job) (*page.Input, error) {
	h, err := s.planOf(ctx, s.shelf, Value(record.Plan), "plan")
	if err != nil {
		return nil, err
	}
	in := &page.Input{Name: record.Name, Model: record.Name, Plan: h.Plan}
	if in.Name == "" {
		in.Name = "plan " + record.ID[:8]
	}
	h.stated = record.Problem
	stated, err := h.problem()
	if err == nil {
		err = s.explain(ctx, in, stated, j)
	}
	if r := refusedInput(err); r != nil {
		in.Missing = append(in.Missing, "without costs and alternatives: "+r.Error())
		err = nil
	}
	return in, err
}

// explain computes the costs and alternatives of a plan with page.Judge.
func (s *pages) explain(ctx context.Context, in *page.Input, stated *ProblemBody, j *jobs.Job) error {
	c, err := s.compose(stated, in.Plan)
	if err != nil {
		return err
	}
	in.Problem = c.problem
	prices, err := s.prices.of(c.problem.Topology, 0)
	if err != nil {
		return err
	}
	return page.Judge(ctx, in, page.Judgement{Prices: prices, OnStep: func(what string, done, of int) {
		Progress{Phase: what, Share: float64(done) / float64(max(1, of)), Done: done, Of: of}.report(j)
	}})
}

// refusedInput returns the refusal of an input, or nil for another error.
func refusedInput(err error) *Refusal {
	if err == nil {
		return nil
	}
	if r := refused(err); r.Status == http.StatusUnprocessableEntity && r.Type != typeTime {
		return r
	}
	return nil
}

// pageRoutes registers the live page, its assets and its documents.
func pageRoutes(s *Service, mux *router) error {
	shown := &pages{s.planner}
	register(s, operation{method: http.MethodGet, path: "/v1/plans/{id}/page", id: "plan-page", summary: "The data of the page of a plan, or of two plans", answer: page.Document{}},
		func(ctx context.Context, in *struct {
			ID   string `path:"id" maxLength:"32" doc:"Id: 32 hex digits"`
			With string `query:"with" maxLength:"32" doc:"Id of a second plan to compare with"`
		},
		) (*reply, error) {
			return shown.document(ctx, in.ID, in.With)
		})
	register(s, operation{method: http.MethodGet, path: "/v1/jobs/{id}/page", id: "job-page", summary: "The data of the page of a re-plan or a sweep", answer: page.Document{}},
		func(ctx context.Context, in *byID) (*reply, error) {
			if value, ok := s.shelf.answers.get("page " + in.ID); ok {
				return &reply{Status: http.StatusOK, ContentType: "application/json", Body: value.(text)}, nil
			}
			if j := s.queue.Job(in.ID); j == nil || j.Status().State.Ended() {
				return nil, noJob(in.ID)
			}
			return nil, refuse(http.StatusConflict, typeBusy, "the job has not ended", "follow it at /v1/jobs/"+in.ID+"/events")
		})
	var index bytes.Buffer
	if err := page.Live(&index); err != nil {
		return err
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(index.Bytes())
	})
	mux.HandleFunc("GET /assets/{name}", func(w http.ResponseWriter, r *http.Request) { asset(w, r, page.Assets()) })
	return nil
}

// asset answers with a file of the live page.
func asset(w http.ResponseWriter, r *http.Request, files fs.FS) {
	name := r.PathValue("name")
	kinds := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	kind := kinds[name[max(0, lastDot(name)):]]
	f, err := files.Open(name)
	if err != nil || kind == "" {
		write(w, refuse(http.StatusNotFound, typeNotFound, "there is no file "+clip(name), ""))
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = io.Copy(w, f)
}

func lastDot(name string) int { return bytes.LastIndexByte([]byte(name), '.') }
