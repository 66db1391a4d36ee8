package reinforce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search/policy"
	"github.com/neuroshard/neuroshard/search/policy/dreamshard"
)

// The training loop of DreamShard. The cost net and the policy need each other: drawn plans
// are measured where the policy goes, and the policy learns from the cost net alone:
//
//	iteration: 10 drawn plans, measured -> 300 updates of the cost net, on all plans so far
//	                                    -> 10 updates of the policy, each on 10 episodes of a task
//
// No plan is measured for an episode: its reward is minus the cost that the cost net predicts.

// The published settings of the loop.
const (
	DefaultIterations = 10
	plansPerIteration = 10
	costUpdatesEach   = 300
	plansPerUpdate    = 64
	policyUpdatesEach = 10
	episodesPerUpdate = 10
	publishedRate     = 5e-4
)

// DreamShardOptions says what DreamShard is trained on.
type DreamShardOptions struct {
	// Tasks are the training tasks: at least one, each of at least two tables.
	Tasks []problem.Problem
	// Measure takes the times of a plan. Several goroutines call it at the same time, unless
	// Workers is 1 or Alone is true.
	Measure Measure
	// Alone measures one plan at a time, while nothing else of the training runs, so that the
	// training does not disturb the times. It does not change the weights.
	Alone bool
	// Predictor, if set, predicts costs in the place of the cost net, which is then not
	// trained, and no plan is measured.
	Predictor func(p *problem.Problem, pieces [][]problem.Shard) dreamshard.Predictor
	// Iterations is the number of rounds of the loop; 0 means 10, as published.
	Iterations int
	Seed       uint64
	// Workers is the number of goroutines, at least 1. It does not change the weights.
	Workers int
	// Progress is called after each iteration, if it is not nil.
	Progress func(DreamShardIteration)
}

// DreamShardIteration has the mean reward and the losses of one iteration.
type DreamShardIteration struct {
	Number, Iterations int // from 1
	// Reward is the mean predicted cost of the iteration's episodes, as a negative number.
	Reward float64
	Losses policy.Losses
}

// DreamShardTraining is the result of a training.
type DreamShardTraining struct {
	Net        *dreamshard.Net
	Iterations []DreamShardIteration
	// Plans is the number of plans measured, Episodes the number of episodes that the policy
	// learned from.
	Plans, Episodes int
}

