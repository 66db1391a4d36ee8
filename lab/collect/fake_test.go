package collect

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// The binary of the test is also the fake worker, and the collector that is killed.
const (
	envFake          = "COLLECT_TEST_FAKE"           // how the fake worker behaves
	envNote          = "COLLECT_TEST_NOTE"           // a file that it appends the requests' ops to
	envMark          = "COLLECT_TEST_MARK"           // a file by which it knows that it was started before
	envCollector     = "COLLECT_TEST_COLLECTOR"      // the folder to collect into
	envCollectorFake = "COLLECT_TEST_COLLECTOR_FAKE" // how the collector's fake worker behaves; default slow
	envGroups        = "COLLECT_TEST_GROUPS"         // how many groups the slow fake worker measures before it hangs
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(envFake); mode != "" {
		fakeWorker(mode)
		os.Exit(0)
	}
	if folder := os.Getenv(envCollector); folder != "" {
		if err := collector(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hanging is how long a test waits before it says that something hangs. It is long, because a
// loaded machine may take long for anything.
const hanging = 5 * time.Minute

// fakeOptions start the fake worker.
func fakeOptions(mode string, env ...string) WorkerOptions {
	return WorkerOptions{
		Command: []string{os.Args[0]}, Env: append(append(os.Environ(), envFake+"="+mode), env...),
		Warmup: 1, Repeats: 3, Seed: 7, Name: "fake", Deadline: hanging, StartDeadline: hanging,
	}
}

func startFake(t testing.TB, opt WorkerOptions) *Worker {
	t.Helper()
	w, err := StartWorker(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// countLookups has a table state what the file of its lookups holds.
func countLookups(t *protocol.Table) {
	bags, err := lookups.ReadFile(t.LookupFile)
	if err = errors.Join(err, bags.Check(t.Rows)); err != nil || bags.Len() != t.Batch*t.Features {
		panic(fmt.Sprintf("table %d: %d bags: %v", t.T, bags.Len(), err))
	}
	found := lookups.Count(bags.Indices)
	t.UniqueRows, t.Reuse, t.LengthCV = float64(found.Unique), found.Reuse, lookups.LengthCV(bags.Offsets)
}

// fakeProfile is the hardware profile that the fake worker reports.
var fakeProfile = hardware.Profile{
	Name: "cpu", Memory: unit.GiB, HBMGBps: 10, HBMEfficiency: 1, L2: unit.MiB, L2GBps: 20, SMs: 2, ClockGHz: 3,
	Granule: 64, AllToAllLatencyUS: 50, IntraGBps: 3,
}

// fakeWorker speaks the protocol. Its times depend on the request only. It refuses
// groups with tables that it was not sent.
func fakeWorker(mode string) {
	out := bufio.NewWriter(os.Stdout)
	raw := func(text string) {
		out.WriteString(text)
		if err := out.Flush(); err != nil {
			os.Exit(1) // nobody listens any more
		}
	}
	say := func(v any) {
		if err := protocol.Write(out, v); err != nil {
			panic(err)
		}
		raw("")
	}
	again := false
	if mark := os.Getenv(envMark); mark != "" {
		_, err := os.Stat(mark)
		again = err == nil
		if err := os.WriteFile(mark, nil, 0o666); err != nil {
			panic(err)
		}
	}
	note := func(string) {}
	if path := os.Getenv(envNote); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err != nil {
			panic(err)
		}
		note = func(text string) { fmt.Fprintln(f, text) }
	}
	lines := protocol.NewReader(os.Stdin)
	known := make(map[int]bool)
	groups := 0
	for served := 0; ; served++ {
		line, err := lines.Line()
		if err != nil {
			return
		}
		var q protocol.Request
		if err := json.Unmarshal(line, &q); err != nil {
			panic(err)
		}
		refuse := func(code string) {
			say(protocol.Response{Op: protocol.OpError, ID: q.ID, Code: code, Message: "the fake " + mode})
		}
		text := q.Op
		switch q.Op {
		case protocol.OpTables:
			text += " " + strconv.Itoa(len(q.Tables))
		case protocol.OpInit:
			text += fmt.Sprintf(" %s %d", q.Cache, q.FlushBytes)
		}
		note(text)
		switch q.Op {
		case protocol.OpHello:
			hello := protocol.Response{
				Op: q.Op, V: protocol.Version, Backend: "fake", Device: "a fake", Kernel: "fake 1", Clocks: "steady", Measured: true, Threads: 2,
				Caps: []string{protocol.CapCompute, protocol.CapComm, protocol.CapWeighted, protocol.CapCeilings, protocol.CapLengths},
			}
			switch mode {
			case "banner":
				raw("Welcome to the fake worker! " + strings.Repeat("x", 300) + "\n")
			case "version":
				hello.V = 99
			case "exit":
				fmt.Fprintln(os.Stderr, "no such module: torch")
				os.Exit(3)
			case "mute":
				note(strconv.Itoa(os.Getpid()))
				select {}
			case "single":
				hello.Caps = []string{protocol.CapCompute, protocol.CapCeilings, protocol.CapLengths, "sgd", "fp32"}
			case "plain":
				hello.Caps = []string{protocol.CapCompute, protocol.CapLengths}
			case "equal":
				hello.Caps = []string{protocol.CapCompute, protocol.CapCeilings}
			case "files":
				hello.Caps = []string{protocol.CapCompute, protocol.CapCeilings, protocol.CapLookupFiles}
			case "half":
				hello.Caps = append(hello.Caps, protocol.CapCommPrefix+"bf16")
			case "negative memory":
				hello.MemoryBytes = -1
			case "other":
				if again {
					hello.Device = "another fake"
				}
			case "other kernel":
				if again {
					hello.Kernel = "fake 2"
				}
			case "other backend":
				if again {
					hello.Backend = "forgery"
				}
			case "other source":
				hello.Measured = !again
			}
			say(hello)
		case protocol.OpInit:
			clear(known)
			say(protocol.Response{Op: q.Op, Cache: "flushed 1MiB"})
		case protocol.OpTables:
			if mode == "small" && len(known)+len(q.Tables) > 40 {
				refuse(protocol.CodeMemory)
				continue
			}
			if mode == "files" {
				for i := range q.Tables {
					countLookups(&q.Tables[i])
				}
			}
			for i := range q.Tables {
				known[q.Tables[i].T] = true
				q.Tables[i].Rows, q.Tables[i].PoolingFactor = 0, 0
			}
			first := &q.Tables[0]
			switch mode {
			case "no tables":
				raw(`{"op":"tables","tables":[]}` + "\n")
				continue
			case "text for a share":
				raw(fmt.Sprintf(`{"op":"tables","tables":[{"t":%d,"unique_rows":1,"reuse":["1"]}]}`+"\n", first.T))
				continue
			case "lost table":
				q.Tables = q.Tables[1:]
			case "negative rows":
				first.UniqueRows = -5
			case "more rows":
				first.UniqueRows = 1e15
			case "negative spread":
				first.LengthCV = -0.5
			case "negative share":
				first.Reuse[2] = -0.25
			case "large shares":
				first.Reuse[2] = 40
			case "no shares":
				clear(first.Reuse[:])
			}
			say(protocol.Response{Op: q.Op, Tables: q.Tables})
		case protocol.OpCeilings:
			say(protocol.Response{Op: q.Op, Ceilings: map[string]float64{"copy_gbps": 10, "gather_gbps": 5}, Profile: fakeProfile})
		case protocol.OpComm:
			r := protocol.Response{Op: q.Op, ID: q.ID, N: 3, Spread: .01, Source: "measured"}
			for i, sum := range q.Dims {
				time := .1 + float64(sum*q.Batch)/1e6
				if q.DType == "bf16" {
					time = .1 + float64(sum*q.Batch)/2e6
				}
				r.Backward = append(r.Backward, time)
				r.Forward = append(r.Forward, time+float64(i))
			}
			if mode == "short" {
				r.Backward = r.Backward[1:]
			}
			say(r)
		case protocol.OpCompute:
			groups++
			r := protocol.Response{Op: q.Op, ID: q.ID, N: 3, Source: "measured", ForwardSpread: .01, BackwardSpread: .02, ForwardMS: .5, BackwardMS: 1}
			unknown := false
			for _, m := range q.Group {
				r.ForwardMS += float64(m.Dim) / 100
				r.BackwardMS += float64(m.T%1000) / 100
				unknown = unknown || !known[m.T]
			}
			if unknown {
				refuse(protocol.CodeBadRequest)
				continue
			}
			switch mode {
			case "hang":
				select {}
			case "die":
				fmt.Fprintln(os.Stderr, "\x1b[31mSegmentation\xff fault\x1b[0m")
				os.Exit(5)
			case "rubbish":
				raw("Traceback (most recent call last):\n")
			case "null":
				raw(fmt.Sprintf(`{"op":"compute","id":%q,"fwd_ms":null,"bwd_ms":1,"n":3,"source":"measured"}`+"\n", q.ID))
			case "1e999":
				raw(fmt.Sprintf(`{"op":"compute","id":%q,"fwd_ms":1e999,"bwd_ms":1}`+"\n", q.ID))
			case "string":
				raw(fmt.Sprintf(`{"op":"compute","id":%q,"fwd_ms":"NaN","bwd_ms":1}`+"\n", q.ID))
			case "NaN":
				raw(fmt.Sprintf(`{"op":"compute","id":%q,"fwd_ms":NaN,"bwd_ms":1}`+"\n", q.ID))
			case "negative":
				r.BackwardMS = -1
				say(r)
			case "zero":
				r.ForwardMS = 0
				say(r)
			case "source":
				r.Source = "simulated"
				say(r)
			case "no source":
				r.Source = ""
				say(r)
			case "no runs":
				r.N = 0
				say(r)
			case "id":
				r.ID = "s99"
				say(r)
			case "op":
				r.Op = protocol.OpComm
				say(r)
			case "huge":
				for range 40 {
					raw(strings.Repeat("x", 1<<20))
				}
			case "chatty":
				fmt.Fprint(os.Stderr, strings.Repeat("noise\n", 100_000))
				say(r)
			case protocol.CodeMemory, protocol.CodeUnsupported, protocol.CodeInternal, protocol.CodeDrift:
				refuse(mode)
			case "recovers", "other", "other kernel", "other backend", "other source":
				if !again {
					select {}
				}
				say(r)
			case "internal once":
				if !again {
					refuse(protocol.CodeInternal)
					continue
				}
				say(r)
			case "parent":
				child := exec.Command(os.Args[0])
				child.Env = append(os.Environ(), envFake+"=hang")
				child.Stderr = os.Stderr
				in, err := child.StdinPipe()
				if err != nil || child.Start() != nil {
					panic("cannot start a child")
				}
				defer in.Close()
				note(strconv.Itoa(child.Process.Pid))
				select {}
			case "slow":
				if most, err := strconv.Atoi(os.Getenv(envGroups)); err == nil && groups > most {
					_, _ = io.Copy(io.Discard, os.Stdin)
					return
				}
				time.Sleep(3 * time.Millisecond)
				say(r)
			default:
				say(r)
			}
		}
	}
}

// script is a Backend in this process. A function gives its times by the number of
// the call, from 0.
type script struct {
	provenance dataset.Provenance
	compute    func(call int, g *dataset.Group) (Timing, error)
	comm       func(call int, e *dataset.Exchange) (CommTiming, error)
	calls      int
	ids        []int // of the groups measured
	closed     atomic.Bool
}

func newScript() *script {
	return &script{provenance: dataset.Provenance{
		Source: dataset.Measured, Profile: "h200", Backend: "script", Device: "a script", Kernel: "script 1", Clocks: "none", Repeats: 3, Threads: 1, Cache: "warm",
	}}
}

func (s *script) Provenance() dataset.Provenance { return s.provenance }

// steadyTiming returns the times of a group without drift.
func steadyTiming(g *dataset.Group) Timing {
	t := unit.Millis(1 + len(g.Members))
	return Timing{t, 2*t + unit.Millis(g.ID)/1024, .125, .25}
}

func (s *script) Compute(ctx context.Context, _ []problem.Table, g *dataset.Group) (Timing, error) {
	if err := ctx.Err(); err != nil {
		return Timing{}, err
	}
	s.ids = append(s.ids, g.ID)
	s.calls++
	if s.compute != nil {
		return s.compute(s.calls-1, g)
	}
	return steadyTiming(g), nil
}

func (s *script) Comm(ctx context.Context, e *dataset.Exchange) (CommTiming, error) {
	if err := ctx.Err(); err != nil {
		return CommTiming{}, err
	}
	s.calls++
	if s.comm != nil {
		return s.comm(s.calls-1, e)
	}
	return steadyComm(e), nil
}

func steadyComm(e *dataset.Exchange) CommTiming {
	t := CommTiming{Spread: .5}
	for i, sum := range e.DimSums {
		t.Backward = append(t.Backward, unit.Millis(1+sum)/64)
		t.Forward = append(t.Forward, unit.Millis(1+sum+i)/32)
	}
	return t
}

func (s *script) Close() error { s.closed.Store(true); return nil }

// drawn returns a design of the given numbers of groups and exchanges.
func drawn(t testing.TB, groups, exchanges int) dataset.Dataset {
	t.Helper()
	set, err := draw(groups, exchanges)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func draw(groups, exchanges int) (set dataset.Dataset, err error) {
	domain := design.CPU()
	domain.MaxShards = 6
	if groups > 0 {
		if set.Compute, err = domain.Compute(3, 20, groups); err != nil {
			return set, err
		}
	}
	if exchanges > 0 {
		set.Comm, err = domain.Comm(3, exchanges)
	}
	return set, err
}

// begun returns a run of a design that has measured nothing.
func begun(t testing.TB, design dataset.Dataset) *run {
	t.Helper()
	r, err := newRun(design, newScript(), Options{Shard: Shard{1, 1}, DriftLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// unwritten measures a design whose dataset cannot be written, and returns the journal, which is
// kept.
func unwritten(t testing.TB, design dataset.Dataset, backend Backend, folder string, opt Options) []byte {
	t.Helper()
	// A file of this name that is not a dataset's is not overwritten.
	foreign := filepath.Join(folder, dataset.TablesName)
	if err := os.WriteFile(foreign, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := collect(context.Background(), design, backend, folder, opt); err == nil || !strings.Contains(err.Error(), "all is measured and kept") {
		t.Fatalf("got error %v, want one of the dataset", err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	return journalOf(t, folder)
}

// collector is the process that the test kills.
func collector(folder string) error {
	design, err := draw(killGroups, killExchanges)
	if err != nil {
		return err
	}
	mode := cmp.Or(os.Getenv(envCollectorFake), "slow")
	opt := fakeOptions(mode)
	opt.Env = append(os.Environ(), envCollector+"=", envFake+"="+mode)
	ctx := context.Background()
	w, err := StartWorker(ctx, opt)
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = Run(ctx, design, w, folder, killOptions())
	return err
}

const (
	killGroups    = 250
	killExchanges = 40
)

func killOptions() Options { return Options{AnchorEvery: 25, Tool: "test"} }

// journalOf returns the journal of a folder.
func journalOf(t testing.TB, folder string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, journalName))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
