package reinforce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/policy"
	"github.com/neuroshard/neuroshard/search/policy/autoshard"
	"github.com/neuroshard/neuroshard/search/policy/dreamshard"
)

// Who predicts costs for DreamShard: its own cost net, as published, or our cost model.
const (
	OwnCosts  = "own"
	OurCosts  = "ours"
	simulated = "the simulated device"
)

// What policies are rewarded by: the cost of plans, or, for AutoShard as published, their
// balance.
const (
	ByCost    = "cost"
	ByBalance = "balance"
)

// DefaultTestTasks is the default number of test tasks.
const DefaultTestTasks = 20

// MaxTasks is the largest number of tasks, which are all in memory.
const MaxTasks = 100_000

// Options say how a policy is trained. The zero value of each number takes its default.
type Options struct {
	// Method is policy.DreamShard or policy.AutoShard.
	Method string
	// Tasks says how tasks are drawn; its seed is the seed of the training, too. Count is the
	// number of training tasks (50), TestCount that of test tasks (20).
	Tasks            Tasks
	Count, TestCount int
	// Iterations is the number of rounds of DreamShard's loop (10).
	Iterations int
	// Costs is OwnCosts, the default, or OurCosts: the model that ships for the profile.
	Costs string
	// Reward is what AutoShard is rewarded by: ByBalance, as published and by default, or
	// ByCost. DreamShard is rewarded by cost.
	Reward string
	// Decisions is the number of decisions that AutoShard learns from (100,000).
	Decisions int
	// Workers is the number of goroutines, which does not change the policy; all processors by
	// default.
	Workers int
	// Measure, if not nil, measures the plans of the training and of the test tasks, in the
	// place of the simulated device of the tasks' profile. It is called for one plan at a time,
	// while nothing else of the training runs. Its first error ends the training.
	Measure Measure
	// Source, Profile and Backend state in the manifest what Measure measures on
	// (policy.Manifest). All three are required with Measure, and are empty without it.
	Source, Profile, Backend string
	// Progress, if not nil, is called after each step of the training.
	Progress func(done, all int, what string)

	// alone measures plans while nothing else of the training runs, so that the training does not
	// disturb the times.
	alone bool
}

// Train trains a policy on the simulated device of the profile, or on what Options.Measure
// measures, and returns its folder with its card. It reports all options that are out of range.
func Train(ctx context.Context, o Options) (*policy.Folder, error) {
	o.Tasks = o.Tasks.withDefaults()
	o.Count, o.TestCount = cmp.Or(o.Count, DefaultTasks), cmp.Or(o.TestCount, DefaultTestTasks)
	o.Costs, o.Workers = cmp.Or(o.Costs, OwnCosts), cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	if o.Progress == nil {
		o.Progress = func(int, int, string) {}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	tasks, err := o.Tasks.Draw(false, o.Count)
	if err != nil {
		return nil, err
	}
	tests, err := o.Tasks.Draw(true, o.TestCount)
	if err != nil {
		return nil, err
	}
	testWorkers := o.Workers
	if o.alone = o.Measure != nil; o.alone {
		testWorkers = 1
	} else {
		o.Measure, o.Source, o.Profile, o.Backend = Simulated(), plan.Simulated, o.Tasks.Profile.Name, simulated
	}
	f, err := o.train(ctx, tasks)
	if err != nil {
		return nil, err
	}
	o.describe(&f.Manifest, &tasks[0])
	trained, err := Load(f)
	if err != nil {
		return nil, err
	}
	o.Progress(1, 1, "planning the test tasks")
	card := &f.Manifest.Card
	card.TestTasks = o.TestCount
	if card.Test, err = Compare(ctx, tests, trained, o.Measure, testWorkers, o.Tasks.Seed); err != nil {
		return nil, err
	}
	return f, f.Seal()
}

func (o *Options) check() error {
	var faults []error
	if o.Method != policy.DreamShard && o.Method != policy.AutoShard {
		faults = append(faults, fmt.Errorf("method %q is not learned: choose %s or %s", o.Method, policy.DreamShard, policy.AutoShard))
	}
	if o.Costs != OwnCosts && o.Costs != OurCosts {
		faults = append(faults, fmt.Errorf("costs %q: choose %s or %s", o.Costs, OwnCosts, OurCosts))
	}
	if o.Costs == OurCosts && o.Method == policy.AutoShard {
		faults = append(faults, fmt.Errorf("costs %s: the cost net of method %s shares its weights with the policy, so nothing can take its place", OurCosts, policy.AutoShard))
	}
	rewards := []string{ByBalance, ByCost}
	if o.Method == policy.DreamShard {
		rewards = rewards[1:]
	}
	if o.Reward != "" && !slices.Contains(rewards, o.Reward) {
		faults = append(faults, fmt.Errorf("reward %q: choose %s", o.Reward, strings.Join(rewards, " or ")))
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{
		{"tasks", o.Count, MaxTasks},
		{"test tasks", o.TestCount, MaxTasks},
		{"iterations", o.Iterations, math.MaxInt},
		{"decisions", o.Decisions, MaxDecisions},
		{"workers", o.Workers, math.MaxInt},
	} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("%s: %d is negative", n.name, n.value))
		}
		if n.value > n.most {
			faults = append(faults, fmt.Errorf("%s: %d is above %d", n.name, n.value, n.most))
		}
	}
	if o.Tasks.Tables == 1 {
		faults = append(faults, errors.New("tables: 1 leaves nothing to learn: give at least 2"))
	}
	return errors.Join(append(faults, o.checkMeasure(), o.Tasks.check())...)
}

