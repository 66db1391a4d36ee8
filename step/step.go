// Package step estimates what a whole training step takes: the embeddings of a placement,
// the dense part, and what the engine overlaps.
//
// The embeddings' times are the simulated device's and therefore SIMULATED; the constants
// of the rest were fitted to measured steps where Stack.Known says so. docs/RESULTS.md has
// the measured steps beside the predicted ones.
//
//	embeddings.go   what a placement makes each device do: lookups, vectors, replicas
//	dense.go        the layers of the dense part: FLOP, parameters, activations, memory
//	rates.go        how fast devices multiply matrices
//	stack.go        how an engine exchanges and overlaps, with the constants of its steps
//	terms.go        the formulas of the terms of a step
//
// Price (step.go) puts a step together:
//
//	step = max(loader, launches,
//	           lookups + exchanges - hidden + dense + exposed all-reduce + fixed)
package step

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// MaxSamples is the most samples that an epoch may have.
const MaxSamples = 1_000_000_000_000_000

// Input is a step to price.
type Input struct {
	// Problem has the tables, the cluster and the batch. It must be valid.
	Problem *problem.Problem
	// Shards are the shards of each device: Plan.ByDevice.
	Shards [][]problem.Shard
	// Dense is the dense part; nil if it is not known, which needs Measured.
	Dense *Dense
	// Stack is the training system.
	Stack Stack
	// Rates are the device's rates of matrix products; zero takes those of its profile.
	Rates Rates
	// Measured is a measured step; its zero value is none.
	Measured Measured
	// Loader is the bytes a second that the input pipeline delivers to all devices; 0 is no
	// limit.
	Loader float64
	// LengthCV is the coefficient of variation of the lengths of samples, 0 to problem.MaxLengthCV: the
	// rank with the longest samples has more than the mean (imbalance.go).
	LengthCV float64
	// PricePerHour is the price of a GPU-hour in any currency; 0 if it is not known.
	PricePerHour float64
	// Samples is the number of samples of an epoch, up to MaxSamples; 0 if it is not known.
	Samples int64
}

// Measured is a measured step, with what it was measured on.
type Measured struct {
	// Step is the measured time; 0 is no measurement.
	Step unit.Millis
	// Problem and Shards are the cluster, batch and placement of the measurement; nil takes
	// those of the Input. Another cluster or batch needs Input.Dense.
	Problem *problem.Problem
	Shards  [][]problem.Shard
}

// Bound names what a step spends most time on, or what it cannot be shorter than.
type Bound string

// The bounds.
const (
	BoundLookups   Bound = "lookups"
	BoundExchange  Bound = "exchange"
	BoundDense     Bound = "dense"
	BoundAllReduce Bound = "allreduce"
	BoundLoader    Bound = "loader"
	BoundHost      Bound = "host"
)

