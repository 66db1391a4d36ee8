package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/dataset"
	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/modelfile"
	"github.com/neuroshard/neuroshard/nn"
	"github.com/neuroshard/neuroshard/problem"
)

// The comm model is fitted in two steps. First the six constants of the closed
// form (cost.Collective), by the simplex method of Nelder and Mead on the
// logarithms of the constants: the form has corners where a gradient method
// stalls, and six numbers are few. Then a small net on the logarithm of what
// the closed form leaves, so that a wrong form is mended, not replaced.

const (
	commHidden = 16
	commEpochs = 150
	commBatch  = 64
	commRate   = .005
	// commSteps is the least number of steps: few samples get more epochs, since
	// the net needs them to bend at all. With 500 samples of a device distorted by
	// 15 %, 150 epochs left its error as it was, these steps bring it to a third.
	commSteps = 7500
)

// commTraining is the comm part of a training run.
type commTraining struct {
	constants cost.CommConstants
	residual  *nn.MLP
}

// exchange is one sample as the fit reads it: the collective's time without
// wait, apart from what each device packs.
type exchange struct {
	cluster cost.Cluster
	load    cost.CommLoad
	// packed and shared are the bytes of the copies of a forward exchange, device
	// by device, and of a backward exchange.
	dims   []int
	packed []float64
	shared float64
	// forward is each device's time without its wait, and backward the mean time
	// over the devices.
	forward  []float64
	backward float64
}

// fitComm fits the all-to-alls on the dataset's training samples.
func fitComm(ctx context.Context, set *dataset.Comm, hw hardware.Profile, opt Options) (*commTraining, error) {
	fitting, err := exchanges(set, dataset.Train)
	if err != nil {
		return nil, err
	}
	checking, err := exchanges(set, dataset.Validation)
	if err != nil {
		return nil, err
	}
	t := &commTraining{constants: fitConstants(fitting, hw)}
	t.constants.Hidden = commHidden
	return t, t.fitResidual(ctx, fitting, checking, opt)
}

func exchanges(set *dataset.Comm, split dataset.Split) ([]exchange, error) {
	var all []exchange
	for i := range set.Samples {
		s := &set.Samples[i]
		if s.Split != split {
			continue
		}
		e, err := newExchange(s)
		if err != nil {
			return nil, fmt.Errorf("comm sample %d: %w", i, err)
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, errors.New("the dataset has too few comm samples: a split is empty")
	}
	return all, nil
}

func newExchange(s *dataset.Exchange) (exchange, error) {
	if s.Devices < 2 || len(s.DimSums) != s.Devices || len(s.Start) != s.Devices || len(s.Forward) != s.Devices || len(s.Backward) != s.Devices {
		return exchange{}, fmt.Errorf("%d devices, but %d dim sums, %d starts, %d and %d times", s.Devices, len(s.DimSums), len(s.Start), len(s.Forward), len(s.Backward))
	}
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
		own := float64(f - (latest - s.Start[r]))
		if !(own > 0) || !(s.Backward[r] > 0) || math.IsInf(own+float64(s.Backward[r]), 1) {
			return exchange{}, fmt.Errorf("device %d: a time is not positive and finite, or shorter than its wait", r)
		}
		e.forward = append(e.forward, own)
		e.backward += float64(s.Backward[r]) / float64(s.Devices)
	}
	return e, nil
}

// sampledDevices is how many devices of a sample the fit of the constants
// looks at: the lightest, the heaviest and some between.
const sampledDevices = 6

