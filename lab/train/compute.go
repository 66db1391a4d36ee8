package train

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// parts is the number of parts whose gradients are summed to that of a minibatch.
// It is fixed, so that the weights do not depend on the number of workers.
const parts = 4

const (
	// huberRelative is the least corner of the loss, as recipe.corner explains.
	huberRelative = 0.02
	// computeRate is the peak learning rate of Adam.
	computeRate = .002
)

// computeTraining is the compute part of a training run.
type computeTraining struct {
	// nets are the members of an ensemble.
	nets            []*nn.SetNet
	mean, deviation []float32
	launch          [2]float64
	epochs          int
}

// fitCompute trains the compute nets on the dataset's training groups and keeps
// the weights that are best on its validation groups.
func fitCompute(ctx context.Context, set *dataset.Compute, hw hardware.Profile, opt Options) (*computeTraining, error) {
	fitting, checking := prepare(set, hw, dataset.Train, opt.Workers), prepare(set, hw, dataset.Validation, opt.Workers)
	how := computeRecipe(set, len(fitting.times), opt)
	t := &computeTraining{launch: fitting.launch(), epochs: how.epochs}
	if how.robust {
		t.launch = fitting.robustLaunch()
	}
	t.mean, t.deviation = standardise(fitting.sets.X)
	if how.even {
		evenOut(t.deviation)
	}
	fitting.standardise(t.mean, t.deviation)
	checking.standardise(t.mean, t.deviation)
	t.nets = make([]*nn.SetNet, opt.Ensemble)
	for member := range t.nets {
		var err error
		t.nets[member], err = nn.NewSetNet(nn.SetConfig{
			In: feature.Width, Hidden: opt.Hidden, Embed: opt.Embed, Scalars: feature.ScalarCount, Head: opt.Head, Out: 2,
			Fixed: []float32{float32(t.launch[0]), float32(t.launch[1])},
		})
		if err != nil {
			return nil, err
		}
		t.nets[member].Init(opt.memberSeed(member))
	}
	return t, t.fit(ctx, fitting, checking, how, opt)
}

// fit trains the nets, one net for each worker at a time: one net on one worker
// uses less processor time than on several.
func (t *computeTraining) fit(ctx context.Context, fitting, checking *prepared, how recipe, opt Options) error {
	var lock sync.Mutex
	done := 0
	epoch := func(e float64) {
		lock.Lock()
		defer lock.Unlock()
		done++
		opt.progress(Progress{Phase: "compute", Epoch: done, Epochs: how.epochs * len(t.nets), Error: e})
	}
	abreast := min(opt.Workers, len(t.nets))
	var group errgroup.Group
	group.SetLimit(abreast)
	for member, net := range t.nets {
		group.Go(func() error {
			return fitNet(ctx, net, fitting, checking, how, opt.memberSeed(member), max(1, opt.Workers/abreast), epoch)
		})
	}
	return group.Wait()
}

// fitNet trains one net and reports the validation error after each epoch.
func fitNet(ctx context.Context, net *nn.SetNet, fitting, checking *prepared, how recipe, seed uint64, workers int, done func(e float64)) error {
	trainer := nn.NewSetTrainer(net, parts, workers)
	var gathered nn.Sets
	return descent{
		weights: net.Weights(), shuffle: rand.New(rand.NewPCG(seed, 3)),
		step: func(chosen []int, adam *nn.Adam) {
			fitting.sets.Gather(&gathered, feature.Width, chosen)
			trainer.Step(gathered, adam, func(lo, hi int, out, dout []float32) float64 {
				return relativeHuber(fitting.times, chosen[lo:hi], out, dout, len(chosen), how.corner)
			})
		},
		validate: func() float64 { return validate(net, checking) },
		done:     func(_, _ int, e float64) { done(e) },
	}.run(ctx, fitting.sets.Len(), how)
}

// descent trains the weights of one net.
type descent struct {
	weights []float32
	shuffle *rand.Rand
	// step takes a step on the chosen samples, and validate returns the error of the weights on
	// the validation samples. done is called after each epoch with its number, from 1.
	step     func(chosen []int, adam *nn.Adam)
	validate func() float64
	done     func(epoch, epochs int, e float64)
}

