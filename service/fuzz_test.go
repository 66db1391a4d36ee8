package service_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service"
	"github.com/neuroshard/neuroshard/unit"
)

// fuzzBody sends bodies to a route of a service that starts no jobs, and wants an answer that is no
// error of the server.
func fuzzBody(f *testing.F, path string, seeds ...string) {
	all := must.Get(service.New(service.Options{Store: empty{}, Limits: service.Limits{Body: unit.MiB, Tables: 100, Devices: 64, Cells: 16}}))(f)
	all.Close(context.Background())
	handler := all.Handler() // once: it makes all routes and their schemas
	for _, seed := range append(seeds, ``, `{`, `[]`, `null`, `{"problem": null}`, `{"problem": {"workload": "\ud800"}}`, `{"a": 1, "a": 2}`) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == 500 {
			t.Errorf("got status 500: %s", w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("got an answer that is not JSON: %s", w.Body)
		}
	})
}

func FuzzPlanBody(f *testing.F) {
	fuzzBody(f, "/v1/plan", quickBody, workloadBody,
		`{"problem": {"tables_csv": "name,rows,dim\na,10,4\n", "overrides": {"devices": 2, "device": "a100-80", "memory": "40GiB", "network_bandwidth": 5e10}}}`,
		`{"problem": {"tables": {"format": "neuroshard-tables", "version": 1, "batch": 64, "tables": [{"name": "a", "rows": 9, "dim": 4, "pooling": "none"}, {"name": "b", "rows": 9, "dim": 4, "features": [{"name": "f", "pooling_factor": 3, "bags": 2.5}]}]}, "overrides": {"devices": 2, "device": "a100-80"}}}`,
		`{"problem": {"tables": [{"num_embeddings": 10}], "topology": {"devices": 2}}, "options": {"sharding_types": ["all"], "seed": 1}, "cache": "refresh"}`)
}

func FuzzJudgeBody(f *testing.F) {
	fuzzBody(f, "/v1/validate", `{"plan": "00000000000000000000000000000000"}`, `{"plan": {"format": "neuroshard-plan", "version": 1}, "problem": {"workload": "criteo-kaggle"}}`)
}

func FuzzDiffBody(f *testing.F) {
	fuzzBody(f, "/v1/diff", `{"before": "0", "after": {}}`, `{"before": [], "after": {"format": "neuroshard-plan"}}`)
}

func FuzzReplanBody(f *testing.F) {
	fuzzBody(f, "/v1/replan", `{"old": {}, "problem": {"workload": "criteo-kaggle"}, "options": {"max_bytes": "5%", "lost_devices": [1]}}`)
}

func FuzzSweepBody(f *testing.F) {
	fuzzBody(f, "/v1/sweep", `{"problem": {"workload": "criteo-kaggle"}, "axes": {"devices": [1, 2], "scale": ["rows=2"], "sharding_types": ["all"], "for": ["any"]}, "price": 2}`)
}
