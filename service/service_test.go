package service_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/internal/must"
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
		kept := must.Get(store.Open(t.Context(), t.TempDir(), store.Options{}))(t)
		t.Cleanup(func() { _ = kept.Close() })
		opt.Store = kept
	}
	s := must.Get(service.New(opt))(t)
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

const workloadBody = `{"problem": {"workload": "paper-d4_m64-0", "name": "m"}, "options": {"max_evaluations": 2000, "baselines": false, "certificate": false}}`

// tiny is a problem of two tables.
const tiny = `"problem": {"tables_csv": "name,rows,dim\na,1000,8\nb,2000,16\n", "overrides": {"devices": 2, "device": "a100-80", "batch": 1024}}`

// endless is a plan whose search ends only when its job is cancelled, if the service has the limits
// patient.
const endless = `{"problem": {"workload": "dlrm-datasets-100x8"}, "options": {"max_evaluations": 1000000000000}}`

// patient has no limit of time that a test reaches.
var patient = service.Limits{Time: 24 * time.Hour}

// quickBody is a plan of a few ms.
const quickBody = `{"problem": {"workload": "criteo-kaggle", "overrides": {"devices": 2}}, "options": {"method": "size", "certificate": false, "baselines": false}}`

// TestFaultsOutsideOfBodies sends faults of parameters, paths and methods. Their answers have the same
// form as those of bodies.
func TestFaultsOutsideOfBodies(t *testing.T) {
	s := start(t, service.Options{})
	for _, c := range []struct {
		method, path, body string
		status             int
		kind               string
		want               []string
	}{
		{"GET", "/v1/plans?limit=-1", "", 422, "urn:neuroshard:input", []string{`"location":"query.limit"`, "expected number >= 1", `"value":-1`, `"detail":"query.limit: expected`}},
		{"GET", "/v1/plans?limit=many", "", 422, "urn:neuroshard:input", []string{"query.limit", "many"}},
		{"POST", "/v1/plan?foo=bar", quickBody, 422, "urn:neuroshard:input", []string{`"location":"query.foo"`, `parameter \"foo\" is unknown`, `"hint":`}},
		{"POST", "/v1/plan?b=1&c=2&a=3", quickBody, 422, "urn:neuroshard:input", []string{`"errors":[{"location":"query.a"`, "3 faults in the request"}},
		{"POST", "/v1/plan?async=maybe", quickBody, 422, "urn:neuroshard:input", []string{"query.async", "maybe"}},
		{"GET", "/v1/jobs/" + strings.Repeat("0", 33), "", 422, "urn:neuroshard:input", []string{"path.id"}},
		{"GET", "/v1/nothing", "", 404, "urn:neuroshard:not-found", []string{"there is no path /v1/nothing", "GET /openapi.json"}},
		{"POST", "/", quickBody, 405, "about:blank", []string{"/ does not take the method POST", "use one of GET, HEAD"}},
		{"PUT", "/v1/plan", "", 405, "about:blank", []string{"/v1/plan does not take the method PUT", "use one of POST"}},
	} {
		w := s.ask(c.method, c.path, c.body)
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%s %s: %v: %s", c.method, c.path, err, w.Body)
			continue
		}
		if w.Code != c.status || w.Header().Get("Content-Type") != "application/problem+json" || got["type"] != c.kind || got["status"] != float64(c.status) || got["detail"] == "" {
			t.Errorf("%s %s: got status %d, %s: %s, want %d, %s", c.method, c.path, w.Code, w.Header().Get("Content-Type"), w.Body, c.status, c.kind)
		}
		for _, want := range c.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s %s: got %s, want %s", c.method, c.path, w.Body, want)
			}
		}
		if allow := w.Header().Get("Allow"); (c.status == 405) != (allow != "") {
			t.Errorf("%s %s: got Allow %q", c.method, c.path, allow)
		}
	}
}

