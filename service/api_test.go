package service_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/service"
	"github.com/neuroshard/neuroshard/service/store"
	"github.com/neuroshard/neuroshard/unit"
)

// made asks for the quick plan with overrides, and returns its id.
func (s *server) made(overrides string) string {
	s.Helper()
	body := strings.Replace(quickBody, `"devices": 2`, `"devices": 2`+overrides, 1)
	return s.object(200, "POST", "/v1/plan", body)["id"].(string)
}

// TestBytesOfThePlan wants the bytes that the line writes with the options of the command plan.
func TestBytesOfThePlan(t *testing.T) {
	s := start(t, service.Options{})
	id := s.object(200, "POST", "/v1/plan", `{"problem": {"workload": "criteo-kaggle", "overrides": {"devices": 2}}, "options": {"seed": 3, "max_evaluations": 300}}`)["id"].(string)
	parts := input.Parts{Overrides: input.Overrides{"devices": "2"}}
	parts.Tables, parts.Workload, _ = input.Workload("criteo-kaggle", parts.Overrides)
	p, warnings := must.Get2(parts.Problem())(t)
	options := neuroshard.Options{Warnings: warnings}
	options.Search.Seed, options.Search.MaxEvaluations, options.Search.ShardingTypes = 3, 300, search.Allowing(problem.ShardingTypes())
	r := must.Get(neuroshard.Plan(t.Context(), p, options))(t)
	var want bytes.Buffer
	must.Do(t, r.Plan.Write(&want))
	if got := s.ask("GET", "/v1/plans/"+id, "").Body; !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("got %d bytes, want %d others", got.Len(), want.Len())
	}
}

func TestCacheOfPlans(t *testing.T) {
	s := start(t, service.Options{})
	first := s.object(200, "POST", "/v1/plan", quickBody)
	for _, c := range []struct {
		what, body   string
		cached, same bool
	}{
		{"the same bytes", quickBody, true, true},
		{"other spaces", strings.ReplaceAll(quickBody, " ", "  "), true, true},
		{"a name", strings.Replace(quickBody, `"problem": {`, `"problem": {"name": "m", `, 1), true, true},
		{"a limit of time", strings.Replace(quickBody, `"options": {`, `"options": {"time_limit_ms": 59999, `, 1), true, true},
		{"the default seed", strings.Replace(quickBody, `"options": {`, `"options": {"seed": 0, `, 1), true, true},
		{"another seed", strings.Replace(quickBody, `"options": {`, `"options": {"seed": 1, `, 1), false, false},
		{"another batch", strings.Replace(quickBody, `"devices": 2`, `"devices": 2, "batch": 512`, 1), false, false},
		{"another certificate", strings.Replace(quickBody, `"certificate": false, `, ``, 1), false, false},
		{"refresh", strings.Replace(quickBody, `{"problem"`, `{"cache": "refresh", "problem"`, 1), false, true},
	} {
		got := s.object(200, "POST", "/v1/plan", c.body)
		if got["cached"] != c.cached || (got["id"] == first["id"]) != c.same {
			t.Errorf("%s: got cached %v, the same id %v, want %v, %v", c.what, got["cached"], got["id"] == first["id"], c.cached, c.same)
		}
	}
	// Another server has the same id for the same input.
	other := start(t, service.Options{})
	if got := other.object(200, "POST", "/v1/plan", quickBody)["id"]; got != first["id"] {
		t.Errorf("another server: got id %v, want %v", got, first["id"])
	}
}

func TestSameRequestsPlanOnce(t *testing.T) {
	s := start(t, service.Options{})
	var all sync.WaitGroup
	ids := make([]any, 8)
	for i := range ids {
		all.Go(func() { ids[i] = s.object(200, "POST", "/v1/plan", workloadBody)["id"] })
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == nil {
			t.Errorf("got ids %v, want one", ids)
		}
	}
	if n := strings.Count(s.ask("GET", "/metrics", "").Body.String(), "neuroshard_planning_seconds_count 1\n"); n != 1 {
		t.Error("the plan was made several times")
	}
}

