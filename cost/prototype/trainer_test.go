package prototype

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/problem"
)

// The paper's training (NeuroShard, arXiv:2305.01868, and its authors'
// prototype): Adam on the mean squared error, a tenth of the samples each for
// validation and test, the weights of the best epoch by validation.
const (
	paperRate    = 1e-3
	defaultBatch = 512
	minSamples   = 10
	maxEpochs    = 100_000
	// stdFloor is added to the deviations of inputs.
	stdFloor = 1e-6
	// trainParts of a minibatch, for the workers to share.
	trainParts = 8
	// chunkSamples are predicted at a time where none is learned.
	chunkSamples = 512
)

// TrainOptions says how to train. The zero value trains as the prototype did,
// with a seed of 0 and on one goroutine.
type TrainOptions struct {
	// Epochs is how often every sample is learned; 0 means 60 for the compute
	// net and 200 for the comm nets.
	Epochs int
	// Batch is the number of samples of a step; 0 means 512.
	Batch int
	// Schedule is the learning rate over the steps; the zero value is the paper's.
	Schedule Schedule
	// Seed decides the split, the initial weights and the order of the samples.
	Seed uint64
	// Workers is the number of goroutines; 0 means 1. It does not change the
	// result.
	Workers int
	// OnProgress, if set, is called after each epoch.
	OnProgress func(TrainProgress)
	// Now is the clock that SamplesPerSecond is taken from; nil leaves it at 0.
	Now func() time.Time
}

// Schedule is how the learning rate moves.
type Schedule int

const (
	// Constant is the paper's schedule: a rate of 1e-3 throughout.
	Constant Schedule = iota
	// OneCycle rises linearly to 5e-3 in the first twentieth of the steps and then
	// falls along half a cosine to a hundredth of that (after Smith and Topin,
	// arXiv:1708.07120). It reaches lower errors in the same number of epochs.
	OneCycle
)

const (
	cycleRate = 5e-3
	cycleWarm = 0.05
	cycleLast = 0.01
)

// rate is the learning rate of a step, from 0.
func (s Schedule) rate(step, steps int) float64 {
	if s == Constant {
		return paperRate
	}
	warm := math.Ceil(cycleWarm * float64(steps))
	if at := float64(step); at < warm {
		return cycleRate * (at + 1) / (warm + 1)
	}
	done := (float64(step) - warm) / math.Max(1, float64(steps)-warm)
	return cycleRate * (cycleLast + (1-cycleLast)*(1+math.Cos(math.Pi*done))/2)
}

// TrainProgress is where a training stands after an epoch.
type TrainProgress struct {
	Epoch, Epochs int
	// TrainMSE is the mean squared error, in ms^2, over the epoch's steps, each
	// before it was taken; ValidationMSE that after the epoch, on samples that are
	// not trained on.
	TrainMSE, ValidationMSE float64
}

// TrainReport is how a training went.
type TrainReport struct {
	// BestEpoch is the epoch, from 1, whose weights were kept: those of the least
	// ValidationMSE.
	BestEpoch     int
	ValidationMSE float64
	// TestMSE is the mean squared error, in ms^2, and MeanRelativeError the mean
	// of the errors relative to the measured times above zero, both on samples
	// that neither trained nor chose the net.
	TestMSE, MeanRelativeError float64
	// SamplesPerSecond is the speed of the training steps, without validation.
	SamplesPerSecond float64
}

