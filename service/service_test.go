package service_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/service"
	"github.com/neuroshard/neuroshard/service/store"
)

// server is a service under test.
type server struct {
	*testing.T
	http.Handler
}

func start(t *testing.T, opt service.Options) *server {
	t.Helper()
	if opt.Store == nil {
		kept, err := store.Open(t.Context(), t.TempDir(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = kept.Close() })
		opt.Store = kept
	}
	s, err := service.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return &server{t, s.Handler()}
}

// ask sends a request to the handler.
func (s *server) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// object sends a request and returns the answer as an object.
func (s *server) object(status int, method, path, body string) map[string]any {
	s.Helper()
	w := s.ask(method, path, body)
	text, _ := io.ReadAll(w.Result().Body)
	if w.Code != status {
		s.Fatalf("%s %s: got status %d, want %d: %s", method, path, w.Code, status, text)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		s.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return object
}

const workloadBody = `{"problem": {"workload": "paper-d4_m64-0", "name": "m"}}`

// quickBody is a plan of a few ms.
const quickBody = `{"problem": {"workload": "criteo-kaggle", "overrides": {"devices": 2}}, "options": {"method": "size", "certificate": false, "baselines": false}}`

func TestPlan(t *testing.T) {
	s := start(t, service.Options{})
	first := s.object(200, "POST", "/v1/plan", workloadBody)
	if first["cached"] != false || first["saved"] != true {
		t.Errorf("got cached %v, saved %v, want false, true", first["cached"], first["saved"])
	}
	again := s.object(200, "POST", "/v1/plan", workloadBody)
	if again["cached"] != true || again["id"] != first["id"] {
		t.Errorf("got cached %v, id %v, want true, %v", again["cached"], again["id"], first["id"])
	}
	s.object(200, "GET", "/v1/plans/"+first["id"].(string), "")
	s.object(200, "GET", "/openapi.json", "")
	s.object(200, "GET", "/healthz", "")
	if w := s.ask("GET", "/metrics", ""); !strings.Contains(w.Body.String(), "neuroshard_http_requests_total") {
		t.Errorf("metrics: %s", w.Body)
	}
}

func TestFaults(t *testing.T) {
	s := start(t, service.Options{})
	for _, body := range []string{
		``, `{`, `[]`, `{}`, `{"problem":{}}`, `{"problem":{"workload":"nope"}}`,
		`{"problem":{"workload":"mlperf-dlrm-dcnv2","overides":{}},"option":{}}`,
		`{"problem":{"workload":"mlperf-dlrm-dcnv2","overrides":{"devices":0,"memory":"40","device":"a100"}}}`,
		`{"problem":{"tables":{"format":"neuroshard-tables","version":1,"tables":[{"name":"a","rows":10,"dim":6}]}}}`,
		`{"problem":{"workload":"mlperf-dlrm-dcnv2"},"options":{"seed":-1,"method":"foo","time_limit_ms":1000000000}}`,
		`{"problem":{"workload":"mlperf-dlrm-dcnv2","overrides":{"devices":1}}}`,
		`{"problem":{"workload":"mlperf-dlrm-dcnv2"},"options":{"seed":1e400}}`,
		`{"problem":{"workload":"dlrm-datasets-90000x128"}}`,
	} {
		w := s.ask("POST", "/v1/plan", body, "Content-Type", "application/json")
		t.Logf("%s\n%d %s", body, w.Code, w.Body)
	}
}
