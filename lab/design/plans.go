package design

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// plans.go draws groups like those that a search prefers, which random draws miss:
// it draws planning tasks over a dataset's tables, plans them, and returns the
// group of each device of the plans.
//
// A search exploits the errors of its model where no sample corrects them. Random
// draws rarely resemble the groups of a finished plan: slices of some tables,
// balanced against those of other devices.

// The tasks have 10 to 60 tables, as in the NeuroShard paper.
const (
	fewestTables = 10
	mostTables   = 60
)

// planner plans tasks, each independently. The domain gives the batches, optimizers,
// precisions, numbers of devices and the largest dim of the tasks, and the limits on groups:
// groups beyond MaxBytes or MaxLookupBytes are left out.
type planner struct {
	set    *dataset.Compute
	domain Domain
	hw     hardware.Profile
	// model makes the plans by the default method; nil leaves them to the baselines, which need
	// no costs.
	model *cost.Model
	seed  uint64
}

// groups returns the groups of the plans of all tasks, in their order: eight tenths of the tasks are
// over the training tables, and a tenth each over those for validation and test. With less than 10
// tasks, there is none for test.
func (l *planner) groups(ctx context.Context, tasks int) ([]dataset.Group, error) {
	results := make([][]dataset.Group, tasks)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range tasks {
		group.Go(func() (err error) {
			if results[i], err = l.task(ctx, i); err != nil {
				return fmt.Errorf("task %d: %w", i, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(results...), nil
}

// seedStream separates the random numbers of tasks from the others of this package.
const seedStream = 0x70726566 << 32

// task draws task i, plans it and returns the groups of the plans.
func (l *planner) task(ctx context.Context, i int) ([]dataset.Group, error) {
	draw := rand.New(rand.NewPCG(l.seed, seedStream+uint64(i)))
	split := SplitOf(i)
	p, from := l.draw(draw, split)
	if p == nil {
		return nil, nil
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	prices, methods := neuroshard.TorchRec(), search.Baselines()
	if l.model != nil {
		prices, methods = neuroshard.Trained(l.model, 0), []search.Method{search.Default}
	}
	c := collector{planner: l, problem: p, from: from, split: split, seen: map[string]bool{}}
	for _, method := range methods {
		found, err := neuroshard.Plan(ctx, p, neuroshard.Options{
			Prices: prices,
			Search: search.Options{Method: method, Seed: l.seed + uint64(i), Workers: 1, Brief: true, ShardingTypes: search.Columns()},
		})
		var infeasible *search.Infeasible
		if errors.As(err, &infeasible) {
			continue
		}
		if err == nil {
			err = ctx.Err() // a search that ctx ended gives another plan each time
		}
		if err != nil {
			return nil, err
		}
		c.add(found.Shards)
	}
	return c.groups, nil
}

// weightsShare is the largest share of the devices' memory for a task's tables:
// plans need room for alternatives.
const weightsShare = .7

// dimTries is the most draws of a task's tables until they fit.
const dimTries = 20

// draw draws a task over a split's tables: fewestTables to mostTables of them, with
// replacement, each with a dim of a power of two, as in the NeuroShard paper. from[i]
// is the number of the task's table i in the set. The problem is nil if no table of the
// split fits.
func (l *planner) draw(draw *rand.Rand, split dataset.Split) (p *problem.Problem, from []int) {
	d := &l.domain
	op := problem.Operation{
		Batch:     d.Batches[draw.IntN(len(d.Batches))],
		Optimizer: d.Optimizers[draw.IntN(len(d.Optimizers))],
		Precision: d.Precisions[draw.IntN(len(d.Precisions))],
	}
	p = &problem.Problem{
		Batch:    op.Batch,
		Topology: hardware.Topology{Profile: l.hw, Devices: d.Devices[draw.IntN(len(d.Devices))], Memory: l.domain.MaxBytes, ReserveShare: hardware.NoReserve},
	}
	usable := l.usable(split, op, p.Topology.DeviceMemory(0))
	if len(usable) == 0 {
		return nil, nil
	}
	count := fewestTables + draw.IntN(mostTables-fewestTables+1)
	room := weightsShare * float64(p.Topology.DeviceMemory(0)) * float64(p.Topology.Devices)
	powers := bits.Len(uint(d.MaxDim / problem.ColumnGranule))
	for try := 1; ; try++ {
		p.Tables, from = nil, nil
		taken := 0.0
		for len(from) < count {
			t := usable[draw.IntN(len(usable))]
			dim := problem.ColumnGranule << draw.IntN(powers)
			bytes := bytesOf(&l.set.Tables[t], op, int64(dim))
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
		t := &l.set.Tables[i]
		if t.PoolingFactor()*float64(op.Batch) >= 1 && l.domain.weight(t, op, problem.ColumnGranule) <= 1 && bytesOf(t, op, problem.ColumnGranule) < float64(memory) {
			all = append(all, i)
			if Counted(t, op.Batch) {
				counted = append(counted, i)
			}
		}
	}
	if len(l.domain.Tables) == 0 && len(counted) > 0 {
		return counted
	}
	return all
}

// taskTable returns a table of a set as table number i of a task.
func taskTable(t *problem.Table, i, dim int, op problem.Operation, weighted bool) problem.Table {
	drawn := *t
	drawn.Name = fmt.Sprintf("%s#%d", t.Name, i)
	drawn.Dim, drawn.Optimizer, drawn.Precision, drawn.Weighted = dim, op.Optimizer, op.Precision, weighted
	drawn.Constraint = problem.Constraint{}
	return drawn
}

// collector turns the plans of one task into groups.
type collector struct {
	*planner
	problem *problem.Problem
	from    []int
	split   dataset.Split
	seen    map[string]bool
	groups  []dataset.Group
}

func (c *collector) add(shards [][]problem.Shard) {
	for _, held := range shards {
		var keys []problem.OperatorKey
		fused := map[problem.OperatorKey]*dataset.Group{}
		for _, s := range held {
			key := c.problem.OperatorKey(s.Table, s.Dim(), c.problem.Form(s))
			if fused[key] == nil {
				fused[key] = &dataset.Group{Split: c.split, Operation: key.Operation}
				keys = append(keys, key)
			}
			fused[key].Members = append(fused[key].Members, dataset.Member{Table: int32(c.from[s.Table]), Dim: int32(s.Dim())})
		}
		// The operations of a task differ only in weighting.
		slices.SortStableFunc(keys, func(a, b problem.OperatorKey) int {
			return cmp.Compare(strconv.FormatBool(a.Operation.Weighted), strconv.FormatBool(b.Operation.Weighted))
		})
		for _, key := range keys {
			c.group(*fused[key])
		}
	}
}

func (c *collector) group(g dataset.Group) {
	slices.SortFunc(g.Members, func(a, b dataset.Member) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Dim, b.Dim))
	})
	key := fmt.Sprint(g.Operation.Weighted, g.Members)
	if !c.seen[key] && c.domain.Allows(c.set.Tables, &g) {
		c.groups = append(c.groups, g)
	}
	c.seen[key] = true
}
