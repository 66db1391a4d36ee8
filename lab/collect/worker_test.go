package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Every Backend passes the same cases.
func TestMeters(t *testing.T) {
	h200 := must.Get(hardware.ByName("h200"))(t)
	backends := map[string]func(t *testing.T) Backend{
		"simulated": func(*testing.T) Backend { return NewSimulated(h200) },
		"worker":    func(t *testing.T) Backend { return startFake(t, fakeOptions("work")) },
	}
	design := drawn(t, 12, 6)
	tables := design.Compute.Tables
	for name, start := range backends {
		t.Run(name, func(t *testing.T) {
			backend := start(t)
			ctx := context.Background()
			set := dataset.Dataset{Compute: &dataset.Compute{Provenance: backend.Provenance(), Tables: tables}}
			if err := set.Validate(); err != nil {
				t.Errorf("its provenance: %v", err)
			}
			for i := range design.Compute.Samples {
				g := &design.Compute.Samples[i]
				first := must.Get(backend.Compute(ctx, tables, g))(t)
				if !(first.Forward > 0 && first.Backward > 0 && first.ForwardSpread >= 0 && first.BackwardSpread >= 0) {
					t.Errorf("group %d: got %+v", i, first)
				}
				if second, err := backend.Compute(ctx, tables, g); err != nil || second != first {
					t.Errorf("group %d again: got %+v, %v, want %+v", i, second, err, first)
				}
			}
			for i := range design.Comm.Samples {
				e := &design.Comm.Samples[i]
				got := must.Get(backend.Comm(ctx, e))(t)
				if err := (&times{got.Forward, got.Backward, 0, got.Spread}).check(e.Devices); err != nil {
					t.Errorf("exchange %d: %v", i, err)
				}
			}
			var refused *protocol.Error
			if _, err := backend.Comm(ctx, &dataset.Exchange{Devices: 1, DevicesPerHost: 1, Batch: 512, DimSums: []int{64}}); !errors.As(err, &refused) || refused.Code != protocol.CodeUnsupported {
				t.Errorf("one device: got error %v, want %q", err, protocol.CodeUnsupported)
			}
			for name, g := range map[string]dataset.Group{
				"empty":    {Operation: problem.Operation{Batch: 512}},
				"no table": {Operation: problem.Operation{Batch: 512}, Members: []dataset.Member{{Table: 20, Dim: 4}}},
				"no batch": {Members: []dataset.Member{{Table: 0, Dim: 4}}},
				"no dim":   {Operation: problem.Operation{Batch: 512}, Members: []dataset.Member{{}}},
			} {
				if got, err := backend.Compute(ctx, tables, &g); err == nil {
					t.Errorf("%s: got %+v and no error", name, got)
				}
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := backend.Compute(ended, tables, &design.Compute.Samples[0]); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: got error %v", err)
			}
			if _, err := backend.Compute(ctx, tables, &design.Compute.Samples[0]); err != nil {
				t.Errorf("after a cancelled one: got error %v", err)
			}
			if err := backend.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWorkerProvenance(t *testing.T) {
	opt := fakeOptions("work")
	w := startFake(t, opt)
	own := fakeProfile
	own.Name = "fake"
	want := dataset.Provenance{
		Source: dataset.Measured, Profile: "fake", Backend: "worker fake, protocol 1", Hardware: own, Device: "a fake", Kernel: "fake 1",
		Clocks: "steady", Threads: 2, Cache: "flushed 1MiB", Warmup: 1, Repeats: 3,
	}
	if diff := cmp.Diff(want, w.Provenance()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ceilings, err := w.Ceilings(context.Background())
	if err != nil || ceilings["copy_gbps"] != 10 {
		t.Errorf("got ceilings %v, %v", ceilings, err)
	}

	// A known profile is not stated and not measured.
	want.Profile, want.Hardware = "h200", hardware.Profile{}
	opt = fakeOptions("plain") // it has no ceilings
	opt.Name = "h200"
	w = startFake(t, opt)
	if diff := cmp.Diff(want, w.Provenance()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var refused *protocol.Error
	if _, err := w.Ceilings(context.Background()); !errors.As(err, &refused) || refused.Code != protocol.CodeUnsupported {
		t.Errorf("ceilings: got error %v, want %q", err, protocol.CodeUnsupported)
	}
	if !w.Supports("adam") || !w.Supports("fp16") || w.Supports(protocol.CapComm) {
		t.Error("a worker that names no optimizer is taken to have all, and no all-to-alls")
	}
}

// If a worker cannot be started, the error states why.
func TestBadStart(t *testing.T) {
	for _, c := range []struct {
		mode string
		want []string
	}{
		{"version", []string{"version 99", "version 1"}},
		{"negative memory", []string{"memory_bytes", "-1, which is below 0"}},
		{"exit", []string{"ended", "exit status 3", "no such module: torch"}},
		{"banner", []string{`"Welcome to the fake worker! xxxx`, `xxxx"...`, "stderr"}},
		{"plain", []string{"does not report its hardware profile"}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			w, err := StartWorker(context.Background(), fakeOptions(c.mode))
			if err == nil {
				_ = w.Close()
				t.Fatal("it was started")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want %q in it", err, want)
				}
			}
			if len(err.Error()) > 400 {
				t.Errorf("got an error of %d bytes", len(err.Error()))
			}
		})
	}
	if _, err := StartWorker(context.Background(), WorkerOptions{}); err == nil {
		t.Error("no command: got no error")
	}
	if _, err := StartWorker(context.Background(), WorkerOptions{Command: []string{"./no-such-worker"}}); err == nil || !strings.Contains(err.Error(), "no-such-worker") {
		t.Errorf("no such command: got error %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := StartWorker(ended, fakeOptions("mute")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got error %v", err)
	}
}

// soon is the deadline of requests that no worker answers.
const soon = 50 * time.Millisecond

// impatient is a worker that does not answer the next requests for a group: these requests
// alone have a short deadline, so that a loaded machine makes no other request late.
type impatient struct {
	*Worker
	hangs int
}

func (w *impatient) Compute(ctx context.Context, tables []problem.Table, g *dataset.Group) (Timing, error) {
	if w.hangs > 0 {
		w.hangs--
		if err := w.ready(ctx); err != nil {
			return Timing{}, err
		}
		if err := w.sendTables(ctx, tables, g); err != nil {
			return Timing{}, err
		}
		usual := w.opt.Deadline
		w.opt.Deadline = soon
		defer func() { w.opt.Deadline = usual }()
	}
	return w.Worker.Compute(ctx, tables, g)
}

// A worker's fault in a measurement is an error of that sample only; the next one
// is measured by the same worker or by one that was started again.
func TestBadWorker(t *testing.T) {
	design := drawn(t, 12, 2)
	g := &design.Compute.Samples[0]
	for _, c := range []struct {
		mode   string
		code   string // of the failure
		starts int    // of the worker for two measurements
		want   string
	}{
		{"hang", protocol.CodeTimeout, 2, fmt.Sprintf(`no response to "compute" within %v`, soon)},
		{"die", CodeCrash, 2, "exit status 5"},
		{"rubbish", CodeCrash, 2, `"Traceback (most recent call last):"`},
		{"NaN", CodeCrash, 2, "no response"},
		{"id", CodeCrash, 2, `"s99`},
		{"op", CodeCrash, 2, "out of step"},
		{"huge", CodeCrash, 2, "longer than"},
		{"null", CodeTimes, 1, "0 ms is not a time"},
		{"1e999", CodeTimes, 1, "1e999"},
		{"string", CodeTimes, 1, "fwd_ms"},
		{"negative", CodeTimes, 1, "-1 ms"},
		{"zero", CodeTimes, 1, "0 ms"},
		{"source", CodeTimes, 1, `"simulated"`},
		{"no source", CodeTimes, 1, "the times have no source"},
		{"no runs", CodeTimes, 1, "the medians of 0 runs"},
		{"no tables", CodeLookups, 1, `the response to "tables" lacks table `},
		{"lost table", CodeLookups, 1, `the response to "tables" lacks table `},
		{"negative rows", CodeLookups, 1, "unique_rows of -5 is not between 0 and its"},
		{"more rows", CodeLookups, 1, "unique_rows of 1e+15 is not between 0 and its"},
		{"negative spread", CodeLookups, 1, "length_cv of -0.5 is below 0"},
		{"negative share", CodeLookups, 1, "share 2 of reuse is -0.25"},
		{"large shares", CodeLookups, 1, "the shares of reuse add up to 4"},
		{"no shares", CodeLookups, 1, "the shares of reuse add up to 0, not to 1"},
		{"text for a share", CodeLookups, 1, `field "tables.reuse" is string`},
		{protocol.CodeMemory, protocol.CodeMemory, 1, "the fake oom"},
		{protocol.CodeUnsupported, protocol.CodeUnsupported, 1, "the fake"},
		{protocol.CodeDrift, protocol.CodeDrift, 1, "the fake"},
		{protocol.CodeInternal, protocol.CodeInternal, 2, "the fake"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			note := filepath.Join(t.TempDir(), "note")
			opt := fakeOptions(c.mode, "note="+note)
			var logged []string
			opt.OnLog = func(m string) { logged = append(logged, m) }
			w := startFake(t, opt)
			backend := &impatient{Worker: w}
			if c.mode == "hang" {
				backend.hangs = 2
			}
			for range 2 {
				_, err := backend.Compute(context.Background(), design.Compute.Tables, g)
				if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 600 {
					t.Fatalf("got error %v, want %q in it", err, c.want)
				}
				code := CodeCrash
				if refused, ok := errors.AsType[*protocol.Error](err); ok {
					code = refused.Code
				} else if broken, ok := errors.AsType[*brokenError](err); ok {
					code = broken.code
				}
				if code != c.code {
					t.Errorf("got code %q, want %q", code, c.code)
				}
			}
			if c.mode == "die" && !strings.Contains(w.lost.Error(), "Segmentation") {
				t.Errorf("got error %v, want the worker's last words in it", w.lost)
			}
			if got := count(t, note, "hello"); got != c.starts {
				t.Errorf("it was started %d times, want %d", got, c.starts)
			}
			if len(logged) != c.starts-1 {
				t.Errorf("got logged %q, want %d starts again", logged, c.starts-1)
			}
			// All-to-alls are not affected.
			if _, err := w.Comm(context.Background(), &design.Comm.Samples[0]); err != nil {
				t.Errorf("then: got error %v", err)
			}
		})
	}
}

// count returns the number of notes of the fake worker that begin with a text.
func count(t *testing.T, note, text string) int {
	t.Helper()
	content := must.Get(os.ReadFile(note))(t)
	n := 0
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, text) {
			n++
		}
	}
	return n
}

// A worker that never answers a measurement is lost. After one response, it may
// fail the same number of times again.
func TestRestarts(t *testing.T) {
	design := drawn(t, 12, 2)
	w := startFake(t, fakeOptions("die"))
	compute := func() error {
		_, err := w.Compute(context.Background(), design.Compute.Tables, &design.Compute.Samples[0])
		return err
	}
	for range 1 + mostRestarts {
		if err := compute(); err == nil || errors.Is(err, ErrLost) {
			t.Fatalf("got error %v, want one that is not ErrLost", err)
		}
	}
	if err := compute(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "exit status 5") {
		t.Fatalf("the last start: got error %v, want ErrLost and why", err)
	}
	w.restarts = 0
	for range 2 * mostRestarts {
		must.Get(w.Comm(context.Background(), &design.Comm.Samples[0]))(t)
		if err := compute(); err == nil || errors.Is(err, ErrLost) {
			t.Fatalf("between responses: got error %v, want one that is not ErrLost", err)
		}
	}
	must.Do(t, w.Close())
	if err := compute(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: got error %v", err)
	}

	// The restarted worker must be the same as before.
	for _, c := range []struct{ mode, want string }{
		{"other", `"a faketrue"`}, {"other kernel", `"fake 1true"`}, {"other backend", "faketrue"}, {"other source", "another"},
	} {
		w = startFake(t, fakeOptions(c.mode, "mark="+filepath.Join(t.TempDir(), "mark")))
		hangs := &impatient{w, 1}
		if _, err := hangs.Compute(context.Background(), design.Compute.Tables, &design.Compute.Samples[0]); err == nil || errors.Is(err, ErrLost) {
			t.Fatalf("%s: got error %v", c.mode, err)
		}
		if err := compute(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "came back as another") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want ErrLost and %s", c.mode, err, c.want)
		}
	}
}