// A request that waits while another one makes the same plan, under another name, gets that plan.
func TestPlansThatWaitedAreNotMadeAgain(t *testing.T) {
	limits := patient
	limits.Concurrency, limits.Queue = 1, 2
	s := start(t, service.Options{Limits: limits})
	first := s.object(202, "POST", "/v1/plan?async=true", endless)["id"].(string)
	var waiting []string
	for _, name := range []string{"one", "two"} {
		body := strings.Replace(workloadBody, `"m"`, `"`+name+`"`, 1)
		waiting = append(waiting, s.object(202, "POST", "/v1/plan?async=true", body)["id"].(string))
	}
	s.object(200, "DELETE", "/v1/jobs/"+first, "")
	for i, id := range waiting {
		s.ask("GET", "/v1/jobs/"+id+"/events", "")
		got := s.object(200, "GET", "/v1/jobs/"+id, "")["result"].(map[string]any)
		if got["cached"] != (i == 1) || got["job"] != id || got["name"] != []string{"one", "two"}[i] {
			t.Errorf("job %d: got cached %v, job %v, name %v", i, got["cached"], got["job"], got["name"])
		}
	}
}

func TestHistory(t *testing.T) {
	s := start(t, service.Options{})
	named := func(name, overrides string) string {
		body := strings.Replace(quickBody, `"problem": {`, fmt.Sprintf(`"problem": {"name": %q, `, name), 1)
		return s.object(200, "POST", "/v1/plan", strings.Replace(body, `"devices": 2`, `"devices": 2`+overrides, 1))["id"].(string)
	}
	a := named("m", "")
	b := named("m", `, "batch": 512`)
	if got := named("m", ""); got != a { // again: it is the last one now
		t.Fatalf("got %s, want %s", got, a)
	}
	named("other", "")
	ids := func(path string) (ids []string) {
		for _, e := range s.object(200, "GET", path, "")["plans"].([]any) {
			ids = append(ids, e.(map[string]any)["id"].(string))
		}
		return ids
	}
	if got := ids("/v1/plans?name=m"); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("got history %v, want %v", got, []string{a, b})
	}
	newest := s.object(200, "GET", "/v1/plans?name=m&limit=1", "")["plans"].([]any)[0].(map[string]any)
	if got := ids(fmt.Sprintf("/v1/plans?name=m&before=%.0f", newest["cursor"])); len(got) != 1 || got[0] != b {
		t.Errorf("got older plans %v, want %v", got, b)
	}
	names := s.object(200, "GET", "/v1/names", "")["names"].([]any)
	if len(names) != 2 || names[0].(map[string]any)["name"] != "other" {
		t.Errorf("got names %v", names)
	}
	if got := s.ask("GET", "/v1/plans/"+a+"/problem", "").Body.String(); !strings.HasPrefix(got, `{"workload":"criteo-kaggle","overrides":{"devices":2},"options":{`) {
		t.Errorf("got problem %s", got)
	}
	s.object(200, "DELETE", "/v1/plans/"+a, "")
	s.object(404, "GET", "/v1/plans/"+a, "")
	s.object(404, "DELETE", "/v1/plans/"+a, "")
	if got := s.object(200, "POST", "/v1/plan", quickBody); got["cached"] != false {
		t.Error("a deleted plan was the answer")
	}
}

// TestBytesOfTheCache fills the cache of answers with more than its limit.
func TestBytesOfTheCache(t *testing.T) {
	const most = 256 << 10
	s := start(t, service.Options{Limits: service.Limits{Cache: most}})
	for seed := range 24 {
		s.object(200, "POST", "/v1/plan", strings.Replace(quickBody, `"options": {`, fmt.Sprintf(`"options": {"seed": %d, `, seed), 1))
	}
	_, text, _ := strings.Cut(s.ask("GET", "/metrics", "").Body.String(), "neuroshard_answer_cache_bytes ")
	var bytes float64
	if _, err := fmt.Sscan(text, &bytes); err != nil || bytes > most || bytes < most/2 {
		t.Errorf("got %g bytes, %v, want at most %d and much of it", bytes, err, most)
	}
}