// Times is what a step takes.
//
// Embedding + Dense + AllReduce + Sync is Step, unless the loader or the host's launches take
// longer.
type Times struct {
	Step unit.Millis `json:"ms"`
	// Embedding is lookups and exchanges without what is hidden.
	Embedding unit.Millis `json:"embedding_ms"`
	// Dense is products, activations, optimizer and fixed time; if the step is calibrated,
	// all of the step except Embedding and AllReduce.
	Dense unit.Millis `json:"dense_ms"`
	// AllReduce is the exposed time of the all-reduce of dense gradients, with those of
	// replicas unless the exchange is flat.
	AllReduce unit.Millis `json:"allreduce_ms"`
	// Sync is the all-reduce of the replicas' weights and optimizer states, in the mean over the
	// steps between two of them; 0 with one sharding group.
	Sync unit.Millis `json:"sync_ms,omitempty"`
	// Hidden is the time of exchanges that runs beside other work.
	Hidden unit.Millis `json:"hidden_ms"`
	// SamplesPerSecond is the throughput of all devices, and InputBytesPerSecond the bandwidth
	// that the input needs for it.
	SamplesPerSecond    float64 `json:"samples_per_second"`
	InputBytesPerSecond float64 `json:"input_bytes_per_second"`
	// EpochMinutes is the time, in minutes, of an epoch of Input.Samples; 0 if their number is
	// not known.
	EpochMinutes float64 `json:"epoch_minutes,omitempty"`
	// PricePerBillion is the price of 10^9 samples; 0 without a price.
	PricePerBillion float64 `json:"price_per_1e9_samples"`
	Bound           Bound   `json:"bound_by"`
	// Calibrated is true if a measured step corrected the times, and the loader does not bound
	// the step: the loader's time comes from its bandwidth alone.
	Calibrated bool `json:"calibrated"`
	// Unloaded says that the measured step is one of this plan, cluster and batch, and shorter
	// than the loader allows: it was measured with another loader, or without one.
	Unloaded bool `json:"unloaded"`
	// Measured says that Step is the measured step itself: it was measured with this plan, on
	// this cluster and with this batch, and no slower loader bounds the step.
	Measured bool `json:"measured"`
	// Scaled says that the measured step is shorter than the predicted embeddings of its
	// plan, so that they, and all other terms, are scaled to it.
	Scaled bool `json:"scaled"`
	// ErrorPercent is the error bar, in percent of Step; 0 if it is not known, or if Measured.
	ErrorPercent float64 `json:"error_percent"`
	// Unseen says that ErrorPercent is that of GPUs that the stack's constants were not fitted to: no
	// step of the kind of GPU was measured, on one host or on several.
	Unseen bool `json:"unseen,omitempty"`
	// Terms are the parts before anything is hidden.
	Terms Terms `json:"terms"`
}

// Terms are the parts of a step before anything is hidden, in the order of the formula.
type Terms struct {
	// LookupForward and LookupBackward are the lookups of the device with the most.
	LookupForward  unit.Millis `json:"lookup_forward_ms"`
	LookupBackward unit.Millis `json:"lookup_backward_ms"`
	// ExchangeForward and ExchangeBackward are the exchanges of vectors and gradients, and
	// Input the copies of the batch to the devices and the exchange of indices, 0 if both are
	// hidden.
	ExchangeForward  unit.Millis `json:"exchange_forward_ms"`
	ExchangeBackward unit.Millis `json:"exchange_backward_ms"`
	Input            unit.Millis `json:"input_ms"`
	// Replicas is the lookups of replicas, forward and backward.
	Replicas unit.Millis `json:"replicas_ms"`
	// GEMM is the products of matrices, Activations the traffic of activations, and Bottom
	// the part of both that is the bottom MLP's.
	GEMM        unit.Millis `json:"gemm_ms"`
	Activations unit.Millis `json:"activations_ms"`
	Bottom      unit.Millis `json:"bottom_ms"`
	// AllReduce is the exposed all-reduce, Optimizer the dense update without what is
	// hidden, and Fixed the stack's fixed time.
	AllReduce unit.Millis `json:"allreduce_ms"`
	Optimizer unit.Millis `json:"optimizer_ms"`
	Fixed     unit.Millis `json:"fixed_ms"`
	// Sync is Times.Sync.
	Sync unit.Millis `json:"sync_ms,omitempty"`
	// Loader and Launches are the times of the input pipeline and of the host's launches: no
	// step is shorter than either.
	Loader   unit.Millis `json:"loader_ms"`
	Launches unit.Millis `json:"launches_ms"`
	// HiddenForward and HiddenBackward are the exchange times that are hidden: what a search
	// may take off the exchanges of each direction, at most.
	HiddenForward  unit.Millis `json:"hidden_forward_ms"`
	HiddenBackward unit.Millis `json:"hidden_backward_ms"`
	// BesideForward and BesideBackward are the times of the work that the exchanges run
	// beside, whatever the placement: the bottom MLP, or all of the dense part.
	BesideForward  unit.Millis `json:"beside_forward_ms"`
	BesideBackward unit.Millis `json:"beside_backward_ms"`
}

