// Package train fits a cost model to a dataset and judges the model on tables
// that the training did not see. It returns a modelfile.
//
// Fit takes these steps. It checks that the times belong together (train.go)
// and chooses how to train from how noisy they are (measured.go). It fits the
// nets of the fused lookups (compute.go), and the closed form and the residual
// net of the all-to-alls (comm.go). Then it compares predicted with actual times
// (judge.go). Scatter draws that comparison (scatter.go), and LearningCurve
// repeats the training on parts of a dataset (curve.go).
//
// Training is deterministic: the same dataset, options and build give the same
// weights, whatever the number of workers.
package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// Options configure a training run. The shipped models are trained with the zero
// value. The zero value also suits measured data: the defaults then depend on the
// number of samples and on their noise.
type Options struct {
	// Epochs over the training groups (default DefaultEpochs; with measured data
	// MeasuredEpochs), and Batch groups a step (default 256; 16 with measured data).
	Epochs, Batch int
	// Hidden, Embed and Head are the widths of the compute net (defaults 128, 32
	// and 64, as in the NeuroShard paper).
	Hidden, Embed, Head int
	// Ensemble is the number of nets of each kind to train. They differ in their
	// seeds, and the model predicts their mean (default 1, at most cost.MaxMembers).
	Ensemble int
	// MixedSources allows measured groups with simulated all-to-alls, or the other way
	// round. The manifest then states both sources.
	MixedSources bool
	// Seed of the weights and of the order of the samples.
	Seed uint64
	// Workers is the number of goroutines (default: all processors). It does not
	// change the result.
	Workers int
	// OnProgress, if not nil, is called after each epoch, by one goroutine at a time.
	OnProgress func(Progress)

	// quick trains on the all-to-alls for a few epochs only, for tests of something else.
	quick bool
}

// DefaultEpochs is the number of passes over the training groups.
const DefaultEpochs = 50

// Progress states how far a training run has come.
type Progress struct {
	// Phase is "compute" or "comm".
	Phase string
	// Epoch is the number of passes done, and Epochs the number of all passes, over
	// all nets of an ensemble.
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
	set(&o.Hidden, 128)
	set(&o.Embed, 32)
	set(&o.Head, 64)
	set(&o.Ensemble, 1)
	set(&o.Workers, runtime.GOMAXPROCS(0))
	return o
}

// memberSeed returns the seed of a member of an ensemble. The first member has the
// seed of the run, so that an ensemble of one is a single net.
func (o Options) memberSeed(member int) uint64 {
	if member == 0 {
		return o.Seed
	}
	return rand.New(rand.NewPCG(o.Seed, uint64(member))).Uint64()
}

func (o Options) progress(p Progress) {
	if o.OnProgress != nil {
		o.OnProgress(p)
	}
}

// Data is the data that a model is trained and judged on.
type Data struct {
	Compute *dataset.Compute
	// Large holds groups larger than any group of Compute, for judging only. It may be
	// nil.
	Large *dataset.Compute
	Comm  *dataset.Comm
}

// check returns an error if the data is of another profile, has two sources
// although mixed is false, or one of the splits is empty.
func (d Data) check(profile hardware.Profile, mixed bool, splits ...dataset.Split) error {
	switch {
	case d.Compute == nil:
		return errors.New("training data: there are no groups of fused lookups, and a model needs them")
	case d.Comm == nil:
		return errors.New("training data: there are no all-to-alls, and a model needs them: measure some, or simulate some and allow mixed sources")
	}
	if known, err := hardware.ByName(profile.Name); err == nil && known != profile {
		return fmt.Errorf("training data: %q is a known device, and other facts are stated of it: give the device a name of its own", profile.Name)
	}
	if problems := profile.Problems(); len(problems) > 0 {
		return fmt.Errorf("training data: device %q: %s", profile.Name, strings.Join(problems, "; "))
	}
	all := []dataset.Provenance{d.Compute.Provenance, d.Comm.Provenance}
	if d.Large != nil {
		all = append(all, d.Large.Provenance)
	}
	for i, p := range all {
		if err := checkDevice(p, profile); err != nil {
			return err
		}
		if p.Source != all[0].Source && !(mixed && i == 1) {
			return fmt.Errorf("training data: %q and %q times cannot train one model: take all from one source, or allow mixed sources", all[0].Source, p.Source)
		}
	}
	return d.populated(splits)
}

