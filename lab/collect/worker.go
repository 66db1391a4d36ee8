package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// WorkerOptions state how to start a worker and how it measures. Command is
// required, and so is Name if the worker does not measure its profile; zero values
// of the other fields work.
type WorkerOptions struct {
	// Command starts the worker, with its arguments. Stderr receives its logs (default:
	// they are dropped).
	Command []string
	Stderr  io.Writer

	// Warmup is the number of runs (0: none) before Repeats timed runs (default 5).
	Warmup, Repeats int
	// Warm leaves the caches unchanged; otherwise FlushBytes are written before each
	// repeat (default: the worker's choice).
	Warm       bool
	FlushBytes unit.Bytes
	// Seed is the seed of the lookups that the worker makes up.
	Seed uint64

	// Deadline is the longest time that the worker may take for a request (default 60 s).
	Deadline time.Duration

	// LookupFiles names, for the tables in their order, files with their real lookups
	// (lookups.WriteFile). The worker then uses these instead of made-up ones; an
	// empty name means made-up lookups. LookupFiles needs a worker with protocol.CapLookupFiles.
	// Lookups states the source of the lookups, for the provenance.
	LookupFiles []string
	Lookups     string

	// Name is the name of the device. If there is no known profile of this name, the worker
	// measures its profile when it starts, and the profile is called Name (default: the
	// worker's own name for it).
	Name string
	// NameOnly skips the profile. Then no model can be trained on the times, and the
	// provenance has only the device's name.
	NameOnly bool

	// OnLog, if not nil, is called with the reason when the worker is started again.
	OnLog func(message string)
}

// The defaults of WorkerOptions.
const (
	// initBatch is the batch of init. Every table and exchange states its own.
	initBatch       = 65536
	defaultRepeats  = 5
	defaultDeadline = 60 * time.Second
	// startPatience is the longest time for the first response: an interpreter may have to load before
	// it. ceilingsPatience is the factor by which measuring the ceilings may exceed Deadline.
	startPatience    = 120 * time.Second
	ceilingsPatience = 10
	// mostRestarts is the number of times that a worker is started again in a row without one
	// response to a measurement.
	mostRestarts = 5
	// mostIndexBytes is about the most bytes of lookups that a worker holds. Above it the worker
	// removes all tables, and Compute sends the tables of the next group again.
	mostIndexBytes = 2 * unit.GiB
)

func (o WorkerOptions) withDefaults() WorkerOptions {
	if o.Repeats <= 0 {
		o.Repeats = defaultRepeats
	}
	if o.Deadline <= 0 {
		o.Deadline = defaultDeadline
	}
	if o.OnLog == nil {
		o.OnLog = func(string) {}
	}
	return o
}

// Worker is the Backend of a process that speaks package protocol. A worker that
// hangs, ends, or writes something that is not a response fails the request. It is killed
// with its own children, and started again for the next request.
type Worker struct {
	opt        WorkerOptions
	hello      protocol.Response
	cache      string // the description of the cache in the response to init
	ceilings   map[string]float64
	provenance dataset.Provenance

	// process is nil if the worker must be started, for the first time or again. lost
	// is the reason why it last ended, and restarts is the number of starts since the
	// last measurement.
	process  *process
	lost     error
	restarts int
	closed   bool

	// sent holds the tables that the process has, and indexBytes is about the size of
	// their lookups.
	sent       map[int]accesses
	indexBytes unit.Bytes
	indexMost  unit.Bytes
	requests   int
	realised   Realisation
}

// Realisation states how close the lookups that a worker made up are to the asked
// counts, by lookups.Realised.Distance. A distance of at most lookups.Tolerance is
// close enough.
type Realisation struct {
	// Tables is the number of tables that the worker reported on, counted at each
	// batch size.
	Tables int
	// Max and Mean are those of the distances; Mean counts distances above 1 as 1.
	Max, Mean float64
	sum       float64
}

func (r *Realisation) add(distance float64) {
	r.Tables++
	r.Max = max(r.Max, distance)
	r.sum += min(1, distance)
	r.Mean = r.sum / float64(r.Tables)
}

