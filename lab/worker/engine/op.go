package engine

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
)

// Shard is one column slice in memory, with its lookups of one batch. All slices
// belong to the caller; Backward updates Weights and State.
type Shard struct {
	// Rows is the number of rows, from 1 to MaxRows, and Dim the number of columns, a
	// multiple of 4.
	Rows int64
	Dim  int
	// Weights holds Rows*Dim numbers, row by row. Lookups in large tables are fastest
	// if the weights are in an Arena's memory.
	Weights []float32
	// State is the optimizer's state: Optimizer.StateBytes(Rows, Dim) / 4 numbers.
	// Adam keeps the Dim first moments of a row and then its Dim second moments.
	State []float32
	// Bags holds the lookups. They must not change while the op is used, because they
	// are checked only once.
	Bags lookups.Bags
	// PerSample holds the weight of each lookup in a weighted op; otherwise it is nil.
	PerSample []float32
}

// MaxRows is the most rows of a shard, and MaxLookups the most lookups and the most
// bags of a shard: the sort packs row and bag into 64 bits.
const (
	MaxRows    = 1 << 32
	MaxLookups = 1<<32 - 1
)

// MaxThreads is the most threads of an op.
const MaxThreads = 1024

// Options state how an op updates and runs. The zero value is plain SGD on all
// processors.
type Options struct {
	Optimizer problem.Optimizer
	// LearningRate is the step; 0 means 0.01.
	LearningRate float32
	// Threads is the number of goroutines that share the work, including the caller's;
	// 0 means GOMAXPROCS. The result is the same for any number.
	Threads int
	// Arena supplies the op's buffers; nil means new memory. After the arena's Reset
	// the op must not be used.
	Arena *Arena
}

// The parameters of optimizers are those of FBGEMM's split table batched embeddings.
const (
	defaultRate = 0.01
	// epsilon keeps the divisors of Adagrad and Adam above zero; beta1 and beta2 are the decays of
	// Adam's moments.
	epsilon = float32(1e-8)
	beta1   = float32(0.9)
	beta2   = float32(0.999)
)

// Op is a group of shards that run as one fused operation. Only one goroutine at a
// time may use it.
type Op struct {
	shards []shard
	opt    Options
	arena  *Arena
	team   *team

	forward  forward
	backward backward
}

// shard is a Shard with its buffers.
type shard struct {
	Shard
	outputs, gradients []float32
	sorter             sorter
	bagOf              []uint32 // the bag of each lookup, in weighted shards
}

// NewOp checks the shards and prepares all buffers, so that Forward and Backward
// allocate nothing. The caller must close the op.
func NewOp(shards []Shard, opt Options) (*Op, error) {
	opt.LearningRate = cmp.Or(opt.LearningRate, defaultRate)
	opt.Threads = cmp.Or(opt.Threads, min(runtime.GOMAXPROCS(0), MaxThreads))
	if opt.Threads < 0 || opt.Threads > MaxThreads || opt.Optimizer > problem.Adam {
		return nil, fmt.Errorf("%d threads of %d, optimizer %v", opt.Threads, MaxThreads, opt.Optimizer)
	}
	for i := range shards {
		if err := shards[i].check(opt.Optimizer); err != nil {
			return nil, fmt.Errorf("shard %d: %w", i, err)
		}
	}
	o := &Op{shards: make([]shard, len(shards)), opt: opt, arena: opt.Arena}
	if o.arena == nil {
		o.arena = new(Arena)
	}
	for i, s := range shards {
		numbers := int64(s.bags()) * int64(s.Dim)
		o.shards[i] = shard{Shard: s, outputs: take[float32](o.arena, numbers), gradients: take[float32](o.arena, numbers)}
	}
	o.forward.plan(o.shards, o.opt.Threads)
	o.planBackward()
	o.team = newTeam(opt.Threads)
	return o, nil
}

// check returns the first fault of a shard.
func (s *Shard) check(o problem.Optimizer) error {
	switch {
	case s.Rows < 1 || s.Rows > MaxRows:
		return fmt.Errorf("rows %d: want 1 to %d", s.Rows, int64(MaxRows))
	case s.Dim < 4 || s.Dim%4 != 0 || s.Dim > problem.MaxDim:
		return fmt.Errorf("dim %d: want a multiple of 4 from 4 to %d", s.Dim, problem.MaxDim)
	case int64(len(s.Weights)) != s.Rows*int64(s.Dim):
		return fmt.Errorf("%d weights: want rows %d times dim %d", len(s.Weights), s.Rows, s.Dim)
	case int64(len(s.State)) != o.StateBytes(s.Rows, s.Dim)/4:
		return fmt.Errorf("%d numbers of state: %s wants %d", len(s.State), o, o.StateBytes(s.Rows, s.Dim)/4)
	case s.PerSample != nil && len(s.PerSample) != len(s.Bags.Indices):
		return fmt.Errorf("%d weights of lookups: want one for each of %d lookups", len(s.PerSample), len(s.Bags.Indices))
	case len(s.Bags.Indices) > MaxLookups || len(s.Bags.Offsets) > MaxLookups:
		return fmt.Errorf("%d lookups, %d offsets: want at most %d of each", len(s.Bags.Indices), len(s.Bags.Offsets), int64(MaxLookups))
	}
	return s.Bags.Check(s.Rows)
}

func (s *Shard) bags() int { return len(s.Bags.Offsets) - 1 }

// Forward sums the rows of every bag into its output, in the order of its lookups.
// The output of an empty bag is zero.
func (o *Op) Forward() { o.forward.run(o.team) }

// Output returns the pooled vectors of a shard after Forward: those of bag b begin
// at b*Dim. Before Forward they are undefined.
func (o *Op) Output(shard int) []float32 { return o.shards[shard].outputs }

// Gradient returns the gradients of a shard's pooled vectors, in the layout of
// Output. The caller fills them before Backward, which does not change them. Until
// then they are undefined.
func (o *Op) Gradient(shard int) []float32 { return o.shards[shard].gradients }

// Close ends the op's goroutines. The op must not run after it. A second Close does
// nothing.
func (o *Op) Close() {
	if o.team != nil {
		o.team.close()
		o.team = nil
	}
}
