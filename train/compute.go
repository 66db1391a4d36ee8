package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/dataset"
	"github.com/neuroshard/neuroshard/feature"
	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/modelfile"
	"github.com/neuroshard/neuroshard/nn"
	"github.com/neuroshard/neuroshard/problem"
)

// parts is the number of pieces a minibatch's gradient is summed from. It is
// fixed, so that the weights do not depend on the number of workers.
const parts = 4

// huberRelative is the relative error at which the loss turns from quadratic
// to linear: beyond it a sample counts as an outlier.
const huberRelative = 0.02

// computeTraining is the compute part of a training run.
type computeTraining struct {
	net             *nn.SetNet
	mean, deviation []float32
	launch          [2]float64
}

// fitCompute trains the compute net on the dataset's training groups and keeps
// the weights that are best on its validation groups.
func fitCompute(ctx context.Context, set *dataset.Compute, hw hardware.Profile, opt Options) (*computeTraining, error) {
	fitting, err := prepare(set, hw, dataset.Train, opt.Workers)
	if err != nil {
		return nil, err
	}
	checking, err := prepare(set, hw, dataset.Validation, opt.Workers)
	if err != nil {
		return nil, err
	}
	t := &computeTraining{launch: fitting.launch()}
	t.mean, t.deviation = standardise(fitting.sets.X)
	fitting.standardise(t.mean, t.deviation)
	checking.standardise(t.mean, t.deviation)
	t.net, err = nn.NewSetNet(nn.SetConfig{
		In: feature.Width, Hidden: opt.Hidden, Embed: opt.Embed, Scalars: feature.ScalarCount, Head: opt.Head, Out: 2,
		Fixed: []float32{float32(t.launch[0]), float32(t.launch[1])},
	})
	if err != nil {
		return nil, err
	}
	t.net.Init(opt.Seed)
	return t, t.fit(ctx, fitting, checking, opt)
}

func (t *computeTraining) fit(ctx context.Context, fitting, checking *prepared, opt Options) error {
	shuffle := rand.New(rand.NewPCG(opt.Seed, 3))
	trainer := nn.NewSetTrainer(t.net, parts, opt.Workers)
	adam := nn.NewAdam(opt.LearningRate)
	order := make([]int, fitting.sets.Len())
	for i := range order {
		order[i] = i
	}
	batch := min(opt.Batch, len(order))
	steps := opt.Epochs * (len(order) / batch)
	best, bestError := slices.Clone(t.net.Weights()), math.Inf(1)
	var gathered nn.Sets
	step := 0
	for epoch := range opt.Epochs {
		shuffle.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for at := 0; at+batch <= len(order); at += batch {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			adam.LR = schedule(opt.LearningRate, step, steps)
			step++
			chosen := order[at : at+batch]
			fitting.sets.Gather(&gathered, feature.Width, chosen)
			trainer.Step(gathered, adam, func(lo, hi int, out, dout []float32) float64 {
				return relativeHuber(fitting.times, chosen[lo:hi], out, dout, batch)
			})
		}
		e := t.validate(checking)
		if e < bestError {
			bestError = e
			copy(best, t.net.Weights())
		}
		opt.progress(Progress{Phase: "compute", Epoch: epoch + 1, Epochs: opt.Epochs, Error: e})
	}
	copy(t.net.Weights(), best)
	return nil
}

// schedule is a short linear warm-up, then half a cosine down to a hundredth.
func schedule(rate float64, step, steps int) float64 {
	warm := max(1, steps/50)
	if step < warm {
		return rate * float64(step+1) / float64(warm)
	}
	done := float64(step-warm) / float64(max(1, steps-warm))
	return rate * (.01 + .99*.5*(1+math.Cos(math.Pi*done)))
}