// Tables are sent once, again after a start or an init, and removed if there are
// too many.
func TestTables(t *testing.T) {
	design := drawn(t, 200, 0)
	var samples []int
	for i := range design.Compute.Samples {
		samples = append(samples, i)
	}
	pairs := make(map[[2]int]bool)
	for i := range design.Compute.Samples {
		g := &design.Compute.Samples[i]
		for _, m := range g.Members {
			pairs[[2]int{int(m.Table), g.Operation.Batch}] = true
		}
	}
	for _, c := range []struct {
		mode  string
		limit unit.Bytes
		inits func(n int) bool
		sent  func(n int) bool
	}{
		{"work", mostIndexBytes, func(n int) bool { return n == 1 }, func(n int) bool { return n == len(pairs) }},
		{"work", 4 * unit.MiB, func(n int) bool { return n > 2 && n < 150 }, func(n int) bool { return n > len(pairs) }},
		// The limit is below the size of any table, so each group begins without tables.
		{"work", 1, func(n int) bool { return n > 150 }, func(n int) bool { return n > 300 }},
		// The worker itself has room for 40 tables.
		{"small", mostIndexBytes, func(n int) bool { return n > 2 && n < 150 }, func(n int) bool { return n > len(pairs) }},
	} {
		note := filepath.Join(t.TempDir(), "note")
		w := startFake(t, fakeOptions(c.mode, "note="+note))
		w.indexMost = c.limit
		for _, i := range samples {
			if _, err := w.Compute(context.Background(), design.Compute.Tables, &design.Compute.Samples[i]); err != nil {
				t.Fatalf("%s, %v: group %d: %v", c.mode, c.limit, i, err)
			}
		}
		sent := 0
		content := must.Get(os.ReadFile(note))(t)
		for line := range strings.Lines(string(content)) {
			if n, is := strings.CutPrefix(strings.TrimSpace(line), "tables "); is {
				v := must.Get(strconv.Atoi(n))(t)
				sent += v
			}
		}
		if inits := count(t, note, "init"); !c.inits(inits) || !c.sent(sent) {
			t.Errorf("%s, %v: %d inits, %d tables sent of %d", c.mode, c.limit, inits, sent, len(pairs))
		}
		// The fake worker realises the asked counts.
		if got := w.Realised(); got.Max != 0 || got.Tables < len(pairs) {
			t.Errorf("%s, %v: realised %+v", c.mode, c.limit, got)
		}
	}
}

