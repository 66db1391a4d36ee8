package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServeCheck(t *testing.T) {
	ready := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || r.Method != http.MethodGet {
			t.Errorf("got %s %s, want GET /readyz", r.Method, r.URL.Path)
		}
		if !ready {
			http.Error(w, "the disk is full", http.StatusServiceUnavailable)
		}
	}))
	if r := runHere(t.Context(), quiet(), "serve", "check", server.URL); r.code != exitOK || r.stdout != "ready\n" {
		t.Errorf("a ready server: got exit code %d, %q and %q", r.code, r.stdout, r.stderr)
	}
	ready = false
	if r := runHere(t.Context(), quiet(), "serve", "check", server.URL); r.code != exitNo || !strings.Contains(r.stderr, "not ready: 503 Service Unavailable the disk is full") {
		t.Errorf("a server that is not ready: got exit code %d and %q", r.code, r.stderr)
	}
	server.Close()
	if r := runHere(t.Context(), quiet(), "serve", "check", server.URL); r.code != exitNo || !strings.Contains(r.stderr, "hint: start one") {
		t.Errorf("no server: got exit code %d and %q", r.code, r.stderr)
	}
	for _, args := range [][]string{{"serve", "check", "7878"}, {"serve", "check", "ftp://x"}, {"serve", "check", "http://a", "http://b"}} {
		if r := runHere(t.Context(), quiet(), args...); r.code != exitBad {
			t.Errorf("%q: got exit code %d, want %d", args, r.code, exitBad)
		}
	}
}