// TrainDreamShard trains a net. The same options give the same weights, whatever the number of
// workers. It ends early with the context's error. A rollout that finds no room for a table is
// dropped.
func TrainDreamShard(ctx context.Context, o DreamShardOptions) (*DreamShardTraining, error) {
	if o.Iterations == 0 {
		o.Iterations = DefaultIterations
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	l := newDreamLoop(&o)
	for i := range o.Iterations {
		losses, err := l.iterate(ctx, i)
		if err != nil {
			return nil, err
		}
		losses.Number, losses.Iterations = i+1, o.Iterations
		l.training.Iterations = append(l.training.Iterations, losses)
		if o.Progress != nil {
			o.Progress(losses)
		}
	}
	l.training.Plans = len(l.measured)
	return l.training, nil
}

func (o *DreamShardOptions) check() error {
	var faults []error
	if len(o.Tasks) == 0 {
		faults = append(faults, errors.New("dreamshard training: no tasks: give at least one"))
	}
	for i := range o.Tasks {
		if n := len(o.Tasks[i].Tables); n < 2 {
			faults = append(faults, fmt.Errorf("dreamshard training: task %d has %d tables: give at least 2", i, n))
		}
	}
	if o.Iterations < 0 {
		faults = append(faults, fmt.Errorf("dreamshard training: %d iterations: give a number above 0", o.Iterations))
	}
	if o.Workers < 1 {
		faults = append(faults, fmt.Errorf("dreamshard training: %d workers: give a number above 0", o.Workers))
	}
	if o.Measure == nil && o.Predictor == nil {
		faults = append(faults, errors.New("dreamshard training: nothing measures plans"))
	}
	return errors.Join(faults...)
}

// dreamLoop is the state of a training.
type dreamLoop struct {
	*DreamShardOptions
	training *DreamShardTraining
	pieces   [][][]problem.Shard // of each task
	tasks    []*dreamshard.Task
	costs    *dreamshard.CostTrainer
	policy   *dreamshard.PolicyTrainer
	measured []dreamshard.Measured
	// held are the devices of the plans measured.
	held []dreamshard.Held
	// actors are those of the current sampler, by worker and task.
	sampler *dreamshard.Sampler
	actors  []map[int]*dreamshard.Actor
}

func newDreamLoop(o *DreamShardOptions) *dreamLoop {
	net := dreamshard.New(o.Seed)
	l := &dreamLoop{
		DreamShardOptions: o, training: &DreamShardTraining{Net: net},
		costs: dreamshard.NewCostTrainer(net), policy: dreamshard.NewPolicyTrainer(net),
	}
	for i := range o.Tasks {
		pieces := Pieces(&o.Tasks[i])
		l.pieces = append(l.pieces, pieces)
		l.tasks = append(l.tasks, dreamshard.NewTask(policy.Describe(&o.Tasks[i], pieces)))
	}
	return l
}

// The streams of random numbers. Each draw has a stream of its own, so that the workers may
// take the draws in any order.
const (
	planStream = iota + 1
	batchStream
	episodeStream
)

func (l *dreamLoop) random(stream, iteration, update, index int) *rand.Rand {
	return rand.New(rand.NewPCG(l.Seed, uint64(stream)<<56|uint64(iteration)<<32|uint64(update)<<16|uint64(index)))
}

// iterate runs one iteration. The rate falls linearly to 0 over the updates of all iterations.
func (l *dreamLoop) iterate(ctx context.Context, iteration int) (result DreamShardIteration, err error) {
	rate := func(update, of int) float64 {
		return publishedRate * (1 - (float64(iteration)+float64(update)/float64(of))/float64(l.Iterations))
	}
	if l.Predictor == nil {
		if err := l.collect(iteration); err != nil {
			return result, err
		}
		random := l.random(batchStream, iteration, 0, 0)
		for update := range costUpdatesEach {
			if err := ctx.Err(); err != nil {
				return result, err
			}
			plans, held := l.batch(random)
			result.Losses.Cost += l.costs.Update(l.measured, plans, held, rate(update, costUpdatesEach)).Total() / costUpdatesEach
		}
	}
	for update := range policyUpdatesEach {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		task, episodes := l.episodes(iteration, update)
		if len(episodes) < 2 {
			continue // nothing to compare
		}
		l.training.Episodes += len(episodes)
		for i := range episodes {
			result.Reward += episodes[i].Reward / float64(len(episodes)*policyUpdatesEach)
		}
		loss := l.policy.Update(l.tasks[task], l.Tasks[task].Topology.Devices, episodes, dreamshard.EntropyWeight, rate(update, policyUpdatesEach))
		result.Losses.Policy += loss / policyUpdatesEach
	}
	return result, nil
}

// resample packs the weights of the net again: it changed.
func (l *dreamLoop) resample() {
	l.sampler = dreamshard.NewSampler(l.training.Net)
	l.actors = make([]map[int]*dreamshard.Actor, l.Workers)
	for i := range l.actors {
		l.actors[i] = map[int]*dreamshard.Actor{}
	}
}

// episode runs one episode of a task on one worker.
func (l *dreamLoop) episode(worker, task int, random *rand.Rand) (dreamshard.Episode, bool) {
	p := &l.Tasks[task]
	actor := l.actors[worker][task]
	if actor == nil {
		var predictor dreamshard.Predictor
		if l.Predictor != nil {
			predictor = l.Predictor(p, l.pieces[task])
		}
		actor = l.sampler.Actor(l.tasks[task], p.Topology.Devices, predictor)
		l.actors[worker][task] = actor
	}
	return actor.Episode(int64(p.LargestBudget()), random)
}

// maxDropped bounds how often a plan is drawn again because a table found no room.
const maxDropped = 100

// collect draws plans with the policy, measures them, and keeps them.
func (l *dreamLoop) collect(iteration int) error {
	l.resample()
	workers := l.Workers
	if l.Alone {
		workers = 1
	}
	plans := make([]*dreamshard.Measured, plansPerIteration)
	err := each(workers, plansPerIteration, func(worker, i int) (err error) {
		random := l.random(planStream, iteration, 0, i)
		for range maxDropped {
			task := random.IntN(len(l.Tasks))
			episode, ok := l.episode(worker, task, random)
			if !ok {
				continue
			}
			plans[i], err = l.measure(task, episode)
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range plans {
		if m == nil {
			continue
		}
		for d := range m.Devices {
			l.held = append(l.held, dreamshard.Held{Plan: int32(len(l.measured)), Device: int32(d)})
		}
		l.measured = append(l.measured, *m)
	}
	if len(l.measured) == 0 {
		return fmt.Errorf("dreamshard training: no drawn plan fits: give the devices more memory, or draw fewer tables")
	}
	return nil
}

// measure takes the times of a plan.
func (l *dreamLoop) measure(task int, episode dreamshard.Episode) (*dreamshard.Measured, error) {
	m := &dreamshard.Measured{Task: l.tasks[task], Devices: episode.Placement(l.Tasks[task].Topology.Devices)}
	shards := make([][]problem.Shard, len(m.Devices))
	for d, held := range m.Devices {
		for _, piece := range held {
			shards[d] = append(shards[d], l.pieces[task][piece]...)
		}
	}
	took, err := l.Measure(&l.Tasks[task], shards)
	if err != nil {
		return nil, fmt.Errorf("dreamshard training: measure a plan: %w", err)
	}
	for _, d := range took.Devices {
		m.Times = append(m.Times, [dreamshard.Costs]float32{
			dreamshard.Forward: float32(d.Forward), dreamshard.Communication: float32(d.BackwardComm), dreamshard.Backward: float32(d.Backward),
		})
	}
	m.Overall = float32(took.Cost)
	return m, nil
}

// batch draws plans, and devices of plans, from all that was measured.
func (l *dreamLoop) batch(random *rand.Rand) (plans []int32, held []dreamshard.Held) {
	for range plansPerUpdate {
		plans = append(plans, int32(random.IntN(len(l.measured))))
		held = append(held, l.held[random.IntN(len(l.held))])
	}
	return plans, held
}

// episodes runs the episodes of one update of the policy.
func (l *dreamLoop) episodes(iteration, update int) (task int, episodes []dreamshard.Episode) {
	l.resample()
	task = l.random(episodeStream, iteration, update, 0).IntN(len(l.Tasks))
	found := make([]dreamshard.Episode, episodesPerUpdate)
	fit := make([]bool, episodesPerUpdate)
	_ = each(l.Workers, episodesPerUpdate, func(worker, i int) error {
		found[i], fit[i] = l.episode(worker, task, l.random(episodeStream, iteration, update, 1+i))
		return nil
	})
	for i := range found {
		if fit[i] {
			episodes = append(episodes, found[i])
		}
	}
	return task, episodes
}
