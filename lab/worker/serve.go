package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/worker/engine"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Options limit what a worker may use. The zero value works.
type Options struct {
	// Threads is the number of CPU threads of one device, at most engine.MaxThreads; 0
	// means GOMAXPROCS.
	Threads int
	// ProcessorTime says to take the processor time of the process instead of the time that
	// passes, so that other load on the machine counts only where it slows the processor or its
	// caches. It needs one thread. The time of an all-to-all is then the wait for the rank that
	// starts last and the processor time of the rank; no rank waits in fact.
	ProcessorTime bool
	// Memory is the most memory for the weights and the state of one group, and for
	// the buffers of one all-to-all over all ranks; 0 means half of the machine's
	// memory. An operation's own buffers may take half of Memory in addition.
	Memory unit.Bytes
	// IndexMemory is the most memory for the lookups of all tables since the last
	// init; 0 means an eighth of the machine's memory.
	IndexMemory unit.Bytes
}

// maxRanks is the most ranks of an all-to-all.
const maxRanks = 16

// These are the limits of requests, in addition to those of package problem: a
// larger value is a mistake, and must not cause an allocation.
const (
	maxRepeats = 10_000
	maxGroup   = 1 << 14
	maxDimSum  = 1 << 20
	maxStartMS = 60_000
	maxFlush   = 16 * unit.GiB
)

