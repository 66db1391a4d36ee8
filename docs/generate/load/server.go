//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a running neuroshard serve.
type server struct {
	process *exec.Cmd
	url     string
	client  *http.Client
}

// start starts a server that keeps its plans in a folder, on a free port.
func start(binary, data string, flags ...string) (*server, error) {
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data, "--log", "none"}, flags...)
	cmd := exec.Command(binary, args...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64, DisableCompression: true}
	s := &server{process: cmd, client: &http.Client{Transport: transport, Timeout: time.Minute}}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	s.url = regexp.MustCompile(`http://[0-9.:]+`).FindString(line)
	if err != nil || s.url == "" {
		return nil, errors.Join(fmt.Errorf("the server did not start: it printed %q", line), err, s.kill())
	}
	return s, nil
}

// kill ends the server at once, as a crash does.
func (s *server) kill() error {
	s.client.CloseIdleConnections()
	err := s.process.Process.Kill()
	_ = s.process.Wait() // the signal is the exit status
	return err
}

// stop ends the server as its operator does.
func (s *server) stop() error {
	s.client.CloseIdleConnections()
	return errors.Join(s.process.Process.Signal(syscall.SIGTERM), s.process.Wait())
}

// call sends one request and returns the status and the body of the answer.
func (s *server) call(ctx context.Context, method, path, body string, header ...string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	var answer bytes.Buffer
	_, err = io.Copy(&answer, response.Body)
	return response.StatusCode, answer.Bytes(), err
}

// answer is what is read of an answer to a request for a plan.
type answer struct {
	ID     string  `json:"id"`
	Cached bool    `json:"cached"`
	Saved  bool    `json:"saved"`
	Cost   float64 `json:"cost_ms"`
}

// plan asks for a plan and fails unless the server has saved it.
func (s *server) plan(ctx context.Context, body string) (answer, error) {
	var a answer
	status, text, err := s.call(ctx, http.MethodPost, "/v1/plan", body)
	if err != nil {
		return a, err
	}
	if status != http.StatusOK {
		return a, fmt.Errorf("status %d: %.300s", status, text)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, err
	}
	if !a.Saved {
		return a, fmt.Errorf("plan %s was not saved", a.ID)
	}
	return a, nil
}

// state is what a server takes at one moment.
type state struct {
	// live is the heap in MiB that the last collection left, estimated from the size at which
	// the next one starts; resident is what the process takes in MiB.
	live, resident, cpu float64
	goroutines, files   int
	// cache is the MiB of encoded answers in memory.
	cache float64
}

// state reads the server's metrics and counts its open files.
func (s *server) state(ctx context.Context) (state, error) {
	status, text, err := s.call(ctx, http.MethodGet, "/metrics", "")
	if err != nil || status != http.StatusOK {
		return state{}, errors.Join(err, fmt.Errorf("metrics: status %d", status))
	}
	value := func(name string) float64 {
		found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
		if found == nil {
			return -1
		}
		v, _ := strconv.ParseFloat(string(found[1]), 64) // -1 and 0 are seen by the reader
		return v
	}
	const mib = 1 << 20
	files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(s.process.Process.Pid), "fd"))
	return state{
		live: value("go_memstats_next_gc_bytes") / 2 / mib, resident: value("process_resident_memory_bytes") / mib,
		cpu: value("process_cpu_seconds_total"), goroutines: int(value("go_goroutines")), files: len(files),
		cache: value("neuroshard_answer_cache_bytes") / mib,
	}, err
}