// checkDevice returns an error unless the times are of the model's device.
func checkDevice(p dataset.Provenance, profile hardware.Profile) error {
	if p.Profile != profile.Name {
		return fmt.Errorf("training data: times of profile %q cannot train a model of %q", p.Profile, profile.Name)
	}
	if p.Hardware != (hardware.Profile{}) && p.Hardware != profile {
		return fmt.Errorf("training data: the times are of another device than the model's, though both are called %q: their facts differ", profile.Name)
	}
	return nil
}

// populated returns an error unless each of the splits has usable groups and all-to-alls.
func (d Data) populated(splits []dataset.Split) error {
	groups, exchanges := d.Compute.Usable(), d.Comm.Usable()
	for _, split := range splits {
		if !slices.ContainsFunc(groups, func(g dataset.Group) bool { return g.Split == split }) {
			return emptySplit("groups", "--samples", split, len(d.Compute.Samples), len(groups))
		}
		if !slices.ContainsFunc(exchanges, func(e dataset.Exchange) bool { return e.Split == split }) {
			return emptySplit("all-to-alls", "comm_samples", split, len(d.Comm.Samples), len(exchanges))
		}
	}
	return nil
}

func emptySplit(what, flag string, split dataset.Split, all, usable int) error {
	remedy := "collect more of them with " + flag
	if 2*usable < all {
		remedy = "measure again while nothing else runs on the machine"
	}
	return fmt.Errorf("training data: too few samples: the %s split has no usable %s: %d were measured, and %d of them are set aside because the device drifted: %s", split, what, all, all-usable, remedy)
}

// ProfileOf returns the hardware profile of times with the given provenance: from
// the facts that the provenance states, or else from the known facts of the profile
// with that name.
func ProfileOf(p dataset.Provenance) (hardware.Profile, error) {
	if p.Hardware != (hardware.Profile{}) {
		return p.Hardware, nil
	}
	profile, err := hardware.ByName(p.Profile)
	if err != nil {
		return profile, fmt.Errorf("the dataset states no facts of its device: %w", err)
	}
	return profile, nil
}

// Fit trains a model for the profile, and returns it with its card filled in and a report of its
// accuracy. All data must be of the profile and, unless MixedSources is true, of one source.
func Fit(ctx context.Context, data Data, profile hardware.Profile, opt Options) (*modelfile.Model, *Report, error) {
	opt = opt.withDefaults()
	if err := data.check(profile, opt.MixedSources, dataset.Train, dataset.Validation, dataset.Test); err != nil {
		return nil, nil, err
	}
	if opt.Ensemble > cost.MaxMembers {
		return nil, nil, fmt.Errorf("an ensemble of %d nets: a model holds at most %d", opt.Ensemble, cost.MaxMembers)
	}
	compute, err := fitCompute(ctx, data.Compute, profile, opt)
	if err != nil {
		return nil, nil, err
	}
	comm, err := fitComm(ctx, data.Comm, profile, opt)
	if err != nil {
		return nil, nil, err
	}
	m := assemble(data, profile, compute, comm, opt)
	report, err := Judge(m, data, opt.Workers)
	if err != nil {
		return nil, nil, err
	}
	card := &m.Manifest.Card
	card.Compute, card.Large, card.Comm = report.Compute.All, report.Large.All, report.Comm.All
	if measured(data.Compute.Provenance) {
		noise := report.Compute.Noise
		card.KendallTau = report.Compute.KendallTau
		card.Repeated = modelfile.Errors{Samples: noise.Repeats, Mean: noise.Mean, P95: noise.P95}
	}
	return m, report, m.Seal()
}

