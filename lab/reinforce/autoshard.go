package reinforce

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search/policy"
	"github.com/neuroshard/neuroshard/search/policy/autoshard"
)

// The training loop of AutoShard. Eight actors place the tables of training tasks, one
// table after the other, with the weights that the learner had one update before; the
// learner meanwhile updates the nets from what the actors did last:
//
//	actors   unroll 0 (W0) | unroll 1 (W0) | unroll 2 (W1) | unroll 3 (W2) | ...
//	learner                | W1 from 0     | W2 from 1     | W3 from 2     | ...
//
// The prototype's actors race with its learner (IMPALA). Here the lag is always one
// update, so that the weights do not depend on the number of processors. V-trace corrects
// the lag. After each finished episode the plan is measured: it gives the reward, and one
// sample for each device, from which the cost net learns.

// The published settings of the loop.
const (
	unrollSteps   = 100
	actorCount    = 8
	costUpdates   = 20
	costBatch     = 512
	costSamples   = 5000
	gradientLimit = 40

	// DefaultDecisions is the published number of decisions to learn from.
	DefaultDecisions = 100_000
	// MaxDecisions is the largest number of decisions to learn from.
	MaxDecisions = 1_000_000_000
)

// update has the mean reward and the losses of one update of the learner.
type update struct {
	// episodes is the number of episodes that ended within the update, and over the number of
	// these whose plans break a device's memory.
	episodes, over int
	reward         float64 // mean over the episodes
	losses         policy.Losses
}

// iterations is the number of parts of a training that its card states losses of.
const iterations = 10

// lossesOf returns the mean losses of each tenth of the updates, or of each update if there
// are fewer than ten.
func lossesOf(updates []update) []policy.Losses {
	n := min(iterations, len(updates))
	all := make([]policy.Losses, n)
	for i := range all {
		part := updates[i*len(updates)/n : (i+1)*len(updates)/n]
		for _, u := range part {
			all[i].Cost += u.losses.Cost / float64(len(part))
			all[i].Policy += u.losses.Policy / float64(len(part))
		}
	}
	return all
}

// trainAutoShard trains a policy on tasks of one number of devices. The same options give the same
// weights, whatever the number of processors. It ends early with the context's error.
func trainAutoShard(ctx context.Context, o *Options, tasks []problem.Problem) (*policy.Folder, []update, error) {
	scenes, x, scaling := scenesOf(tasks)
	net, acting := autoshard.New(), autoshard.New()
	net.Init(o.Tasks.Seed)
	acting.Copy(net)
	a := &actors{options: o, scenes: scenes, x: x, net: acting}
	l := newLearner(net, x, o)
	f := autoshard.NewPolicy(net, scaling).Folder()
	card := &f.Manifest.Card
	card.Costs, card.Reward = OwnCosts, cmp.Or(o.Reward, ByBalance)
	type played struct {
		lessons *lessons
		err     error
	}
	now, err := a.play(ctx)
	if err != nil {
		return nil, nil, err
	}
	var updates []update
	for k := range l.updates {
		coming := make(chan played, 1)
		play := func() {
			next, err := a.play(ctx)
			coming <- played{next, err}
		}
		switch {
		case k+1 == l.updates:
			coming <- played{}
		case o.alone:
			play()
		default:
			go play()
		}
		u := l.update(k, now)
		next := <-coming
		if next.err != nil {
			return nil, nil, next.err
		}
		card.Plans += now.episodes
		updates = append(updates, u)
		o.Progress(k+1, l.updates, fmt.Sprintf("mean reward %.4f", u.reward))
		now = next.lessons
		acting.Copy(net)
	}
	card.Episodes, card.Losses = card.Plans, lossesOf(updates)
	return f, updates, nil
}

// scene is a task as the actors see it.
type scene struct {
	environment
	rows      [][]int32 // of each piece
	gib       []float64 // of each piece
	budget    int64     // of a device, in bytes
	reference float64   // the cost in ms of dealing the pieces to the devices in turn
}

