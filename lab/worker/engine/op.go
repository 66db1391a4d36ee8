package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
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
	// Epsilon keeps the divisors of Adagrad and Adam above zero; 0 means 1e-8.
	Epsilon float32
	// Beta1 and Beta2 are the decays of Adam's moments; 0 means 0.9 and 0.999.
	Beta1, Beta2 float32
	// Threads is the number of goroutines that share the work, including the caller's;
	// 0 means GOMAXPROCS. The result is the same for any number.
	Threads int
	// Arena supplies the op's buffers; nil means new memory. After the arena's Reset
	// the op must not be used.
	Arena *Arena
}

// These are the defaults of Options: those of FBGEMM's split table batched
// embeddings.
const (
	defaultRate    = 0.01
	defaultEpsilon = 1e-8
	defaultBeta1   = 0.9
	defaultBeta2   = 0.999
)

// Op is a group of shards that run as one fused operation. Only one goroutine at a
// time may use it.
type Op struct {
	shards []shard
	opt    Options
	arena  *Arena
	bytes  unit.Bytes
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
// allocate nothing. If the shards have faults, the error lists all of them and the
// op is nil. The caller must close the op.
func NewOp(shards []Shard, opt Options) (*Op, error) {
	if err := check(shards, &opt); err != nil {
		return nil, err
	}
	o := &Op{shards: make([]shard, len(shards)), opt: opt, arena: opt.Arena}
	if o.arena == nil {
		o.arena = new(Arena)
	}
	before := o.arena.Used()
	for i, s := range shards {
		numbers := int64(s.bags()) * int64(s.Dim)
		o.shards[i] = shard{Shard: s, outputs: take[float32](o.arena, numbers), gradients: take[float32](o.arena, numbers)}
	}
	o.forward.plan(o.shards, o.opt.Threads)
	o.planBackward()
	o.bytes = o.arena.Used() - before
	o.team = newTeam(opt.Threads)
	return o, nil
}

// check returns the faults of the shards and the options, and fills in the defaults
// of the options.
func check(shards []Shard, opt *Options) error {
	var errs []error
	if opt.Threads < 0 || opt.Threads > MaxThreads {
		errs = append(errs, fmt.Errorf("threads %d: want 1 to %d, or 0 for all processors", opt.Threads, MaxThreads))
	}
	if opt.Threads == 0 {
		opt.Threads = min(runtime.GOMAXPROCS(0), MaxThreads)
	}
	if opt.Optimizer > problem.Adam {
		errs = append(errs, fmt.Errorf("optimizer %d is unknown", opt.Optimizer))
	}
	for _, v := range []struct {
		name         string
		value        *float32
		most, preset float32
	}{
		{"learning rate", &opt.LearningRate, math.MaxFloat32, defaultRate},
		{"epsilon", &opt.Epsilon, math.MaxFloat32, defaultEpsilon},
		{"beta1", &opt.Beta1, math.Nextafter32(1, 0), defaultBeta1},
		{"beta2", &opt.Beta2, math.Nextafter32(1, 0), defaultBeta2},
	} {
		if *v.value == 0 {
			*v.value = v.preset
		}
		if !(*v.value > 0 && *v.value <= v.most) {
			errs = append(errs, fmt.Errorf("%s %v: want a number above 0 and at most %v", v.name, *v.value, v.most))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...) // the shards' states depend on the optimizer
	}
	for i := range shards {
		for _, problem := range shards[i].problems(opt.Optimizer) {
			errs = append(errs, fmt.Errorf("shard %d: %s", i, problem))
		}
	}
	return errors.Join(errs...)
}

// problems lists the faults of a shard.
func (s *Shard) problems(o problem.Optimizer) (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if s.Rows < 1 || s.Rows > MaxRows {
		add("rows %d: want 1 to %d", s.Rows, int64(MaxRows))
	}
	if s.Dim < 4 || s.Dim%4 != 0 || s.Dim > problem.MaxDim {
		add("dim %d: want a multiple of 4 from 4 to %d", s.Dim, problem.MaxDim)
	}
	if len(found) > 0 {
		return found // the checks below need valid sizes
	}
	if want := s.Rows * int64(s.Dim); int64(len(s.Weights)) != want {
		add("%d weights: want rows %d times dim %d, %d", len(s.Weights), s.Rows, s.Dim, want)
	}
	if want := o.StateBytes(s.Rows, s.Dim) / 4; int64(len(s.State)) != want {
		add("%d numbers of state: %s wants %d", len(s.State), o, want)
	}
	if s.PerSample != nil && len(s.PerSample) != len(s.Bags.Indices) {
		add("%d weights of lookups: want one for each of %d lookups", len(s.PerSample), len(s.Bags.Indices))
	}
	if len(s.Bags.Indices) > MaxLookups || len(s.Bags.Offsets) > MaxLookups {
		add("%d lookups, %d offsets: want at most %d of each", len(s.Bags.Indices), len(s.Bags.Offsets), int64(MaxLookups))
	}
	return append(found, s.bagProblems()...)
}

// bagProblems lists the faults of the lookups of a shard whose rows are valid.
func (s *Shard) bagProblems() (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if len(s.Bags.Offsets) == 0 {
		add("no offsets: want one more than there are bags")
		return found
	}
	if first := s.Bags.Offsets[0]; first != 0 {
		add("offset 0 is %d: want 0", first)
	}
	for b := range s.bags() {
		if lo, hi := s.Bags.Offsets[b], s.Bags.Offsets[b+1]; hi < lo {
			add("offset %d is %d, below %d before it", b+1, hi, lo)
			break
		}
	}
	if last := s.Bags.Offsets[s.bags()]; last != int64(len(s.Bags.Indices)) {
		add("the last offset is %d: want the number of lookups, %d", last, len(s.Bags.Indices))
	}
	for i, row := range s.Bags.Indices {
		if row < 0 || row >= s.Rows {
			add("index %d is row %d: want 0 to %d", i, row, s.Rows-1)
			break
		}
	}
	return found
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

// Bytes returns the size of the op's buffers: outputs, gradients, and the buffers
// of the backward, without the shards.
func (o *Op) Bytes() unit.Bytes { return o.bytes }

// Close ends the op's goroutines. The op must not run after it. A second Close does
// nothing.
func (o *Op) Close() {
	if o.team != nil {
		o.team.close()
		o.team = nil
	}
}
