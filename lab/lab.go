// Package lab is the second line: from a seed and a profile to a cost model. Simulate
// draws samples, has the simulated device time them, and trains on them. The models that
// ship in the binary come from here, and the same seed makes the same model again.
//
//	design -> collect -> dataset -> train -> modelfile
package lab

import (
	"context"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// Options steer Simulate. The zero value makes models like the shipped ones, whose seed is
// 1.
type Options struct {
	// Samples is the number of groups of fused lookups (default 100,000, as in the
	// NeuroShard paper): eight tenths for training, a tenth each for validation
	// and test.
	Samples int
	// CommSamples is the number of all-to-alls (default 8,000).
	CommSamples int
	// LargeSamples is the number of groups of 100 to 200 shards (default 5,000, or
	// Samples if that is less). A tenth of them judges the model; none trains it.
	LargeSamples int
	// Seed of the draws and of the training.
	Seed uint64
	// Train are the options of the training. Seed replaces the seed in them.
	Train train.Options
	// OnPhase, if not nil, is called with the name of each phase when the phase begins.
	OnPhase func(phase string)
}

// The default sizes of the draws.
const (
	DefaultSamples     = 100_000
	DefaultCommSamples = 8_000
	// DefaultLargeSamples is the number of groups of 100 to 200 shards.
	DefaultLargeSamples = 5_000
	// MinSamples is the least number of groups, and of all-to-alls, with which every split has
	// a sample.
	MinSamples = 10

	tables      = 4000
	largeShards = 200
)

// Simulate makes a model of the profile from samples of the simulated device.
func Simulate(ctx context.Context, profile hardware.Profile, opt Options) (*modelfile.Model, *train.Report, error) {
	opt = opt.withDefaults()
	data, err := draw(ctx, profile, opt)
	if err != nil {
		return nil, nil, err
	}
	opt.OnPhase("training")
	m, report, err := train.Fit(ctx, data, profile, opt.Train)
	if err != nil {
		return nil, nil, err
	}
	m.Manifest.Command = opt.command(profile)
	return m, report, m.Seal()
}

// draw draws and times everything a model is trained and judged on.
func draw(ctx context.Context, profile hardware.Profile, opt Options) (train.Data, error) {
	opt.OnPhase("drawing and simulating samples")
	data := train.Data{
		Compute: design.Compute(opt.Seed, tables, opt.Samples, 1, design.MaxShards),
		Large:   design.Compute(opt.Seed+1, tables, opt.LargeSamples, 100, largeShards),
	}
	var err error
	if data.Comm, err = design.CommContext(ctx, opt.Seed, opt.CommSamples, profile); err != nil {
		return data, err
	}
	workers := opt.Train.Workers
	if err := collect.SimulateCompute(ctx, data.Compute, profile, workers); err != nil {
		return data, err
	}
	if err := collect.SimulateCompute(ctx, data.Large, profile, workers); err != nil {
		return data, err
	}
	return data, collect.SimulateComm(ctx, data.Comm, profile, workers)
}

// command returns the command line that makes the model again, without options that no flag states. It
// says train for lab train: the ids of the models that ship depend on these words.
func (o Options) command(profile hardware.Profile) string {
	command := fmt.Sprintf("neuroshard train --simulate %s --samples %d --seed %d", profile.Name, o.Samples, o.Seed)
	if o.CommSamples != DefaultCommSamples {
		command += fmt.Sprintf(" --set comm_samples=%d", o.CommSamples)
	}
	if o.Train.Epochs != train.DefaultEpochs {
		command += fmt.Sprintf(" --set epochs=%d", o.Train.Epochs)
	}
	return command
}

func (o Options) withDefaults() Options {
	if o.Samples <= 0 {
		o.Samples = DefaultSamples
	}
	if o.CommSamples <= 0 {
		o.CommSamples = DefaultCommSamples
	}
	if o.LargeSamples <= 0 {
		o.LargeSamples = min(DefaultLargeSamples, o.Samples)
	}
	if o.Train.Epochs <= 0 {
		o.Train.Epochs = train.DefaultEpochs
	}
	if o.OnPhase == nil {
		o.OnPhase = func(string) {}
	}
	o.Train.Seed = o.Seed
	return o
}

// SimulateComm draws all-to-alls of the profile and has the simulated device time
// them. A dataset that was measured on a single device lacks this part.
func SimulateComm(ctx context.Context, profile hardware.Profile, opt Options) (*dataset.Comm, error) {
	opt = opt.withDefaults()
	comm, err := design.CommContext(ctx, opt.Seed, opt.CommSamples, profile)
	if err != nil {
		return nil, err
	}
	return comm, collect.SimulateComm(ctx, comm, profile, opt.Train.Workers)
}

// CurveSizes returns the sample counts of a learning curve.
func CurveSizes() []int { return []int{2_000, 10_000, 30_000, 100_000} }

// LearningCurve draws groups and all-to-alls of the largest of the sizes, and trains on growing
// parts of them: see train.LearningCurve.
func LearningCurve(ctx context.Context, profile hardware.Profile, sizes []int, opt Options) ([]train.CurvePoint, error) {
	opt = opt.withDefaults()
	if len(sizes) > 0 {
		opt.Samples = max(MinSamples, slices.Max(sizes))
	}
	data, err := draw(ctx, profile, opt)
	if err != nil {
		return nil, err
	}
	opt.OnPhase("training")
	return train.LearningCurve(ctx, data, profile, sizes, opt.Train)
}