// relativeHuber is the loss: the Huber loss of the relative errors of forward,
// backward and their sum.
func relativeHuber(times [][2]float32, chosen []int, out, dout []float32, batch int) float64 {
	loss := 0.0
	weight := 1 / float64(batch)
	huber := func(v, want float64) (gradient float64) {
		e := (v - want) / want
		if math.Abs(e) <= huberRelative {
			loss += weight * e * e / (2 * huberRelative)
			return weight * e / huberRelative / want
		}
		loss += weight * (math.Abs(e) - huberRelative/2)
		return weight * math.Copysign(1, e) / want
	}
	for i, g := range chosen {
		f, b := float64(out[2*i]), float64(out[2*i+1])
		wantF, wantB := float64(times[g][0]), float64(times[g][1])
		both := huber(f+b, wantF+wantB)
		dout[2*i] = float32(huber(f, wantF) + both)
		dout[2*i+1] = float32(huber(b, wantB) + both)
	}
	return loss
}

// validate returns the mean relative error of forward and backward together.
func (t *computeTraining) validate(checking *prepared) float64 {
	n := checking.sets.Len()
	if n == 0 {
		return 0
	}
	var ws nn.SetWorkspace
	out := make([]float32, 0, 2*256)
	sum := 0.0
	for lo := 0; lo < n; lo += 256 {
		hi := min(n, lo+256)
		out = out[:2*(hi-lo)]
		t.net.Forward(&ws, checking.sets.Slice(lo, hi), out)
		for i := range hi - lo {
			want := float64(checking.times[lo+i][0] + checking.times[lo+i][1])
			sum += math.Abs(float64(out[2*i]+out[2*i+1])-want) / want
		}
	}
	return sum / float64(n)
}

// prepared is the groups of one split as the net reads them.
type prepared struct {
	sets  nn.Sets
	times [][2]float32
}

var errNoGroups = errors.New("the dataset has too few samples: a split is empty")

func prepare(set *dataset.Compute, hw hardware.Profile, split dataset.Split, workers int) (*prepared, error) {
	var groups []*dataset.Group
	p := &prepared{sets: nn.Sets{Offsets: []int32{0}}}
	rows := 0
	for i := range set.Samples {
		g := &set.Samples[i]
		if g.Split != split {
			continue
		}
		if !(g.Forward > 0 && g.Backward > 0) || math.IsInf(float64(g.Forward+g.Backward), 1) {
			return nil, fmt.Errorf("sample %d: times %v and %v are not positive and finite", i, g.Forward, g.Backward)
		}
		groups = append(groups, g)
		rows += len(g.Members)
		p.sets.Offsets = append(p.sets.Offsets, int32(rows))
		p.times = append(p.times, [2]float32{float32(g.Forward), float32(g.Backward)})
	}
	if len(groups) == 0 {
		return nil, errNoGroups
	}
	p.sets.X = make([]float32, rows*feature.Width)
	p.sets.Scale = make([]float32, rows)
	p.sets.Scalars = make([]float32, len(groups)*feature.ScalarCount)
	described := newDescriber(set.Tables)
	parallel(len(groups), workers, func(i int) {
		g := groups[i]
		lanes := lanesOf(g)
		var sums feature.Sums
		for j, m := range g.Members {
			row := int(p.sets.Offsets[i]) + j
			t := described.table(int(m.Table), g.Operation.Batch)
			scale := feature.Vector(p.sets.X[row*feature.Width:][:feature.Width], &hw, g.Operation, *t, int(m.Dim), lanes)
			p.sets.Scale[row] = float32(scale)
			var scales [feature.LaneClasses]float64
			scales[lanes] = scale
			part := t.Part(scales)
			sums.Add(&part)
		}
		rates := feature.NewRates(&hw, g.Operation)
		sums.Scalars((*[feature.ScalarCount]float32)(p.sets.Scalars[i*feature.ScalarCount:]), &rates, lanes, &feature.Part{})
	})
	return p, nil
}