// TestPlansAboveTheLimits gives plans that are larger than what a service plans.
func TestPlansAboveTheLimits(t *testing.T) {
	s := start(t, service.Options{})
	plan := s.ask("GET", "/v1/plans/"+s.made(""), "").Body.String()
	for what, limits := range map[string]service.Limits{"tables": {Tables: 25}, "devices": {Devices: 1}} {
		small := start(t, service.Options{Limits: limits})
		for _, path := range []string{"/v1/validate", "/v1/diff"} {
			body := fmt.Sprintf(`{"plan": %s, "problem": {"workload": "criteo-kaggle"}}`, plan)
			if path == "/v1/diff" {
				body = fmt.Sprintf(`{"before": %s, "after": %s}`, plan, plan)
			}
			if got := small.object(422, "POST", path, body); got["type"] != "urn:neuroshard:limit" {
				t.Errorf("%s: %s: got %v, want the limit", what, path, got)
			}
		}
	}
}

// TestKeyOfPlans wants another id for all that may change a plan or what its answer says.
func TestKeyOfPlans(t *testing.T) {
	s, formulas := start(t, service.Options{}), start(t, service.Options{Formulas: neuroshard.TorchRec()})
	asked := map[string]string{}
	for _, c := range []struct {
		what             string
		at               *server
		problem, options string
	}{
		{"nothing more", s, `"overrides": {"devices": 2}`, ``},
		{"evaluations", s, `"overrides": {"devices": 2}`, `, "max_evaluations": 41`},
		{"sharding types", s, `"overrides": {"devices": 2}`, `, "sharding_types": ["table_wise"]`},
		{"method", s, `"overrides": {"devices": 2}`, `, "method": "size"`},
		{"baselines", s, `"overrides": {"devices": 2}`, `, "baselines": true`},
		{"model", formulas, `"overrides": {"devices": 2, "device": "a100-80"}`, ``},
		{"device", s, `"overrides": {"devices": 2, "device": "a100-80"}`, ``},
		{"step", s, `"workload": "mlperf-dlrm-dcnv2", "topology": {"devices": 8, "device": "a100-80", "dense": "mlperf-dlrm-dcnv2", "step": "30ms"}`, ``},
		{"longer step", s, `"workload": "mlperf-dlrm-dcnv2", "topology": {"devices": 8, "device": "a100-80", "dense": "mlperf-dlrm-dcnv2", "step": "40ms"}`, ``},
	} {
		if !strings.Contains(c.options, "baselines") {
			c.options += `, "baselines": false`
		}
		if !strings.Contains(c.options, "evaluations") {
			c.options += `, "max_evaluations": 40`
		}
		if !strings.Contains(c.problem, "workload") {
			c.problem = `"workload": "criteo-kaggle", ` + c.problem
		}
		id := c.at.object(200, "POST", "/v1/plan", `{"problem": {`+c.problem+`}, "options": {"certificate": false`+c.options+`}}`)["id"].(string)
		if asked[id] != "" {
			t.Errorf("%s: got the id of %s", c.what, asked[id])
		}
		asked[id] = c.what
	}
}