// TrainCompute trains the paper's compute net: 20 features, 128 and 32 units a
// table, their sum, 64 units, one time. Samples name tables by index; inputs
// are scaled by the means and deviations of all tables at the dims 128, 64, ...,
// 4, with which the prototype sampled.
//
// The net is a function of the tables, the samples, Epochs, Batch, Schedule and Seed. It
// returns ctx's error where ctx ends first.
func TrainCompute(ctx context.Context, tables []problem.Table, samples []ComputeSample, opt TrainOptions) (*ComputeNet, TrainReport, error) {
	if err := errors.Join(checkComputeSamples(tables, samples), opt.complete(60, len(samples))); err != nil {
		return nil, TrainReport{}, err
	}
	net, err := nn.NewSetNet(nn.SetConfig{In: Features, Hidden: 128, Embed: 32, Head: 64, Out: 1, Biases: true})
	if err != nil {
		return nil, TrainReport{}, err
	}
	net.InitUniform(opt.Seed)
	t := &computeTraining{net: net, trainer: nn.NewSetTrainer(net, trainParts, opt.Workers), adam: nn.NewAdam(paperRate)}
	scaling := tableScaling(tables)
	t.prepare(tables, samples, scaling)
	report, err := opt.fit(ctx, t)
	if err != nil {
		return nil, TrainReport{}, fmt.Errorf("training the compute net: %w", err)
	}
	layers := layersOf(net.Params())
	return &ComputeNet{Scaling: scaling, Table: layers[:2], Head: [2]Layer(layers[2:])}, report, nil
}

// TrainForward trains the paper's comm net of the forward exchange: dim sums
// and start times, 128, 64, 32 and 16 units, one time a device. All samples
// must be of the same number of devices. It is a function as TrainCompute is.
func TrainForward(ctx context.Context, samples []CommSample, opt TrainOptions) (*CommNet, TrainReport, error) {
	return trainComm(ctx, "forward", samples, opt)
}

// TrainBackward trains the comm net of the backward exchange, whose inputs are
// the dim sums alone, as TrainForward does.
func TrainBackward(ctx context.Context, samples []CommSample, opt TrainOptions) (*CommNet, TrainReport, error) {
	return trainComm(ctx, "backward", samples, opt)
}

func trainComm(ctx context.Context, direction string, samples []CommSample, opt TrainOptions) (*CommNet, TrainReport, error) {
	if err := errors.Join(checkCommSamples(samples), opt.complete(200, len(samples))); err != nil {
		return nil, TrainReport{}, err
	}
	devices, sleeps := len(samples[0].Dims), direction == "forward"
	inputs, times := commInputs(samples, sleeps)
	scaling := scalingOf(inputs)
	width := len(scaling.Means)
	net, err := nn.NewMLP(width, 128, 64, 32, 16, devices)
	if err != nil {
		return nil, TrainReport{}, err
	}
	net.InitUniform(opt.Seed)
	t := &commTraining{net: net, trainer: nn.NewMLPTrainer(net, trainParts, opt.Workers), adam: nn.NewAdam(paperRate), times: times}
	for _, in := range inputs {
		t.inputs = scaling.appendScaled(t.inputs, in)
	}
	report, err := opt.fit(ctx, t)
	if err != nil {
		return nil, TrainReport{}, fmt.Errorf("training the %s comm net: %w", direction, err)
	}
	return &CommNet{Scaling: scaling, Devices: devices, Sleeps: sleeps, Layers: layersOf(net.Params())}, report, nil
}

// complete fills in the defaults and checks the rest.
func (o *TrainOptions) complete(epochs, samples int) error {
	o.Epochs = cmp.Or(o.Epochs, epochs)
	o.Batch = cmp.Or(o.Batch, defaultBatch)
	o.Workers = cmp.Or(o.Workers, 1)
	var found []error
	if o.Epochs < 1 || o.Epochs > maxEpochs {
		found = append(found, fmt.Errorf("training: %d epochs: use 1 to %d", o.Epochs, maxEpochs))
	}
	if o.Batch < 1 {
		found = append(found, fmt.Errorf("training: batches of %d samples: use 1 or more", o.Batch))
	}
	if o.Schedule != Constant && o.Schedule != OneCycle {
		found = append(found, fmt.Errorf("training: schedule %d: use Constant or OneCycle", o.Schedule))
	}
	if o.Workers < 1 || o.Workers > 1024 {
		found = append(found, fmt.Errorf("training: %d workers: use 1 to 1024", o.Workers))
	}
	if samples < minSamples {
		found = append(found, fmt.Errorf("training: %d samples: at least %d are needed, eight tenths to train on and one each for validation and test", samples, minSamples))
	}
	return join(found)
}

