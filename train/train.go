// Package train fits a cost model to a dataset: the pooled-set net of the fused
// lookups, and the closed form and residual net of the all-to-alls. It judges
// the result on tables it did not see, and returns a modelfile.
//
// Training is deterministic: the same dataset, options and build give the same
// weights, whatever the number of workers.
package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/neuroshard/neuroshard/dataset"
	"github.com/neuroshard/neuroshard/feature"
	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/modelfile"
)

// Options steer a training run. The zero value is what the shipped models are
// made with.
type Options struct {
	// Epochs over the training groups (default DefaultEpochs), Batch groups a step
	// (default 256) and the peak LearningRate of Adam (default 0.002).
	Epochs, Batch int
	LearningRate  float64
	// Hidden, Embed and Head are the widths of the compute net (defaults 128, 32
	// and 64, as in the NeuroShard paper).
	Hidden, Embed, Head int
	// Seed of the weights and of the order of the samples.
	Seed uint64
	// Workers is the number of goroutines (default: all processors). It does not
	// change the result.
	Workers int
	// OnProgress, where not nil, is called after each epoch.
	OnProgress func(Progress)
}

// DefaultEpochs is the number of passes over the training groups.
const DefaultEpochs = 30

// Progress tells how far a run is.
type Progress struct {
	// Phase is "compute" or "comm".
	Phase         string
	Epoch, Epochs int
	// Error is the mean relative error on the validation groups.
	Error float64
}

func (o Options) withDefaults() Options {
	set := func(v *int, value int) {
		if *v <= 0 {
			*v = value
		}
	}
	set(&o.Epochs, DefaultEpochs)
	set(&o.Batch, 256)
	set(&o.Hidden, 128)
	set(&o.Embed, 32)
	set(&o.Head, 64)
	set(&o.Workers, runtime.GOMAXPROCS(0))
	if o.LearningRate <= 0 {
		o.LearningRate = .002
	}
	return o
}

func (o Options) progress(p Progress) {
	if o.OnProgress != nil {
		o.OnProgress(p)
	}
}

// Data is what a model is trained and judged on.
type Data struct {
	Compute *dataset.Compute
	// Large holds groups larger than any of Compute's, for judging only. It may be
	// nil.
	Large *dataset.Compute
	Comm  *dataset.Comm
}

// check returns an error where the data is not of one source and of the profile:
// a model's card states both once.
func (d Data) check(profile hardware.Profile) error {
	if d.Compute == nil || d.Comm == nil {
		return errors.New("training data: a model takes groups and exchanges, and one of them is missing")
	}
	all := []dataset.Provenance{d.Compute.Provenance, d.Comm.Provenance}
	if d.Large != nil {
		all = append(all, d.Large.Provenance)
	}
	for _, p := range all {
		if p.Profile != profile.Name {
			return fmt.Errorf("training data: times of profile %q cannot train a model of %q", p.Profile, profile.Name)
		}
		if p.Source != all[0].Source {
			return fmt.Errorf("training data: %q and %q times cannot train one model: take all from one source", all[0].Source, p.Source)
		}
	}
	return nil
}

// Fit trains a model for the profile and returns it, its card filled in, with a
// report of its accuracy. All data must be of the profile and of one source.
func Fit(ctx context.Context, data Data, profile hardware.Profile, opt Options) (*modelfile.Model, *Report, error) {
	opt = opt.withDefaults()
	if err := data.check(profile); err != nil {
		return nil, nil, err
	}
	compute, err := fitCompute(ctx, data.Compute, profile, opt)
	if err != nil {
		return nil, nil, err
	}
	comm, err := fitComm(ctx, data.Comm, profile, opt)
	if err != nil {
		return nil, nil, err
	}
	m := &modelfile.Model{
		Manifest: modelfile.Manifest{
			Profile: profile.Name,
			Source:  string(data.Compute.Provenance.Source),
			Meter:   data.Compute.Provenance.Meter,
			Compute: modelfile.ComputeSpec{
				FeatureVersion: feature.Version, Features: feature.Names(), Scalars: feature.ScalarNames(),
				Hidden: opt.Hidden, Embed: opt.Embed, Head: opt.Head,
				LaunchForwardMS: compute.launch[0], LaunchBackwardMS: compute.launch[1],
			},
			Comm:   comm.constants,
			Domain: domain(data),
			Card: modelfile.Card{
				Seed: opt.Seed, Epochs: opt.Epochs,
				ComputeSamples: len(data.Compute.Samples), CommSamples: len(data.Comm.Samples),
			},
		},
		Tensors: append(compute.tensors(), comm.tensors()...),
	}
	report, err := Judge(m, data, opt.Workers)
	if err != nil {
		return nil, nil, err
	}
	m.Manifest.Card.Compute = report.Compute.All
	m.Manifest.Card.Large = report.Large.All
	m.Manifest.Card.Comm = report.Comm.All
	return m, report, m.Seal()
}

// domain returns the ranges that the samples cover.
func domain(data Data) modelfile.Domain {
	d := modelfile.Domain{MinBatch: math.MaxInt}
	for i := range data.Compute.Samples {
		g := &data.Compute.Samples[i]
		d.MinBatch, d.MaxBatch = min(d.MinBatch, g.Operation.Batch), max(d.MaxBatch, g.Operation.Batch)
		d.MaxShards = max(d.MaxShards, len(g.Members))
		for _, m := range g.Members {
			d.MaxDim = max(d.MaxDim, int(m.Dim))
		}
	}
	for i := range data.Compute.Tables {
		t := &data.Compute.Tables[i]
		d.MaxRows, d.MaxPoolingFactor = max(d.MaxRows, t.Rows), max(d.MaxPoolingFactor, t.PoolingFactor())
	}
	d.JudgedShards = d.MaxShards
	if data.Large != nil {
		for i := range data.Large.Samples {
			d.JudgedShards = max(d.JudgedShards, len(data.Large.Samples[i].Members))
		}
	}
	for i := range data.Comm.Samples {
		d.MaxDevices = max(d.MaxDevices, data.Comm.Samples[i].Devices)
	}
	return d
}
