package load_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/neuroshard/neuroshard/internal/load"
)

// TestOpen has requests that are due every 10 ms, and a server that answers one after another
// and stalls once: the times count from when the requests were due.
func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := make(chan struct{}, 1) // a mutex would stop the test's clock
		r := load.Open(t.Context(), 100, 10, func(_ context.Context, n int) error {
			server <- struct{}{}
			defer func() { <-server }()
			if n == 0 {
				time.Sleep(45 * time.Millisecond)
				return errors.New("slow")
			}
			return nil
		})
		if r.Requests() != 10 || r.Failed() != 1 || !slices.Equal(r.Errors(), []string{"1 x slow"}) {
			t.Errorf("got %d requests with the errors %q, want 10 with one error", r.Requests(), r.Errors())
		}
		// Five are due before the server goes on: after 0, 10, 20, 30 and 40 ms.
		for share, want := range map[float64]time.Duration{1: 45, 0.9: 35, 0.8: 25, 0.7: 15, 0.6: 5, 0.5: 0, 0: 0} {
			if got := r.Quantile(share); got != want*time.Millisecond {
				t.Errorf("quantile %v: got %v, want %v ms", share, got, int(want))
			}
		}
		if r.Took != 90*time.Millisecond || fmt.Sprintf("%.0f", r.Rate()) != "111" {
			t.Errorf("got %v and %v a second, want 90 ms and 111 a second", r.Took, r.Rate())
		}
	})
}

func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var progress []int
		r := load.Closed(t.Context(), 2, 10, func(context.Context, int) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}, func(done int) { progress = append(progress, done) })
		if r.Requests() != 10 || r.Failed() != 0 || r.Took != 50*time.Millisecond || r.Quantile(1) != 10*time.Millisecond {
			t.Errorf("got %d requests in %v, the longest in %v; want 10 in 50 ms, each in 10 ms", r.Requests(), r.Took, r.Quantile(1))
		}
		if len(progress) != 10 || progress[9] != 9 {
			t.Errorf("got progress %v, want 0 to 9", progress)
		}
	})
}

// TestNoAnswer has a server that never answers: requests beyond the limit of waiting ones fail.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		go func() { time.Sleep(time.Minute); close(answer) }()
		r := load.Open(t.Context(), 1000, 5000, func(context.Context, int) error { <-answer; return nil })
		if r.Failed() != 5000-4096 {
			t.Errorf("got %d failed requests, want those beyond 4096 that wait", r.Failed())
		}
	})
}

func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := load.Open(ctx, 1, 10, nil); r.Requests() != 0 || r.Quantile(0.99) != 0 {
		t.Errorf("got %d requests, want none", r.Requests())
	}
}