// trainee is a net and its samples, scaled.
type trainee interface {
	weights() []float32
	// samples is their number.
	samples() int
	// step learns from the chosen samples once, at a learning rate, and returns the sum of the squared
	// errors before it, averaged over a sample's times.
	step(chosen []int, rate float64) float64
	// errors adds to e what is wrong with the predictions for the samples.
	errors(list []int, e *trainErrors)
}

// trainErrors sums errors over times.
type trainErrors struct {
	square, relative float64
	times, above     int // all times, and those above zero
}

func (e *trainErrors) add(got, want float32) {
	d := float64(got) - float64(want)
	e.square += d * d
	e.times++
	if want > 0 {
		e.relative += math.Abs(d) / float64(want)
		e.above++
	}
}

func (e *trainErrors) mse() float64 { return e.square / float64(e.times) }

// fit trains on eight tenths of the samples.
func (o *TrainOptions) fit(ctx context.Context, t trainee) (TrainReport, error) {
	random := rand.New(rand.NewPCG(o.Seed, 0x70726f746f))
	order := random.Perm(t.samples())
	tenth := len(order) / 10
	test, validation, train := order[:tenth], order[tenth:2*tenth], order[2*tenth:]
	report := TrainReport{ValidationMSE: math.Inf(1)}
	best := slices.Clone(t.weights())
	step, steps := 0, o.Epochs*((len(train)+o.Batch-1)/o.Batch)
	var spent time.Duration
	for epoch := 1; epoch <= o.Epochs; epoch++ {
		start := o.now()
		random.Shuffle(len(train), func(i, j int) { train[i], train[j] = train[j], train[i] })
		sum := 0.0
		for chosen := range slices.Chunk(train, o.Batch) {
			if err := ctx.Err(); err != nil {
				return TrainReport{}, err
			}
			sum += t.step(chosen, o.Schedule.rate(step, steps))
			step++
		}
		spent += o.now().Sub(start)
		var e trainErrors
		t.errors(validation, &e)
		if mse := e.mse(); mse < report.ValidationMSE {
			report.ValidationMSE, report.BestEpoch = mse, epoch
			copy(best, t.weights())
		}
		if o.OnProgress != nil {
			o.OnProgress(TrainProgress{epoch, o.Epochs, sum / float64(len(train)), e.mse()})
		}
	}
	if report.BestEpoch == 0 {
		return TrainReport{}, fmt.Errorf("it diverged: no epoch of %d had a finite error; are there times or inputs far beyond all others?", o.Epochs)
	}
	copy(t.weights(), best)
	var e trainErrors
	t.errors(test, &e)
	report.TestMSE = e.mse()
	report.MeanRelativeError = e.relative / float64(max(1, e.above))
	if spent > 0 {
		report.SamplesPerSecond = float64(o.Epochs) * float64(len(train)) / spent.Seconds()
	}
	return report, nil
}

func (o *TrainOptions) now() time.Time {
	if o.Now == nil {
		return time.Time{}
	}
	return o.Now()
}

// computeTraining holds every table at every dim that occurs once, as a row
// that the samples share.
type computeTraining struct {
	net     *nn.SetNet
	trainer *nn.SetTrainer
	adam    *nn.Adam
	sets    nn.Sets
	times   []float32

	batch              nn.Sets
	ws                 nn.SetWorkspace
	embed, joined, out []float32
	offsets, picks     []int32
}

func (t *computeTraining) prepare(tables []problem.Table, samples []ComputeSample, scaling Scaling) {
	rows := map[Slice]int32{}
	t.sets = nn.Sets{Rows: []int32{}, Offsets: []int32{0}}
	for i := range samples {
		for _, slice := range samples[i].Slices {
			row, ok := rows[slice]
			if !ok {
				row = int32(len(rows))
				rows[slice] = row
				features := VectorOf(&tables[slice.Table], slice.Dim)
				t.sets.X = scaling.appendScaled(t.sets.X, features[:])
			}
			t.sets.Rows = append(t.sets.Rows, row)
		}
		t.sets.Offsets = append(t.sets.Offsets, int32(len(t.sets.Rows)))
		t.times = append(t.times, float32(samples[i].Millis))
	}
}

