package service_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/service"
	"github.com/neuroshard/neuroshard/service/store"
)

// BenchmarkKnownPlan answers requests for a plan of 100 tables on 8 devices that was made
// before, over the loopback device.
func BenchmarkKnownPlan(b *testing.B) {
	kept, err := store.Open(b.Context(), b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer kept.Close()
	s, err := service.New(service.Options{Store: kept})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(b.Context())
	listening := httptest.NewServer(s.Handler())
	defer listening.Close()
	const body = `{"problem":{"workload":"dlrm-datasets-100x8"},"options":{"method":"size","certificate":false}}`
	for b.Loop() {
		answer, err := http.Post(listening.URL+"/v1/plan", "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || n < 10_000 {
			b.Fatalf("got status %d, %d bytes, %v", answer.StatusCode, n, err)
		}
		_ = answer.Body.Close()
	}
}
