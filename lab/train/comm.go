package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The comm model is fitted in two steps. First the six constants of the closed form
// (cost.AllToAll) are fitted by the simplex method of Nelder and Mead on their
// logarithms: the form has corners, where a gradient method stalls, and six numbers
// are few enough for a simplex. Then a small net is trained on the logarithm of the
// factor that the closed form leaves, so that a wrong form is corrected, not
// replaced.

const (
	commHidden = 16
	// With 450 epochs instead of 150, the errors of exchanges over 2 hosts fall to half.
	commEpochs = 450
	commBatch  = 64
	commRate   = .005
	// commSteps is the least number of steps. Few samples get more epochs, because the
	// net needs that number of steps to fit them: with 500 samples of a device
	// distorted by 15 %, 150 epochs did not lower the error, and commSteps steps
	// lowered it to a third.
	commSteps = 7500
)

// commTraining is the comm part of a training run.
type commTraining struct {
	constants cost.CommConstants
	// residuals are the members of an ensemble.
	residuals []*nn.MLP
	// mean and inverse standardise the nets' inputs: an input x becomes (x - mean)
	// times inverse. They are nil if the inputs are not standardised.
	mean, inverse []float32
	// short is the number of samples that exchanges left out.
	short int
}

// exchange is one sample as the fit uses it. The time of the collective excludes
// the wait for the last device and the packing of each device.
type exchange struct {
	cluster cost.Cluster
	load    cost.CommLoad
	// packed and shared are the bytes that each device copies for a forward and for a
	// backward exchange.
	dims   []int
	packed []float64
	shared float64
	// early is the mean time in ms by which the other devices are ready before the
	// last one.
	early float64
	// forward is each device's time without its wait, and backward the mean time
	// over the devices.
	forward  []float64
	backward float64
	// last says that the exchange ends when its last device has all data, as in a
	// plan; backward is then the longest time. The devices of a simulated exchange
	// differ by their packing alone, those of a measured one also by chance.
	last bool
}