func fitConstants(fitting []exchange, hw hardware.Profile) cost.CommConstants {
	start := cost.CommConstants{
		AlphaMS: hw.AllToAllLatencyUS / 1000, IntraGBps: hw.IntraGBps, CopyGBps: hw.HBMGBps,
	}
	pointers := []func(*cost.CommConstants) *float64{
		func(k *cost.CommConstants) *float64 { return &k.AlphaMS },
		func(k *cost.CommConstants) *float64 { return &k.IntraGBps },
		func(k *cost.CommConstants) *float64 { return &k.CopyGBps },
	}
	if hw.NICGBps > 0 {
		start.BaseMS, start.HopMS, start.NICGBps = .05, .02, hw.NICGBps
		pointers = append(pointers,
			func(k *cost.CommConstants) *float64 { return &k.BaseMS },
			func(k *cost.CommConstants) *float64 { return &k.HopMS },
			func(k *cost.CommConstants) *float64 { return &k.NICGBps })
	}
	at := func(x []float64) cost.CommConstants {
		k := start
		for i, p := range pointers {
			*p(&k) *= math.Exp(x[i])
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

// error returns the mean absolute error of the logarithm of the sample's times.
func (e *exchange) error(k cost.CommConstants) float64 {
	base := cost.Collective(k, e.cluster, e.load)
	copyMS := 1 / (k.CopyGBps * 1e6)
	sum := math.Abs(math.Log((base + e.shared*copyMS) / e.backward))
	n := len(e.forward)
	devices := min(n, sampledDevices)
	for i := range devices {
		r := i * (n - 1) / max(1, devices-1)
		sum += math.Abs(math.Log((base+e.packed[r]*copyMS)/e.forward[r])) / float64(devices)
	}
	return sum
}

// left returns the logarithm of what the closed form leaves of the forward and
// of the backward collective.
func (e *exchange) left(k cost.CommConstants) (forward, backward float64) {
	base := cost.Collective(k, e.cluster, e.load)
	copyMS := 1 / (k.CopyGBps * 1e6)
	own := 0.0
	for r, f := range e.forward {
		own += (f - e.packed[r]*copyMS) / float64(len(e.forward))
	}
	// A collective shorter than a hundredth of the closed form is noise.
	floor := base / 100
	return math.Log(max(own, floor) / base), math.Log(max(e.backward-e.shared*copyMS, floor) / base)
}

func (t *commTraining) fitResidual(ctx context.Context, fitting, checking []exchange, opt Options) error {
	var err error
	if t.residual, err = nn.NewMLP(cost.CommInputs, commHidden, commHidden, 2); err != nil {
		return err
	}
	t.residual.Init(opt.Seed + 1)
	x, want := t.residuals(fitting)
	checkX, checkWant := t.residuals(checking)
	trainer := nn.NewMLPTrainer(t.residual, parts, opt.Workers)
	adam := nn.NewAdam(commRate)
	shuffle := rand.New(rand.NewPCG(opt.Seed, 4))
	order := make([]int, len(fitting))
	for i := range order {
		order[i] = i
	}
	batch := min(commBatch, len(order))
	perEpoch := len(order) / batch
	epochs := max(commEpochs, (commSteps+perEpoch-1)/perEpoch)
	steps, step := epochs*perEpoch, 0
	best, bestError := slices.Clone(t.residual.Weights()), math.Inf(1)
	var ws nn.MLPWorkspace
	out := make([]float32, len(checkWant))
	chosenX := make([]float32, 0, batch*cost.CommInputs)
	for epoch := range epochs {
		shuffle.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for at := 0; at+batch <= len(order); at += batch {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			adam.LR = schedule(commRate, step, steps)
			step++
			chosen := order[at : at+batch]
			chosenX = chosenX[:0]
			for _, i := range chosen {
				chosenX = append(chosenX, x[i*cost.CommInputs:][:cost.CommInputs]...)
			}
			trainer.Step(batch, chosenX, adam, func(lo, hi int, out, dout []float32) float64 {
				loss := 0.0
				for i := range out {
					e := float64(out[i] - want[2*chosen[lo+i/2]+i%2])
					// Huber with a corner at 2 %.
					dout[i] = float32(math.Max(-1, math.Min(1, e/huberRelative)) / float64(batch))
					loss += math.Abs(e) / float64(batch)
				}
				return loss
			})
		}
		t.residual.Forward(&ws, len(checking), checkX, out)
		e := 0.0
		for i := range out {
			e += math.Abs(float64(out[i]-checkWant[i])) / float64(len(out))
		}
		if e < bestError {
			bestError = e
			copy(best, t.residual.Weights())
		}
		if epoch%10 == 9 || epoch+1 == epochs {
			opt.progress(Progress{Phase: "comm", Epoch: epoch + 1, Epochs: epochs, Error: e})
		}
	}
	copy(t.residual.Weights(), best)
	return nil
}

func (t *commTraining) residuals(all []exchange) (x, want []float32) {
	x = make([]float32, len(all)*cost.CommInputs)
	for i := range all {
		cost.CommFeatures(x[i*cost.CommInputs:][:cost.CommInputs], all[i].cluster, all[i].load)
		f, b := all[i].left(t.constants)
		want = append(want, float32(f), float32(b))
	}
	return x, want
}

func (t *commTraining) tensors() []modelfile.Tensor {
	var tensors []modelfile.Tensor
	for i, p := range t.residual.Params() {
		name := fmt.Sprintf(cost.TensorCommWeight, i/2)
		if i%2 == 1 {
			name = fmt.Sprintf(cost.TensorCommBias, i/2)
		}
		tensors = append(tensors, modelfile.Tensor{Name: name, Shape: p.Shape, Data: slices.Clone(p.Data)})
	}
	return tensors
}
