package train

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/lab/dataset"
)

// Measured times are few and noisy, and their device follows no known formula.
// Training on them therefore differs from training on simulated times: more epochs,
// smaller steps of smaller batches, a loss that treats large errors as noise,
// weights that decay and are averaged, and inputs scaled for few samples.

// recipe states how nets are trained on simulated or on measured data.
type recipe struct {
	epochs, batch int
	// steps is the least number of steps, for which few samples get more epochs.
	steps int
	rate  float64
	// corner is the relative error at which the loss turns from quadratic to
	// linear: beyond it a sample counts as an outlier.
	corner float64
	// decay is the rate of weight decay: each step shrinks the weights by the learning
	// rate times decay. average is the weight of the newest value in the running mean
	// of the weights, per step. The running mean is validated and kept; with 1, it is
	// the weights themselves.
	decay, average float64
	// even says that inputs are scaled for few samples. robust says that constants
	// which are sensitive to noise are fitted by methods that are not.
	even, robust bool
}

// MeasuredEpochs returns the number of passes over the given number of measured
// training groups: half a million groups in all, but at least 30 and at most 250
// passes. Training a net on groups of 15 shards then takes about ten
// seconds of one core. Twice the passes lowered the error by a twentieth.
func MeasuredEpochs(groups int) int {
	const passes, least, most = 500_000, 30, 250
	return max(least, min(most, passes/max(1, groups)))
}

func measured(p dataset.Provenance) bool { return p.Source == dataset.Measured }

// computeRecipe returns how to train on the groups.
func computeRecipe(set *dataset.Compute, groups int, opt Options) recipe {
	r := recipe{epochs: opt.Epochs, batch: opt.Batch, rate: computeRate, corner: huberRelative, average: 1}
	if measured(set.Provenance) {
		r.corner, r.decay, r.average, r.even, r.robust = cornerOf(noiseOf(set)), measuredDecay, measuredAverage, true, true
		if r.epochs <= 0 {
			r.epochs = MeasuredEpochs(groups)
		}
		if r.batch <= 0 {
			r.batch = measuredBatch
		}
	}
	if r.epochs <= 0 {
		r.epochs = DefaultEpochs
	}
	if r.batch <= 0 {
		r.batch = 256
	}
	return r
}

// commRecipe returns how to train on the exchanges.
func commRecipe(set *dataset.Comm, opt Options) recipe {
	r := recipe{epochs: commEpochs, batch: commBatch, steps: commSteps, rate: commRate, corner: huberRelative, average: 1}
	if opt.quick {
		r.epochs, r.steps = 20, 0
	}
	if measured(set.Provenance) {
		r.corner, r.decay, r.average, r.even, r.robust = cornerOf(commNoise(set)), measuredCommDecay, measuredAverage, true, true
	}
	return r
}

// On 3,000 samples of laws other than the simulated device's, with noise of 3 %:
// steps of 16 groups gave a half to a third of the error of steps of 256; decay
// lowered the error by a tenth to a third, and averaging by a tenth to a quarter;
// twice the decay or half the batch had no further effect. TestMeasuredData has the
// laws.
const (
	measuredBatch     = 16
	measuredDecay     = .1
	measuredCommDecay = .3
	measuredAverage   = .002
)

// cornerOf returns the corner of the loss for times with the given relative noise:
// with a corner at 1.345 standard deviations, Huber's loss is 95 % as efficient as
// the square on normal errors (Huber, Robust Statistics, section 4).
func cornerOf(noise float64) float64 {
	return math.Min(.25, math.Max(huberRelative, 1.345*noise))
}

// evenOut changes the deviations that features are divided by, for samples of few
// tables. A feature that is the same in all samples, such as the one of an
// optimizer, is made to have no effect: its deviation is near 0, so a table with
// another value would have a huge input. The reuse classes are scaled to a third,
// because nets use them to recognise tables rather than to learn costs. On 200
// tables of a law other than the simulated device's, this lowered the error on
// other tables by a tenth.
func evenOut(deviation []float32) {
	const least, none, reuse = 1e-2, 1e6, 3
	for j, name := range feature.Names() {
		switch {
		case deviation[j] < least:
			deviation[j] = none
		case strings.HasPrefix(name, "reuse_"):
			deviation[j] *= reuse
		}
	}
}

// assumedNoise is the relative noise of measured times that carry no estimate of
// their noise.
const assumedNoise = .03

