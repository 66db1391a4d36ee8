package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/internal/words"
)

// testServer is a running neuroshard serve.
type testServer struct {
	*testing.T
	address string
	client  *http.Client
	log     *bytes.Buffer
	stop    context.CancelFunc
	code    chan int
}

// startServer starts the command on a free port.
func startServer(t *testing.T, args ...string) *testServer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	s := &testServer{T: t, client: http.DefaultClient, log: &bytes.Buffer{}, stop: stop, code: make(chan int, 1)}
	go func() {
		s.code <- run(ctx, strings.NewReader(""), in, s.log, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...), system())
		_ = in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`https?://[^,]+`).FindString(line)
	if err != nil || address == "" {
		t.Fatalf("got %q, %v; log: %s", line, err, s.log)
	}
	s.address = address
	return s
}

// end ends the server as SIGTERM does, and wants exit code 0.
func (s *testServer) end() {
	s.Helper()
	s.stop()
	if code := <-s.code; code != exitOK {
		s.Errorf("got exit code %d, want 0; log: %s", code, s.log)
	}
}

// ask sends a request and returns the status and the answer.
func (s *testServer) ask(method, url, body string, header http.Header) (int, string) {
	s.Helper()
	r := must.Get(http.NewRequestWithContext(s.Context(), method, url, strings.NewReader(body)))(s)
	for key, values := range header {
		r.Header[key] = values
	}
	answer := must.Get(s.client.Do(r))(s)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(s)
	return answer.StatusCode, string(text)
}

// curl sends what a command line with curl sends, and returns the answer.
func (s *testServer) curl(line string) string {
	s.Helper()
	args, err := words.Split(strings.ReplaceAll(line, "http://127.0.0.1:7878", s.address))
	if err != nil {
		s.Fatalf("%s: %v", line, err)
	}
	method, body, url, header := http.MethodGet, "", "", http.Header{}
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "-s", "-sN":
		case "-o":
			i++
		case "-H":
			i++
			key, value, _ := strings.Cut(args[i], ": ")
			header.Set(key, value)
		case "-d":
			i++
			method, body = http.MethodPost, args[i]
		default:
			url = args[i]
		}
	}
	status, text := s.ask(method, url, body, header)
	if status/100 != 2 {
		s.Errorf("%s: got status %d: %s", line, status, text)
	}
	return text
}

// TestServiceDocument runs the commands of docs/SERVICE.md, in order.
func TestServiceDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it runs all commands of a document")
	}
	page := must.Get(os.ReadFile("../../docs/SERVICE.md"))(t)
	s := startServer(t, "--data", t.TempDir())
	ids := map[string]string{}
	count := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			text := s.curl(strings.NewReplacer("$ID", ids["ID"], "$JOB", ids["JOB"]).Replace(line))
			count++
			var answer struct{ ID, State string }
			_ = json.Unmarshal([]byte(text), &answer) // events are no JSON
			switch {
			case answer.State != "":
				ids["JOB"] = answer.ID
			case answer.ID != "" && ids["ID"] == "":
				ids["ID"] = answer.ID
			}
		}
	}
	if count < 8 || ids["ID"] == "" || ids["JOB"] == "" {
		t.Errorf("got %d commands, plan %q, job %q", count, ids["ID"], ids["JOB"])
	}
	s.end()
}

