package reinforce

import (
	"cmp"
	"context"
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

// trainDreamShard trains a net on tasks of at least two tables. predict, if not nil, predicts costs
// in the place of the cost net, which is then not trained, and no plan is measured. The same options
// give the same weights, whatever the number of workers. It ends early with the context's error. A
// rollout that finds no room for a table is dropped.
func trainDreamShard(ctx context.Context, o *Options, tasks []problem.Problem, predict predictors) (*policy.Folder, error) {
	l := newDreamLoop(o, tasks, predict)
	n := cmp.Or(o.Iterations, DefaultIterations)
	for i := range n {
		rate := func(update, of int) float64 {
			return publishedRate * (1 - (float64(i)+float64(update)/float64(of))/float64(n))
		}
		losses, reward, err := l.iterate(ctx, i, rate)
		if err != nil {
			return nil, err
		}
		l.card.Losses = append(l.card.Losses, losses)
		o.Progress(i+1, n, fmt.Sprintf("predicted cost of the episodes %.4f ms", -reward))
	}
	l.card.Plans = len(l.measured)
	return &policy.Folder{Manifest: policy.Manifest{Method: policy.DreamShard, Card: l.card}, Tensors: l.net.Nets().Tensors()}, nil
}

// predictors makes the Predictor of a problem.
type predictors func(p *problem.Problem, pieces [][]problem.Shard) dreamshard.Predictor

// dreamLoop is the state of a training.
type dreamLoop struct {
	*Options
	predict  predictors
	net      *dreamshard.Net
	card     policy.Card
	of       []environment
	tasks    []*dreamshard.Task // of each environment
	costs    *dreamshard.CostTrainer
	policy   *dreamshard.PolicyTrainer
	measured []dreamshard.Measured
	// held are the devices of the plans measured.
	held []dreamshard.Held
	// actors are those of the current sampler, by worker and task.
	sampler *dreamshard.Policy
	actors  []map[int]*dreamshard.Actor
}

func newDreamLoop(o *Options, tasks []problem.Problem, predict predictors) *dreamLoop {
	net := dreamshard.New(o.Tasks.Seed)
	l := &dreamLoop{
		Options: o, predict: predict, net: net, card: policy.Card{Costs: OwnCosts, Reward: ByCost}, of: environments(tasks),
		costs: dreamshard.NewCostTrainer(net), policy: dreamshard.NewPolicyTrainer(net),
	}
	for i := range l.of {
		l.tasks = append(l.tasks, dreamshard.NewTask(l.of[i].tables))
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
	return rand.New(rand.NewPCG(l.Options.Tasks.Seed, uint64(stream)<<56|uint64(iteration)<<32|uint64(update)<<16|uint64(index)))
}

// iterate runs one iteration. The rate falls linearly to 0 over the updates of all iterations.
func (l *dreamLoop) iterate(ctx context.Context, iteration int, rate func(update, of int) float64) (losses policy.Losses, reward float64, err error) {
	if l.predict == nil {
		if err := l.collect(iteration); err != nil {
			return losses, reward, err
		}
		random := l.random(batchStream, iteration, 0, 0)
		for update := range costUpdatesEach {
			if err := ctx.Err(); err != nil {
				return losses, reward, err
			}
			plans, held := l.batch(random)
			losses.Cost += l.costs.Update(l.measured, plans, held, rate(update, costUpdatesEach)).Total() / costUpdatesEach
		}
	}
	for update := range policyUpdatesEach {
		if err := ctx.Err(); err != nil {
			return losses, reward, err
		}
		task, episodes := l.episodes(iteration, update)
		if len(episodes) < 2 {
			continue // nothing to compare
		}
		l.card.Episodes += len(episodes)
		for i := range episodes {
			reward += episodes[i].Reward / float64(len(episodes)*policyUpdatesEach)
		}
		loss := l.policy.Update(l.tasks[task], l.of[task].problem.Topology.Devices, episodes, dreamshard.EntropyWeight, rate(update, policyUpdatesEach))
		losses.Policy += loss / policyUpdatesEach
	}
	return losses, reward, nil
}

// resample packs the weights of the net again: it changed.
func (l *dreamLoop) resample() {
	l.sampler = dreamshard.NewPolicy(l.net, nil)
	l.actors = make([]map[int]*dreamshard.Actor, l.Workers)
	for i := range l.actors {
		l.actors[i] = map[int]*dreamshard.Actor{}
	}
}

// episode runs one episode of a task on one worker.
func (l *dreamLoop) episode(worker, task int, random *rand.Rand) (dreamshard.Episode, bool) {
	p := l.of[task].problem
	actor := l.actors[worker][task]
	if actor == nil {
		var predictor dreamshard.Predictor
		if l.predict != nil {
			predictor = l.predict(p, l.of[task].pieces)
		}
		actor = l.sampler.Actor(l.tasks[task], p.Topology.Devices, predictor)
		l.actors[worker][task] = actor
	}
	return actor.Episode(int64(p.LargestBudget()[problem.ForwardExchange]), random)
}

// maxDropped bounds how often a plan is drawn again because a table found no room.
const maxDropped = 100

// collect draws plans with the policy, measures them, and keeps them.
func (l *dreamLoop) collect(iteration int) error {
	l.resample()
	workers := l.Workers
	if l.alone {
		workers = 1
	}
	plans := make([]*dreamshard.Measured, plansPerIteration)
	err := each(workers, plansPerIteration, func(worker, i int) (err error) {
		random := l.random(planStream, iteration, 0, i)
		for range maxDropped {
			task := random.IntN(len(l.tasks))
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
	m := &dreamshard.Measured{Task: l.tasks[task], Devices: episode.Placement(l.of[task].problem.Topology.Devices)}
	took, err := l.of[task].measure(l.Options, m.Devices)
	if err != nil {
		return nil, err
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
	task = l.random(episodeStream, iteration, update, 0).IntN(len(l.tasks))
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