// noiseOf estimates the relative standard deviation of the groups' times: from
// second measurements if there are enough, else from the spread of a sample's own
// repeats, which misses slow changes.
func noiseOf(set *dataset.Compute) float64 {
	noise := set.Noise()
	if noise.Repeats >= enoughRepeats {
		return noise.Median / 100 / medianOfNormal / math.Sqrt2
	}
	return ofSpread(noise.Spread/100, runs(set.Provenance))
}

const (
	// enoughRepeats is the least number of second measurements for an estimate of the
	// noise.
	enoughRepeats = 20
	// medianOfNormal is the median absolute value of a normal variable, in standard
	// deviations.
	medianOfNormal = .6745
)

// ofSpread returns the relative standard deviation of a median of n repeats. spread
// is their interquartile range relative to the median. The range is twice the
// median absolute value, and the standard deviation of a median of n is 1.2533 /
// sqrt(n) times that of one repeat.
func ofSpread(spread float64, repeats int) float64 {
	if spread <= 0 {
		return assumedNoise
	}
	return 1.2533 * spread / (2 * medianOfNormal) / math.Sqrt(float64(max(1, repeats)))
}

// runs is the number of runs that a sample's time is the median of.
func runs(p dataset.Provenance) int { return p.Repeats * max(1, p.Passes) }

// commNoise estimates the relative standard deviation of the exchanges' times from
// the spread of their repeats.
func commNoise(set *dataset.Comm) float64 {
	var spreads []float64
	for i := range set.Samples {
		if e := &set.Samples[i]; !e.Quarantined && len(e.Backward) > 0 {
			spreads = append(spreads, float64(e.Spread/slices.Max(e.Backward)))
		}
	}
	if len(spreads) == 0 {
		return assumedNoise
	}
	slices.Sort(spreads)
	return ofSpread(spreads[len(spreads)/2], runs(set.Provenance))
}

// measurement returns what a model's manifest states about the measurement.
func measurement(p dataset.Provenance) modelfile.Measurement {
	if !measured(p) {
		return modelfile.Measurement{}
	}
	return modelfile.Measurement{
		Device: p.Device, Kernel: p.Kernel, Clocks: p.Clocks, Threads: p.Threads, Cache: p.Cache, Lookups: p.Lookups,
		Warmup: p.Warmup, Repeats: p.Repeats, Passes: p.Passes, Fastest: p.Fastest, Tool: p.Tool, Design: p.Design, Seed: p.Seed,
	}
}

// robustLaunch returns the fixed cost of an operation, forward and backward, for
// times that are noisy and whose smallest groups may be far above the fixed cost.
// It is the intercept of a line through the tenth of the groups with the least work
// by the closed form, fitted by least relative deviations. It lies between 0 and
// the shortest time.
func (p *prepared) robustLaunch() [2]float64 {
	n := len(p.times)
	work := make([]float64, n)
	order := make([]int, n)
	for g := range work {
		order[g] = g
		for _, scale := range p.sets.Scale[p.sets.Offsets[g]:p.sets.Offsets[g+1]] {
			work[g] += float64(scale)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(work[a], work[b]) })
	order = order[:min(n, max(n/10, 50))]
	shortest := p.launch()
	var launch [2]float64
	x, y := make([]float64, len(order)), make([]float64, len(order))
	for k := range launch {
		for i, g := range order {
			x[i], y[i] = work[g], float64(p.times[g][k])
		}
		launch[k] = math.Min(shortest[k], math.Max(0, intercept(x, y)))
	}
	return launch
}

// intercept fits y = a + b x by least relative deviations, which outliers do not
// move, and returns a. It uses reweighted least squares, which is close enough
// after a few dozen rounds.
func intercept(x, y []float64) float64 {
	a, b := 0., 0.
	weights := make([]float64, len(x))
	for i := range weights {
		weights[i] = 1 / (y[i] * y[i])
	}
	for range 50 {
		var w, wx, wy, wxx, wxy float64
		for i, v := range weights {
			w, wx, wy = w+v, wx+v*x[i], wy+v*y[i]
			wxx, wxy = wxx+v*x[i]*x[i], wxy+v*x[i]*y[i]
		}
		if det := w*wxx - wx*wx; det > 1e-12*w*wxx {
			a, b = (wxx*wy-wx*wxy)/det, (w*wxy-wx*wy)/det
		} else { // all groups have the same work, so the fixed cost is unknown
			return 0
		}
		for i := range weights {
			off := math.Abs(y[i]-a-b*x[i]) / y[i]
			weights[i] = 1 / (y[i] * y[i] * math.Max(off, 1e-3))
		}
	}
	return a
}