func (o *Options) checkMeasure() error {
	var faults []error
	if o.Costs == OurCosts && o.Measure != nil {
		faults = append(faults, fmt.Errorf("costs %s: the training measures no plan, so it needs no backend", OurCosts))
	}
	if stated := o.Source != "" && o.Profile != "" && o.Backend != ""; stated != (o.Measure != nil) {
		faults = append(faults, errors.New("measure: give the source, the profile and the backend of the times with it, and only with it"))
	}
	return errors.Join(faults...)
}

// train runs the loop of the method.
func (o *Options) train(ctx context.Context, tasks []problem.Problem) (*policy.Folder, error) {
	if o.Method == policy.AutoShard {
		f, _, err := trainAutoShard(ctx, o, tasks)
		return f, err
	}
	if o.Costs == OwnCosts {
		return trainDreamShard(ctx, o, tasks, nil)
	}
	prices := neuroshard.Pretrained()
	if err := Predictable(prices, &tasks[0]); err != nil {
		return nil, err
	}
	id, err := prices.Model(tasks[0].Topology)
	if err != nil {
		return nil, err
	}
	f, err := trainDreamShard(ctx, o, tasks, Predict(prices))
	if err == nil {
		f.Manifest.Card.Costs = id
	}
	return f, err
}

// describe states in a manifest what the policy was trained on.
func (o *Options) describe(m *policy.Manifest, task *problem.Problem) {
	m.Profile, m.Source, m.Backend = o.Profile, o.Source, o.Backend
	training, tests := Split(o.Tasks.Seed)
	c := &m.Card
	c.Seed, c.Tasks, c.Tables, c.Devices = o.Tasks.Seed, o.Count, o.Tasks.Tables, o.Tasks.Devices
	c.MaxDim, c.Batch, c.MemoryBytes = cmp.Or(o.Tasks.MaxDim, DefaultDim), task.Batch, int64(o.Tasks.Memory)
	c.TrainTables, c.TestTables = len(training), len(tests)
}

// Load returns the policy of a folder, for search.Options.Policy. Plans by the policy state the
// id of the folder. A policy that was trained with a cost model in the place of its cost net
// needs that model: Fits reports whether a problem has it.
func Load(f *policy.Folder) (search.Policy, error) {
	if f.Manifest.Method == policy.AutoShard {
		return autoshard.FromFolder(f)
	}
	net, err := dreamshard.Load(f)
	if err != nil {
		return nil, err
	}
	trained := dreamshard.NewPolicy(net, nil)
	if f.Manifest.Card.Costs != OwnCosts {
		trained = dreamshard.NewPolicy(net, Predict(neuroshard.Pretrained()))
	}
	return trained.Named(f.Manifest.ID), nil
}

// Fits reports why a policy cannot place the tables of a problem; nil if it can.
func Fits(m *policy.Manifest, p *problem.Problem) error {
	if m.Method == policy.AutoShard || m.Card.Costs == OwnCosts {
		return nil
	}
	prices := neuroshard.Pretrained()
	if err := Predictable(prices, p); err != nil {
		return err
	}
	id, err := prices.Model(p.Topology)
	if err == nil && id != m.Card.Costs {
		err = fmt.Errorf("the policy was trained with the cost model %q in the place of its cost net, and the one for this profile is %q: train another policy for it", m.Card.Costs, id)
	}
	return err
}

// Doubts returns what a policy was not trained for in a problem, one sentence each.
func Doubts(m *policy.Manifest, p *problem.Problem) []string {
	var doubts []string
	add := func(format string, args ...any) { doubts = append(doubts, fmt.Sprintf(format, args...)) }
	if name := p.Topology.Profile.Name; name != m.Profile {
		add("the policy was trained on plans of profile %q, and the devices are of profile %q", m.Profile, name)
	}
	if p.Batch != m.Card.Batch {
		add("the policy was trained at a batch of %d, and the batch is %d", m.Card.Batch, p.Batch)
	}
	widest := 0
	for i := range p.Tables {
		widest = max(widest, p.Tables[i].Dim)
	}
	if widest > m.Card.MaxDim {
		add("the policy was trained on tables of up to %d columns, and a table has %d", m.Card.MaxDim, widest)
	}
	return doubts
}
