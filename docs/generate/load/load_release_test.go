//go:build release && unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// built returns the path of the binary, made from this checkout.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "neuroshard")
	out, err := exec.Command("go", "build", "-o", path, "../../../cmd/neuroshard").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func started(t *testing.T, binary, data string) *server {
	t.Helper()
	s, err := start(binary, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.kill() })
	return s
}

// TestKilledServer kills the server 8 times while four clients ask for plans: after each
// restart it has every plan that a client received.
func TestKilledServer(t *testing.T) {
	binary, data := built(t), t.TempDir()
	m := &mix{plans: map[string]float64{}}
	number := 0
	for kill := range 8 {
		s := started(t, binary, data)
		m.server = s
		if err := m.found(t.Context(), s); err != nil {
			t.Fatalf("after %d kills: %v", kill, err)
		}
		before := len(m.plans)
		var wait sync.WaitGroup
		failed := make(chan error, 4)
		for client := range 4 {
			first := number + client*1000
			wait.Go(func() {
				for n := first; ; n++ {
					if err := m.again(context.Background(), planOf(small(uint64(n), 4+n%3))); err != nil {
						failed <- err
						return
					}
				}
			})
		}
		number += 4000
		for m.received() < before+5+7*kill%20 {
			select {
			case err := <-failed:
				t.Fatalf("a request failed before the server was killed: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		if err := s.kill(); err != nil {
			t.Fatal(err)
		}
		wait.Wait()
	}
	if err := m.found(t.Context(), started(t, binary, data)); err != nil {
		t.Error(err)
	}
	t.Logf("%d plans were received and found", len(m.plans))
}

// received returns the number of plans that clients have.
func (m *mix) received() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return len(m.plans)
}

// TestTwoServers starts two servers on one folder: the same request has the same id at both,
// each has the plans of the other, and both add to one history.
func TestTwoServers(t *testing.T) {
	binary, data := built(t), t.TempDir()
	servers := []*server{started(t, binary, data), started(t, binary, data)}
	const each = 20
	var wait sync.WaitGroup
	ids := make([][]string, 2)
	for i, s := range servers {
		wait.Go(func() {
			for n := range each {
				a, err := s.plan(t.Context(), planOf(small(uint64(n), 5)))
				if err != nil {
					t.Error(err)
				}
				ids[i] = append(ids[i], a.ID)
			}
			own, err := s.plan(t.Context(), planOf(small(uint64(1000+i), 5)))
			if err != nil {
				t.Error(err)
			}
			ids[i] = append(ids[i], own.ID)
		})
	}
	wait.Wait()
	for n := range each {
		if ids[0][n] != ids[1][n] {
			t.Errorf("plan %d: got ids %s and %s, want the same", n, ids[0][n], ids[1][n])
		}
	}
	for i, s := range servers {
		other := ids[1-i][each]
		if status, text, err := s.call(t.Context(), http.MethodGet, "/v1/plans/"+other, ""); err != nil || status != http.StatusOK {
			t.Errorf("a plan of the other server: got status %d, %v: %.200s", status, err, text)
		}
	}
	var lists [2]string
	for i, s := range servers {
		status, text, err := s.call(t.Context(), http.MethodGet, "/v1/plans?limit=100", "")
		if err != nil || status != http.StatusOK || !json.Valid(text) {
			t.Fatalf("got status %d, %v: %.200s", status, err, text)
		}
		lists[i] = string(text)
	}
	if lists[0] != lists[1] || strings.Count(lists[0], ids[0][0]) != 1 {
		t.Errorf("got other lists of plans:\n%.500s\n%.500s", lists[0], lists[1])
	}
}

// TestDay replays requests of users. A whole day has 86400; the package comment has the command.
func TestDay(t *testing.T) {
	var out strings.Builder
	if err := day(&out, built(t), 800, 2, nil); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	fmt.Fprintln(t.Output(), out.String())
}