func (t *computeTraining) weights() []float32 { return t.net.Weights() }

func (t *computeTraining) samples() int { return len(t.times) }

func (t *computeTraining) step(chosen []int, rate float64) float64 {
	t.adam.LR = rate
	t.sets.Gather(&t.batch, Features, chosen)
	weight := 2 / float32(len(chosen))
	return t.trainer.Step(t.batch, t.adam, func(lo, hi int, out, dout []float32) float64 {
		sum := 0.0
		for i, g := range chosen[lo:hi] {
			d := out[i] - t.times[g]
			dout[i] = weight * d
			sum += float64(d) * float64(d)
		}
		return sum
	})
}

func (t *computeTraining) errors(list []int, e *trainErrors) {
	width := t.net.Config().Embed
	rows := len(t.sets.X) / Features
	t.embed = slices.Grow(t.embed[:0], rows*width)[:rows*width]
	t.net.Embed(&t.ws, rows, t.sets.X, nil, t.embed)
	for chunk := range slices.Chunk(list, chunkSamples) {
		t.offsets, t.picks = append(t.offsets[:0], 0), t.picks[:0]
		for _, g := range chunk {
			t.picks = append(t.picks, t.sets.Rows[t.sets.Offsets[g]:t.sets.Offsets[g+1]]...)
			t.offsets = append(t.offsets, int32(len(t.picks)))
		}
		t.joined = slices.Grow(t.joined[:0], chunkSamples*width)[:len(chunk)*width]
		t.out = slices.Grow(t.out[:0], chunkSamples)[:len(chunk)]
		f32.PickSums(width, t.offsets, t.picks, t.embed, width, t.joined, width)
		t.net.Head(&t.ws, len(chunk), t.joined, t.out)
		for i, g := range chunk {
			e.add(t.out[i], t.times[g])
		}
	}
}

// commTraining holds the scaled inputs and the times of all samples, row by
// row.
type commTraining struct {
	net           *nn.MLP
	trainer       *nn.MLPTrainer
	adam          *nn.Adam
	inputs, times []float32

	ws     nn.MLPWorkspace
	x, out []float32
}

func (t *commTraining) weights() []float32 { return t.net.Weights() }

func (t *commTraining) samples() int { return len(t.times) / t.net.Out() }

func (t *commTraining) gather(list []int) {
	in := t.net.In()
	t.x = t.x[:0]
	for _, g := range list {
		t.x = append(t.x, t.inputs[g*in:(g+1)*in]...)
	}
}

func (t *commTraining) step(chosen []int, rate float64) float64 {
	t.adam.LR = rate
	t.gather(chosen)
	devices := t.net.Out()
	weight := 2 / float32(len(chosen)*devices)
	return t.trainer.Step(len(chosen), t.x, t.adam, func(lo, hi int, out, dout []float32) float64 {
		sum := 0.0
		for i, g := range chosen[lo:hi] {
			for k, want := range t.times[g*devices : (g+1)*devices] {
				d := out[i*devices+k] - want
				dout[i*devices+k] = weight * d
				sum += float64(d) * float64(d)
			}
		}
		return sum / float64(devices)
	})
}

func (t *commTraining) errors(list []int, e *trainErrors) {
	devices := t.net.Out()
	for chunk := range slices.Chunk(list, chunkSamples) {
		t.gather(chunk)
		t.out = slices.Grow(t.out[:0], chunkSamples*devices)[:len(chunk)*devices]
		t.net.Forward(&t.ws, len(chunk), t.x, t.out)
		for i, g := range chunk {
			for k, want := range t.times[g*devices : (g+1)*devices] {
				e.add(t.out[i*devices+k], want)
			}
		}
	}
}

// tableScaling is that of all tables at all dims of the prototype's samples.
func tableScaling(tables []problem.Table) Scaling {
	var list [][]float64
	for i := range tables {
		for dim := sampledDim; dim >= problem.ColumnGranule; dim /= 2 {
			v := VectorOf(&tables[i], dim)
			list = append(list, v[:])
		}
	}
	return scalingOf(list)
}

