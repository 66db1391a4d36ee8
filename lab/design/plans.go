package design

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// plans.go adds groups like those that a search prefers, which random draws miss:
// it draws planning tasks over a dataset's tables, plans them, and appends the
// group of each device of the plans.
//
// A search exploits the errors of its model where no sample corrects them. Random
// draws rarely resemble the groups of a finished plan: slices of some tables,
// balanced against those of other devices.

// TaskOptions configure the tasks. The zero value works.
type TaskOptions struct {
	// Domain gives the batches, optimizers, precisions, numbers of devices and the
	// largest dim of the tasks, and the limits on groups: groups beyond MaxBytes or
	// MaxLookupBytes are left out. Its bounds on shards, rows and pooling factors and
	// its tables are not used.
	Domain Domain
	// Tasks is the number of tasks (default 40): eight tenths over the training
	// tables, and a tenth each over those for validation and test. With less than 10
	// tasks, there is none for test.
	Tasks int
	// MinTables and MaxTables bound the tables of a task (default 10 and 60, as in
	// the NeuroShard paper).
	MinTables, MaxTables int
	// Memory is the memory of each device; 0 means the profile's.
	Memory unit.Bytes
	// Methods plan each task: by default search.Default if there is a model, and
	// otherwise the baselines, which use no costs. Without a model, other methods plan
	// with a crude estimate: the bytes that are looked up and exchanged.
	Methods []search.Method
	// Neighbours is the number of other plans for each plan, made by moving up to 12
	// shards. Their groups are added too.
	Neighbours int
	Seed       uint64
	// Workers is the number of tasks planned at a time (default: all processors).
	// It does not change the result.
	Workers int
}

// The defaults of TaskOptions.
const (
	DefaultTasks     = 40
	DefaultMinTables = 10
	DefaultMaxTables = 60
	// mostMoves is the most shards that move from a plan to a neighbour.
	mostMoves = 12
)