func lanesOf(g *dataset.Group) feature.Lanes {
	lanes := feature.Lanes8
	for _, m := range g.Members {
		lanes = max(lanes, feature.LanesOf(int(m.Dim), g.Operation.Weighted))
	}
	return lanes
}

// describer describes tables at batch sizes, each once.
type describer struct {
	tables []problem.Table
	lock   sync.RWMutex
	known  map[[2]int]*feature.Table
}

func newDescriber(tables []problem.Table) *describer {
	return &describer{tables: tables, known: map[[2]int]*feature.Table{}}
}

func (d *describer) table(i, batch int) *feature.Table {
	key := [2]int{i, batch}
	d.lock.RLock()
	t, ok := d.known[key]
	d.lock.RUnlock()
	if ok {
		return t
	}
	table := &d.tables[i]
	described := feature.Describe(table.Rows, len(table.Features), table.Counts(batch))
	d.lock.Lock()
	defer d.lock.Unlock()
	d.known[key] = &described
	return &described
}

// launch returns the fixed cost of an operation: the shortest forward and
// backward of the training groups.
func (p *prepared) launch() [2]float64 {
	launch := [2]float64{math.Inf(1), math.Inf(1)}
	for _, t := range p.times {
		launch[0] = min(launch[0], float64(t[0]))
		launch[1] = min(launch[1], float64(t[1]))
	}
	return launch
}

// standardise returns the mean and deviation of each feature.
func standardise(x []float32) (mean, deviation []float32) {
	const width = feature.Width
	sum, squares := make([]float64, width), make([]float64, width)
	rows := float64(len(x) / width)
	for at := 0; at < len(x); at += width {
		for j, v := range x[at : at+width] {
			sum[j] += float64(v)
		}
	}
	for j := range sum {
		sum[j] /= rows
	}
	for at := 0; at < len(x); at += width {
		for j, v := range x[at : at+width] {
			d := float64(v) - sum[j]
			squares[j] += d * d
		}
	}
	mean, deviation = make([]float32, width), make([]float32, width)
	for j := range mean {
		mean[j] = float32(sum[j])
		deviation[j] = float32(math.Sqrt(squares[j]/rows) + 1e-3)
	}
	return mean, deviation
}

func (p *prepared) standardise(mean, deviation []float32) {
	const width = feature.Width
	for at := 0; at < len(p.sets.X); at += width {
		row := p.sets.X[at : at+width]
		for j := range row {
			row[j] = (row[j] - mean[j]) / deviation[j]
		}
	}
}

// tensors returns the net as a modelfile stores it.
func (t *computeTraining) tensors() []modelfile.Tensor {
	names := map[string]string{
		"table_mlp.0.weight": cost.TensorTable0W, "table_mlp.0.bias": cost.TensorTable0B,
		"table_mlp.2.weight": cost.TensorTable1W, "table_mlp.2.bias": cost.TensorTable1B,
		"head.0.weight": cost.TensorHead0W, "head.2.weight": cost.TensorHead1W,
	}
	tensors := []modelfile.Tensor{
		{Name: cost.TensorMean, Shape: []int{feature.Width}, Data: t.mean},
		{Name: cost.TensorDeviation, Shape: []int{feature.Width}, Data: t.deviation},
	}
	for _, p := range t.net.Params() {
		tensors = append(tensors, modelfile.Tensor{Name: names[p.Name], Shape: p.Shape, Data: slices.Clone(p.Data)})
	}
	return tensors
}

// parallel runs f for 0 to n-1 on the given number of workers. f must write to
// places of its own.
func parallel(n, workers int, f func(i int)) {
	var group sync.WaitGroup
	const stride = 64
	next := make(chan int)
	for range max(1, workers) {
		group.Go(func() {
			for lo := range next {
				for i := lo; i < min(n, lo+stride); i++ {
					f(i)
				}
			}
		})
	}
	for lo := 0; lo < n; lo += stride {
		next <- lo
	}
	close(next)
	group.Wait()
}