// Price estimates a step. It fails with *InvalidDense if fields of the dense part are out of
// range, do not fit together or do not fit the tables. It fails with an error that says what
// to do next if a part of the stack is out of range, if the stack cannot hold the placement,
// if the device's rates are not known, if there is neither a dense part nor a measured step,
// and if the measured step is below the time of its lookups alone, or below that of the dense
// part's products at the peak rate of the device.
func Price(in Input) (Times, error) {
	if err := in.Check(); err != nil {
		return Times{}, err
	}
	e, err := EmbeddingsOf(in.Problem, in.Shards, in.Stack)
	if err != nil {
		return Times{}, err
	}
	terms := termsOf(&in, &e)
	var t Times
	if in.Measured.Step > 0 {
		if t.Scaled, err = in.calibrate(&terms); err != nil {
			return Times{}, err
		}
		t.Calibrated, t.Measured = true, in.ofMeasured()
	}
	t.finish(&in, &e, terms)
	return t, nil
}

// Hidden returns what the stack hides of the exchanges of a step, whatever the placement: the
// exchanges run beside the bottom MLP, or beside the whole dense part if embeddings are one
// step old. If the dense part is not known, the stack hides nothing. Hidden fails with the
// errors of Check.
func (in Input) Hidden() (plan.Hidden, error) {
	if err := in.Check(); err != nil || in.Dense == nil {
		return plan.Hidden{}, err
	}
	terms := termsOf(&in, &Embeddings{})
	return plan.Hidden{
		Forward: terms.BesideForward, Backward: terms.BesideBackward,
		Replicas: in.Stack.Overlaps.Forward && !in.Stack.Overlaps.Stale,
	}, nil
}

// Check returns the errors that Price returns for every placement. It completes Dense and
// Rates.
func (in *Input) Check() error {
	if err := in.Stack.Check(); err != nil {
		return err
	}
	if !(in.Loader >= 0) || !(in.PricePerHour >= 0) || !(in.Measured.Step >= 0) {
		return fmt.Errorf("step: a loader of %v bytes a second, a price of %v an hour or a measured step of %v ms is negative or not a number", in.Loader, in.PricePerHour, float64(in.Measured.Step))
	}
	if !(in.LengthCV >= 0 && in.LengthCV <= problem.MaxLengthCV) {
		return fmt.Errorf("step: a variation of lengths of %v is not between 0 and %d", in.LengthCV, problem.MaxLengthCV)
	}
	if in.Samples < 0 || in.Samples > MaxSamples {
		return fmt.Errorf("step: an epoch of %d samples is not between 1 and %d (0 if their number is not known)", in.Samples, int64(MaxSamples))
	}
	if p := in.Problem.Topology.Profile; !(p.HBMGBps > 0) {
		return fmt.Errorf("the bandwidths of device profile %q are not known, so its lookups have no time", p.Name)
	}
	if in.Dense == nil {
		if in.Measured.Step == 0 {
			return errors.New("step: neither a dense part nor a measured step: give --set dense=NAME or --set step=TIME")
		}
		return nil
	}
	if err := in.Dense.Check(in.Problem); err != nil {
		return err
	}
	dense := in.Dense.Of(in.Problem)
	in.Dense = &dense
	if in.Rates == (Rates{}) {
		rates, err := RatesOf(in.Problem.Topology.Profile)
		if err != nil {
			return err
		}
		in.Rates = rates
	}
	return nil
}