// TestLengthsNeedACapability: a worker that does not know length_cv would make bags of one
// length, so it does not get tables with another.
func TestLengthsNeedACapability(t *testing.T) {
	design := drawn(t, 12, 0)
	g := &design.Compute.Samples[0]
	equal := slices.Clone(design.Compute.Tables)
	for i := range equal {
		equal[i].Features = []problem.Feature{{PoolingFactor: equal[i].PoolingFactor()}}
	}
	unequal := slices.Clone(equal)
	at := g.Members[0].Table
	unequal[at].Features = []problem.Feature{{PoolingFactor: 3, LengthCV: .5}}
	note := filepath.Join(t.TempDir(), "note")
	w := startFake(t, fakeOptions("equal", "note="+note))
	must.Get(w.Compute(context.Background(), equal, g))(t)
	_, err := w.Compute(context.Background(), unequal, g)
	refused, ok := errors.AsType[*protocol.Error](err)
	if !ok || refused.Code != protocol.CodeUnsupported || !strings.Contains(refused.Message, `length_cv of 0.5: use a worker with the capability "length_cv"`) {
		t.Errorf("got %v, want unsupported", err)
	}
	if w.Supports(protocol.CapLengths) || count(t, note, "tables") != 1 {
		t.Errorf("a worker without the capability supports it, or got the tables")
	}
	able := startFake(t, fakeOptions("work"))
	if _, err := able.Compute(context.Background(), unequal, g); err != nil || !able.Supports(protocol.CapLengths) {
		t.Errorf("a worker with the capability: got %v", err)
	}
}