// Serve answers the requests on in, with one line each on out, until in or ctx ends. A wrong request
// gets an error response. The error of Serve is that of reading or writing, protocol.ErrLong, or that of
// ctx. While Serve measures, the garbage collector is off, so the process should do nothing else.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opt Options) error {
	if opt.ProcessorTime && (!hasProcessorTime || opt.Threads != 1) {
		return errors.New("processor time needs Linux and one thread")
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newServer(inner, opt)
	defer s.ranks.close()

	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() { ended <- readLines(inner, in, lines) }()
	for {
		select {
		case line := <-lines:
			response := s.answer(line)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := protocol.Write(out, response)
			if _, unsaid := errors.AsType[*json.UnsupportedValueError](err); unsaid {
				err = protocol.Write(out, failure(response.ID, &protocol.Error{Code: protocol.CodeInternal, Message: err.Error()}))
			}
			if err != nil {
				return err
			}
		case err := <-ended:
			if errors.Is(err, protocol.ErrLong) {
				// An error does not matter: the conversation has ended.
				_ = protocol.Write(out, failure("", bad("%v", err)))
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// server is the state of a worker between two requests.
type server struct {
	ctx     context.Context
	opt     Options
	machine machine
	ranks   ranks

	// These fields come from init; batch is 0 before it.
	batch, warmup, repeats int
	flush                  []uint64 // empty for warm caches

	tables tables

	// weights is the block of memory for the windows of weights and state. Every
	// number in it is always above zero.
	weights   []float32
	buffers   *engine.Arena
	perSample []float32
	// values holds the numbers that scatter writes.
	values []float32
}

func newServer(ctx context.Context, opt Options) *server {
	s := &server{ctx: ctx, opt: opt, machine: describe(os.DirFS("/")), buffers: new(engine.Arena), values: values()}
	if s.opt.Threads <= 0 {
		s.opt.Threads = runtime.GOMAXPROCS(0)
	}
	s.opt.Threads = min(s.opt.Threads, engine.MaxThreads)
	if s.opt.Memory <= 0 {
		s.opt.Memory = s.machine.memory / 2
	}
	if s.opt.IndexMemory <= 0 {
		s.opt.IndexMemory = s.machine.memory / 8
	}
	s.ranks = ranks{ctx: ctx, processorTime: opt.ProcessorTime}
	return s
}

// answer returns the response to one line.
func (s *server) answer(line []byte) protocol.Response {
	var q protocol.Request
	if err := json.Unmarshal(line, &q); err != nil {
		// The id is known even if another field has a wrong type.
		return failure(q.ID, bad("%v", err))
	}
	response, err := s.serve(&q)
	if err != nil {
		return failure(q.ID, err)
	}
	response.Op, response.ID = q.Op, q.ID
	return response
}

func (s *server) serve(q *protocol.Request) (protocol.Response, error) {
	switch q.Op {
	case protocol.OpHello:
		return s.hello(q)
	case protocol.OpInit:
		return s.init(q)
	case protocol.OpTables:
		return s.tables.add(q)
	case protocol.OpCompute:
		return s.compute(q)
	case protocol.OpComm:
		return s.comm(q)
	case protocol.OpCeilings:
		return ceilings(&s.opt, &s.machine, &s.ranks)
	}
	return protocol.Response{}, bad("op %q is unknown", q.Op)
}

// failure returns the error response. An error that is not a *protocol.Error is the
// worker's fault.
func failure(id string, err error) protocol.Response {
	said, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		said = &protocol.Error{Code: protocol.CodeInternal, Message: err.Error()}
	}
	return protocol.Response{Op: protocol.OpError, ID: id, Code: said.Code, Message: said.Message}
}

func bad(format string, args ...any) error {
	return &protocol.Error{Code: protocol.CodeBadRequest, Message: fmt.Sprintf(format, args...)}
}

// between returns an error unless a value of a request is in its range.
func between[T int | int64 | float64](what string, v, low, high T) error {
	if v >= low && v <= high {
		return nil
	}
	return bad("%s: %v is not between %v and %v", what, v, low, high)
}

func unsupported(format string, args ...any) error {
	return &protocol.Error{Code: protocol.CodeUnsupported, Message: fmt.Sprintf(format, args...)}
}

func outOfMemory(format string, args ...any) error {
	return &protocol.Error{Code: protocol.CodeMemory, Message: fmt.Sprintf(format, args...)}
}

func (s *server) hello(q *protocol.Request) (protocol.Response, error) {
	if q.V != protocol.Version {
		return protocol.Response{}, unsupported("version %d of the protocol: this worker speaks version %d", q.V, protocol.Version)
	}
	r := protocol.Response{
		V: protocol.Version, Backend: "cpu", Device: s.machine.device(&s.opt), Kernel: kernelName(), Clocks: s.machine.clocks,
		Measured: true, Threads: s.opt.Threads, MemoryBytes: int64(s.opt.Memory), CacheBytes: int64(s.machine.cache), Ranks: maxRanks,
	}
	r.Caps = []string{
		protocol.CapCompute, protocol.CapComm, protocol.CapCommPrefix + problem.FP16.String(), protocol.CapCommPrefix + problem.BF16.String(),
		protocol.CapCeilings, protocol.CapWeighted, protocol.CapLookupFiles, protocol.CapLengths, problem.FP32.String(),
	}
	for _, o := range []problem.Optimizer{problem.SGD, problem.RowwiseAdagrad, problem.Adagrad, problem.Adam} {
		r.Caps = append(r.Caps, o.String())
	}
	return r, nil
}

func (s *server) init(q *protocol.Request) (protocol.Response, error) {
	if err := cmp.Or(between("batch", q.Batch, 1, problem.MaxBatch), between("warmup", q.Warmup, 0, maxRepeats), between("repeats", q.Repeats, 1, maxRepeats)); err != nil {
		return protocol.Response{}, err
	}
	if q.Cache != "cold" && q.Cache != "warm" {
		return protocol.Response{}, bad(`cache: %q is neither "cold" nor "warm"`, q.Cache)
	}
	flush := unit.Bytes(q.FlushBytes)
	if err := between("flush_bytes", q.FlushBytes, 0, int64(maxFlush)); err != nil {
		return protocol.Response{}, err
	}
	if flush > s.opt.Memory {
		return protocol.Response{}, outOfMemory("flush_bytes: %d is above this worker's %d", int64(flush), int64(s.opt.Memory))
	}
	if flush == 0 {
		flush = min(4*s.machine.cache, defaultFlush)
	}
	state := "warm"
	s.flush = nil
	if q.Cache == "cold" {
		s.flush = make([]uint64, flush/8)
		state = "flushed " + round(flush)
		if flush < 4*s.machine.cache {
			state += " of a " + round(s.machine.cache) + " cache"
		}
	}
	s.batch, s.warmup, s.repeats = q.Batch, q.Warmup, q.Repeats
	s.tables = newTables(q.Batch, q.Seed, s.opt.IndexMemory)
	runtime.GC() // of the tables before
	return protocol.Response{Cache: state}, nil
}

// comm measures the all-to-alls of one exchange.
func (s *server) comm(q *protocol.Request) (protocol.Response, error) {
	none := protocol.Response{}
	if s.batch == 0 {
		return none, bad("comm before init")
	}
	batch := q.Batch
	if batch == 0 {
		batch = s.batch
	}
	size, err := newSizes(batch, q.Dims, q.DType)
	if err != nil {
		return none, unsupported("dtype: %v", err)
	}
	start, err := checkComm(q, batch)
	if err != nil {
		return none, err
	}
	if need := size.bytes(); need > int64(s.opt.Memory) {
		return none, outOfMemory("the ranks' buffers need %d bytes, %d are available", need, int64(s.opt.Memory))
	} else if unit.Bytes(need)+unit.Bytes(4*len(s.weights)) > s.opt.Memory {
		s.weights = nil
		debug.FreeOSMemory()
	}
	return timeExchange(&s.ranks, size, start, s.warmup, s.repeats)
}

// readLines sends every line of in. When in has ended, it returns nil for a clean
// end, and the error of ctx if ctx ended it.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	r := protocol.NewReader(in)
	for {
		line, err := r.Line()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case lines <- append([]byte(nil), line...):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// round returns a size as a whole number of the largest unit that divides it.
func round(b unit.Bytes) string {
	switch {
	case b%unit.MiB == 0:
		return fmt.Sprintf("%dMiB", b/unit.MiB)
	case b%unit.KiB == 0:
		return fmt.Sprintf("%dKiB", b/unit.KiB)
	}
	return fmt.Sprintf("%dB", int64(b))
}