// TestFaults wants the place, the message and the hint of every fault of a body.
func TestFaults(t *testing.T) {
	s := start(t, service.Options{})
	for _, c := range []struct {
		body   string
		status int
		want   []string
	}{
		{``, 400, []string{"the body is empty"}},
		{"{\n\n", 400, []string{"line 3", "send a JSON object"}},
		{"{\"problem\": {\n\"workload\": \"criteo-kaggle\", \"name\": \"m\xff\"}}", 400, []string{"urn:neuroshard:input", "line 2: problem.name: invalid UTF-8", "send a JSON object in UTF-8"}},
		{"{\"problem\": {\"tables_csv\": \"name,rows,dim\\na\xff,1000,8\\n\"}}", 400, []string{"invalid UTF-8"}},
		{"{\"problem\": {\"tables\": {\"format\": \"\xff\"}}}", 400, []string{"invalid UTF-8"}},
		{`[]`, 422, []string{"a list is not an object"}},
		{`{}`, 422, []string{"problem"}},
		{`{"problem": {"workload": "criteo-kaggle"}} {}`, 400, []string{"not JSON"}},
		{`{"problem": {}}`, 422, []string{"tables"}},
		{`{"problem": {"workload": "criteo-kaggle"}, "options": {"time_limit_ms": 0}}`, 422, []string{"options.time_limit_ms"}},
		{`{"problem": {"name": "a"}}`, 422, []string{"0 of tables, tables_csv and workload are stated", "state one of them"}},
		{`{"problem": {"workload": "criteo-kaggle", "tables_csv": "a"}}`, 422, []string{"2 of tables"}},
		{`{"problem": {"workload": "nope"}}`, 422, []string{"nope", "GET /v1/workloads"}},
		{`{"problem": {"workload": "criteo-kaggle", "overides": {}}, "option": {}}`, 422, []string{`"problem.overides"`, "did you mean overrides?"}},
		{`{"Problem": {"workload": "criteo-kaggle"}, "problem": {"workload": "criteo-kaggle"}}`, 422, []string{`field \"Problem\" is unknown`}},
		{`{"problem": {"workload": "criteo-kaggle", "workload": "criteo-kaggle"}}`, 422, []string{`key \"workload\" is there twice`, `"problem"`}},
		{`{"problem": {"workload": "criteo-kaggle", "overrides": {"devices": 0, "memory": "40", "device": "a100"}}}`, 422, []string{"devices", "problem.overrides.memory", "problem.overrides.device"}},
		{`{"problem": {"workload": "criteo-kaggle", "overrides": {"replicas": "auto"}}}`, 422, []string{`"location":"problem.overrides.replicas"`, "expected integer"}},
		{`{"problem": {"workload": "criteo-kaggle", "topology": {"devices": 8, "device": "a100-80", "replicas": "auto"}}}`, 422, []string{"replicas"}},
		{`{"problem": {"tables": {"format": "neuroshard-tables", "version": 1, "tables": [{"name": "a", "rows": 10, "dim": 6}]}}}`, 422, []string{"the number of devices is missing", "state overrides.devices", "dim 6 is not a multiple of 4", `"line":1`}},
		{`{"problem": {"overrides": {"devices": 2, "device": "a100-80"}, "tables": [{"name": "a", "rows": 10, "dim": 4, "zip": 1}, {"name": "b", "rows": 10, "dim": 4, "zip": 1}]}}`, 422, []string{`unknown key \"zip\" in a table (2 times)","hint":`, `"errors":[{"location":"problem.tables"`, `"table":"a"`}},
		{`{"problem": {"workload": "criteo-kaggle"}, "options": {"seed": -1, "method": "foo", "time_limit_ms": 1000000000}}`, 422, []string{`"options.seed"`}},
		{`{"problem": {"workload": "criteo-kaggle"}, "options": {"seed": 1e400}}`, 422, []string{"1e400"}},
		{`{"problem": {"workload": "criteo-kaggle"}, "options": {"method": "dreamshard"}}`, 422, []string{`"options.method"`}},
		{`{"problem": {"workload": "criteo-kaggle"}, "options": {"method": "size", "sharding_types": ["row_wise"]}}`, 422, []string{`"options.sharding_types"`, "slices of columns only"}},
		{`{"problem": {"workload": "criteo-kaggle"}, "options": {"risk_penalty": 1}}`, 422, []string{`"options.risk_penalty"`, "no ensemble"}},
		{`{"problem": {"workload": "criteo-kaggle"}, "cache": "maybe"}`, 422, []string{`"cache"`}},
		{`{"problem": {"workload": "mlperf-dlrm-dcnv2", "overrides": {"devices": 1}}}`, 422, []string{"urn:neuroshard:infeasible", `"devices_needed":3`, `"missing_bytes":`, "overrides.devices 3"}},
	} {
		w := s.ask("POST", "/v1/plan", c.body, "Content-Type", "application/json")
		if w.Code != c.status || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.100s: got status %d, want %d: %s", c.body, w.Code, c.status, w.Body)
		}
		for _, want := range c.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%.100s: got %s, want %s", c.body, w.Body, want)
			}
		}
	}
}