// run trains on n samples, and keeps the weights with the least validation error.
func (d descent) run(ctx context.Context, n int, how recipe) error {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	batch := min(how.batch, n)
	perEpoch := n / batch
	epochs := max(how.epochs, (how.steps+perEpoch-1)/perEpoch)
	steps, step := epochs*perEpoch, 0
	kept := newKeeper(d.weights, how, steps)
	adam := nn.NewAdam(how.rate)
	for epoch := range epochs {
		d.shuffle.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
		for at := 0; at+batch <= n; at += batch {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			adam.LR = schedule(how.rate, step, steps)
			step++
			d.step(order[at:at+batch], adam)
			kept.stepped(adam.LR)
		}
		d.done(epoch+1, epochs, kept.judge(d.validate))
	}
	kept.restore()
	return nil
}

// keeper keeps the weights with the least error on the validation samples: either
// the weights themselves or their running mean.
type keeper struct {
	weights, mean, best []float32
	least               float64
	// average and decay are those of the recipe.
	average, decay float64
	steps          int
}

// newKeeper returns a keeper for a run of the given number of steps. A running mean
// covers at most a tenth of a run.
func newKeeper(weights []float32, how recipe, steps int) *keeper {
	k := &keeper{weights: weights, best: slices.Clone(weights), least: math.Inf(1), decay: how.decay}
	if how.average < 1 {
		k.mean = make([]float32, len(weights))
		k.average = math.Max(how.average, math.Min(1, 10/float64(steps)))
	}
	return k
}

// stepped records a step with the given learning rate.
func (k *keeper) stepped(rate float64) {
	if shrink := float32(1 - rate*k.decay); shrink != 1 {
		for i := range k.weights {
			k.weights[i] *= shrink
		}
	}
	if k.mean != nil {
		// During the first steps the mean is a plain mean, so that no step counts for
		// more than the others.
		k.steps++
		share := float32(math.Max(k.average, 1/float64(k.steps)))
		for i, w := range k.weights {
			k.mean[i] += share * (w - k.mean[i])
		}
	}
}

// judge returns the validation error of the weights that would be kept, and keeps
// them if the error is the least so far.
func (k *keeper) judge(validate func() float64) float64 {
	var now []float32
	if k.mean != nil {
		now = slices.Clone(k.weights)
		copy(k.weights, k.mean)
	}
	e := validate()
	if e < k.least {
		k.least = e
		copy(k.best, k.weights)
	}
	if now != nil {
		copy(k.weights, now)
	}
	return e
}