// scenesOf returns the tasks, the features of all their slices, and the constants that
// standardise them.
func scenesOf(tasks []problem.Problem) (scenes []*scene, x []float32, scaling autoshard.Scaling) {
	all := environments(tasks)
	var vectors []policy.Vector
	for i := range all {
		vectors = append(vectors, all[i].tables.Vectors...)
	}
	scaling = autoshard.NewScaling(vectors)
	rows := policy.NewMatrix(scaling.Of)
	for _, e := range all {
		scenes = append(scenes, &scene{environment: e, rows: rows.Add(&e.tables), gib: autoshard.GiB(&e.tables), budget: int64(e.problem.LargestBudget()[problem.ForwardExchange])})
	}
	return scenes, rows.X, scaling
}

// judge measures a placement. It returns the reward, the time of each device in ms, and
// whether a device is over its memory. by lists the device of each piece.
//
// The published reward is the time of the least busy device over that of the busiest one,
// and 0 if a device is empty. The reward of cost is the cost of dealing the pieces in turn
// over the cost of the placement. Both are above 0, and a plan that breaks a device's
// memory has a reward below 0.
func (s *scene) judge(o *Options, by []int32) (reward float64, times []float64, over bool, err error) {
	held := make([][]int32, s.problem.Topology.Devices)
	used := make([]int64, len(held))
	for piece, device := range by {
		held[device] = append(held[device], int32(piece))
		used[device] += s.tables.Bytes[piece]
	}
	b, err := s.measure(o, held)
	if err != nil {
		return 0, nil, false, err
	}
	for _, d := range b.Devices {
		times = append(times, float64(d.Forward+d.Backward))
	}
	switch fullest := slices.Max(used); {
	case fullest > s.budget:
		return autoshard.Overflow(float64(s.budget), float64(fullest)), times, true, nil
	case o.Reward == ByCost:
		return s.reference / float64(b.Cost), times, false, nil
	case slices.Min(used) == 0:
		return 0, times, false, nil
	}
	return balanceOf(b), times, false, nil
}

// lessons is what the actors did between two updates.
type lessons struct {
	unroll         autoshard.Unroll
	samples        []sample
	episodes, over int
	reward         float64 // sum over the episodes
}

// sample is what a device held, and its measured time in ms.
type sample struct {
	rows []int32
	ms   float32
}

// actors place tables side by side.
type actors struct {
	options *Options
	scenes  []*scene
	x       []float32
	net     *autoshard.Net

	ws      autoshard.Workspace
	vectors []float32
	state   nn.LSTMState
	each    []actor
	all     []int32 // devices
}

type actor struct {
	random  *rand.Rand
	scene   *scene
	episode *autoshard.Episode
}

// begin starts the actors, before their first decision.
func (a *actors) begin() error {
	for _, s := range a.scenes {
		held := make([][]int32, s.problem.Topology.Devices)
		for i := range s.pieces {
			held[i%len(held)] = append(held[i%len(held)], int32(i))
		}
		b, err := s.measure(a.options, held)
		if err != nil {
			return err
		}
		s.reference = float64(b.Cost)
	}
	a.each = make([]actor, actorCount)
	for d := range a.scenes[0].problem.Topology.Devices {
		a.all = append(a.all, int32(d))
	}
	a.state = a.net.Core.NewState(actorCount)
	for i := range a.each {
		a.each[i].random = rand.New(rand.NewPCG(a.options.Tasks.Seed, 0x6163746f7200+uint64(i)))
		a.start(&a.each[i])
	}
	return nil
}

// start gives an actor a new task.
func (a *actors) start(one *actor) {
	one.scene = a.scenes[one.random.IntN(len(a.scenes))]
	one.episode = autoshard.NewEpisode(a.net, &a.ws, a.vectors, one.scene.rows, one.scene.gib, one.scene.problem.Topology.Devices)
}