// assemble makes a model of its trained parts, without the errors of its card.
func assemble(data Data, profile hardware.Profile, compute *computeTraining, comm *commTraining, opt Options) *modelfile.Model {
	groups := len(data.Compute.Usable())
	exchanges := len(data.Comm.Usable()) - comm.short
	all := len(data.Compute.Samples) + len(data.Comm.Samples)
	m := &modelfile.Model{
		Manifest: modelfile.Manifest{
			Profile: profile.Name,
			Source:  string(data.Compute.Provenance.Source),
			Backend: data.Compute.Provenance.Backend,
			Compute: modelfile.ComputeSpec{
				FeatureVersion: feature.Version, Features: feature.Names(), Scalars: feature.ScalarNames(),
				Hidden: opt.Hidden, Embed: opt.Embed, Head: opt.Head,
				LaunchForwardMS: compute.launch[0], LaunchBackwardMS: compute.launch[1],
			},
			Comm:   comm.constants,
			Domain: domain(data),
			Card: modelfile.Card{
				Seed: opt.Seed, Epochs: compute.epochs,
				ComputeSamples: groups, CommSamples: exchanges, LeftOut: all - groups - exchanges,
			},
			Measured: measurement(data.Compute.Provenance), CommMeasured: measurement(data.Comm.Provenance),
		},
		Tensors: append(compute.tensors(), comm.tensors()...),
	}
	if opt.Ensemble > 1 {
		m.Manifest.Compute.Members = opt.Ensemble
	}
	if !hardware.Known(profile.Name) {
		m.Manifest.Device = profile
	}
	if p := data.Comm.Provenance; p.Source != data.Compute.Provenance.Source {
		m.Manifest.CommSource, m.Manifest.CommBackend = string(p.Source), p.Backend
	}
	return m
}

// domain returns the ranges that the samples cover.
func domain(data Data) modelfile.Domain {
	d := modelfile.Domain{MinBatch: math.MaxInt}
	narrowest, fewest := math.MaxInt, math.MaxInt
	for i := range data.Compute.Samples {
		g := &data.Compute.Samples[i]
		if g.Quarantined {
			continue
		}
		d.MinBatch, d.MaxBatch = min(d.MinBatch, g.Operation.Batch), max(d.MaxBatch, g.Operation.Batch)
		d.MaxShards = max(d.MaxShards, len(g.Members))
		for _, m := range g.Members {
			d.MaxDim, narrowest = max(d.MaxDim, int(m.Dim)), min(narrowest, int(m.Dim))
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
		if e := &data.Comm.Samples[i]; !e.Quarantined {
			d.MaxDevices, fewest = max(d.MaxDevices, e.Devices), min(fewest, e.Devices)
		}
	}
	// The draws of simulated samples cover all operations.
	if measured(data.Compute.Provenance) {
		d.MinDim = narrowest
		operations(&d, data.Compute.Samples)
	}
	if measured(data.Comm.Provenance) {
		d.MinDevices = fewest
	}
	d.OneBag = !slices.ContainsFunc(data.Compute.Tables, func(t problem.Table) bool { return !t.OneBag() })
	return d
}

// operations records which operations the samples have.
func operations(d *modelfile.Domain, samples []dataset.Group) {
	optimizers, precisions := map[problem.Optimizer]bool{}, map[problem.Precision]bool{}
	d.Unweighted = true
	for i := range samples {
		if g := &samples[i]; !g.Quarantined {
			optimizers[g.Operation.Optimizer], precisions[g.Operation.Precision] = true, true
			d.Unweighted = d.Unweighted && !g.Operation.Weighted
		}
	}
	for _, o := range slices.Sorted(maps.Keys(optimizers)) {
		d.Optimizers = append(d.Optimizers, o.String())
	}
	for _, p := range slices.Sorted(maps.Keys(precisions)) {
		d.Precisions = append(d.Precisions, p.String())
	}
}