// restore puts the best weights back into the net.
func (k *keeper) restore() { copy(k.weights, k.best) }

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
func relativeHuber(times [][2]float32, chosen []int, out, dout []float32, batch int, corner float64) float64 {
	loss := 0.0
	weight := 1 / float64(batch)
	huber := func(v, want float64) (gradient float64) {
		e := (v - want) / want
		if math.Abs(e) <= corner {
			loss += weight * e * e / (2 * corner)
			return weight * e / corner / want
		}
		loss += weight * (math.Abs(e) - corner/2)
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
func validate(net *nn.SetNet, checking *prepared) float64 {
	n := checking.sets.Len()
	var ws nn.SetWorkspace
	out := make([]float32, 0, 2*256)
	sum := 0.0
	for lo := 0; lo < n; lo += 256 {
		hi := min(n, lo+256)
		out = out[:2*(hi-lo)]
		net.Forward(&ws, checking.sets.Slice(lo, hi), out)
		for i := range hi - lo {
			want := float64(checking.times[lo+i][0] + checking.times[lo+i][1])
			sum += math.Abs(float64(out[2*i]+out[2*i+1])-want) / want
		}
	}
	return sum / float64(n)
}

// prepared holds the groups of one split as inputs of the net.
type prepared struct {
	sets  nn.Sets
	times [][2]float32
}

func prepare(set *dataset.Compute, hw hardware.Profile, split dataset.Split, workers int) *prepared {
	groups := usable(set, split)
	p := &prepared{sets: nn.Sets{Offsets: []int32{0}}}
	rows := 0
	for _, g := range groups {
		rows += len(g.Members)
		p.sets.Offsets = append(p.sets.Offsets, int32(rows))
		p.times = append(p.times, [2]float32{float32(g.Forward), float32(g.Backward)})
	}
	p.sets.X = make([]float32, rows*feature.Width)
	p.sets.Scale = make([]float32, rows)
	p.sets.Scalars = make([]float32, len(groups)*feature.ScalarCount)
	described := newDescriber(set.Tables)
	parallel(len(groups), workers, func(i int) {
		g := groups[i]
		lanes := lanesOf(&hw, g)
		var sums feature.Sums
		for j, m := range g.Members {
			row := int(p.sets.Offsets[i]) + j
			t := described.table(int(m.Table), g.Operation.Batch)
			scale := feature.Vector(p.sets.X[row*feature.Width:][:feature.Width], &hw, g.Operation, *t, int(m.Dim), lanes)
			p.sets.Scale[row] = float32(scale)
			part := t.Part(scale)
			sums.Add(&part)
		}
		rates := feature.NewRates(&hw, g.Operation)
		sums.Scalars((*[feature.ScalarCount]float32)(p.sets.Scalars[i*feature.ScalarCount:]), &rates, lanes, &feature.Part{})
	})
	return p
}

// usable returns the groups of a split that are not quarantined.
func usable(set *dataset.Compute, split dataset.Split) (groups []*dataset.Group) {
	for i := range set.Samples {
		if g := &set.Samples[i]; g.Split == split && !g.Quarantined {
			groups = append(groups, g)
		}
	}
	return groups
}

// lanesOf returns the lane class of a group on a device.
func lanesOf(hw *hardware.Profile, g *dataset.Group) feature.Lanes {
	lanes := feature.Lanes8
	for _, m := range g.Members {
		lanes = max(lanes, feature.LanesOf(hw, g.Operation, int(m.Dim)))
	}
	return lanes
}

// describer describes each table at each batch size once.
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
	described := feature.Describe(table, table.Counts(batch))
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
	means, deviations := moments(x, feature.Width)
	for j := range means {
		mean, deviation = append(mean, float32(means[j])), append(deviation, float32(deviations[j]+1e-3))
	}
	return mean, deviation
}

// moments returns the mean and the standard deviation of each column of rows of the given width.
func moments(x []float32, width int) (mean, deviation []float64) {
	mean, deviation = make([]float64, width), make([]float64, width)
	rows := float64(len(x) / width)
	for i, v := range x {
		mean[i%width] += float64(v)
	}
	for j := range mean {
		mean[j] /= rows
	}
	for i, v := range x {
		d := float64(v) - mean[i%width]
		deviation[i%width] += d * d
	}
	for j := range deviation {
		deviation[j] = math.Sqrt(deviation[j] / rows)
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
	var tensors []modelfile.Tensor
	for member, net := range t.nets {
		prefix := cost.MemberPrefix(member, len(t.nets))
		tensors = append(tensors,
			modelfile.Tensor{Name: prefix + cost.TensorMean, Shape: []int{feature.Width}, Data: t.mean},
			modelfile.Tensor{Name: prefix + cost.TensorDeviation, Shape: []int{feature.Width}, Data: t.deviation})
		for _, p := range net.Params() {
			tensors = append(tensors, modelfile.Tensor{Name: prefix + names[p.Name], Shape: p.Shape, Data: slices.Clone(p.Data)})
		}
	}
	return tensors
}

// parallel runs f for 0 to n-1 on the given number of workers. f must write only to
// the memory of its own index.
func parallel(n, workers int, f func(i int)) {
	const stride = 64
	var group errgroup.Group
	group.SetLimit(max(1, workers))
	for lo := 0; lo < n; lo += stride {
		group.Go(func() error {
			for i := lo; i < min(n, lo+stride); i++ {
				f(i)
			}
			return nil
		})
	}
	_ = group.Wait()
}