// calibrate corrects the terms by the measured step. On the cluster of the measurement, the
// rest of a step is what the measured step leaves above the embeddings of the placement
// that it was measured with. On another cluster, or with another batch, nobody knows
// whether the measured step differs from its prediction by a fixed time or by a factor. All
// terms take the root of that factor, and the rest of the difference is fixed time: of the
// three ways, this one errs least.
//
// scaled is true if the embeddings alone are predicted slower than the measured step.
func (in *Input) calibrate(terms *Terms) (scaled bool, err error) {
	reference := *in
	if in.Measured.Problem != nil {
		reference.Problem = in.Measured.Problem
	}
	if in.Measured.Shards != nil {
		reference.Shards = in.Measured.Shards
	}
	e, err := EmbeddingsOf(reference.Problem, reference.Shards, in.Stack)
	if err == nil && reference.Problem.Topology.Profile.Name != in.Problem.Topology.Profile.Name {
		reference.Rates, err = RatesOf(reference.Problem.Topology.Profile)
	}
	if err != nil {
		return false, fmt.Errorf("measured step: %w", err)
	}
	own := termsOf(&reference, &e)
	if err := reference.possible(&own); err != nil {
		return false, err
	}
	factor := in.Measured.Step / own.sum()
	another := !reference.Problem.Topology.Equal(in.Problem.Topology) || reference.Problem.Batch != in.Problem.Batch
	if another && in.Dense == nil {
		return false, errors.New("measured step: it is of another cluster or batch, and what it took beside the embeddings cannot be carried over without a dense part: give --set dense=NAME")
	}
	if rest := own.dense() + own.AllReduce + own.Sync; !another && in.Measured.Step-own.sum() >= -rest {
		terms.Fixed += in.Measured.Step - own.sum()
		return false, nil
	}
	if !another && in.Dense == nil {
		// The embeddings alone are predicted slower than the whole step: they take all of it.
		factor = in.Measured.Step / own.embedding()
	}
	if another {
		factor = unit.Millis(math.Sqrt(float64(factor)))
		terms.scale(factor)
		terms.Fixed += in.Measured.Step - factor*own.sum()
		return false, nil
	}
	terms.scale(factor)
	return true, nil
}

// possible returns an error if the measured step is below what its lookups, or the products of
// its dense part, take alone.
func (in *Input) possible(own *Terms) error {
	if floor := own.LookupForward + own.LookupBackward; in.Measured.Step < floor {
		return fmt.Errorf("measured step: %v is below the time of its lookups alone, %v (SIMULATED): check the unit, the batch and the plan that it was measured with", in.Measured.Step, floor)
	}
	if in.Dense == nil {
		return nil
	}
	if floor := leastProducts(in); in.Measured.Step < floor {
		return fmt.Errorf("measured step: %v is below the time of the dense part's products alone, %v at the peak rate of %s in %s: check the unit, the batch, and the layers and the precision of the dense part", in.Measured.Step, floor, in.Problem.Topology.Profile.Name, in.Dense.Precision)
	}
	return nil
}

// ofMeasured reports whether the measured step is one of the placement, cluster and batch
// that are priced.
func (in *Input) ofMeasured() bool {
	m := &in.Measured
	if m.Problem != nil && (!m.Problem.Topology.Equal(in.Problem.Topology) || m.Problem.Batch != in.Problem.Batch) {
		return false
	}
	return m.Shards == nil || slices.EqualFunc(m.Shards, in.Shards, slices.Equal[[]problem.Shard])
}

// scale multiplies all terms by a factor.
func (t *Terms) scale(factor unit.Millis) {
	for _, term := range []*unit.Millis{
		&t.LookupForward, &t.LookupBackward, &t.ExchangeForward, &t.ExchangeBackward, &t.Input, &t.Replicas,
		&t.GEMM, &t.Activations, &t.Bottom, &t.AllReduce, &t.Optimizer, &t.Fixed, &t.Sync,
		&t.HiddenForward, &t.HiddenBackward, &t.BesideForward, &t.BesideBackward,
	} {
		*term *= factor
	}
}

// sum returns the time of a step without floors.
func (t *Terms) sum() unit.Millis {
	return t.embedding() + t.dense() + t.AllReduce + t.Sync
}

