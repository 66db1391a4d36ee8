package main

import (
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// sliceCells is the number of cells above which the published command of NVIDIA's synthetic
// models cuts a table by columns.
const sliceCells = 1280 << 20

// A stackStep is a published step of a training system whose constants nobody published.
type stackStep struct {
	model   string
	devices int
	// measured is the published step, and plain the prediction of a stack of PyTorch, in ms.
	measured, plain float64
	input           step.Input
}

// stackSteps predicts the published steps of NVIDIA's synthetic models on DGX A100.
func stackSteps() ([]stackStep, error) {
	stack, err := step.StackByName("torchrec-base")
	if err != nil {
		return nil, err
	}
	stack.Overlaps.Input = true // each device reads the indices of its own tables
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		return nil, err
	}
	var steps []stackStep
	for _, w := range workload.All() {
		for _, published := range w.Steps {
			s := stackStep{model: w.Name, devices: published.Devices, measured: float64(published.Time)}
			if err := s.price(w, profile, stack); err != nil {
				return nil, fmt.Errorf("%s on %d devices: %w", w.Name, published.Devices, err)
			}
			steps = append(steps, s)
		}
	}
	return steps, nil
}

// price fills in the prediction.
func (s *stackStep) price(w workload.Workload, profile hardware.Profile, stack step.Stack) error {
	p := w.Problem()
	p.Topology = cluster(profile, s.devices, 8)
	dense, err := step.DenseByName(w.Name)
	if err != nil {
		return err
	}
	shards, err := deal(&p, cut(&p, sliceCells))
	if err != nil {
		return err
	}
	s.input = step.Input{Problem: &p, Shards: shards, Dense: &dense, Stack: stack}
	t, err := step.Price(s.input)
	if err != nil {
		return err
	}
	s.plain = float64(t.Step)
	return nil
}

// calibrated predicts the step from a measured step of the same model.
func (s *stackStep) calibrated(from *stackStep) (float64, error) {
	in := s.input
	in.Measured = step.Measured{Step: unit.Millis(from.measured), Problem: from.input.Problem, Shards: from.input.Shards}
	t, err := step.Price(in)
	return float64(t.Step), err
}

// nearest returns the step of the same model with the nearest number of devices, counted in
// doublings; nil if the model has one step only.
func nearest(steps []stackStep, s *stackStep) *stackStep {
	var best *stackStep
	for i := range steps {
		q := &steps[i]
		if q.model != s.model || q.devices == s.devices {
			continue
		}
		if best == nil || doublings(q, s) < doublings(best, s) {
			best = q
		}
	}
	return best
}

func doublings(a, b *stackStep) float64 {
	return math.Abs(math.Log2(float64(a.devices) / float64(b.devices)))
}

// stacks compares the steps of a training system with unknown constants: as they are, and with
// one measured step of the model on another number of GPUs.
func stacks() ([]*set, error) {
	steps, err := stackSteps()
	if err != nil {
		return nil, err
	}
	s := sets{what: "whole steps of a system with unknown constants"}
	unknown, carried := s.of("no constant of it"), s.of(carriedRows)
	for i := range steps {
		p := &steps[i]
		unknown.add(p.plain, p.measured)
		from := nearest(steps, p)
		if from == nil {
			continue
		}
		c, err := p.calibrated(from)
		if err != nil {
			return nil, err
		}
		carried.add(c, p.measured)
	}
	return s.list, nil
}

// carriedRows names the steps that are predicted from one measured step of the same model.
const carriedRows = "one measured step on another number of GPUs"
