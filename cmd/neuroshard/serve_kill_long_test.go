//go:build long

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
)

// TestKilledServer kills a server while four clients send requests, again and again: each time that it starts, it has every plan
// that a client received.
func TestKilledServer(t *testing.T) {
	program := must.Get(os.Executable())(t)
	data := t.TempDir()
	var sent atomic.Int64
	var received sync.Map
	for kill := range 6 {
		server := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--data", data)
		server.Args[0] = "neuroshard" // for TestMain
		out, err := server.StdoutPipe()
		if err == nil {
			err = server.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		address := regexp.MustCompile(`https?://[^,]+`).FindString(line)
		if err != nil || address == "" {
			t.Fatalf("after %d kills: got %q, %v", kill, line, err)
		}
		received.Range(func(id, _ any) bool {
			answer, err := http.Get(address + "/v1/plans/" + id.(string))
			if err != nil {
				t.Fatalf("after %d kills: %v", kill, err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("after %d kills, plan %s: got status %d", kill, id, answer.StatusCode)
			}
			return true
		})
		ids := make(chan string)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for {
					id, err := planAt(address, sent.Add(1))
					if err != nil {
						return // the server is killed
					}
					ids <- id
				}
			})
		}
		go func() {
			clients.Wait()
			close(ids)
		}()
		count := 0
		for id := range ids {
			received.Store(id, true)
			if count++; count == 5+7*kill {
				_ = server.Process.Kill()
			}
		}
		_ = server.Process.Kill() // if the requests failed before
		if _ = server.Wait(); count < 5+7*kill {
			t.Fatalf("after %d kills: requests failed before the server was killed, %d plans were received", kill, count)
		}
	}
}

// planAt asks a server for a plan of its own seed, and returns the plan's id.
func planAt(address string, seed int64) (string, error) {
	body := fmt.Sprintf(`{"problem": {"workload": "dlrm-datasets-10x2"}, "options": {"method": "size", "seed": %d}}`, seed)
	answer, err := http.Post(address+"/v1/plan", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var plan struct{ ID string }
	if err := json.NewDecoder(answer.Body).Decode(&plan); err != nil || answer.StatusCode != http.StatusOK || plan.ID == "" {
		return "", fmt.Errorf("got status %d, %v", answer.StatusCode, err)
	}
	return plan.ID, nil
}