// TestServeWritesThePlanOfPlan wants the bytes of plan -o from the service, also after a new start.
func TestServeWritesThePlanOfPlan(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "plan.json")
	var stderr bytes.Buffer
	if code := run(t.Context(), nil, io.Discard, &stderr, []string{"plan", "workload:criteo-kaggle", "--gpus", "2", "--seed", "5", "--set", "max_evaluations=500", "-o", file}, system()); code != exitOK {
		t.Fatalf("got exit code %d: %s", code, &stderr)
	}
	want := must.Get(os.ReadFile(file))(t)
	const body = `{"problem": {"workload": "criteo-kaggle", "overrides": {"devices": 2}}, "options": {"seed": 5, "max_evaluations": 500}}`
	header := http.Header{"Content-Type": {"application/json"}}
	for _, cached := range []bool{false, true} {
		s := startServer(t, "--data", filepath.Join(folder, "plans"))
		_, text := s.ask("POST", s.address+"/v1/plan", body, header)
		var answer struct {
			ID     string
			Cached bool
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Cached != cached {
			t.Errorf("got cached %v, %v, want %v: %s", answer.Cached, err, cached, text)
		}
		if _, got := s.ask("GET", s.address+"/v1/plans/"+answer.ID, "", nil); got != string(want) {
			t.Errorf("got another plan than plan -o writes: %d bytes, want %d", len(got), len(want))
		}
		s.end()
	}
}

// TestServeEndsInTime ends a server in the middle of a search: the best plan so far is the answer.
func TestServeEndsInTime(t *testing.T) {
	s := startServer(t, "--data", t.TempDir(), "--set", "grace=0s", "--set", "time_limit=24h")
	header := http.Header{"Content-Type": {"application/json"}}
	_, text := s.ask("POST", s.address+"/v1/plan?async=true", `{"problem": {"workload": "dlrm-datasets-2000x256"}, "options": {"max_evaluations": 1000000000000}}`, header)
	if !strings.Contains(text, `"state":`) {
		t.Fatalf("got %s", text)
	}
	s.end()
	if !strings.Contains(s.log.String(), "state=canceled") {
		t.Errorf("the job was not canceled: %s", s.log)
	}
}

// TestServeWithoutAQueue runs a job, and wants a second one to be refused.
func TestServeWithoutAQueue(t *testing.T) {
	s := startServer(t, "--data", t.TempDir(), "--set", "grace=0s", "--set", "time_limit=24h", "--set", "concurrency=1", "--set", "queue=0")
	header := http.Header{"Content-Type": {"application/json"}}
	for seed, want := range []int{http.StatusAccepted, http.StatusTooManyRequests} {
		status, text := s.ask("POST", s.address+"/v1/plan?async=true", fmt.Sprintf(`{"problem": {"workload": "dlrm-datasets-2000x256"}, "options": {"max_evaluations": 1000000000000, "seed": %d}}`, seed), header)
		if status != want {
			t.Errorf("job %d: got status %d: %s, want %d", seed, status, text, want)
		}
	}
	s.end()
}

func TestServeWithTokenAndTLS(t *testing.T) {
	folder := t.TempDir()
	token, cert, key := filepath.Join(folder, "token"), filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	must.Do(t, os.WriteFile(token, []byte("a-token-of-the-test\n"), 0o600))
	root := certificate(t, cert, key)
	s := startServer(t, "--data", filepath.Join(folder, "plans"), "--token-file", token, "--tls-cert", cert, "--tls-key", key, "--log", "json")
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: root}, ForceAttemptHTTP2: true}}
	if !strings.HasPrefix(s.address, "https://") {
		t.Errorf("got address %s", s.address)
	}
	if status, text := s.ask("GET", s.address+"/v1/plans", "", nil); status != 401 {
		t.Errorf("without the token: got %d %s", status, text)
	}
	if status, text := s.ask("GET", s.address+"/v1/plans", "", http.Header{"Authorization": {"Bearer a-token-of-the-test"}}); status != 200 {
		t.Errorf("with the token: got %d %s", status, text)
	}
	s.client.CloseIdleConnections()
	s.end()
	if strings.Contains(s.log.String(), "a-token-of-the-test") {
		t.Errorf("the log has the token: %s", s.log)
	}
}

// certificate writes a certificate of 127.0.0.1 with its key, and returns it as a root.
func certificate(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		must.Do(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	parsed := must.Get(x509.ParseCertificate(der))(t)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}
