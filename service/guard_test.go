package service_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service"
	"github.com/neuroshard/neuroshard/service/store"
	"github.com/neuroshard/neuroshard/unit"
)

// TestSecurity has what was tried, and what happens. Each answer must
// state its own reason.
func TestSecurity(t *testing.T) {
	const token = "a-token-that-nobody-guesses"
	s := start(t, service.Options{Token: token})
	open := start(t, service.Options{Hosts: []string{"plans.example"}})
	both := start(t, service.Options{Token: token, Hosts: []string{"plans.example"}})
	small := start(t, service.Options{Limits: service.Limits{Body: unit.KiB, Tables: 10, Devices: 4, Cells: 2}})
	good := []string{"Authorization", "Bearer " + token}
	with := func(more ...string) []string { return append(append([]string{}, good...), more...) }
	nested := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for name, c := range map[string]struct {
		to                 *server
		method, path, body string
		header             []string
		want               int
		says               string
	}{
		"no token":                        {s, "GET", "/v1/plans", "", nil, 401, "no valid token"},
		"wrong token":                     {s, "GET", "/v1/plans", "", []string{"Authorization", "Bearer x" + token}, 401, "no valid token"},
		"token of another scheme":         {s, "GET", "/v1/plans", "", []string{"Authorization", "Basic " + token}, 401, "no valid token"},
		"metrics without a token":         {s, "GET", "/metrics", "", nil, 401, "no valid token"},
		"the token":                       {s, "GET", "/v1/plans", "", good, 200, `"plans":[]`},
		"health without a token":          {s, "GET", "/healthz", "", nil, 200, `"status":"ok"`},
		"name of another site, no token":  {open, "GET", "/v1/plans", "", []string{"Host", "evil.example"}, 403, `this server is not \"evil.example\"`},
		"the token, name of another site": {both, "GET", "/v1/plans", "", with("Host", "evil.example"), 403, `this server is not \"evil.example\"`},
		"the token, any name":             {s, "GET", "/v1/plans", "", with("Host", "any.example"), 200, `"plans":[]`},
		"allowed name":                    {open, "GET", "/v1/plans", "", []string{"Host", "plans.example:7878"}, 200, `"plans":[]`},
		"address as name":                 {open, "GET", "/v1/plans", "", []string{"Host", "[::1]:7878"}, 200, `"plans":[]`},
		"no name":                         {open, "GET", "/v1/plans", "", []string{"Host", ""}, 403, `this server is not \"\"`},
		"POST of another site":            {open, "POST", "/v1/plan", workloadBody, []string{"Sec-Fetch-Site", "cross-site"}, 403, "comes from another site"},
		"POST of an old browser":          {open, "POST", "/v1/plan", workloadBody, []string{"Origin", "http://evil.example"}, 403, "comes from another site"},
		"POST of a file's page":           {open, "POST", "/v1/plan", workloadBody, []string{"Origin", "null"}, 403, "comes from another site"},
		"DELETE of another site":          {open, "DELETE", "/v1/plans/" + strings.Repeat("0", 32), "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "comes from another site"},
		"GET of another site":             {open, "GET", "/v1/plans", "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "comes from another site"},
		"GET of another port":             {open, "GET", "/v1/jobs", "", []string{"Sec-Fetch-Site", "same-site"}, 403, "comes from another site"},
		"form of another site":            {open, "POST", "/v1/plan", workloadBody, []string{"Content-Type", "text/plain"}, 415, "the content type is"},
		"no content type":                 {open, "POST", "/v1/plan", workloadBody, []string{"Content-Type", ""}, 415, "the content type is"},
		"compressed body":                 {open, "POST", "/v1/plan", workloadBody, []string{"Content-Encoding", "gzip"}, 415, "the content encoding is"},
		"body above the limit":            {small, "POST", "/v1/plan", `{"problem":{"tables_csv":"` + strings.Repeat("x", 1024) + `"}}`, nil, 413, "the body is larger than this server's limit"},
		"deep JSON":                       {open, "POST", "/v1/plan", `{"problem":{"tables":` + nested + `}}`, nil, 422, "nested more than 64 deep"},
		"huge number":                     {open, "POST", "/v1/plan", `{"problem":{"workload":"mlperf-dlrm-dcnv2","overrides":{"devices":1e99}}}`, nil, 422, "is too large"},
		"more devices than can be":        {open, "POST", "/v1/plan", `{"problem":{"workload":"mlperf-dlrm-dcnv2","overrides":{"devices":100000000000000000}}}`, nil, 422, "is not between 1 and 65536"},
		"number that no float holds":      {open, "POST", "/v1/plan", `{"problem":{"workload":"mlperf-dlrm-dcnv2","overrides":{"reserve_share":1e400}}}`, nil, 422, "problem.overrides.reserve_share"},
		"unknown override":                {open, "POST", "/v1/plan", `{"problem":{"workload":"mlperf-dlrm-dcnv2","overrides":{"replica":2}}}`, nil, 422, "did you mean replicas?"},
		"override in capitals":            {open, "POST", "/v1/plan", `{"problem":{"workload":"mlperf-dlrm-dcnv2","overrides":{"Memory":1}}}`, nil, 422, `field \"Memory\" is unknown`},
		"file in place of tables":         {open, "POST", "/v1/plan", `{"problem":{"tables":"/etc/passwd"}}`, nil, 422, "the format is not recognised"},
		"file in place of a topology":     {open, "POST", "/v1/plan", `{"problem":{"workload":"mlperf-dlrm-dcnv2","topology":"/etc/passwd"}}`, nil, 422, "where an object belongs"},
		"file in place of a plan":         {open, "POST", "/v1/validate", `{"plan":"../../etc/passwd"}`, nil, 422, "there is no plan ../../etc/passwd"},
		"model in a request":              {open, "POST", "/v1/plan", `{"problem":{"workload":"mlperf-dlrm-dcnv2"},"options":{"model":"/tmp"}}`, nil, 422, `field \"model\" is unknown`},
		"unknown parameter":               {open, "GET", "/v1/plans?file=/etc/passwd", "", nil, 422, "query.file"},
		"asset outside of the folder":     {open, "GET", "/assets/..%2fpage.go", "", nil, 404, "there is no file ../page.go"},
		"huge id":                         {open, "GET", "/v1/plans/" + strings.Repeat("0", 3000), "", nil, 422, "path.id"},
		"id that is none":                 {open, "GET", "/v1/plans/..%2f..%2fetc", "", nil, 404, "there is no plan ../../etc"},
		"huge number of a list":           {open, "GET", "/v1/plans?limit=1000000000", "", nil, 422, "query.limit"},
		"tables above the limit":          {small, "POST", "/v1/plan", `{"problem":{"workload":"mlperf-dlrm-dcnv2"}}`, nil, 422, "the tables are more than this server's limit of 10"},
		"devices above the limit":         {small, "POST", "/v1/plan", `{"problem":{"tables_csv":"name,rows,dim\na,1000,8\n","overrides":{"devices":5,"device":"a100-80","batch":1024}}}`, nil, 422, "5 devices are above this server's limit of 4"},
		"CSV tables above the limit":      {small, "POST", "/v1/plan", `{"problem":{"tables_csv":"name,rows,dim\n` + strings.Repeat(`a,1,6\n`, 12) + `"}}`, nil, 422, "the tables are more than this server's limit of 10"},
		"drawn tables above the limit":    {open, "POST", "/v1/plan", `{"problem":{"workload":"dlrm-datasets-999999x8"}}`, nil, 422, "999999 tables on 8 devices are above"},
		"cells above the limit":           {open, "POST", "/v1/sweep", `{"problem":{"workload":"criteo-kaggle"},"axes":{"devices":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17],"batch":[64,128,256,512,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,1048576,2097152]}}`, nil, 422, "272 cells are above"},
		"scaled tables above the limit":   {open, "POST", "/v1/sweep", `{"problem":{"workload":"criteo-kaggle"},"axes":{"scale":["tables=100000"]}}`, nil, 422, "a cell has 2600000 tables"},
		"largest of several clusters":     {open, "POST", "/v1/sweep", `{"problem":{"workload":"mlperf-dlrmv4"},"axes":{"scale":["tables=100000"]}}`, nil, 422, "a cell has 1100000 tables on 32 devices"},
		"time above the limit":            {open, "POST", "/v1/plan", `{"problem":{"workload":"criteo-kaggle"},"options":{"time_limit_ms":999999999}}`, nil, 422, "999999999 ms are above"},
		"control characters in a name":    {s, "POST", "/v1/plan", `{"problem":{"workload":"criteo-kaggle","name":"a\u0000b"}}`, with("Content-Type", "application/json"), 422, "a control character"},
		"method that no route has":        {open, "TRACE", "/v1/plans", "", nil, 405, "/v1/plans does not take the method TRACE"},
		"path that no route has":          {open, "GET", "/v1/nothing", "", nil, 404, "there is no path /v1/nothing"},
		"body in place of the log's line": {open, "POST", "/v1/plan", "{\"problem\":\"\\n\"}", nil, 422, "a string is not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "http://localhost/", strings.NewReader(c.body))
			r.URL.Path, r.URL.RawQuery, _ = strings.Cut(c.path, "?")
			if i := strings.Index(r.URL.Path, "%2f"); i >= 0 {
				r.URL.RawPath, r.URL.Path = r.URL.Path, strings.ReplaceAll(r.URL.Path, "%2f", "/")
			}
			if c.body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			for i := 0; i < len(c.header); i += 2 {
				if c.header[i] == "Host" {
					r.Host = c.header[i+1]
				}
				r.Header.Set(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			c.to.ServeHTTP(w, r)
			if w.Code != c.want || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("got status %d: %s, want %d with %q", w.Code, w.Body, c.want, c.says)
			}
			if text := w.Body.String(); strings.Contains(text, "root:") || strings.Contains(text, token) || strings.Contains(text, "goroutine") {
				t.Errorf("the answer tells too much: %s", text)
			}
		})
	}
}

// TestTablesAreLimitedAsTheyAreRead wants only the limit of tables as the fault, not the faults of
// tables beyond it: 23 MiB of CSV once took 2 GiB.
func TestTablesAreLimitedAsTheyAreRead(t *testing.T) {
	s := start(t, service.Options{Limits: service.Limits{Tables: 10}})
	lines := strings.Repeat(`{"name": "a", "rows": 1, "dim": 4},`, 10)
	for what, tables := range map[string]string{
		"CSV":  `"tables_csv": "name,rows,dim\n` + strings.Repeat(`a,1,4\n`, 11) + strings.Repeat(`wrong\n`, 11) + `"`,
		"JSON": `"tables": {"format": "neuroshard-tables", "version": 1, "tables": [` + lines + `{"name": "a", "rows": 1, "dim": 4}, {"wrong": 1}, {"wrong": 2}]}`,
	} {
		got := s.object(422, "POST", "/v1/plan", `{"problem": {`+tables+`, "overrides": {"devices": 2}}}`)
		if got["type"] != "urn:neuroshard:limit" || len(got["errors"].([]any)) != 1 || !strings.Contains(got["detail"].(string), "limit of 10") {
			t.Errorf("%s: got %v, want the limit alone", what, got)
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	s := start(t, service.Options{})
	for path, want := range map[string]string{"/v1/plans": "default-src 'none'; frame-ancestors 'none'", "/": "script-src 'self'", "/nothing": "default-src 'none'"} {
		h := s.ask("GET", path, "").Header()
		if got := h.Get("Content-Security-Policy"); !strings.Contains(got, want) || strings.Contains(got, "unsafe") || !strings.Contains(got, "frame-ancestors 'none'") {
			t.Errorf("%s: got policy %q, want %q", path, got, want)
		}
		for _, name := range []string{"X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options", "Cross-Origin-Resource-Policy"} {
			if h.Get(name) == "" {
				t.Errorf("%s: header %s is missing", path, name)
			}
		}
		if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other sites may read the answer", path)
		}
	}
	if h := s.ask("GET", "/v1/plans", "").Header(); h.Get("Cache-Control") != "no-store" {
		t.Errorf("got Cache-Control %q", h.Get("Cache-Control"))
	}
}

func TestLogsHaveNoSecrets(t *testing.T) {
	var log bytes.Buffer
	s := start(t, service.Options{Token: "the-secret-token", Log: slog.New(slog.NewJSONHandler(&log, nil))})
	s.ask("POST", "/v1/plan", `{"problem":{"workload":"secret-tables","name":"secret-name"}}`, "Authorization", "Bearer the-secret-token")
	s.ask("GET", "/v1/plans?name=secret-query", "", "Authorization", "Bearer wrong-secret-token")
	if lines := strings.Count(log.String(), "\n"); lines != 2 {
		t.Errorf("got %d lines, want one a request: %s", lines, &log)
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log has a secret: %s", &log)
	}
}

// broken is a store that panics or fails.
type broken struct {
	service.Store
	panics bool
}

func (b broken) Get(context.Context, string) (store.Record, error) {
	if b.panics {
		panic("the store is broken: secret")
	}
	return store.Record{}, store.ErrDamaged
}

func (broken) Check(context.Context) error { return store.ErrDamaged }

func (broken) Put(context.Context, store.Record) (bool, error) { return false, store.ErrFull }

func TestPanics(t *testing.T) {
	s := start(t, service.Options{Store: broken{panics: true}})
	w := s.ask("GET", "/v1/plans/"+strings.Repeat("0", 32), "")
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("got %d %s, want 500 without details", w.Code, w.Body)
	}
	if text := s.ask("GET", "/metrics", "").Body.String(); !strings.Contains(text, "neuroshard_panics_total 1\n") {
		t.Errorf("the panic is not counted: %s", text)
	}
}

func TestBrokenStore(t *testing.T) {
	s := start(t, service.Options{Store: broken{}})
	if w := s.ask("GET", "/readyz", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d, want 503", w.Code)
	}
	s.object(200, "GET", "/healthz", "")
	got := s.object(200, "POST", "/v1/plan", quickBody)
	if got["saved"] != false || got["cached"] != false {
		t.Errorf("got saved %v, cached %v: a plan is the answer all the same", got["saved"], got["cached"])
	}
	s.object(200, "GET", "/v1/plans/"+got["id"].(string), "") // it stays in memory
}

// TestMemoryOfBodiesReturns sends bodies with and without faults to each route: all memory of bodies is
// free again.
func TestMemoryOfBodiesReturns(t *testing.T) {
	all := must.Get(service.New(service.Options{Store: broken{}}))(t)
	defer all.Close(t.Context())
	s := &server{t, all.Handler()}
	for _, path := range []string{"/v1/plan", "/v1/price", "/v1/validate", "/v1/diff", "/v1/replan", "/v1/sweep", "/v1/nothing"} {
		for _, body := range []string{`{`, `{}`, quickBody, `{"problem": {"workload": "nope"}}`} {
			s.ask("POST", path, body)
		}
	}
	if !all.Bodies(all.BodyMemory()) {
		t.Error("some memory of bodies is still taken")
	}
}

// deadlines is an answer that notes the limits of time of its writes.
type deadlines struct {
	*httptest.ResponseRecorder
	first time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	if d.first.IsZero() {
		d.first = at
	}
	return nil
}

// TestSlowReaders wants a limit of time on the writes of each answer.
func TestSlowReaders(t *testing.T) {
	s := start(t, service.Options{Limits: service.Limits{WriteTime: time.Hour}})
	for _, path := range []string{"/", "/assets/page.js", "/v1/plans", "/v1/nothing", "/openapi.json", "/metrics"} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		began := time.Now()
		s.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
		if w.first.Before(began.Add(time.Hour)) || w.first.After(time.Now().Add(time.Hour)) {
			t.Errorf("%s: got the limit %v, want an hour from now", path, w.first)
		}
	}
}

// crowded is a store whose disk is full.
type crowded struct{ empty }

func (crowded) Delete(context.Context, string) error {
	return fmt.Errorf("store: %w: secret", store.ErrFull)
}

// TestFullDisk wants an answer that says what to do, and nothing of the server's paths.
func TestFullDisk(t *testing.T) {
	s := start(t, service.Options{Store: crowded{}})
	got := s.object(507, "DELETE", "/v1/plans/"+strings.Repeat("0", 32), "")
	if got["detail"] != "the disk of the store is full" || !strings.Contains(got["hint"].(string), "max_data") {
		t.Errorf("got %v", got)
	}
}

func TestStreamsAreLimited(t *testing.T) {
	all := must.Get(service.New(service.Options{Store: broken{}, Limits: service.Limits{Streams: 1}}))(t)
	s := &server{t, all.Handler()}
	job := s.object(202, "POST", "/v1/plan?async=true", quickBody)["id"].(string)
	all.Streams() <- struct{}{}
	if w := s.ask("GET", "/v1/jobs/"+job+"/events", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d, want 503", w.Code)
	}
	<-all.Streams()
	if w := s.ask("GET", "/v1/jobs/"+job+"/events", ""); w.Code != 200 {
		t.Errorf("got %d, want 200", w.Code)
	}
}

// TestClientsThatSendFirst sends a body that no socket's buffer holds, and reads the answer afterwards: a
// server that closed the connection without reading the body once reset it in place of an answer.
func TestClientsThatSendFirst(t *testing.T) {
	body := bytes.Repeat([]byte(" "), 24<<20)
	for what, c := range map[string]struct {
		opt  service.Options
		busy bool
		want string
	}{
		"too large": {service.Options{Limits: service.Limits{Body: unit.KiB}}, false, "413"},
		"busy":      {service.Options{}, true, "503"},
		"no token":  {service.Options{Token: "a-token-that-nobody-guesses"}, false, "401"},
	} {
		c.opt.Store = broken{}
		all := must.Get(service.New(c.opt))(t)
		if c.busy && !all.Bodies(all.BodyMemory()) {
			t.Fatal("the memory is in use")
		}
		conn := must.Get(net.Dial("tcp", listen(t, all)))(t)
		_, _ = fmt.Fprintf(conn, "POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
		if _, err := conn.Write(body); err != nil {
			t.Errorf("%s: sending the body: %v", what, err)
		}
		answer := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 "+c.want {
			t.Errorf("%s: got %q, %v, want %s", what, answer, err, c.want)
		}
		_ = conn.Close()
	}
}

// listen serves a service over TCP, and returns its address.
func listen(t *testing.T, all *service.Service) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := all.Server()
	if server.ReadHeaderTimeout <= 0 || server.IdleTimeout <= 0 || server.MaxHeaderBytes <= 0 {
		t.Error("a limit of the server is missing")
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// TestSlowClients sends bodies that never end, and one whose length is a lie, to a real server.
func TestSlowClients(t *testing.T) {
	// Only bodies that never end have a short limit, so that a loaded machine makes no other body late.
	within := func(bodies time.Duration) string {
		all := must.Get(service.New(service.Options{Store: broken{}, Limits: service.Limits{BodyTime: bodies, Body: unit.KiB}}))(t)
		return listen(t, all)
	}
	short, long := within(50*time.Millisecond), within(time.Hour)
	for what, c := range map[string]struct{ header, body, want string }{
		"slow body":      {"Content-Length: 100", "{", "408"},
		"slow chunks":    {"Transfer-Encoding: chunked", "1\r\n{\r\n", "408"},
		"long chunks":    {"Transfer-Encoding: chunked", "1000\r\n" + strings.Repeat(" ", 0x1000), "413"},
		"long body":      {"Content-Length: 99999999999", "{", "413"},
		"negative":       {"Content-Length: -1", "{", "400"},
		"large header":   {"X: " + strings.Repeat("x", 1<<17) + "\r\nContent-Length: 0", "", "431"},
		"expectation":    {"Expect: nothing\r\nContent-Length: 0", "", "417"},
		"no host header": {"Host: a\r\nContent-Length: 0", "", "400"},
	} {
		address := long
		if c.want == "408" {
			address = short
		}
		conn := must.Get(net.Dial("tcp", address))(t)
		go func() {
			_, _ = fmt.Fprintf(conn, "POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", c.header, c.body)
		}()
		answer := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 "+c.want {
			t.Errorf("%s: got %q, %v, want %s", what, answer, err, c.want)
		}
		if c.want == "408" {
			if _, err := io.Copy(io.Discard, conn); err != nil { // the server closes the connection
				t.Errorf("%s: reading to the end of the connection: %v", what, err)
			}
		}
		_ = conn.Close()
	}
}

func TestLimitsOfOptions(t *testing.T) {
	for what, limits := range map[string]service.Limits{
		"body":        {Body: 1},
		"tables":      {Tables: -1},
		"devices":     {Devices: 1 << 30},
		"cells":       {Cells: -1},
		"concurrency": {Concurrency: -1},
		"time":        {Time: -1},
		"memory":      {Memory: unit.MiB},
		"body memory": {Body: unit.GiB},
		"cache":       {Cache: 100 * unit.GiB},
		"streams":     {Streams: -1},
		"body time":   {BodyTime: -1},
	} {
		if _, err := service.New(service.Options{Store: broken{}, Limits: limits}); err == nil {
			t.Errorf("%s: got no error", what)
		}
	}
	if _, err := service.New(service.Options{}); err == nil {
		t.Error("no store: got no error")
	}
}

// empty is a store without plans.
type empty struct{ service.Store }

func (empty) Get(context.Context, string) (store.Record, error) {
	return store.Record{}, store.ErrNotFound
}
