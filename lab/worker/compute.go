package worker

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/worker/engine"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// learningRate is too small to change a weight in float32: every repeat uses the
// same numbers, and the update still does all its work.
const learningRate = 1e-12

// line is the number of float32 values in a cache line. Every window begins at a
// cache line.
const line = 16

// compute measures the fused forward and backward of one group.
func (s *server) compute(q *protocol.Request) (protocol.Response, error) {
	none := protocol.Response{}
	optimizer, members, err := s.checkGroup(q)
	if err != nil {
		return none, err
	}

	// The sizes are computed as float64 first, which cannot overflow. They need to be
	// exact only if they fit.
	var held, buffers, lookups float64
	for i, t := range members {
		dim := q.Group[i].Dim
		bags := float64(len(t.bags.Offsets) - 1)
		n := float64(len(t.bags.Indices))
		held += 4*float64(t.rows)*float64(dim) + float64(optimizer.StateBytes(t.rows, dim)) + 2*4*line
		lookups += n
		buffers += 2*4*bags*float64(dim) + lookupBytes*n + 8*bags
	}
	if lookups == 0 {
		return none, bad("a group without lookups takes no time")
	}
	if memory := float64(s.opt.Memory); held > memory {
		return none, outOfMemory("weights and state need %.0f bytes, %d are available", held, int64(s.opt.Memory))
	} else if buffers > memory/2 {
		return none, outOfMemory("outputs, gradients and the sort need about %.0f bytes, %d are available", buffers, int64(s.opt.Memory)/2)
	}
	s.makeRoom(unit.Bytes(held))
	s.buffers.Reset()
	if old := s.buffers.Bytes(); unit.Bytes(buffers) > old {
		// The old buffer is freed before the new one is allocated. The new one has twice
		// the size, so that growing groups do not replace it each time.
		s.buffers = new(engine.Arena)
		runtime.GC()
		s.buffers = engine.NewArena(max(unit.Bytes(buffers), min(2*old, s.opt.Memory/2)) + threadBytes*unit.Bytes(s.opt.Threads))
	}
	if q.Weighted && int(lookups) > len(s.perSample) {
		s.perSample = make([]float32, int(lookups))
		s.scatter(s.perSample)
	}

	op, err := engine.NewOp(s.shards(q, optimizer, members), engine.Options{
		Optimizer: optimizer, LearningRate: learningRate, Threads: s.opt.Threads, Arena: s.buffers,
	})
	if err != nil {
		return none, bad("%v", err)
	}
	defer op.Close()
	for i := range members {
		s.scatter(op.Gradient(i))
	}
	forward, backward, err := s.time(op)
	if err != nil {
		return none, err
	}
	r := protocol.Response{N: len(forward), Source: "measured"}
	r.ForwardMS, r.ForwardSpread = middle(forward)
	r.BackwardMS, r.BackwardSpread = middle(backward)
	return r, nil
}

// lookupBytes is about the size of an operation's buffers for each lookup: the
// pairs of row and bag, twice for the sort, and the counts of the sort.
const lookupBytes = 24

// threadBytes is about the size of the buffers for each thread.
const threadBytes = 64 * unit.KiB

// checkGroup returns the optimizer and the tables of a group.
func (s *server) checkGroup(q *protocol.Request) (problem.Optimizer, []*table, error) {
	if s.batch == 0 {
		return 0, nil, bad("compute before init")
	}
	optimizer, err := problem.ParseOptimizer(q.Opt)
	if err != nil {
		return 0, nil, bad("opt: %v", err)
	}
	precision, err := problem.ParsePrecision(q.DType)
	if err != nil {
		return 0, nil, bad("dtype: %v", err)
	}
	if precision != problem.FP32 {
		return 0, nil, unsupported("dtype %q: this worker has fp32 only", q.DType)
	}
	if len(q.Group) == 0 || len(q.Group) > maxGroup {
		return 0, nil, bad("group: %d members; it has 1 to %d", len(q.Group), maxGroup)
	}
	members := make([]*table, len(q.Group))
	for i, m := range q.Group {
		t := s.tables.known[m.T]
		if t == nil {
			return 0, nil, bad("group: table %d is not known since the last init", m.T)
		}
		if m.Dim < problem.ColumnGranule || m.Dim > problem.MaxDim || m.Dim%problem.ColumnGranule != 0 {
			return 0, nil, bad("group: dim %d of table %d is not a multiple of %d between %d and %d",
				m.Dim, m.T, problem.ColumnGranule, problem.ColumnGranule, problem.MaxDim)
		}
		if members[i] = t; t.batch != members[0].batch {
			return 0, nil, bad("group: table %d has a batch of %d samples and table %d one of %d",
				q.Group[0].T, members[0].batch, m.T, t.batch)
		}
	}
	return optimizer, members, nil
}

