package lab_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// small makes a model in a second or so.
func small() lab.Options {
	return lab.Options{
		Samples: 200, CommSamples: 40, LargeSamples: 20, Seed: 4,
		Train: train.Options{Epochs: 2, Batch: 16, Hidden: 16, Embed: 8, Head: 8},
	}
}

func simulate(t *testing.T, opt lab.Options) *modelfile.Model {
	t.Helper()
	m, report := must.Get2(lab.Simulate(context.Background(), must.Get(hardware.ByName("rtx2080ti"))(t), opt))(t)
	if c := m.Manifest.Card; c.Compute != report.Compute.All || c.Large != report.Large.All || c.Comm != report.Comm.All {
		t.Errorf("got card %+v, want the report's errors", c)
	}
	return m
}

func TestSimulate(t *testing.T) {
	var phases []string
	opt := small()
	opt.OnPhase = func(phase string) { phases = append(phases, phase) }
	opt.Train.Workers = 1
	m := simulate(t, opt)
	if want := []string{"drawing and simulating samples", "training"}; !slices.Equal(phases, want) {
		t.Errorf("got phases %q, want %q", phases, want)
	}
	if _, err := cost.Load(m); err != nil {
		t.Errorf("the model does not load: %v", err)
	}
	card := m.Manifest.Card
	if card.Seed != 4 || card.ComputeSamples != 200 || card.CommSamples != 40 || card.Epochs != 2 {
		t.Errorf("got card %+v, want seed 4, 200 groups, 40 exchanges, 2 epochs", card)
	}
	if card.Compute.Samples != 20 || card.Large.Samples != 2 || card.Comm.Samples != 4 {
		t.Errorf("got %d, %d and %d samples judged, want a tenth of each: 20, 2 and 4", card.Compute.Samples, card.Large.Samples, card.Comm.Samples)
	}
	if m.Manifest.Source != "simulated" || m.Manifest.Profile != "rtx2080ti" {
		t.Errorf("got source %q, profile %q, want simulated, rtx2080ti", m.Manifest.Source, m.Manifest.Profile)
	}
	if got, want := m.Manifest.Command, "neuroshard train --simulate rtx2080ti --samples 200 --seed 4 --set comm_samples=40 --set epochs=2"; got != want {
		t.Errorf("got command %q, want %q", got, want)
	}

	opt.Train.Workers = 8
	// The training's own seed is overruled.
	opt.Train.Seed = 77
	again := simulate(t, opt)
	if again.Manifest.ID != m.Manifest.ID || !reflect.DeepEqual(again, m) {
		t.Errorf("same seed, 8 workers: got model %s, want %s", again.Manifest.ID, m.Manifest.ID)
	}
	folder := t.TempDir()
	if err := m.Write(folder + "/model"); err != nil {
		t.Errorf("the model cannot be written: %v", err)
	}
}

func TestLearningCurve(t *testing.T) {
	opt := small()
	sizes := []int{50, 200}
	points := must.Get(lab.LearningCurve(context.Background(), must.Get(hardware.ByName("rtx2080ti"))(t), sizes, opt))(t)
	if len(points) != len(sizes) {
		t.Fatalf("got %d points, want %d", len(points), len(sizes))
	}
	for i, p := range points {
		if p.Samples != sizes[i] {
			t.Errorf("point %d: got %d samples, want %d: the sizes' order", i, p.Samples, sizes[i])
		}
		if p.Compute.Samples != 20 || p.Large.Samples != 2 {
			t.Errorf("point %d: judged on %d and %d groups, want all 20 and 2, whatever the training's", i, p.Compute.Samples, p.Large.Samples)
		}
		if !(p.Compute.Mean > 0) || i > 0 && p.Compute == points[i-1].Compute {
			t.Errorf("point %d: got errors %+v, want some of its own", i, p.Compute)
		}
	}
}

func TestFailures(t *testing.T) {
	hw := must.Get(hardware.ByName("rtx2080ti"))(t)
	opt := small()
	opt.Samples = lab.MinSamples - 1
	if _, _, err := lab.Simulate(context.Background(), hw, opt); err == nil || !strings.Contains(err.Error(), "too few samples") {
		t.Errorf("%d samples: got error %v, want one that says too few", opt.Samples, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	opt = small()
	opt.OnPhase = func(phase string) {
		if phase == "training" {
			cancel()
		}
	}
	if m, _, err := lab.Simulate(ctx, hw, opt); !errors.Is(err, context.Canceled) || m != nil {
		t.Errorf("cancelled before training: got model %v and error %v, want %v", m, err, context.Canceled)
	}
}

// TestDrawsEnd wants a context that ended to end the draws. Those of all-to-alls take seconds
// at the default size.
func TestDrawsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if set, err := design.CommContext(ctx, 1, 1_000_000, must.Get(hardware.ByName("a100-80"))(t)); !errors.Is(err, context.Canceled) || set != nil {
		t.Errorf("got all-to-alls %v and error %v, want %v", set != nil, err, context.Canceled)
	}
	groups := 0
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	opt := small()
	opt.Samples, opt.CommSamples = 2000, 10
	opt.OnPhase = func(string) { groups++; cancel() }
	if _, _, err := lab.Simulate(ctx, must.Get(hardware.ByName("a100-80"))(t), opt); !errors.Is(err, context.Canceled) || groups != 1 {
		t.Errorf("ended in the first phase: got %d phases and error %v, want 1 and %v", groups, err, context.Canceled)
	}
}

// The all-to-alls are those that a model of the profile is made from.
func TestSimulateComm(t *testing.T) {
	hw := must.Get(hardware.ByName("rtx2080ti"))(t)
	opt := small()
	set, err := lab.SimulateComm(context.Background(), hw, opt)
	if err != nil {
		t.Fatal(err)
	}
	if p := set.Provenance; p.Source != dataset.Simulated || p.Profile != hw.Name || p.Seed != 4 || len(set.Samples) != 40 {
		t.Errorf("got %d samples of %+v, want 40 of the simulated profile, seed 4", len(set.Samples), p)
	}
	drawn := design.Comm(4, 40, hw)
	for i := range set.Samples {
		s := &set.Samples[i]
		if len(s.Forward) != s.Devices || len(s.Backward) != s.Devices || !(s.Forward[0] > 0) || !(s.Backward[0] > 0) {
			t.Errorf("sample %d: got times %v and %v of %d devices", i, s.Forward, s.Backward, s.Devices)
		}
		if !reflect.DeepEqual(s.DimSums, drawn.Samples[i].DimSums) || !reflect.DeepEqual(s.Start, drawn.Samples[i].Start) {
			t.Errorf("sample %d is not as Experiment draws it", i)
		}
	}
	opt.Train.Workers = 7
	again, err := lab.SimulateComm(context.Background(), hw, opt)
	if err != nil || !reflect.DeepEqual(again, set) {
		t.Errorf("7 workers: got other samples, error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := lab.SimulateComm(ctx, hw, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got error %v, want %v", err, context.Canceled)
	}
}
