package collect

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/unit"
)

// bySpeed is a script with the times of a steady device, multiplied by the factor
// of the pass. The pass is the number of times that the sample was measured;
// anchors and repeats are not scaled.
func bySpeed(factors ...unit.Millis) *script {
	s := newScript()
	seen := map[int]int{}
	s.compute = func(_ int, g *dataset.Group) (Timing, error) {
		f := factors[min(seen[g.ID], len(factors)-1)]
		seen[g.ID]++
		t := steadyTiming(g)
		return Timing{f * t.Forward, f * t.Backward, t.ForwardSpread, t.BackwardSpread}, nil
	}
	s.comm = func(call int, e *dataset.Exchange) (CommTiming, error) {
		f := factors[min(seen[-1-e.ID], len(factors)-1)]
		seen[-1-e.ID]++
		t := steadyComm(e)
		for r := range t.Forward {
			t.Forward[r] *= f
			t.Backward[r] *= f
		}
		return t, nil
	}
	return s
}

func TestPasses(t *testing.T) {
	design := drawn(t, 60, 20)
	for _, fastest := range []bool{false, true} {
		// Anchors and repeats are measured more than once in a pass, so they are not
		// scaled.
		opt := Options{Passes: 3, Fastest: fastest, AnchorEvery: 1000, DriftLimit: 100, Tool: "v1"}
		want := unit.Millis(2)
		if fastest {
			want = 1
		}
		folder := filepath.Join(t.TempDir(), "samples")
		var last Progress
		opt.OnProgress = func(p Progress) {
			if p.Done != last.Done+1 || p.Total != 3*82 || p.Before != 0 || p.Pass != (p.Done-1)/82+1 {
				t.Fatalf("got progress %+v after %+v", p, last)
			}
			last = p
		}
		backend := bySpeed(4, 1, 2)
		got := must.Get(Run(context.Background(), design, backend, folder, opt))(t)
		if last.Done != 246 {
			t.Errorf("got last progress %+v, want 246 done", last)
		}
		anchors := map[int]bool{}
		for _, p := range begun(t, design).parts {
			for _, id := range p.candidates {
				anchors[id] = anchors[id] || p.name == partGroups
			}
		}
		for _, again := range got.Compute.Repeats {
			anchors[again.ID] = true
		}
		for i, g := range got.Compute.Samples {
			steady := steadyTiming(&g)
			if !anchors[g.ID] && (g.Forward != want*steady.Forward || g.Backward != want*steady.Backward) {
				t.Fatalf("fastest %v: group %d: got %v and %v, want %v times %+v", fastest, i, g.Forward, g.Backward, want, steady)
			}
		}
		by := got.Compute.Provenance
		if by.Passes != 3 || by.Fastest != fastest || got.Comm.Provenance.Passes != 3 {
			t.Errorf("got provenance %+v, want 3 passes, fastest %v", by, fastest)
		}
		read := must.Get(dataset.Read(folder))(t)
		if diff := cmp.Diff(got, read, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("written (-returned +read):\n%s", diff)
		}
		opt.OnProgress = nil
		idle := newScript()
		if again, err := Run(context.Background(), design, idle, folder, opt); !errors.Is(err, ErrFinished) || idle.calls != 0 {
			t.Errorf("again: got error %v and %d measurements, want ErrFinished and none", err, idle.calls)
		} else {
			sameSamples(t, again, got)
		}
		opt.Passes = 2
		if _, err := Run(context.Background(), design, idle, folder, opt); err == nil || errors.Is(err, ErrFinished) || !strings.Contains(err.Error(), "passes") {
			t.Errorf("fewer passes: got error %v, want one that names the passes", err)
		}
	}
}

// If a pass cannot be measured, the passes before it are kept.
func TestPassesKeepWhatIsMeasured(t *testing.T) {
	design := drawn(t, 30, 0)
	opt := Options{Passes: 2, AnchorEvery: 1000, DriftLimit: 100}
	folder := t.TempDir()
	lost := newScript()
	lost.compute = func(call int, g *dataset.Group) (Timing, error) {
		if call > 45 {
			return Timing{}, ErrLost
		}
		return steadyTiming(g), nil
	}
	_, err := Run(context.Background(), design, lost, folder, opt)
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "pass 2 of 2") {
		t.Fatalf("got error %v, want ErrLost of the second pass", err)
	}
	backend := newScript()
	must.Get(Run(context.Background(), design, backend, folder, opt))(t)
	if backend.calls > 30 {
		t.Errorf("going on took %d measurements, want those that were left", backend.calls)
	}
	opt.Passes = -1
	if _, err := Run(context.Background(), design, backend, t.TempDir(), opt); err == nil {
		t.Error("-1 passes: got no error")
	}
}
