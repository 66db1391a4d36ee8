package reinforce

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search/policy"
	"github.com/neuroshard/neuroshard/unit"
)

// The published training tasks of DreamShard: 50 tasks of 50 tables of 16 columns on 4 devices.
// A device has room for 5 GiB of fp16 weights there; here for the same weights in fp32.
const (
	DefaultTasks   = 50
	DefaultTables  = 50
	DefaultDevices = 4
	DefaultDim     = 16
	DefaultMemory  = 10 * unit.GiB
)

// Tasks says which tasks are drawn. The zero value of each number takes its default.
type Tasks struct {
	// Profile is the device of the tasks. Batch and precision are those of workload.Pool.
	Profile hardware.Profile
	// Tables is the number of tables of a task, Devices that of the devices, all on one host.
	Tables, Devices int
	// Memory is what a device has for weights; they alone are counted.
	Memory unit.Bytes
	// MaxDim, if above 0, draws each table's dim from the powers of two 4 up to MaxDim. By
	// default all dims are 16.
	MaxDim int
	// Seed seeds the tables and the draws.
	Seed uint64
}

func (t Tasks) withDefaults() Tasks {
	if t.Tables == 0 {
		t.Tables = DefaultTables
	}
	if t.Devices == 0 {
		t.Devices = DefaultDevices
	}
	if t.Memory == 0 {
		t.Memory = DefaultMemory
	}
	return t
}

// check reports all values that are out of range.
func (t Tasks) check() error {
	var faults []error
	if t.Tables < 1 || t.Tables > workloadTables/2 {
		faults = append(faults, fmt.Errorf("tables: %d is not between 1 and %d, half of the tables that tasks are drawn from", t.Tables, workloadTables/2))
	}
	if t.Devices < 1 || t.Devices > hardware.MaxDevices {
		faults = append(faults, fmt.Errorf("devices: %d is not between 1 and %d", t.Devices, hardware.MaxDevices))
	}
	if t.Memory < 1 {
		faults = append(faults, fmt.Errorf("memory: %v is not above 0", t.Memory))
	}
	if t.MaxDim != 0 && (t.MaxDim < 4 || t.MaxDim > problem.MaxDim || t.MaxDim&(t.MaxDim-1) != 0) {
		faults = append(faults, fmt.Errorf("largest dim: %d is not a power of two from 4 to %d", t.MaxDim, problem.MaxDim))
	}
	return errors.Join(faults...)
}

// workloadTables is the number of tables of workload.Pool.
const workloadTables = 856

// Split returns the tables of workload.Pool in halves: those of training tasks, and those of
// test tasks. The same seed gives the same tables.
func Split(seed uint64) (training, tests []problem.Table) {
	all := workload.Pool(seed)
	return all[:len(all)/2], all[len(all)/2:]
}

// maxDraws bounds how often a task is drawn again because its tables do not fit.
const maxDraws = 10_000

// Draw draws n tasks of the training tables, or of the test tables: different tables, uniformly,
// and a dim for each. A task is drawn again if its weights fill more than nine tenths
// of the devices' memory, or if one table fits on no device. Task i depends on the seed and i
// only.
func (t Tasks) Draw(tests bool, n int) ([]problem.Problem, error) {
	t = t.withDefaults()
	if err := t.check(); err != nil {
		return nil, err
	}
	tables, other := Split(t.Seed)
	stream := uint64(0x747261696e)
	if tests {
		tables, stream = other, 0x74657374
	}
	all := make([]problem.Problem, n)
	for i := range all {
		random := rand.New(rand.NewPCG(t.Seed, stream+uint64(i)<<40))
		drawn := 0
		for !t.draw(random, tables, &all[i]) {
			if drawn++; drawn == maxDraws {
				return nil, fmt.Errorf("tasks: none of %d draws of %d tables fits %d devices of %v: give them more memory, or draw fewer tables", maxDraws, t.Tables, t.Devices, t.Memory)
			}
		}
		if err := all[i].Validate(); err != nil {
			return nil, fmt.Errorf("tasks: %w", err)
		}
	}
	return all, nil
}

// draw draws one task, and reports whether it fits.
func (t Tasks) draw(random *rand.Rand, tables []problem.Table, to *problem.Problem) bool {
	*to = problem.Problem{
		Topology:   hardware.Topology{Profile: t.Profile, Devices: t.Devices, Memory: t.Memory, ReserveShare: hardware.NoReserve},
		Batch:      workload.PublishedLocality().Batch,
		Accounting: problem.CountWeights,
	}
	var bytes, largest unit.Bytes
	for i, at := range random.Perm(len(tables))[:t.Tables] {
		table := tables[at]
		table.Name = fmt.Sprintf("%s#%d", table.Name, i)
		if table.Dim = DefaultDim; t.MaxDim > 0 {
			dims := 1
			for d := 4; d < t.MaxDim; d *= 2 {
				dims++
			}
			table.Dim = 4 << random.IntN(dims)
		}
		to.Tables = append(to.Tables, table)
		one := to.ShardMemory(to.Whole(i))[problem.ForwardExchange].Used()
		bytes, largest = bytes+one, max(largest, one)
	}
	return largest <= t.Memory && bytes <= t.Memory/10*9*unit.Bytes(t.Devices)
}

// environment is a task as a training sees it: its pieces, and what places them.
type environment struct {
	problem *problem.Problem
	pieces  [][]problem.Shard
	tables  policy.Tables
}

// environments returns the environments of tasks. Each table is one piece.
func environments(tasks []problem.Problem) []environment {
	all := make([]environment, len(tasks))
	for i := range tasks {
		pieces := Pieces(&tasks[i])
		all[i] = environment{&tasks[i], pieces, policy.Describe(&tasks[i], pieces)}
	}
	return all
}

// measure returns the step times of a plan; held lists the pieces of each device.
func (e *environment) measure(o *Options, held [][]int32) (plan.Breakdown, error) {
	shards := make([][]problem.Shard, len(held))
	for d, pieces := range held {
		for _, piece := range pieces {
			shards[d] = append(shards[d], e.pieces[piece]...)
		}
	}
	b, err := o.Measure(e.problem, shards)
	if err != nil {
		return b, fmt.Errorf("%s training: measure a plan: %w", o.Method, err)
	}
	return b, nil
}

// Pieces returns the tables of a task, each as one piece.
func Pieces(p *problem.Problem) [][]problem.Shard {
	pieces := make([][]problem.Shard, len(p.Tables))
	for i := range pieces {
		pieces[i] = []problem.Shard{p.Whole(i)}
	}
	return pieces
}