// fitComm fits the all-to-alls on the dataset's training samples.
func fitComm(ctx context.Context, set *dataset.Comm, hw hardware.Profile, opt Options) (*commTraining, error) {
	var short [dataset.Test + 1]int
	var splits [dataset.Test + 1][]exchange
	for split := range splits {
		var err error
		if splits[split], short[split], err = exchanges(set, dataset.Split(split)); err != nil {
			return nil, err
		}
	}
	fitting, checking := splits[dataset.Train], splits[dataset.Validation]
	if hw.NICGBps == 0 && slices.ContainsFunc(slices.Concat(splits[:]...), exchange.several) {
		return nil, fmt.Errorf("comm samples: profile %q has no network between hosts, but there are all-to-alls over several: state its bandwidth, nic_gbps", hw.Name)
	}
	how := commRecipe(set, opt)
	t := &commTraining{constants: fitConstants(fitting, hw, how), short: short[dataset.Train] + short[dataset.Validation] + short[dataset.Test]}
	t.constants.Hidden = commHidden
	if how.even {
		t.standardise(fitting)
	}
	for member := range opt.Ensemble {
		if err := t.fitResidual(ctx, fitting, checking, how, member, opt); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// standardise finds the mean and the deviation of the nets' inputs. An input that
// is the same in all samples is ignored, because the samples do not show its
// effect.
func (t *commTraining) standardise(fitting []exchange) {
	const least = 1e-3
	x, _ := t.residualData(fitting)
	mean, deviation := moments(x, cost.CommInputs)
	t.inverse = make([]float32, cost.CommInputs)
	for j, d := range deviation {
		if t.mean = append(t.mean, float32(mean[j])); d > least {
			t.inverse[j] = float32(1 / d)
		}
	}
}

// even multiplies the standardisation into the weights of a net's first layer, so
// that the net reads the inputs unchanged.
func (t *commTraining) even(net *nn.MLP) {
	if t.mean == nil {
		return
	}
	weight, bias := net.Params()[0].Data, net.Params()[1].Data
	for i := range bias {
		row := weight[i*cost.CommInputs:][:cost.CommInputs]
		for j := range row {
			row[j] *= t.inverse[j]
			bias[i] -= row[j] * t.mean[j]
		}
	}
}

// exchanges returns the samples of a split that are not quarantined. If the times
// are measured, exchanges leaves out and counts the samples that ended before their
// last device was ready, which clock jitter causes. It fails if they are more than
// a twentieth of the samples.
func exchanges(set *dataset.Comm, split dataset.Split) (all []exchange, short int, err error) {
	const most = 20
	for i := range set.Samples {
		s := &set.Samples[i]
		if s.Split != split || s.Quarantined {
			continue
		}
		e, err := newExchange(s, measured(set.Provenance))
		if errors.Is(err, errShort) && measured(set.Provenance) {
			short++
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("comm sample %d: %w", i, err)
		}
		all = append(all, e)
	}
	if most*short > short+len(all) {
		return nil, 0, fmt.Errorf("%d of %d comm samples: %w", short, short+len(all), errShort)
	}
	return all, short, nil
}

var errShort = errors.New("the forward exchange is shorter than the wait for its last device")

func newExchange(s *dataset.Exchange, last bool) (exchange, error) {
	e := exchange{
		cluster: cost.Cluster{Devices: s.Devices, PerHost: min(s.DevicesPerHost, s.Devices), Batch: s.Batch},
		load:    cost.CommLoad{Min: math.MaxInt},
	}
	for _, d := range s.DimSums {
		e.load.Max, e.load.Min, e.load.Sum = max(e.load.Max, d), min(e.load.Min, d), e.load.Sum+d
		e.dims = append(e.dims, d)
		e.packed = append(e.packed, 2*float64(s.Batch)*float64(d)*problem.OutputBytes)
	}
	e.shared = 2 * float64(s.Batch) / float64(s.Devices) * float64(e.load.Sum) * problem.OutputBytes
	latest := slices.Max(s.Start)
	for r, f := range s.Forward {
		e.early += float64(latest-s.Start[r]) / float64(s.Devices-1)
		own := float64(f - (latest - s.Start[r]))
		if !(own > 0) {
			return exchange{}, fmt.Errorf("device %d: %w", r, errShort)
		}
		e.forward = append(e.forward, own)
		e.backward += float64(s.Backward[r]) / float64(s.Devices)
	}
	if last {
		e.last, e.backward = true, float64(slices.Max(s.Backward))
	}
	return e, nil
}

// several reports whether the exchange spans more than one host.
func (e exchange) several() bool { return e.cluster.Devices > e.cluster.PerHost }

// sampledDevices is the number of devices of a sample that the fit of the constants
// uses: the one with the least work, the one with the most work and some between.
const sampledDevices = 6

// minOverlapRate stands for no overlap, a rate of 0, which a fit of logarithms
// never reaches.
const minOverlapRate = 1e-6

// mostFactor is the logarithm of the largest factor between a constant and its start. Noisy
// times may say nothing about a constant, and the fit would then move it without end.
const mostFactor = 16

func fitConstants(fitting []exchange, hw hardware.Profile, how recipe) cost.CommConstants {
	start := cost.CommConstants{
		AlphaMS: hw.AllToAllLatencyUS / 1000, IntraGBps: hw.IntraGBps, CopyGBps: hw.HBMGBps,
	}
	pointers := []func(*cost.CommConstants) *float64{
		func(k *cost.CommConstants) *float64 { return &k.AlphaMS },
		func(k *cost.CommConstants) *float64 { return &k.IntraGBps },
	}
	if how.robust {
		start.CopyGBps = copyGBps(fitting, hw)
	} else {
		pointers = append(pointers, func(k *cost.CommConstants) *float64 { return &k.CopyGBps })
	}
	// Samples of one host only say nothing about a network.
	several := !how.robust || slices.ContainsFunc(fitting, exchange.several)
	if hw.NICGBps > 0 && several {
		start.BaseMS, start.HopMS, start.NICGBps = .05, .02, hw.NICGBps
		pointers = append(pointers,
			func(k *cost.CommConstants) *float64 { return &k.BaseMS },
			func(k *cost.CommConstants) *float64 { return &k.HopMS },
			func(k *cost.CommConstants) *float64 { return &k.NICGBps })
	}
	if how.robust && slices.ContainsFunc(fitting, func(e exchange) bool { return e.early > 0 }) {
		start.OverlapRest, start.OverlapRate = 1.5, .5
		pointers = append(pointers,
			func(k *cost.CommConstants) *float64 { return &k.OverlapRest },
			func(k *cost.CommConstants) *float64 { return &k.OverlapRate })
	}
	at := func(x []float64) cost.CommConstants {
		k := start
		for i, p := range pointers {
			*p(&k) *= math.Exp(max(-mostFactor, min(mostFactor, x[i])))
		}
		if k.OverlapRate > 0 {
			k.OverlapRest, k.OverlapRate = max(1, k.OverlapRest), min(1, max(minOverlapRate, k.OverlapRate))
		}
		return k
	}
	sample := fitting[:min(len(fitting), 1500)]
	fit := optimize.Problem{Func: func(x []float64) float64 {
		k := at(x)
		sum := 0.0
		for i := range sample {
			sum += sample[i].error(k)
		}
		return sum / float64(len(sample))
	}}
	best := make([]float64, len(pointers))
	// The simplex shrinks early in narrow valleys: restart it where it stopped.
	for range 4 {
		result, err := optimize.Minimize(fit, best, &optimize.Settings{FuncEvaluations: 600}, &optimize.NelderMead{SimplexSize: .3})
		if result == nil || err != nil && result.X == nil {
			break
		}
		best = result.X
	}
	return at(best)
}

// copyGBps returns the bandwidth of the copies. It uses the one thing that only
// copies explain: within one exchange, a device with more columns takes longer than
// the others. A fit together with the other constants would attribute to the copies
// all that grows with the bytes, and would then predict different times for devices
// that take the same time. The slope is a weighted median, which outliers do not
// move. Without a slope, copies are free.
func copyGBps(fitting []exchange, hw hardware.Profile) float64 {
	const free = 1e6
	type slope struct{ ms, weight float64 }
	var slopes []slope
	total := 0.
	for i := range fitting {
		e := &fitting[i]
		n := float64(len(e.forward))
		time, bytes := 0., 0.
		for r, f := range e.forward {
			time, bytes = time+f/n, bytes+e.packed[r]/n
		}
		for r, f := range e.forward {
			if more := e.packed[r] - bytes; more != 0 {
				s := slope{(f - time) / more, math.Abs(more) / time}
				slopes, total = append(slopes, s), total+s.weight
			}
		}
	}
	if len(slopes) == 0 { // all devices alike, always: then it does not matter
		return hw.HBMGBps
	}
	slices.SortStableFunc(slopes, func(a, b slope) int { return cmp.Compare(a.ms, b.ms) })
	sum := 0.
	for _, s := range slopes {
		if sum += s.weight; sum >= total/2 {
			return math.Min(free, 1/(1e6*math.Max(s.ms, 1e-6/free)))
		}
	}
	return free
}

// error returns the mean absolute error of the logarithm of the sample's times.
func (e *exchange) error(k cost.CommConstants) float64 {
	base := cost.AllToAll(k, e.cluster, e.load)
	forward := cost.Overlapped(k, e.cluster.Devices, base, e.early)
	copyMS := 1 / (k.CopyGBps * 1e6)
	sum := math.Abs(math.Log((base + e.shared*copyMS) / e.backward))
	n := len(e.forward)
	if e.last {
		return sum + math.Abs(math.Log((forward+slices.Max(e.packed)*copyMS)/slices.Max(e.forward)))
	}
	devices := min(n, sampledDevices)
	for i := range devices {
		r := i * (n - 1) / max(1, devices-1)
		sum += math.Abs(math.Log((forward+e.packed[r]*copyMS)/e.forward[r])) / float64(devices)
	}
	return sum
}

// left returns the logarithms of the factors between the times of the forward and
// the backward collective and the closed form.
func (e *exchange) left(k cost.CommConstants) (forward, backward float64) {
	base := cost.AllToAll(k, e.cluster, e.load)
	copyMS := 1 / (k.CopyGBps * 1e6)
	own := 0.0
	for r, f := range e.forward {
		own += (f - e.packed[r]*copyMS) / float64(len(e.forward))
	}
	if e.last {
		own = slices.Max(e.forward) - slices.Max(e.packed)*copyMS
	}
	// A collective shorter than a hundredth of the closed form is noise.
	floor := base / 100
	return math.Log(e.whole(k, max(own, floor)) / base), math.Log(max(e.backward-e.shared*copyMS, floor) / base)
}

// whole is the inverse of cost.Overlapped, which rises with the time. It returns the
// time of a whole forward collective; own is the part of that time that is left when
// the last device is ready.
func (e *exchange) whole(k cost.CommConstants, own float64) float64 {
	n := e.cluster.Devices
	low, high := own, own
	for cost.Overlapped(k, n, high, e.early) < own {
		high *= 2
	}
	if low == high {
		return own
	}
	const rounds = 50
	for range rounds {
		if middle := (low + high) / 2; cost.Overlapped(k, n, middle, e.early) < own {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

func (t *commTraining) fitResidual(ctx context.Context, fitting, checking []exchange, how recipe, member int, opt Options) error {
	net, err := nn.NewMLP(cost.CommInputs, commHidden, commHidden, 2)
	if err != nil {
		return err
	}
	seed := opt.memberSeed(member)
	net.Init(seed + 1)
	x, want := t.residualData(fitting)
	checkX, checkWant := t.residualData(checking)
	trainer := nn.NewMLPTrainer(net, parts, opt.Workers)
	var ws nn.MLPWorkspace
	out := make([]float32, len(checkWant))
	var chosenX []float32
	err = descent{
		weights: net.Weights(), shuffle: rand.New(rand.NewPCG(seed, 4)),
		step: func(chosen []int, adam *nn.Adam) {
			chosenX = chosenX[:0]
			for _, i := range chosen {
				chosenX = append(chosenX, x[i*cost.CommInputs:][:cost.CommInputs]...)
			}
			batch := float64(len(chosen))
			trainer.Step(len(chosen), chosenX, adam, func(lo, hi int, out, dout []float32) float64 {
				loss := 0.0
				for i := range out {
					e := float64(out[i] - want[2*chosen[lo+i/2]+i%2])
					// Huber's loss.
					dout[i] = float32(math.Max(-1, math.Min(1, e/how.corner)) / batch)
					loss += math.Abs(e) / batch
				}
				return loss
			})
		},
		validate: func() float64 {
			net.Forward(&ws, len(checking), checkX, out)
			e := 0.0
			for i := range out {
				e += math.Abs(float64(out[i]-checkWant[i])) / float64(len(out))
			}
			return e
		},
		done: func(epoch, epochs int, e float64) {
			if epoch%10 == 0 || epoch == epochs {
				opt.progress(Progress{Phase: "comm", Epoch: member*epochs + epoch, Epochs: opt.Ensemble * epochs, Error: e})
			}
		},
	}.run(ctx, len(fitting), how)
	if err != nil {
		return err
	}
	t.even(net)
	t.residuals = append(t.residuals, net)
	return nil
}

// residualData returns the inputs of the residual nets and their targets.
func (t *commTraining) residualData(all []exchange) (x, want []float32) {
	x = make([]float32, len(all)*cost.CommInputs)
	for i := range all {
		cost.CommFeatures(x[i*cost.CommInputs:][:cost.CommInputs], all[i].cluster, all[i].load)
		f, b := all[i].left(t.constants)
		want = append(want, float32(f), float32(b))
	}
	if t.mean != nil {
		for i := range x {
			j := i % cost.CommInputs
			x[i] = (x[i] - t.mean[j]) * t.inverse[j]
		}
	}
	return x, want
}

func (t *commTraining) tensors() []modelfile.Tensor {
	var tensors []modelfile.Tensor
	for member, net := range t.residuals {
		prefix := cost.MemberPrefix(member, len(t.residuals))
		for i, p := range net.Params() {
			name := fmt.Sprintf(cost.TensorCommWeight, i/2)
			if i%2 == 1 {
				name = fmt.Sprintf(cost.TensorCommBias, i/2)
			}
			tensors = append(tensors, modelfile.Tensor{Name: prefix + name, Shape: p.Shape, Data: slices.Clone(p.Data)})
		}
	}
	return tensors
}