// TestWorkersWithoutLookupsGetFiles: a worker that makes up no lookups reads those of each table,
// with the bags that the table asks for, from a file that is gone afterwards.
func TestWorkersWithoutLookupsGetFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	design := drawn(t, 12, 0)
	tables := slices.Clone(design.Compute.Tables)
	g := &design.Compute.Samples[0]
	tables[g.Members[0].Table].Features = []problem.Feature{{PoolingFactor: 3, LengthCV: .5}}
	w := startFake(t, fakeOptions("files"))
	if _, err := w.Compute(context.Background(), tables, g); err != nil || !w.Supports(protocol.CapLengths) {
		t.Fatal(err)
	}
	if apart := w.Realised(); apart.Max > lookups.Tolerance {
		t.Errorf("got lookups %v from the asked ones", apart)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "neuroshard*")); err != nil || len(left) > 0 {
		t.Errorf("got files %v left, %v", left, err)
	}
}

// FuzzResponse: any output of a worker is a response to the request, or a short
// error.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		`{"op":"compute","id":"g1.1","fwd_ms":0.5,"bwd_ms":1}`, `{"op":"error","id":"g1.1","code":"oom","msg":"x"}`, `{"op":"error","code":"oom"}`,
		`{"op":"compute","id":"g1.1","fwd_ms":1e999}`, `{"op":"compute","id":"g1.1","fwd_ms":null}`, `{"op":"compute","id":"g1.2"}`, `null`, `5`, `[]`, `{`, ``,
		`{"op":"compute","id":"g1.1","fwd":[1,2,"x"]}`, `{"op":"compute","id":"g1.1","profile":{"name":5}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		q := protocol.Request{Op: protocol.OpCompute, ID: "g1.1"}
		r, err := parseResponse(q, text)
		if err == nil {
			if r.Op != q.Op || r.ID != q.ID || !json.Valid(text) {
				t.Errorf("%q was taken for the response", text)
			}
			return
		}
		_, broken := errors.AsType[*brokenError](err)
		_, refused := errors.AsType[*protocol.Error](err)
		if broken == refused {
			t.Errorf("%q: got error %T %v", text, err, err)
		}
		if refused && r.ID != q.ID && (r.ID != "" || r.Op != protocol.OpError) {
			t.Errorf("%q was taken for the response", text)
		}
		if broken && len(err.Error()) > 1000 {
			t.Errorf("%q: got an error of %d bytes", text, len(err.Error()))
		}
	})
}

// TestPrecisionOfExchanges: a worker is asked for the precision of an exchange if it
// states it, and never takes one precision for another.
func TestPrecisionOfExchanges(t *testing.T) {
	exchange := func(precision problem.Precision) *dataset.Exchange {
		return &dataset.Exchange{Devices: 2, DevicesPerHost: 2, Batch: 1000, DimSums: []int{1000, 0}, Precision: precision}
	}
	ctx := context.Background()
	half := startFake(t, fakeOptions("half"))
	for precision, want := range map[problem.Precision]unit.Millis{problem.FP32: 1.1, problem.BF16: .6} {
		if got, err := half.Comm(ctx, exchange(precision)); err != nil || math.Abs(float64(got.Backward[0]-want)) > 1e-9 {
			t.Errorf("%v: got %+v, error %v, want %v", precision, got, err, want)
		}
	}
	for mode, precision := range map[string]problem.Precision{"half": problem.FP16, "fp32 only": problem.BF16} {
		w := half
		if mode != "half" {
			w = startFake(t, fakeOptions(mode))
		}
		var refused *protocol.Error
		if got, err := w.Comm(ctx, exchange(precision)); !errors.As(err, &refused) || refused.Code != protocol.CodeUnsupported || !strings.Contains(err.Error(), "travel in "+precision.String()) {
			t.Errorf("a worker without %v: got %+v and error %v, want %q", precision, got, err, protocol.CodeUnsupported)
		}
	}
	hw, err := hardware.ByName("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	whole := must.Get(NewSimulated(hw).Comm(ctx, exchange(problem.FP32)))(t)
	narrow, err := NewSimulated(hw).Comm(ctx, exchange(problem.BF16))
	if err != nil || narrow.Backward[0] >= whole.Backward[0] {
		t.Errorf("simulated: got %v in bf16, error %v, want less than the %v of fp32", narrow.Backward, err, whole.Backward)
	}
}
