package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/service/store"
	"github.com/neuroshard/neuroshard/unit"
)

// PlanEntry is a kept plan in a list.
type PlanEntry struct {
	ID   string `json:"id" doc:"Id of the plan"`
	Name string `json:"name" doc:"Name of the model; empty for plans without one"`
	// Created and Asked are when the plan was first and last asked for under the name.
	Created time.Time   `json:"created" doc:"When the plan was first asked for under the name"`
	Asked   time.Time   `json:"asked" doc:"When the plan was last asked for under the name"`
	Digest  string      `json:"digest" doc:"Digest of the problem"`
	Model   string      `json:"model" doc:"Id of the cost model"`
	Tool    string      `json:"tool" doc:"Version of neuroshard"`
	Tables  int         `json:"tables"`
	Devices int         `json:"devices"`
	Cost    unit.Millis `json:"cost_ms" doc:"Predicted cost of one step in ms"`
	About
	Cursor int64 `json:"cursor" doc:"Value of before for the entries that are older than this one"`
}

// About is what a list says of a plan beside its numbers.
type About struct {
	Device string   `json:"device" doc:"Device profile; empty for plans of earlier versions"`
	Batch  int      `json:"batch" doc:"Global batch in samples"`
	Engine string   `json:"engine" doc:"Engine that the plan is for; empty: any"`
	Gain   *float64 `json:"gain_percent" doc:"How much less time the plan takes than the best simple method; null if it was not compared"`
}

// aboutOf returns the About of a result as JSON.
func aboutOf(r *neuroshard.Result) []byte {
	c := &r.Plan.Cluster
	about := About{Device: c.Profile, Batch: c.Batch, Engine: string(c.Engine)}
	if gain := report.GainOf(r); gain != nil {
		about.Gain = gain.Percent
	}
	text, err := json.Marshal(about)
	if err != nil {
		return nil // its numbers are finite
	}
	return text
}

func entryOf(e store.Entry) PlanEntry {
	out := PlanEntry{ID: e.ID, Name: e.Name, Created: e.First, Asked: e.Last, Digest: e.Digest, Model: e.Model, Tool: e.Tool, Tables: e.Tables, Devices: e.Devices, Cost: e.Cost, Cursor: e.Seq}
	_ = json.Unmarshal(e.About, &out.About) // plans of earlier versions have none
	return out
}

// PlanList is what GET /v1/plans returns.
type PlanList struct {
	Plans []PlanEntry `json:"plans" doc:"Plans, the one asked for last in front"`
}

// NameEntry is the name of a model with its history in short.
type NameEntry struct {
	Name  string    `json:"name"`
	Plans int       `json:"plans" doc:"Number of plans of the name"`
	Last  PlanEntry `json:"last" doc:"The plan asked for last"`
}

// NameList is what GET /v1/names returns.
type NameList struct {
	Names []NameEntry `json:"names" doc:"Names, the one asked for last in front"`
}

// plansRoutes registers the operations that read and delete kept plans.
func plansRoutes(s *Service) {
	register(s, operation{method: http.MethodGet, path: "/v1/plans", id: "list-plans", summary: "The kept plans, or the history of a name", answer: PlanList{}},
		func(ctx context.Context, in *struct {
			Name   string `query:"name" maxLength:"200" doc:"Name of a model"`
			Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most entries"`
			Before int64  `query:"before" minimum:"0" doc:"The cursor of the last entry of the part before"`
		},
		) (*reply, error) {
			entries, err := s.shelf.store.List(ctx, in.Name, store.Page{Limit: in.Limit, Before: in.Before})
			out := PlanList{Plans: []PlanEntry{}}
			for _, e := range entries {
				out.Plans = append(out.Plans, entryOf(e))
			}
			return replyOr(err, out)
		})
	register(s, operation{method: http.MethodGet, path: "/v1/names", id: "names", summary: "The names of models that have plans", answer: NameList{}},
		func(ctx context.Context, in *struct {
			Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most entries"`
			Before int64 `query:"before" minimum:"0" doc:"The cursor of the last entry of the part before"`
		},
		) (*reply, error) {
			names, err := s.shelf.store.Names(ctx, store.Page{Limit: in.Limit, Before: in.Before})
			out := NameList{Names: []NameEntry{}}
			for _, n := range names {
				out.Names = append(out.Names, NameEntry{n.Name, n.Plans, entryOf(n.Last)})
			}
			return replyOr(err, out)
		})
	register(s, operation{method: http.MethodGet, path: "/v1/plans/{id}", id: "get-plan", summary: "A plan, byte for byte as neuroshard plan -o writes it"},
		func(ctx context.Context, in *byID) (*reply, error) {
			record, err := s.shelf.record(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return &reply{Status: http.StatusOK, ContentType: "application/json", Body: record.Plan}, nil
		})
	register(s, operation{method: http.MethodGet, path: "/v1/plans/{id}/torchrec", id: "get-torchrec-plan", summary: "A plan as neuroshard convert --to torchrec writes it"},
		func(ctx context.Context, in *struct {
			ID     string `path:"id" maxLength:"32" doc:"Id: 32 hex digits"`
			Module string `query:"module" maxLength:"1000" doc:"Path of the module of the tables that do not state one"`
		},
		) (*reply, error) {
			record, err := s.shelf.record(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			pl, err := plan.Read(bytes.NewReader(record.Plan))
			if err != nil {
				return nil, err
			}
			var out bytes.Buffer
			err = export.TorchRec(&out, pl, export.Options{Module: &in.Module})
			return &reply{Status: http.StatusOK, ContentType: "application/json", Body: out.Bytes()}, err
		})
	register(s, operation{method: http.MethodGet, path: "/v1/plans/{id}/problem", id: "get-problem", summary: "The problem of a plan with the options of its search, as the request stated them", answer: KeptProblem{}},
		func(ctx context.Context, in *byID) (*reply, error) {
			record, err := s.shelf.record(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return &reply{Status: http.StatusOK, ContentType: "application/json", Body: record.Problem}, nil
		})
	register(s, operation{method: http.MethodDelete, path: "/v1/plans/{id}", id: "delete-plan", summary: "Delete a plan", answer: health{}},
		func(ctx context.Context, in *byID) (*reply, error) {
			if !validID(in.ID) {
				return nil, noPlan(in.ID)
			}
			err := s.shelf.store.Delete(ctx, in.ID)
			s.shelf.forget(in.ID) // after the store: a request in between may have read the plan again
			if errors.Is(err, store.ErrNotFound) {
				return nil, noPlan(in.ID)
			}
			return replyOr(err, health{"deleted"})
		})
}

// replyOr returns a value as the answer, unless there is an error.
func replyOr(err error, value any) (*reply, error) {
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, value)
}