// play returns what the actors do in the steps of an unroll.
func (a *actors) play(ctx context.Context) (*lessons, error) {
	a.net.Freeze(&a.ws)
	a.vectors = a.net.Embed(&a.ws, a.x, a.vectors)
	if a.each == nil {
		if err := a.begin(); err != nil {
			return nil, err
		}
	}
	devices := a.scenes[0].problem.Topology.Devices
	l := &lessons{}
	u := &l.unroll
	u.Start = nn.LSTMState{H: slices.Clone(a.state.H), C: slices.Clone(a.state.C)}
	logits := make([]float32, actorCount*devices)
	var frame autoshard.Frames
	for range unrollSteps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a.observe(&frame, devices)
		u.Frames.Append(&frame)
		a.net.Forward(&a.ws, a.vectors, &frame, a.state, logits, nil)
		u.Logits = append(u.Logits, logits...)
		for i := range a.each {
			if err := a.act(l, &a.each[i], logits[i*devices:(i+1)*devices]); err != nil {
				return nil, err
			}
		}
	}
	a.observe(&frame, devices)
	u.Frames.Append(&frame)
	return l, nil
}

// observe sets frame to what the actors see now.
func (a *actors) observe(frame *autoshard.Frames, devices int) {
	frame.Clear()
	frame.Steps, frame.Sequences, frame.Devices = 1, actorCount, devices
	for i := range a.each {
		a.each[i].episode.Observe(frame)
	}
}

// act places one actor's table. If the table was the task's last one, act measures the
// plan and gives the actor a new task.
func (a *actors) act(l *lessons, one *actor, logits []float32) error {
	device := int(policy.Choose(logits, a.all, one.random))
	one.episode.Place(a.net, &a.ws, a.vectors, device)
	last, reward := one.episode.Over(), 0.0
	if last {
		r, times, over, err := one.scene.judge(a.options, one.episode.Placement())
		if err != nil {
			return err
		}
		reward = r
		l.episodes++
		l.reward += r
		if over {
			l.over++
		}
		for d, rows := range one.episode.Held() {
			if len(rows) > 0 {
				l.samples = append(l.samples, sample{rows, float32(times[d])})
			}
		}
		a.start(one)
	}
	u := &l.unroll
	u.Actions = append(u.Actions, device)
	u.Rewards = append(u.Rewards, float32(reward))
	u.Last = append(u.Last, last)
	return nil
}

// learner updates the nets.
type learner struct {
	x         []float32
	random    *rand.Rand
	learner   *autoshard.Learner
	optimizer *policy.Optimizer
	updates   int

	samples []sample // a ring
	next    int
}

func newLearner(net *autoshard.Net, x []float32, o *Options) *learner {
	perUpdate := unrollSteps * actorCount
	return &learner{
		x: x, random: rand.New(rand.NewPCG(o.Tasks.Seed, 0x6c6561726e)),
		learner: autoshard.NewLearner(net), optimizer: policy.NewOptimizer(net.Nets()),
		updates: (cmp.Or(o.Decisions, DefaultDecisions) + perUpdate - 1) / perUpdate,
	}
}

// keep adds samples to the ring.
func (l *learner) keep(samples []sample) {
	for _, s := range samples {
		if len(l.samples) < costSamples {
			l.samples = append(l.samples, s)
			continue
		}
		l.samples[l.next] = s
		l.next = (l.next + 1) % costSamples
	}
}

// rate is the learning rate after k updates: it falls linearly to 0.
func (l *learner) rate(k int) float64 {
	return autoshard.LearningRate * float64(l.updates-k) / float64(l.updates)
}

// update does one update of the policy and, if there are samples, those of the cost net,
// which learns at the rate of the next update, as published.
func (l *learner) update(k int, now *lessons) update {
	l.keep(now.samples)
	report := update{episodes: now.episodes, over: now.over}
	if now.episodes > 0 {
		report.reward = now.reward / float64(now.episodes)
	}
	losses, grad := l.learner.Policy(l.x, &now.unroll)
	nn.ClipNorm(gradientLimit, grad...)
	l.optimizer.Step(l.rate(k), grad)
	report.losses.Policy = losses.Total() / float64(len(now.unroll.Actions))
	if len(l.samples) == 0 {
		return report
	}
	var held autoshard.Lists
	ms := make([]float32, costBatch)
	for range costUpdates {
		held.Clear()
		for i := range ms {
			s := l.samples[l.random.IntN(len(l.samples))]
			held.Add(s.rows...)
			ms[i] = s.ms
		}
		loss, grad := l.learner.Cost(l.x, &held, ms)
		l.optimizer.Step(l.rate(k+1), grad)
		report.losses.Cost += loss / costUpdates
	}
	return report
}