// TestCanceledPlansAreNotKept cancels a search as soon as it has a plan.
func TestCanceledPlansAreNotKept(t *testing.T) {
	s := start(t, service.Options{Limits: patient})
	listening := httptest.NewServer(s)
	defer listening.Close()
	job := s.object(202, "POST", "/v1/plan?async=true", endless)["id"].(string)
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, listening.URL+"/v1/jobs/"+job+"/events", nil))(t)
	events := must.Get(http.DefaultClient.Do(r))(t)
	defer events.Body.Close()
	for lines := bufio.NewScanner(events.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"best_ms"`) {
			s.object(200, "DELETE", "/v1/jobs/"+job, "")
			break
		}
	}
	_, _ = io.Copy(io.Discard, events.Body)
	got := s.object(200, "GET", "/v1/jobs/"+job, "")
	result, ok := got["result"].(map[string]any)
	if !ok || result["status"] != "interrupted" {
		t.Fatalf("got %v, want the result of an interrupted search", got)
	}
	if result["saved"] != false || result["id"] != job {
		t.Errorf("got saved %v, id %v, want false and the id of the job", result["saved"], result["id"])
	}
	if n := len(s.object(200, "GET", "/v1/plans", "")["plans"].([]any)); n != 0 {
		t.Errorf("got %d kept plans, want 0", n)
	}
}

// TestDeletedElsewhere has two services on one store: what one deletes, the other forgets.
func TestDeletedElsewhere(t *testing.T) {
	kept := must.Get(store.Open(t.Context(), t.TempDir(), store.Options{}))(t)
	defer kept.Close()
	all := must.Get(service.New(service.Options{Store: kept}))(t)
	defer all.Close(t.Context())
	s, other := &server{t, all.Handler()}, start(t, service.Options{Store: kept})
	id := s.made("")
	other.object(200, "DELETE", "/v1/plans/"+id, "")
	all.Age(id)
	s.object(404, "GET", "/v1/plans/"+id, "")
	if got := s.object(200, "POST", "/v1/plan", quickBody); got["cached"] != false || got["saved"] != true {
		t.Errorf("got cached %v, saved %v, want a new plan that is saved", got["cached"], got["saved"])
	}
	other.object(200, "GET", "/v1/plans/"+id, "")
}

// TestPagesOfDeletedPlans wants no page of a deleted plan from memory.
func TestPagesOfDeletedPlans(t *testing.T) {
	s := start(t, service.Options{})
	a, b := s.made(""), s.made(`, "batch": 512`)
	for _, path := range []string{"/v1/plans/" + a + "/page?with=" + b, "/v1/plans/" + b + "/page?with=" + a, "/v1/plans/" + b + "/page"} {
		s.object(200, "GET", path, "")
	}
	s.object(200, "DELETE", "/v1/plans/"+b, "")
	for _, path := range []string{"/v1/plans/" + a + "/page?with=" + b, "/v1/plans/" + b + "/page?with=" + a, "/v1/plans/" + b + "/page"} {
		s.object(404, "GET", path, "")
	}
}

// TestCutByTime wants an answer that says that it is not kept.
func TestCutByTime(t *testing.T) {
	s := start(t, service.Options{Limits: patient})
	var w *httptest.ResponseRecorder
	for limit := 1; ; limit *= 2 { // until there is a plan at that time
		w = s.ask("POST", "/v1/plan", strings.Replace(endless, `"options": {`, fmt.Sprintf(`"options": {"time_limit_ms": %d, `, limit), 1))
		if w.Code != 422 {
			break
		}
		if !strings.Contains(w.Body.String(), "urn:neuroshard:time") {
			t.Fatalf("got %s", w.Body)
		}
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got["saved"] != false || got["status"] != "interrupted" {
		t.Errorf("got saved %v, status %v, want false, interrupted: %v", got["saved"], got["status"], err)
	}
	s.object(200, "GET", "/v1/plans/"+got["id"].(string), "")
	if n := len(s.object(200, "GET", "/v1/plans", "")["plans"].([]any)); n != 0 {
		t.Errorf("got %d kept plans, want 0", n)
	}
}

func TestJobs(t *testing.T) {
	limits := patient
	limits.Concurrency, limits.Queue = 1, 1
	s := start(t, service.Options{Limits: limits})
	long := func(seed int) string {
		return strings.Replace(endless, `"options": {`, fmt.Sprintf(`"options": {"seed": %d, `, seed), 1)
	}
	first := s.ask("POST", "/v1/plan", long(1), "Prefer", "respond-async")
	var job map[string]any
	if err := json.Unmarshal(first.Body.Bytes(), &job); err != nil || first.Code != 202 || first.Header().Get("Location") != "/v1/jobs/"+job["id"].(string) {
		t.Fatalf("got %d, %v: %s", first.Code, first.Header(), first.Body)
	}
	second := s.object(202, "POST", "/v1/plan?async=true", long(2))
	if w := s.ask("POST", "/v1/plan", long(3)); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("a full queue: got %d, want 429 with Retry-After", w.Code)
	}
	if n := len(s.object(200, "GET", "/v1/jobs", "")["jobs"].([]any)); n != 2 {
		t.Errorf("got %d jobs, want 2", n)
	}
	// The second is canceled while it waits, and the first while it runs.
	for _, id := range []any{second["id"], job["id"]} {
		s.object(200, "DELETE", "/v1/jobs/"+id.(string), "")
		events := s.ask("GET", "/v1/jobs/"+id.(string)+"/events", "")
		if text := events.Body.String(); !strings.Contains(text, "event: canceled\n") || events.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("got events %s", text)
		}
		if state := s.object(200, "GET", "/v1/jobs/"+id.(string), "")["state"]; state != "canceled" {
			t.Errorf("got state %v", state)
		}
	}
	s.object(404, "GET", "/v1/jobs/none", "")
	s.object(404, "DELETE", "/v1/jobs/none", "")
	s.object(404, "GET", "/v1/jobs/none/events", "")
}

func TestEvents(t *testing.T) {
	s := start(t, service.Options{})
	job := s.object(202, "POST", "/v1/plan?async=true", workloadBody)["id"].(string)
	text := s.ask("GET", "/v1/jobs/"+job+"/events", "").Body.String()
	events := strings.Split(strings.TrimSpace(text), "\n\n")
	last := events[len(events)-1]
	if !strings.Contains(last, "event: done\n") {
		t.Fatalf("got last event %q", last)
	}
	done := s.object(200, "GET", "/v1/jobs/"+job, "")
	if result, ok := done["result"].(map[string]any); !ok || result["saved"] != true || result["job"] != job {
		t.Errorf("got result %v", done["result"])
	}
	if progress, ok := done["progress"].(map[string]any); !ok || progress["share"].(float64) <= 0 {
		t.Errorf("got progress %v", done["progress"])
	}
	id := strings.TrimPrefix(strings.Split(last, "\n")[0], "id: ")
	if w := s.ask("GET", "/v1/jobs/"+job+"/events", "", "Last-Event-ID", id); w.Code != 204 {
		t.Errorf("all events were received: got %d, want 204", w.Code)
	}
	if again := s.ask("GET", "/v1/jobs/"+job+"/events", "", "Last-Event-ID", "1").Body.String(); again != last+"\n\n" {
		t.Errorf("got %q, want the last event", again)
	}
	// A known plan needs no job.
	if w := s.ask("POST", "/v1/plan?async=true", workloadBody); w.Code != 200 {
		t.Errorf("got %d, want 200", w.Code)
	}
}

func TestClientGoesAway(t *testing.T) {
	s := start(t, service.Options{Limits: patient})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/plan", strings.NewReader(endless))
	r.Header.Set("Content-Type", "application/json")
	s.ServeHTTP(httptest.NewRecorder(), r)
	jobs := s.object(200, "GET", "/v1/jobs", "")["jobs"].([]any)
	if len(jobs) != 1 {
		t.Fatalf("got %d jobs, want 1", len(jobs))
	}
	id := jobs[0].(map[string]any)["id"].(string)
	if text := s.ask("GET", "/v1/jobs/"+id+"/events", "").Body.String(); !strings.Contains(text, "event: canceled\n") {
		t.Errorf("the job of a client that went away was not canceled: %s", text)
	}
}

// TestJudgingStops asks about a given plan within a millisecond, for a client that left, and for a price
// that takes more memory than there is: 20,000 tables on each of 1,024 devices once took a minute.
func TestJudgingStops(t *testing.T) {
	const tables, devices = 500, 1000
	var csv strings.Builder
	csv.WriteString("name,rows,dim\n")
	for i := range tables {
		fmt.Fprintf(&csv, "t%d,100,8\n", i)
	}
	parts := &input.Parts{Overrides: input.Overrides{"devices": strconv.Itoa(devices), "device": "a100-80", "batch": "65536"}}
	parts.Tables, parts.TablesErr = input.Tables("tables.csv", strings.NewReader(csv.String()), input.Options{})
	p, _ := must.Get2(parts.Problem())(t)
	all := make([]problem.Shard, tables)
	for i := range all {
		all[i] = p.Whole(i)
		all[i].ShardingType = problem.DataParallel
	}
	var text bytes.Buffer
	must.Do(t, plan.New(p, slices.Repeat([][]problem.Shard{all}, devices)).Write(&text))
	judged := fmt.Sprintf(`{"plan": %s, "problem": {"tables_csv": %q}}`, &text, csv.String())
	bodies := map[string]string{"/v1/price": judged, "/v1/validate": judged, "/v1/diff": fmt.Sprintf(`{"before": %s, "after": %s}`, &text, &text)}
	s := start(t, service.Options{Limits: service.Limits{Memory: 256 * unit.MiB, Body: unit.MiB}})
	hasty := start(t, service.Options{Limits: service.Limits{Time: time.Millisecond}})
	left, leave := context.WithCancel(t.Context())
	leave()
	for path, body := range bodies {
		if got := hasty.object(422, "POST", path, body); got["type"] != "urn:neuroshard:time" || !strings.Contains(got["hint"].(string), "time_limit") {
			t.Errorf("%s: got %v, want a refusal for the limit of time", path, got)
		}
		r := httptest.NewRequestWithContext(left, "POST", "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 503 {
			t.Errorf("%s: got status %d for a client that left, want 503", path, w.Code)
		}
	}
	if got := s.object(422, "POST", "/v1/price", bodies["/v1/price"]); got["type"] != "urn:neuroshard:limit" {
		t.Errorf("got %v, want a refusal for the limit of memory", got)
	}
	s.object(200, "POST", "/v1/validate", bodies["/v1/validate"])
}

func TestJudging(t *testing.T) {
	s := start(t, service.Options{})
	before, after := s.made(""), s.made(`, "batch": 512`)
	plan := s.ask("GET", "/v1/plans/"+before, "").Body.String()
	if got := s.object(200, "POST", "/v1/validate", fmt.Sprintf(`{"plan": %q}`, before)); got["valid"] != true {
		t.Errorf("got %v", got)
	}
	got := s.object(200, "POST", "/v1/validate", fmt.Sprintf(`{"plan": %s, "problem": {"workload": "criteo-kaggle", "overrides": {"memory": "2500MiB"}}}`, plan))
	if got["valid"] != false || len(got["violations"].([]any)) == 0 {
		t.Errorf("too little memory: got %v", got)
	}
	bare := plan[:strings.LastIndex(plan, ",")] + "}" // without its digest
	for body, want := range map[string]int{
		fmt.Sprintf(`{"plan": %q}`, before):                                                                        0,
		fmt.Sprintf(`{"plan": %s, "problem": {"workload": "criteo-kaggle"}}`, plan):                                0,
		fmt.Sprintf(`{"plan": %s, "problem": {"workload": "criteo-kaggle", "overrides": {"min_width": 8}}}`, plan): 1,
		fmt.Sprintf(`{"plan": %s, "problem": {"workload": "criteo-kaggle"}}`, bare):                                1,
	} {
		got := s.object(200, "POST", "/v1/validate", body)
		if warnings := got["warnings"].([]any); got["valid"] != true || len(warnings) != want {
			t.Errorf("got %v, want a valid plan and %d warnings", got, want)
		}
	}
	price := s.object(200, "POST", "/v1/price", fmt.Sprintf(`{"plan": %s, "problem": {"workload": "criteo-kaggle"}}`, plan))
	known := s.object(200, "POST", "/v1/plan", quickBody)
	if price["cost_ms"] != known["cost_ms"] {
		t.Errorf("got cost %v, want %v", price["cost_ms"], known["cost_ms"])
	}
	if bound, cost := price["lower_bound_ms"].(float64), price["simulated_cost_ms"].(float64); !(bound <= cost) {
		t.Errorf("got bound %v above the cost %v", bound, cost)
	}
	diff := s.object(200, "POST", "/v1/diff", fmt.Sprintf(`{"before": %q, "after": %s}`, after, plan))
	if diff["moved_bytes"] == nil || diff["changed_tables"] == nil {
		t.Errorf("got %v", diff)
	}
	for path, body := range map[string]string{
		"/v1/validate": fmt.Sprintf(`{"plan": %s}`, plan), // no problem
		"/v1/price":    fmt.Sprintf(`{"plan": %s, "problem": {"workload": "mlperf-dlrm-dcnv2"}}`, plan),
		"/v1/diff":     `{"before": {"format": "neuroshard-plan"}, "after": "00000000000000000000000000000000"}`,
	} {
		if got := s.object(422, "POST", path, body); len(got["errors"].([]any)) == 0 {
			t.Errorf("%s: got no faults: %v", path, got)
		}
	}
}

func TestReplan(t *testing.T) {
	s := start(t, service.Options{})
	old := s.object(200, "POST", "/v1/plan", `{`+tiny+`, "options": {"method": "size"}}`)["id"].(string)
	body := fmt.Sprintf(`{"old": %q, %s, "options": {"max_bytes": "5%%"}}`, old, strings.Replace(tiny, "1024", "4096", 1))
	got := s.object(200, "POST", "/v1/replan", body)
	if got["verdict"] == nil || got["plan"] == nil || got["saved"] != true || len(got["curve"].([]any)) == 0 {
		t.Errorf("got verdict %v, saved %v", got["verdict"], got["saved"])
	}
	s.object(200, "GET", "/v1/plans/"+got["id"].(string), "")
	page := s.object(200, "GET", "/v1/jobs/"+got["job"].(string)+"/page", "")
	if page["format"] != "neuroshard-page" || page["replan"] == nil {
		t.Errorf("got page %v", page["format"])
	}
	for _, wrong := range []string{
		`{"problem": {"workload": "criteo-kaggle"}, "old": "x"}`,
		fmt.Sprintf(`{"problem": {"workload": "criteo-kaggle"}, "old": %q, "options": {"max_bytes": "5 apples"}}`, old),
		fmt.Sprintf(`{"problem": {"workload": "criteo-kaggle"}, "old": %q, "options": {"max_bytes": 5, "price": 1}}`, old),
		fmt.Sprintf(`{"problem": {"workload": "criteo-kaggle"}, "old": %q, "options": {"lost_devices": [7]}}`, old),
		fmt.Sprintf(`{"problem": {"workload": "criteo-kaggle"}, "old": %q, "options": {"lost_devices": [null]}}`, old),
	} {
		s.object(422, "POST", "/v1/replan", wrong)
	}
	// A table of one row has no block of rows for each device.
	barred := strings.Replace(tiny, "a,1000,8", "a,1,8", 1)
	got = s.object(422, "POST", "/v1/replan", fmt.Sprintf(`{"old": %q, %s, "options": {"sharding_types": ["row_wise"]}}`, old, barred))
	if want := "urn:neuroshard:infeasible"; got["type"] != want {
		t.Errorf("a table of one row with row_wise: got type %v, want %s", got["type"], want)
	}
	// A running TorchRec job keeps its replicas.
	running := strings.Replace(tiny, `"devices": 2`, `"devices": 2, "for": "torchrec"`, 1)
	old = s.object(200, "POST", "/v1/plan", `{`+running+`, "options": {"sharding_types": ["data_parallel"]}}`)["id"].(string)
	got = s.object(422, "POST", "/v1/replan", fmt.Sprintf(`{"old": %q, %s, "options": {"sharding_types": ["table_wise"]}}`, old, running))
	if want := "allow data_parallel as well"; got["type"] != "urn:neuroshard:infeasible" || !strings.HasPrefix(got["hint"].(string), want) {
		t.Errorf("replicas with table_wise: got %v, want the hint %q", got, want)
	}
}

func TestSweep(t *testing.T) {
	s := start(t, service.Options{})
	job := s.object(202, "POST", "/v1/sweep", `{"problem": {"workload": "criteo-kaggle"}, "axes": {"devices": [1, 2], "scale": ["none", "rows=100000"]}, "options": {"max_evaluations": 10}, "price": 2}`)["id"].(string)
	s.ask("GET", "/v1/jobs/"+job+"/events", "")
	got := s.object(200, "GET", "/v1/jobs/"+job, "")
	result, ok := got["result"].(map[string]any)
	if !ok || len(result["outcomes"].([]any)) != 4 || result["complete"] != true {
		t.Fatalf("got %v", got)
	}
	if page := s.object(200, "GET", "/v1/jobs/"+job+"/page", ""); page["sweep"] == nil {
		t.Error("the page has no sweep")
	}
	s.object(202, "POST", "/v1/sweep", `{"problem": {"workload": "criteo-kaggle"}, "axes": {}, "options": {"max_evaluations": 10}}`)
	for _, wrong := range []string{
		`{"problem": {"workload": "criteo-kaggle"}, "axes": {"devices": [0]}}`,
		`{"problem": {"workload": "criteo-kaggle"}, "axes": {"precision": ["fp64"]}}`,
		`{"problem": {"workload": "criteo-kaggle"}, "axes": {"scale": ["tables=-1"]}}`,
		`{"problem": {"workload": "criteo-kaggle"}, "axes": {}, "price": 1e300}`,
	} {
		s.object(422, "POST", "/v1/sweep", wrong)
	}
}

func TestPages(t *testing.T) {
	s := start(t, service.Options{})
	a, b := s.made(""), s.made(`, "batch": 512`)
	one := s.object(200, "GET", "/v1/plans/"+a+"/page", "")
	if one["format"] != "neuroshard-page" || len(one["plans"].([]any)) != 1 {
		t.Errorf("got %v", one["format"])
	}
	two := s.object(200, "GET", "/v1/plans/"+a+"/page?with="+b, "")
	if len(two["plans"].([]any)) != 2 || two["changes"] == nil {
		t.Error("two plans: got no changes")
	}
	named := func(batch string) string {
		body := strings.Replace(quickBody, `"devices": 2`, `"devices": 2, "batch": `+batch, 1)
		return s.object(200, "POST", "/v1/plan", strings.Replace(body, `{"workload"`, `{"name": "ranking", "workload"`, 1))["id"].(string)
	}
	c, d := named("256"), named("1024")
	two = s.object(200, "GET", "/v1/plans/"+c+"/page?with="+d, "")
	if got, want := two["title"], "ranking on 1 host x 2 v100-16, before and after"; got != want {
		t.Errorf("two plans of one model: got title %q, want %q", got, want)
	}
	s.object(404, "GET", "/v1/plans/"+strings.Repeat("0", 32)+"/page", "")
	if w := s.ask("GET", "/", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "live.js") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	for name, kind := range map[string]string{"page.js": "text/javascript", "live.js": "text/javascript", "page.css": "text/css"} {
		if w := s.ask("GET", "/assets/"+name, ""); w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("%s: got %d, %s", name, w.Code, w.Header().Get("Content-Type"))
		}
	}
}

func TestTablesOfRequests(t *testing.T) {
	s := start(t, service.Options{})
	const options = `, "options": {"method": "size", "certificate": false, "baselines": false}}`
	csv := s.object(200, "POST", "/v1/plan", `{"problem": {"tables_csv": "name,rows,dim\na,1000,8\nb,2000,16\n", "overrides": {"devices": 2, "device": "a100-80", "batch": 1024, "memory": "40GiB", "network_bandwidth": "50GB/s"}}`+options)
	text := s.object(200, "POST", "/v1/plan", `{"problem": {"tables": {"format": "neuroshard-tables", "version": 1, "tables": [{"name": "a", "rows": 1000, "dim": 8}, {"name": "b", "rows": 2000, "dim": 16}]}, "topology": {"devices": 2, "device": "a100-80", "batch": 1024, "memory": "40GiB"}}`+options)
	if len(csv["plan"].(map[string]any)["tables"].([]any)) != 2 || len(text["plan"].(map[string]any)["tables"].([]any)) != 2 {
		t.Error("tables are missing")
	}
	w := s.ask("POST", "/v1/plan", `{"problem": {"tables": {"format": "neuroshard-tables", "version": 1, "tables": [{"name": "a", "rows": 0, "dim": 6}]}, "overrides": {"devices": 2, "device": "nope", "memory": "x", "comm_precision": "fp64"}}, "options": {"method": "sise"}}`)
	var refusal service.Refusal
	if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil || w.Code != 422 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got %d %v: %s", w.Code, err, w.Body)
	}
	all := w.Body.String()
	for _, want := range []string{"dim 6", "problem.overrides.device", "problem.overrides.memory", "comm_precision", "options.method", "did you mean size?"} {
		if !strings.Contains(all, want) {
			t.Errorf("the faults do not mention %q: %s", want, all)
		}
	}
	if strings.Contains(all, "--") {
		t.Errorf("the faults speak of flags: %s", all)
	}
}