// shards divides the block of weights into the windows of the group.
func (s *server) shards(q *protocol.Request, optimizer problem.Optimizer, members []*table) []engine.Shard {
	rest := s.weights
	window := func(n int64) []float32 {
		w := rest[:n:n]
		rest = rest[(n+line-1)/line*line:]
		return w
	}
	perSample := s.perSample
	shards := make([]engine.Shard, len(members))
	for i, t := range members {
		dim := q.Group[i].Dim
		shards[i] = engine.Shard{
			Rows: t.rows, Dim: dim, Bags: t.bags,
			Weights: window(t.rows * int64(dim)),
			State:   window(optimizer.StateBytes(t.rows, dim) / 4),
		}
		if q.Weighted {
			n := len(t.bags.Indices)
			shards[i].PerSample, perSample = perSample[:n:n], perSample[n:]
		}
	}
	return shards
}

// makeRoom makes the block of weights hold at least size bytes, all of them filled.
// The buffers of the ranks count too.
func (s *server) makeRoom(size unit.Bytes) {
	if size <= unit.Bytes(4*len(s.weights)) {
		return
	}
	if size+unit.Bytes(len(s.ranks.memory)) > s.opt.Memory {
		s.ranks.memory = nil
	}
	// The block gets twice the old size, so that growing groups do not fill it each
	// time.
	grown := max(size, min(2*unit.Bytes(4*len(s.weights)), s.opt.Memory-unit.Bytes(len(s.ranks.memory))))
	s.weights = nil
	debug.FreeOSMemory()
	s.weights = engine.NewArena(grown).Floats(int64((grown + 3) / 4))
	s.scatter(s.weights)
}

// scatter fills numbers with the worker's values, repeated.
func (s *server) scatter(numbers []float32) {
	block := len(s.values)
	each(s.opt.Threads, (len(numbers)+block-1)/block, func(i int) { copy(numbers[i*block:], s.values) })
}

// values returns numbers from 1/2 to 1. They are all above zero, because each may
// later be a weight, a moment whose root is taken, or a sum of squares. None is
// near the denormal numbers, which are slow.
func values() []float32 {
	v := make([]float32, 1<<16)
	for i := range v {
		v[i] = math.Float32frombits(0x3f000000 | uint32(lookups.Mix(uint64(i)))>>9)
	}
	return v
}

// time runs the operation's warm-ups and repeats. Each is one training step: the
// caches are flushed before its forward, not between forward and backward.
func (s *server) time(op *engine.Op) (forward, backward []float64, err error) {
	forward, backward = make([]float64, 0, s.repeats), make([]float64, 0, s.repeats)
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for i := range s.warmup + s.repeats {
		if s.ctx.Err() != nil {
			return nil, nil, context.Cause(s.ctx)
		}
		s.flushCaches()
		start := s.clock()
		op.Forward()
		half := s.clock()
		op.Backward()
		end := s.clock()
		if i >= s.warmup {
			forward = append(forward, (half-start).Seconds()*1e3)
			backward = append(backward, (end-half).Seconds()*1e3)
		}
	}
	return forward, backward, nil
}

// clock returns the time of the clock that the options choose, from a fixed moment on.
func (s *server) clock() time.Duration {
	if s.opt.ProcessorTime {
		return processorTime()
	}
	return now()
}

// defaultFlush bounds the bytes that flush the caches if the request states none:
// the last-level caches of large servers are shared by many tenants, and writing
// four times their size would take longer than the measurement.
const defaultFlush = 256 * unit.MiB

// flushCaches writes to every line of the flush buffer. The system's own fill
// routine would bypass the caches.
func (s *server) flushCaches() {
	const lineWords, block = 8, 1 << 17
	each(s.opt.Threads, (len(s.flush)+block-1)/block, func(i int) {
		part := s.flush[i*block : min((i+1)*block, len(s.flush))]
		for j := 0; j < len(part); j += lineWords {
			part[j]++
		}
	})
}