func (o TaskOptions) withDefaults(model *cost.Model) TaskOptions {
	if o.Tasks == 0 {
		o.Tasks = DefaultTasks
	}
	if o.MinTables == 0 {
		o.MinTables = DefaultMinTables
	}
	if o.MaxTables == 0 {
		o.MaxTables = max(DefaultMaxTables, o.MinTables)
	}
	if len(o.Methods) == 0 {
		o.Methods = search.Baselines()
		if model != nil {
			o.Methods = []search.Method{search.Default}
		}
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	o.Domain = o.Domain.WithDefaults()
	return o
}

// check returns all faults of the options, after their defaults are set, and of the
// profile.
func (o TaskOptions) check(hw hardware.Profile) error {
	faults := append(hw.Problems(), o.Domain.Problems()...)
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if o.Tasks < 0 {
		add("tasks: %d is negative", o.Tasks)
	}
	if o.MinTables < 1 || o.MaxTables < o.MinTables {
		add("tables: %d to %d is not a range of at least 1", o.MinTables, o.MaxTables)
	}
	if o.Memory < 0 {
		add("memory: %d bytes are negative", int64(o.Memory))
	}
	if o.Neighbours < 0 {
		add("neighbours: %d is negative", o.Neighbours)
	}
	for _, m := range o.Methods {
		if !slices.Contains(search.Untrained(), m) {
			add("method %q is unknown, or needs a policy: choose of %q", m, search.Untrained())
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("the tasks are not valid:\n%s", strings.Join(faults, "\n"))
	}
	return nil
}

// Added counts the groups that were added and those that were not.
type Added struct {
	// Groups is the number of samples that were added, Plans the number of their
	// plans, and Tasks the number of tasks.
	Groups, Plans, Tasks int
	// TooLarge is the number of groups beyond the domain's limits, and Duplicates the
	// number of groups that the same task already had. NoPlan counts the pairs of task
	// and method without a plan that fits.
	TooLarge, Duplicates, NoPlan int
}

// add adds the counts of b to a.
func (a *Added) add(b Added) {
	a.Groups += b.Groups
	a.Plans += b.Plans
	a.Tasks += b.Tasks
	a.TooLarge += b.TooLarge
	a.Duplicates += b.Duplicates
	a.NoPlan += b.NoPlan
}

// AddPlanned appends the device groups of plans to the set's samples, without times
// and with the ids that follow. This package must have drawn the set, because all
// tables of a task come from one split. The tasks are for devices of the profile.
// The model may be nil; otherwise it must be of the profile. An error, which may be
// the context's, leaves the set unchanged.
func AddPlanned(ctx context.Context, set *dataset.Compute, hw hardware.Profile, model *cost.Model, opt TaskOptions) (Added, error) {
	opt = opt.withDefaults(model)
	if err := opt.check(hw); err != nil {
		return Added{}, err
	}
	if err := checkSplits(set); err != nil {
		return Added{}, err
	}
	if model != nil {
		if err := model.FitsProfile(hardware.Topology{Profile: hw, Devices: 1}); err != nil {
			return Added{}, err
		}
	}
	planner := planner{set: set, hw: hw, model: model, opt: opt}
	results := make([]planned, opt.Tasks)
	next := make(chan int)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	for range min(opt.Workers, opt.Tasks) {
		workers.Go(func() {
			for i := range next {
				if results[i].err = planner.task(ctx, i, &results[i]); results[i].err != nil {
					cancel()
				}
			}
		})
	}
	for i := 0; i < opt.Tasks && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	workers.Wait()
	return gather(ctx, set, results)
}

// gather appends the results in the order of the tasks.
func gather(ctx context.Context, set *dataset.Compute, results []planned) (Added, error) {
	// An error of one task cancels the others: its error is returned, not theirs.
	err := ctx.Err()
	for i := range results {
		if e := results[i].err; e != nil && !errors.Is(e, context.Canceled) {
			return Added{}, fmt.Errorf("task %d: %w", i, e)
		}
	}
	if err != nil {
		return Added{}, err
	}
	var all Added
	id := 0
	for i := range set.Samples {
		id = max(id, set.Samples[i].ID+1)
	}
	// The samples may share their array with another set.
	set.Samples = slices.Clip(set.Samples)
	for i := range results {
		all.add(results[i].added)
		for _, g := range results[i].groups {
			g.ID = id
			id++
			set.Samples = append(set.Samples, g)
		}
	}
	return all, nil
}

// checkSplits returns an error if a sample is not drawn over the tables that this
// package gives to its split.
func checkSplits(set *dataset.Compute) error {
	for i := range set.Samples {
		g := &set.Samples[i]
		first, end := TablesOf(g.Split, len(set.Tables))
		for _, m := range g.Members {
			if int(m.Table) < first || int(m.Table) >= end {
				return fmt.Errorf("sample %d: table %d is not among the %d to %d of its split: the dataset was not drawn by this program", i, m.Table, first, end-1)
			}
		}
	}
	for _, split := range []dataset.Split{dataset.Train, dataset.Validation, dataset.Test} {
		if first, end := TablesOf(split, len(set.Tables)); first == end {
			return fmt.Errorf("%d tables are too few: each split needs one of its own", len(set.Tables))
		}
	}
	return nil
}

// planner plans tasks, each independently.
type planner struct {
	set   *dataset.Compute
	hw    hardware.Profile
	model *cost.Model
	opt   TaskOptions
}

// planned holds the results of one task.
type planned struct {
	groups []dataset.Group
	added  Added
	err    error
}

// seedStream separates the random numbers of tasks from the others of this package.
const seedStream = 0x70726566 << 32

// task draws task i, plans it and collects the groups of the plans.
func (l *planner) task(ctx context.Context, i int, out *planned) error {
	draw := rand.New(rand.NewPCG(l.opt.Seed, seedStream+uint64(i)))
	split := SplitOf(i)
	p, from := l.draw(draw, split)
	if p == nil {
		out.added.NoPlan += len(l.opt.Methods)
		return nil
	}
	if err := p.Validate(); err != nil {
		return err
	}
	c := collector{planner: l, problem: p, from: from, split: split, seen: map[string]bool{}, out: out}
	out.added.Tasks++
	for _, method := range l.opt.Methods {
		found, err := neuroshard.Plan(ctx, p, neuroshard.Options{
			Prices: l.prices(),
			Search: search.Options{Method: method, Seed: l.opt.Seed + uint64(i), Workers: 1, Brief: true, ShardingTypes: search.Columns()},
		})
		var infeasible *search.Infeasible
		if errors.As(err, &infeasible) {
			out.added.NoPlan++
			continue
		}
		if err == nil {
			err = ctx.Err() // a search that ctx ended gives another plan each time
		}
		if err != nil {
			return err
		}
		out.added.Plans++
		c.add(found.Shards)
		for range l.opt.Neighbours {
			c.add(Disturb(draw, found.Shards, 1+draw.IntN(mostMoves)))
		}
	}
	return nil
}

// weightsShare is the largest share of the devices' memory for a task's tables:
// plans need room for alternatives.
const weightsShare = .7

// dimTries is the most draws of a task's tables until they fit.
const dimTries = 20

// draw draws a task over a split's tables: MinTables to MaxTables of them, with
// replacement, each with a dim of a power of two, as in the NeuroShard paper. from[i]
// is the number of the task's table i in the set. The problem is nil if no table of the
// split fits.
func (l *planner) draw(draw *rand.Rand, split dataset.Split) (p *problem.Problem, from []int) {
	d := &l.opt.Domain
	op := problem.Operation{
		Batch:     d.Batches[draw.IntN(len(d.Batches))],
		Optimizer: d.Optimizers[draw.IntN(len(d.Optimizers))],
		Precision: d.Precisions[draw.IntN(len(d.Precisions))],
	}
	p = &problem.Problem{
		Batch:    op.Batch,
		Topology: hardware.Topology{Profile: l.hw, Devices: d.Devices[draw.IntN(len(d.Devices))], Memory: l.opt.Memory, ReserveShare: hardware.NoReserve},
	}
	usable := l.usable(split, op, p.Topology.DeviceMemory(0))
	if len(usable) == 0 {
		return nil, nil
	}
	count := l.opt.MinTables + draw.IntN(l.opt.MaxTables-l.opt.MinTables+1)
	room := weightsShare * float64(p.Topology.DeviceMemory(0)) * float64(p.Topology.Devices)
	powers := 1
	for problem.ColumnGranule<<powers <= d.MaxDim {
		powers++
	}
	for try := 1; ; try++ {
		p.Tables, from = nil, nil
		taken := 0.0
		for len(from) < count {
			t := usable[draw.IntN(len(usable))]
			dim := problem.ColumnGranule << draw.IntN(powers)
			bytes := float64(sliceBytes(l.set.Tables, op, t, dim))
			if taken+bytes > room && try == dimTries && len(from) > 0 {
				break // the task has fewer tables
			}
			taken += bytes
			p.Tables = append(p.Tables, taskTable(&l.set.Tables[t], len(from), dim, op, draw.Float64() < d.WeightedShare))
			from = append(from, t)
		}
		if taken <= room || try == dimTries {
			return p, from
		}
	}
}

// usable returns the tables of a split with a slice that can be measured. Of random
// tables it returns those that are Counted at the operation's batch, if there are
// any.
func (l *planner) usable(split dataset.Split, op problem.Operation, memory unit.Bytes) []int {
	var all, counted []int
	first, end := TablesOf(split, len(l.set.Tables))
	for i := first; i < end; i++ {
		one := dataset.Group{Operation: op, Members: []dataset.Member{{Table: int32(i), Dim: problem.ColumnGranule}}}
		if l.set.Tables[i].PoolingFactor()*float64(op.Batch) >= 1 && l.opt.Domain.Allows(l.set.Tables, &one) && GroupBytes(l.set.Tables, &one) < memory {
			all = append(all, i)
			if Counted(&l.set.Tables[i], op.Batch) {
				counted = append(counted, i)
			}
		}
	}
	if len(l.opt.Domain.Tables) == 0 && len(counted) > 0 {
		return counted
	}
	return all
}

func sliceBytes(tables []problem.Table, op problem.Operation, table, dim int) unit.Bytes {
	return GroupBytes(tables, &dataset.Group{Operation: op, Members: []dataset.Member{{Table: int32(table), Dim: int32(dim)}}})
}

// taskTable returns a table of a set as table number i of a task.
func taskTable(t *problem.Table, i, dim int, op problem.Operation, weighted bool) problem.Table {
	drawn := *t
	drawn.Name = fmt.Sprintf("%s#%d", t.Name, i)
	drawn.Dim, drawn.Optimizer, drawn.Precision, drawn.Weighted = dim, op.Optimizer, op.Precision, weighted
	drawn.Constraint = problem.Constraint{}
	return drawn
}

// prices returns the scorers that estimate the costs of a task's plans.
func (l *planner) prices() neuroshard.Prices {
	if l.model == nil {
		return crude{}
	}
	return neuroshard.Trained(l.model, 0)
}

// Disturb returns a placement, shards by device, after the given number of random
// moves. A move takes a random shard of a random device to another random device,
// and does nothing if the first device has no shard. Disturb does not change the
// given placement.
func Disturb(draw *rand.Rand, shards [][]problem.Shard, moves int) [][]problem.Shard {
	out := make([][]problem.Shard, len(shards))
	for d, held := range shards {
		out[d] = slices.Clone(held)
	}
	for range moves {
		from, to := draw.IntN(len(out)), draw.IntN(len(out))
		if len(out[from]) == 0 {
			continue
		}
		i := draw.IntN(len(out[from]))
		s := out[from][i]
		out[from] = slices.Delete(out[from], i, i+1)
		out[to] = append(out[to], s)
	}
	return out
}

// collector turns the plans of one task into groups.
type collector struct {
	*planner
	problem *problem.Problem
	from    []int
	split   dataset.Split
	seen    map[string]bool
	out     *planned
}

func (c *collector) add(shards [][]problem.Shard) {
	for _, held := range shards {
		// The operators that are not weighted come first, as the operations of a task differ
		// only in weighting.
		var keys [2][]problem.OperatorKey
		fused := map[problem.OperatorKey]*dataset.Group{}
		for _, s := range held {
			key := c.problem.OperatorKey(s.Table, s.Dim(), c.problem.Form(s))
			if fused[key] == nil {
				fused[key] = &dataset.Group{Split: c.split, Operation: key.Operation}
				at := 0
				if key.Operation.Weighted {
					at = 1
				}
				keys[at] = append(keys[at], key)
			}
			fused[key].Members = append(fused[key].Members, dataset.Member{Table: int32(c.from[s.Table]), Dim: int32(s.Dim())})
		}
		for _, key := range slices.Concat(keys[:]...) {
			c.group(*fused[key])
		}
	}
}

func (c *collector) group(g dataset.Group) {
	slices.SortFunc(g.Members, func(a, b dataset.Member) int {
		if a.Table != b.Table {
			return int(a.Table - b.Table)
		}
		return int(a.Dim - b.Dim)
	})
	key := fmt.Sprint(g.Operation.Weighted, g.Members)
	switch {
	case c.seen[key]:
		c.out.added.Duplicates++
		return
	case !c.opt.Domain.Allows(c.set.Tables, &g):
		c.out.added.TooLarge++
	default:
		c.out.added.Groups++
		c.out.groups = append(c.out.groups, g)
	}
	c.seen[key] = true
}