// embedding returns the lookups and exchanges that are not hidden.
func (t *Terms) embedding() unit.Millis {
	return t.LookupForward + t.LookupBackward + t.ExchangeForward + t.ExchangeBackward + t.Input +
		t.Replicas - t.HiddenForward - t.HiddenBackward
}

// dense returns the rest without the all-reduce.
func (t *Terms) dense() unit.Millis { return t.GEMM + t.Activations + t.Optimizer + t.Fixed }

// sampleBytes returns the bytes of a sample in the input, with its dense features.
func (in *Input) sampleBytes(e *Embeddings) float64 {
	bytes := e.InputBytes
	if in.Dense != nil && len(in.Dense.Bottom) > 0 {
		bytes += denseFeatureBytes * float64(in.Dense.Bottom[0])
	}
	return bytes
}

// finish fills in everything from the terms.
func (t *Times) finish(in *Input, e *Embeddings, terms Terms) {
	bytes := in.sampleBytes(e)
	batch := float64(in.Problem.Batch) * float64(in.Problem.Topology.ReplicaCount())
	if in.Loader > 0 {
		terms.Loader = unit.Millis(batch * bytes / in.Loader * 1e3)
	}
	terms.Launches = in.Stack.Constants.Launches
	t.Terms = terms
	t.Embedding, t.Dense, t.AllReduce, t.Sync = terms.embedding(), terms.dense(), terms.AllReduce, terms.Sync
	t.Hidden = terms.HiddenForward + terms.HiddenBackward
	t.Step = terms.sum()
	t.Bound = terms.largest()
	if !t.Calibrated && terms.Launches > t.Step {
		t.Step, t.Bound = terms.Launches, BoundHost
	}
	if terms.Loader > t.Step {
		t.Step, t.Bound = terms.Loader, BoundLoader
		t.Unloaded, t.Measured, t.Calibrated = t.Measured, false, false
	}
	t.SamplesPerSecond = batch / float64(t.Step) * 1e3
	t.InputBytesPerSecond = t.SamplesPerSecond * bytes
	t.EpochMinutes = float64(in.Samples) / t.SamplesPerSecond / 60
	t.PricePerBillion = in.PricePerHour * float64(in.Problem.Topology.Whole().Devices) / 3600 / t.SamplesPerSecond * 1e9
	if !t.Measured {
		t.ErrorPercent, t.Unseen = in.errorPercent(t.Calibrated)
	}
}

// errorPercent returns the error bar of the step, and whether it is that of unseen GPUs.
func (in *Input) errorPercent(calibrated bool) (percent float64, unseen bool) {
	bar, hosts := &in.Stack.Error, in.Problem.Topology.Whole().Hosts()
	chip, _, _ := strings.Cut(in.Problem.Topology.Profile.Name, "-")
	switch {
	case calibrated && in.Measured.Problem != nil && in.Measured.Problem.Topology.Whole().Hosts() != hosts:
		return bar.Carried, false
	case calibrated:
		return bar.Calibrated, false
	case hosts > 1 && slices.Contains(bar.HostsGPUs, chip):
		return bar.Hosts, false
	case hosts > 1:
		return bar.UnseenHosts, bar.UnseenHosts > 0
	case slices.Contains(bar.OneHostGPUs, chip):
		return bar.OneHost, false
	}
	return bar.UnseenOneHost, bar.UnseenOneHost > 0
}

// largest returns the term that takes the most of the step.
func (t *Terms) largest() Bound {
	most, bound := t.LookupForward+t.LookupBackward+t.Replicas, BoundLookups
	for _, other := range []struct {
		time  unit.Millis
		bound Bound
	}{
		{t.ExchangeForward + t.ExchangeBackward + t.Input - t.HiddenForward - t.HiddenBackward, BoundExchange},
		{t.dense(), BoundDense},
		{t.AllReduce + t.Sync, BoundAllReduce},
	} {
		if other.time > most {
			most, bound = other.time, other.bound
		}
	}
	return bound
}