// StartWorker starts a worker, exchanges hello messages, and asks for the worker's hardware profile if
// the options have none. It fails if the worker speaks another version of the protocol, does not answer
// in time, or sends anything but a response. ctx limits the start only. The caller closes the Worker.
func StartWorker(ctx context.Context, opt WorkerOptions) (*Worker, error) {
	if len(opt.Command) == 0 {
		return nil, errors.New("worker: the command is empty")
	}
	w := &Worker{opt: opt.withDefaults(), indexMost: mostIndexBytes}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if err := w.describe(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// start starts the process, exchanges hello messages and sends init.
func (w *Worker) start(ctx context.Context) (err error) {
	p, err := startProcess(w.opt.Command, w.opt.Stderr)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer func() {
		if err != nil {
			p.kill()
		}
	}()
	hello, err := p.ask(ctx, protocol.Request{Op: protocol.OpHello, V: protocol.Version}, startPatience)
	if err != nil {
		return err
	}
	if hello.V != protocol.Version {
		return fmt.Errorf("worker: it speaks version %d of the protocol, but this program speaks version %d: use a worker of the same version", hello.V, protocol.Version)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"threads", int64(hello.Threads)}, {"memory_bytes", hello.MemoryBytes}, {"ranks", int64(hello.Ranks)}, {"cache_bytes", hello.CacheBytes}} {
		if n.value < 0 {
			return fmt.Errorf("worker: %s of its response to %q is %d, which is below 0", n.name, protocol.OpHello, n.value)
		}
	}
	if w.hello.Op != "" && (hello.Device != w.hello.Device || hello.Kernel != w.hello.Kernel || hello.Backend != w.hello.Backend || hello.Measured != w.hello.Measured) {
		return fmt.Errorf("worker: it came back as another: %s %q on %q, before %s %q on %q",
			hello.Backend, hello.Kernel, hello.Device, w.hello.Backend, w.hello.Kernel, w.hello.Device)
	}
	w.hello = hello
	w.process = p
	if err := w.init(ctx); err != nil {
		w.process = nil
		return err
	}
	return nil
}

// init sends init to the worker, which then has no tables.
func (w *Worker) init(ctx context.Context) error {
	q := protocol.Request{
		Op: protocol.OpInit, Batch: initBatch, Warmup: w.opt.Warmup, Repeats: w.opt.Repeats,
		Cache: "cold", FlushBytes: int64(w.opt.FlushBytes), Seed: w.opt.Seed,
	}
	if w.opt.Warm {
		q.Cache, q.FlushBytes = "warm", 0
	}
	r, err := w.ask(ctx, q, w.opt.Deadline)
	if err != nil {
		return err
	}
	if w.cache == "" {
		w.cache = r.Cache
	}
	w.sent, w.indexBytes = make(map[int]accesses), 0
	return nil
}

// describe fills in the provenance.
func (w *Worker) describe(ctx context.Context) error {
	profile, err := w.profile(ctx)
	if err != nil {
		return err
	}
	if len(w.opt.LookupFiles) > 0 && !w.Supports(protocol.CapLookupFiles) {
		return errors.New("worker: it cannot use the lookups of a trace: use made-up lookups or another worker")
	}
	source := dataset.Simulated
	if w.hello.Measured {
		source = dataset.Measured
	}
	w.provenance = dataset.Provenance{
		Source: source, Profile: cmp.Or(profile.Name, w.opt.Name), Backend: fmt.Sprintf("worker %s, protocol %d", w.hello.Backend, w.hello.V),
		Device: w.hello.Device, Kernel: w.hello.Kernel, Clocks: w.hello.Clocks, Threads: w.hello.Threads,
		Cache: w.cache, Lookups: w.opt.Lookups, Warmup: w.opt.Warmup, Repeats: w.opt.Repeats,
	}
	if w.cache == "" {
		w.provenance.Cache = "cold"
		if w.opt.Warm {
			w.provenance.Cache = "warm"
		}
	}
	if !hardware.Known(profile.Name) {
		w.provenance.Hardware = profile
	}
	return nil
}

// profile returns the device's hardware profile: the known one, or the one that the worker measures;
// or none, if the device is only named.
func (w *Worker) profile(ctx context.Context) (hardware.Profile, error) {
	profile, err := hardware.ByName(w.opt.Name)
	if err == nil || w.opt.NameOnly {
		return profile, nil
	}
	if !w.Supports(protocol.CapCeilings) {
		return profile, fmt.Errorf("worker: it does not report its hardware profile: name a known one")
	}
	r, err := w.askCeilings(ctx)
	if err != nil {
		return profile, err
	}
	profile = r.Profile
	profile.Name = cmp.Or(w.opt.Name, profile.Name)
	if problems := profile.Problems(); len(problems) > 0 {
		return profile, fmt.Errorf("worker: the hardware profile %q is not valid: %s", profile.Name, strings.Join(problems, ", "))
	}
	return profile, nil
}

// Provenance returns the provenance that the worker stated when it started.
func (w *Worker) Provenance() dataset.Provenance { return w.provenance }

// Lacks reports whether the worker stated that it does not have the optimizer and the
// precision of an operation together.
func (w *Worker) Lacks(o problem.Operation) bool {
	return slices.Contains(w.hello.Lacks, o.Optimizer.String()+" "+o.Precision.String())
}

// Supports reports whether the worker stated a capability. A worker that states no
// optimizers counts as having all of them; so do precisions.
func (w *Worker) Supports(capability string) bool {
	if slices.Contains(w.hello.Caps, capability) {
		return true
	}
	if capability == protocol.CapLengths {
		// The bags of a file have their lengths.
		return slices.Contains(w.hello.Caps, protocol.CapLookupFiles)
	}
	if _, err := problem.ParseOptimizer(capability); err == nil {
		return !slices.ContainsFunc(w.hello.Caps, func(c string) bool { _, err := problem.ParseOptimizer(c); return err == nil })
	}
	if _, err := problem.ParsePrecision(capability); err == nil {
		return !slices.ContainsFunc(w.hello.Caps, func(c string) bool { _, err := problem.ParsePrecision(c); return err == nil })
	}
	return false
}

// Realised returns how close the lookups are to the asked ones, so far.
func (w *Worker) Realised() Realisation { return w.realised }

// Ceilings returns the highest rates that the device reaches, by the names that
// protocol.Response lists. They are measured once.
func (w *Worker) Ceilings(ctx context.Context) (map[string]float64, error) {
	if w.ceilings == nil {
		if !w.Supports(protocol.CapCeilings) {
			return nil, &protocol.Error{Code: protocol.CodeUnsupported, Message: "this worker does not measure ceilings"}
		}
		if err := w.ready(ctx); err != nil {
			return nil, err
		}
		if _, err := w.askCeilings(ctx); err != nil {
			return nil, err
		}
	}
	return maps.Clone(w.ceilings), nil
}

func (w *Worker) askCeilings(ctx context.Context) (protocol.Response, error) {
	r, err := w.ask(ctx, protocol.Request{Op: protocol.OpCeilings}, ceilingsPatience*w.opt.Deadline)
	if err != nil {
		return r, err
	}
	for name, value := range r.Ceilings {
		if !(value > 0) {
			return r, fmt.Errorf("worker: its ceiling %q is %v, which is not above 0", name, value)
		}
	}
	w.ceilings = r.Ceilings
	if w.ceilings == nil {
		w.ceilings = make(map[string]float64)
	}
	return r, nil
}

// Compute makes the worker run a group. The error is a *protocol.Error if the worker refuses the group,
// or states impossible times or lookups, and wraps ErrLost if the worker cannot be started again.
func (w *Worker) Compute(ctx context.Context, tables []problem.Table, g *dataset.Group) (Timing, error) {
	if err := checkMembers(tables, g); err != nil {
		return Timing{}, &protocol.Error{Code: protocol.CodeBadRequest, Message: err.Error()}
	}
	for _, m := range g.Members {
		if t := &tables[m.Table]; t.Pooling == problem.PoolingNone || t.Bags() != math.Trunc(t.Bags()) {
			return Timing{}, &protocol.Error{Code: protocol.CodeUnsupported, Message: fmt.Sprintf("table %q: workers run pooled lookups with a whole number of bags a sample", t.Name)}
		}
	}
	if err := w.ready(ctx); err != nil {
		return Timing{}, err
	}
	if err := w.sendTables(ctx, tables, g); err != nil {
		return Timing{}, err
	}
	op := g.Operation
	q := protocol.Request{Op: protocol.OpCompute, ID: w.nextID("g", g.ID), Opt: op.Optimizer.String(), DType: op.Precision.String(), Weighted: op.Weighted}
	for _, m := range g.Members {
		q.Group = append(q.Group, protocol.Member{T: tableID(m.Table, op.Batch), Dim: int(m.Dim)})
	}
	r, err := w.measured(ctx, q)
	if err != nil {
		return Timing{}, err
	}
	return Timing{
		Forward: unit.Millis(r.ForwardMS), Backward: unit.Millis(r.BackwardMS),
		ForwardSpread: unit.Millis(r.ForwardSpread), BackwardSpread: unit.Millis(r.BackwardSpread),
	}, checkTimes(r.ForwardSpread, r.BackwardSpread, []float64{r.ForwardMS}, []float64{r.BackwardMS})
}

// Comm makes the worker run an exchange. Its errors are those of Compute.
func (w *Worker) Comm(ctx context.Context, e *dataset.Exchange) (CommTiming, error) {
	if len(e.DimSums) < 2 {
		return CommTiming{}, oneDevice()
	}
	if !w.Supports(protocol.CapComm) {
		return CommTiming{}, &protocol.Error{Code: protocol.CodeUnsupported, Message: "this worker measures no all-to-alls: it has one device"}
	}
	q := protocol.Request{Op: protocol.OpComm, Dims: e.DimSums, Batch: e.Batch, PerHost: e.DevicesPerHost, StartMS: converted[float64](e.Start)}
	// A worker that does not know the field would ignore it, and send fp32.
	if e.Precision != problem.FP32 {
		q.DType = e.Precision.String()
		if !slices.Contains(w.hello.Caps, protocol.CapCommPrefix+q.DType) {
			return CommTiming{}, &protocol.Error{Code: protocol.CodeUnsupported, Message: fmt.Sprintf("this worker runs all-to-alls in fp32, and the plan's vectors travel in %s", q.DType)}
		}
	}
	if err := w.ready(ctx); err != nil {
		return CommTiming{}, err
	}
	q.ID = w.nextID("c", e.ID)
	r, err := w.measured(ctx, q)
	if err != nil {
		return CommTiming{}, err
	}
	if n := len(e.DimSums); len(r.Forward) != n || len(r.Backward) != n {
		return CommTiming{}, &protocol.Error{Code: CodeTimes, Message: fmt.Sprintf("%d forward and %d backward times of %d devices", len(r.Forward), len(r.Backward), n)}
	}
	return CommTiming{Forward: converted[unit.Millis](r.Forward), Backward: converted[unit.Millis](r.Backward), Spread: unit.Millis(r.Spread)},
		checkTimes(0, r.Spread, r.Forward, r.Backward)
}

func checkTimes(forwardSpread, backwardSpread float64, forward, backward []float64) error {
	t := times{converted[unit.Millis](forward), converted[unit.Millis](backward), unit.Millis(forwardSpread), unit.Millis(backwardSpread)}
	if err := t.check(len(forward)); err != nil {
		return &protocol.Error{Code: CodeTimes, Message: err.Error()}
	}
	return nil
}

func converted[To, From ~float64](values []From) []To {
	list := make([]To, len(values))
	for i, v := range values {
		list[i] = To(v)
	}
	return list
}

// nextID returns the id of a request: the sample's id and a number, because anchors and
// repeats ask for the same sample again.
func (w *Worker) nextID(kind string, id int) string {
	w.requests++
	return fmt.Sprintf("%s%d.%d", kind, id, w.requests)
}

// measured sends a request for a measurement.
func (w *Worker) measured(ctx context.Context, q protocol.Request) (protocol.Response, error) {
	r, err := w.ask(ctx, q, w.opt.Deadline)
	if refused, ok := errors.AsType[*protocol.Error](err); err == nil || ok && refused.Code != protocol.CodeInternal {
		w.restarts = 0
	}
	if err != nil {
		return r, err
	}
	switch {
	case r.Source == "":
		return r, &protocol.Error{Code: CodeTimes, Message: fmt.Sprintf("the times have no source: a response states whether they are %q or %q", dataset.Measured, dataset.Simulated)}
	case r.N < 1:
		return r, &protocol.Error{Code: CodeTimes, Message: fmt.Sprintf("the times are the medians of %d runs: a response states how many were timed, at least 1", r.N)}
	case r.Source != string(w.provenance.Source):
		return r, &protocol.Error{Code: CodeTimes, Message: fmt.Sprintf("the times are %q, and the worker said that its are %q", r.Source, w.provenance.Source)}
	}
	return r, nil
}

// ask sends a request to the process. It ends a process that is broken or reports
// an internal error.
func (w *Worker) ask(ctx context.Context, q protocol.Request, deadline time.Duration) (protocol.Response, error) {
	r, err := w.process.ask(ctx, q, deadline)
	refused, answered := errors.AsType[*protocol.Error](err)
	if answered && refused.Code == protocol.CodeInternal {
		// An internal fault, such as a device's sticky error, would make the next request
		// fail, too.
		w.process.kill()
		answered = false
	}
	if err != nil && !answered {
		w.process, w.lost = nil, err
	}
	return r, err
}

// ready starts the worker again if it has ended. If ctx has ended, ready returns
// the error of ctx and does not touch a running worker.
func (w *Worker) ready(ctx context.Context) error {
	if w.closed {
		return errors.New("worker: it was closed")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for w.process == nil {
		if w.restarts >= mostRestarts {
			return fmt.Errorf("%w: it was started %d times again without one response: %w", ErrLost, w.restarts, w.lost)
		}
		w.restarts++
		w.opt.OnLog(fmt.Sprintf("starting the worker again: %v", w.lost))
		if err := w.start(ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			w.process, w.lost = nil, err
		}
	}
	return nil
}

// tableID is the number by which the worker knows a table at a batch size. It is
// the same in every run, because the worker makes up the lookups with it.
func tableID(table int32, batch int) int { return int(table)<<batchBits | batch }

// batchBits is enough for problem.MaxBatch.
const batchBits = 25

// tablesARequest is the most tables in one request. It bounds the length of the
// request's line.
const tablesARequest = 1000

// sendTables sends the tables of a group that the worker does not have. If they
// exceed mostIndexBytes together with the tables it has, or the worker reports that,
// the worker removes all tables first.
func (w *Worker) sendTables(ctx context.Context, tables []problem.Table, g *dataset.Group) error {
	missing, size := w.missing(tables, g)
	if len(missing) == 0 {
		return nil
	}
	for _, m := range missing {
		// A worker that does not know the field would ignore it, and make bags of one length.
		if m.table.LengthCV > 0 && !w.Supports(protocol.CapLengths) {
			return &protocol.Error{Code: protocol.CodeUnsupported, Message: fmt.Sprintf("this worker makes bags of one length, and a table has a length_cv of %v: use a worker with the capability %q", m.table.LengthCV, protocol.CapLengths)}
		}
	}
	if w.indexBytes+size <= w.indexMost || len(w.sent) == 0 {
		err := w.send(ctx, missing)
		if refused, ok := errors.AsType[*protocol.Error](err); !ok || refused.Code != protocol.CodeMemory || len(w.sent) == 0 {
			return err
		}
	}
	if err := w.init(ctx); err != nil {
		return err
	}
	missing, _ = w.missing(tables, g)
	return w.send(ctx, missing)
}

// toSend is a table in the form in which it is sent to the worker.
type toSend struct {
	table  protocol.Table
	asked  access.Counts
	known  accesses
	memory unit.Bytes
}

// missing returns the tables of a group that the worker does not have, and about
// the size of their lookups.
func (w *Worker) missing(tables []problem.Table, g *dataset.Group) (list []toSend, size unit.Bytes) {
	seen := make(map[int32]bool)
	for _, m := range g.Members {
		t, batch := &tables[m.Table], g.Operation.Batch
		id, key := tableID(m.Table, batch), accessesOf(t, batch)
		if known, ok := w.sent[id]; seen[m.Table] || ok && known == key {
			continue
		}
		seen[m.Table] = true
		counts := t.Counts(batch)
		// An index of 8 bytes for each lookup, and an offset for each bag.
		memory := unit.Bytes(8 * (counts.Lookups + float64(batch)*max(1, t.Bags())))
		file := ""
		if int(m.Table) < len(w.opt.LookupFiles) {
			file = w.opt.LookupFiles[m.Table]
		}
		list = append(list, toSend{protocol.Table{
			T: id, Rows: t.Rows, PoolingFactor: t.PoolingFactor(), Features: int(t.Bags()), Batch: batch,
			LengthCV: t.LengthCV(), UniqueRows: counts.Unique, Reuse: counts.Reuse, RowsPerID: counts.RowsPerID, LookupFile: file,
		}, counts, key, memory})
		size += memory
	}
	return list, size
}

// send sends tables and records how close the lookups are to the asked counts.
func (w *Worker) send(ctx context.Context, list []toSend) error {
	tables := tablesARequest
	if w.wantsFiles() {
		tables = 1 // the files of a request are there at the same time
	}
	for part := range slices.Chunk(list, tables) {
		q := protocol.Request{Op: protocol.OpTables}
		for _, t := range part {
			q.Tables = append(q.Tables, t.table)
		}
		r, err := w.askTables(ctx, q)
		if err != nil {
			return err
		}
		realised := make(map[int]protocol.Table, len(r.Tables))
		for _, t := range r.Tables {
			realised[t.T] = t
		}
		for _, t := range part {
			if err := checkRealised(&t.table, realised); err != nil {
				for _, t := range part { // the worker has these tables, with lookups that nobody knows
					delete(w.sent, t.table.T)
					w.indexBytes += t.memory
				}
				return &protocol.Error{Code: CodeLookups, Message: err.Error()}
			}
		}
		for _, t := range part {
			w.sent[t.table.T] = t.known
			w.indexBytes += t.memory
			got := realised[t.table.T]
			w.realised.add(lookups.Realised{
				// The number of lookups follows from the table; the worker does not report it.
				Lookups: int64(math.Round(t.asked.Lookups)), Unique: int64(math.Round(got.UniqueRows)), Reuse: got.Reuse,
			}.Distance(t.asked))
		}
	}
	return nil
}

// wantsFiles reports whether the worker makes up no lookups: it uses files of them, and does not
// make up the bags that tables ask for.
func (w *Worker) wantsFiles() bool {
	return slices.Contains(w.hello.Caps, protocol.CapLookupFiles) && !slices.Contains(w.hello.Caps, protocol.CapLengths)
}

// askTables sends tables. A worker that makes up no lookups gets those of the first table in a
// file, which is gone when the worker has answered.
func (w *Worker) askTables(ctx context.Context, q protocol.Request) (protocol.Response, error) {
	t := &q.Tables[0]
	if t.LookupFile != "" || !w.wantsFiles() {
		return w.ask(ctx, q, w.opt.Deadline)
	}
	bags, _, err := lookups.Synthesise(lookups.SpecOf(t, w.opt.Seed))
	if err != nil {
		return protocol.Response{}, &protocol.Error{Code: protocol.CodeBadRequest, Message: fmt.Sprintf("table %d: %v", t.T, err)}
	}
	folder, err := os.MkdirTemp("", "neuroshard")
	if err != nil {
		return protocol.Response{}, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	t.LookupFile = filepath.Join(folder, "lookups")
	if err := lookups.WriteFile(t.LookupFile, bags); err != nil {
		return protocol.Response{}, err
	}
	return w.ask(ctx, q, w.opt.Deadline)
}

// shareSlack is how far the sum of the shares of a worker may be from 1: its shares may be rounded.
const shareSlack = 0.02

// checkRealised returns an error if the response of a worker does not have a table, or states
// impossible lookups of the table.
func checkRealised(t *protocol.Table, realised map[int]protocol.Table) error {
	got, answered := realised[t.T]
	if !answered {
		return fmt.Errorf("the response to %q lacks table %d", protocol.OpTables, t.T)
	}
	if !(got.UniqueRows >= 0 && got.UniqueRows <= float64(t.Rows)) {
		return fmt.Errorf("table %d: unique_rows of %v is not between 0 and its %d rows", t.T, got.UniqueRows, t.Rows)
	}
	if !(got.LengthCV >= 0) {
		return fmt.Errorf("table %d: length_cv of %v is below 0", t.T, got.LengthCV)
	}
	sum := 0.0
	for j, share := range got.Reuse {
		if !(share >= 0) {
			return fmt.Errorf("table %d: share %d of reuse is %v, which is below 0", t.T, j, share)
		}
		sum += share
	}
	// Without lookups, there are no rows to take shares of.
	if got.UniqueRows > 0 && !(math.Abs(sum-1) <= shareSlack) {
		return fmt.Errorf("table %d: the shares of reuse add up to %v, not to 1", t.T, sum)
	}
	return nil
}

// Close asks the worker to end, and kills the worker and its children if it does
// not end within seconds.
func (w *Worker) Close() error {
	if w.process != nil {
		w.process.close()
	}
	w.process, w.closed = nil, true
	return nil
}