// sampledDim is the widest dim of the prototype's compute samples.
const sampledDim = 128

// scalingOf returns the means and the deviations (of a sample, so divided by
// one less than there are, as PyTorch does) of at least two rows.
func scalingOf(rows [][]float64) Scaling {
	width := len(rows[0])
	s := Scaling{make([]float32, width), make([]float32, width)}
	for i := range width {
		sum, square := 0.0, 0.0
		for _, row := range rows {
			sum += row[i]
		}
		mean := sum / float64(len(rows))
		for _, row := range rows {
			square += (row[i] - mean) * (row[i] - mean)
		}
		s.Means[i] = float32(mean)
		s.Stds[i] = float32(math.Sqrt(square/float64(len(rows)-1)) + stdFloor)
	}
	return s
}

// appendScaled appends an input, standardised.
func (s *Scaling) appendScaled(to []float32, in []float64) []float32 {
	for i, v := range in {
		to = append(to, float32((v-float64(s.Means[i]))/float64(s.Stds[i])))
	}
	return to
}

// layersOf copies tensors, weight and bias by turns.
func layersOf(params []nn.Tensor) []Layer {
	var layers []Layer
	for i := 0; i < len(params); i += 2 {
		w := params[i]
		layers = append(layers, Layer{Out: w.Shape[0], In: w.Shape[1], Weight: slices.Clone(w.Data), Bias: slices.Clone(params[i+1].Data)})
	}
	return layers
}

// commInputs returns the inputs of a comm net and the times it learns.
func commInputs(samples []CommSample, sleeps bool) (inputs [][]float64, times []float32) {
	for i := range samples {
		s := &samples[i]
		var in []float64
		for _, dim := range s.Dims {
			in = append(in, float64(dim))
		}
		measured := s.Backward
		if sleeps {
			in = append(in, s.Starts...)
			measured = s.Forward
		}
		inputs = append(inputs, in)
		for _, v := range measured {
			times = append(times, float32(v))
		}
	}
	return inputs, times
}

func checkComputeSamples(tables []problem.Table, samples []ComputeSample) error {
	f := &faults{file: "compute samples"}
	members := 0
	for i := range samples {
		s := &samples[i]
		if !isTime(s.Millis) {
			f.add(0, "sample %d: %v is not a time in ms", i, s.Millis)
		}
		if members += len(s.Slices); members > math.MaxInt32 {
			f.add(0, "more than %d tables in all", math.MaxInt32)
			break
		}
		for _, slice := range s.Slices {
			if slice.Table < 0 || slice.Table >= len(tables) {
				f.add(0, "sample %d: table %d of a pool of %d", i, slice.Table, len(tables))
			} else if slice.Dim < 1 || slice.Dim > 1<<20 {
				f.add(0, "sample %d: dim %d is not between 1 and 2^20", i, slice.Dim)
			}
		}
	}
	return f.err()
}

func checkCommSamples(samples []CommSample) error {
	f := &faults{file: "comm samples"}
	for i := range samples {
		s := &samples[i]
		devices := len(samples[0].Dims)
		if devices < 1 || devices > maxDevices {
			f.add(0, "samples of %d devices: use 1 to %d", devices, maxDevices)
			break
		}
		if len(s.Dims) != devices || len(s.Starts) != devices || len(s.Forward) != devices || len(s.Backward) != devices {
			f.add(0, "sample %d: %d dim sums, %d start times, %d forward and %d backward times: want %d each, as sample 0 has", i, len(s.Dims), len(s.Starts), len(s.Forward), len(s.Backward), devices)
		}
		for _, v := range slices.Concat(s.Starts, s.Forward, s.Backward) {
			if !isTime(v) {
				f.add(0, "sample %d: %v is not a time in ms", i, v)
			}
		}
		for _, d := range s.Dims {
			if d < 0 || d > 1<<30 {
				f.add(0, "sample %d: dim sum %d is not between 0 and 2^30", i, d)
			}
		}
	}
	return f.err()
}

func isTime(v float64) bool { return v >= 0 && v <= maxMillis }
