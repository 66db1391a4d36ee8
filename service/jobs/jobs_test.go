package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service/jobs"
)

// gate is work that runs until it is let go.
type gate struct {
	begun, free chan struct{}
}

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

func (g *gate) run(ctx context.Context, j *jobs.Job) (any, error) {
	close(g.begun)
	j.Report("half")
	select {
	case <-g.free:
		return "done", nil
	case <-ctx.Done():
		return "cut", nil
	}
}

func start(t *testing.T, q *jobs.Queue, w jobs.Work, detached bool) *jobs.Job {
	t.Helper()
	return must.Get(q.Start(w, detached))(t)
}

// follow waits until a job has a state.
func follow(t *testing.T, j *jobs.Job, want jobs.State) jobs.Status {
	t.Helper()
	for {
		status, changed := j.Changes()
		if status.State == want {
			return status
		}
		if status.State.Ended() {
			t.Fatalf("got state %s, want %s", status.State, want)
		}
		<-changed
	}
}

func TestOneAfterTheOther(t *testing.T) {
	q := jobs.New(jobs.Options{Waiting: 1})
	first, second := newGate(), newGate()
	a := start(t, q, jobs.Work{Run: first.run}, true)
	<-first.begun
	b := start(t, q, jobs.Work{Run: second.run}, true)
	if s := b.Status().State; s != jobs.Queued {
		t.Errorf("got %s, want queued", s)
	}
	if _, err := q.Start(jobs.Work{Run: newGate().run}, true); !errors.Is(err, jobs.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if running, waiting, _ := q.Load(); running != 1 || waiting != 1 {
		t.Errorf("got %d running, %d waiting, want 1 and 1", running, waiting)
	}
	close(first.free)
	if s := follow(t, a, jobs.Done); s.Progress != "half" || s.Started.IsZero() || s.Ended.IsZero() {
		t.Errorf("got %+v", s)
	}
	<-second.begun
	close(second.free)
	follow(t, b, jobs.Done)
	if result, err := b.Result(); result != "done" || err != nil {
		t.Errorf("got %v, %v", result, err)
	}
	if q.Job(a.ID()) != a || q.Job("none") != nil || len(q.Jobs()) != 2 {
		t.Error("ended jobs are not found")
	}
}

func TestSameKeyIsOneJob(t *testing.T) {
	q := jobs.New(jobs.Options{})
	g := newGate()
	a := start(t, q, jobs.Work{Key: "k", Run: g.run}, false)
	<-g.begun
	b := start(t, q, jobs.Work{Key: "k", Run: g.run}, false)
	if a != b {
		t.Fatal("got two jobs, want one")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := a.Wait(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if s := a.Status().State; s != jobs.Running {
		t.Fatalf("got %s, want running: somebody still waits", s)
	}
	close(g.free)
	if result, err := b.Wait(t.Context()); result != "done" || err != nil {
		t.Errorf("got %v, %v", result, err)
	}
	again := newGate()
	c := start(t, q, jobs.Work{Key: "k", Run: again.run}, true)
	if c == a {
		t.Error("a job that ended was joined")
	}
	c.Cancel()
	follow(t, c, jobs.Canceled)
}

func TestLeft(t *testing.T) {
	q := jobs.New(jobs.Options{Waiting: 2})
	gone, leave := context.WithCancel(t.Context())
	leave()
	g := newGate()
	a := start(t, q, jobs.Work{Key: "k", Run: g.run}, false)
	<-g.begun
	waits := start(t, q, jobs.Work{Run: newGate().run}, false)
	if _, err := waits.Wait(gone); !errors.Is(err, context.Canceled) || waits.Status().State != jobs.Canceled {
		t.Errorf("a job that waits: got %v, %s", err, waits.Status().State)
	}
	if _, err := a.Wait(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	follow(t, a, jobs.Canceled)
	if result, _ := a.Result(); result != "cut" {
		t.Errorf("got %v, want what the work returned when it was canceled", result)
	}
	detached := newGate()
	b := start(t, q, jobs.Work{Key: "d", Run: detached.run}, true)
	<-detached.begun
	start(t, q, jobs.Work{Key: "d", Run: detached.run}, false)
	_, _ = b.Wait(gone)
	if s := b.Status().State; s != jobs.Running {
		t.Errorf("got %s, want running: the job is detached", s)
	}
	close(detached.free)
	follow(t, b, jobs.Done)
}

func TestWeight(t *testing.T) {
	q := jobs.New(jobs.Options{Running: 4, Weight: 10})
	var heavy *jobs.TooHeavy
	if _, err := q.Start(jobs.Work{Weight: 11, Run: newGate().run}, true); !errors.As(err, &heavy) || heavy.Most != 10 {
		t.Errorf("got %v, want TooHeavy", err)
	}
	first := newGate()
	a := start(t, q, jobs.Work{Weight: 8, Run: first.run}, true)
	<-first.begun
	second := newGate()
	b := start(t, q, jobs.Work{Weight: 3, Run: second.run}, true)
	third := newGate()
	c := start(t, q, jobs.Work{Weight: 1, Run: third.run}, true)
	if b.Status().State != jobs.Queued || c.Status().State != jobs.Queued {
		t.Error("a job passed one that waits for its weight")
	}
	if _, _, weight := q.Load(); weight != 8 {
		t.Errorf("got weight %d, want 8", weight)
	}
	close(first.free)
	follow(t, a, jobs.Done)
	<-second.begun
	<-third.begun
	b.Cancel()
	c.Cancel()
	follow(t, b, jobs.Canceled)
	follow(t, c, jobs.Canceled)
}

func TestFailures(t *testing.T) {
	ended := make(chan *jobs.Job, 2)
	q := jobs.New(jobs.Options{OnEnd: func(j *jobs.Job) { ended <- j }})
	wrong := errors.New("wrong")
	a := start(t, q, jobs.Work{Run: func(context.Context, *jobs.Job) (any, error) { return "half", wrong }}, false)
	if result, err := a.Wait(t.Context()); result != nil || !errors.Is(err, wrong) || a.Status().State != jobs.Failed {
		t.Errorf("got %v, %v", result, err)
	}
	b := start(t, q, jobs.Work{Run: func(context.Context, *jobs.Job) (any, error) { panic("boom") }}, false)
	var panicked *jobs.Panicked
	if _, err := b.Wait(t.Context()); !errors.As(err, &panicked) || panicked.Value != "boom" || len(panicked.Stack) == 0 {
		t.Errorf("got %v, want Panicked", err)
	}
	if <-ended != a || <-ended != b {
		t.Error("OnEnd was not called in order")
	}
	c := start(t, q, jobs.Work{Limit: 1, Run: func(ctx context.Context, _ *jobs.Job) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}, false)
	if _, err := c.Wait(t.Context()); !errors.Is(err, context.DeadlineExceeded) || c.Status().State != jobs.Failed {
		t.Errorf("got %v, %s, want the limit of time", err, c.Status().State)
	}
}

func TestForgets(t *testing.T) {
	size := func(result any) int64 { return int64(len(result.(string))) }
	q := jobs.New(jobs.Options{Kept: 3, KeptSize: 100, Size: size})
	var all []*jobs.Job
	for i, n := range []int{10, 10, 10, 10, 95, 200} {
		j := start(t, q, jobs.Work{Run: func(context.Context, *jobs.Job) (any, error) { return fmt.Sprintf("%0*d", n, i), nil }}, false)
		must.Get(j.Wait(t.Context()))(t)
		all = append(all, j)
	}
	for i, want := range []bool{false, false, false, false, false, true} {
		if got := q.Job(all[i].ID()) != nil; got != want {
			t.Errorf("job %d: got kept %v, want %v", i, got, want)
		}
	}
}

// TestForgetsByNumberAndAge has results without a size.
func TestForgetsByNumberAndAge(t *testing.T) {
	for what, c := range map[string]struct {
		opt  jobs.Options
		want []bool
	}{
		"number":   {jobs.Options{Kept: 2}, []bool{false, true, true}},
		"age":      {jobs.Options{KeptFor: 1}, []bool{false, false, false}},
		"defaults": {jobs.Options{}, []bool{true, true, true}},
	} {
		q := jobs.New(c.opt)
		var all []*jobs.Job
		for range c.want {
			j := start(t, q, jobs.Work{Run: func(context.Context, *jobs.Job) (any, error) { return "x", nil }}, false)
			must.Get(j.Wait(t.Context()))(t)
			all = append(all, j)
		}
		for i, want := range c.want {
			if got := q.Job(all[i].ID()) != nil; got != want {
				t.Errorf("%s: job %d: got kept %v, want %v", what, i, got, want)
			}
		}
	}
}

func TestClose(t *testing.T) {
	q := jobs.New(jobs.Options{})
	q.Close(t.Context())
	if _, err := q.Start(jobs.Work{Run: newGate().run}, true); !errors.Is(err, jobs.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	q = jobs.New(jobs.Options{})
	first, second := newGate(), newGate()
	a := start(t, q, jobs.Work{Run: first.run}, true)
	b := start(t, q, jobs.Work{Run: second.run}, true)
	<-first.begun
	over, end := context.WithCancel(t.Context())
	end()
	q.Close(over)
	if result, err := a.Result(); result != "cut" || err != nil || a.Status().State != jobs.Canceled {
		t.Errorf("a running job: got %v, %v, %s", result, err, a.Status().State)
	}
	if b.Status().State != jobs.Canceled {
		t.Errorf("a job that waits: got %s", b.Status().State)
	}
}
