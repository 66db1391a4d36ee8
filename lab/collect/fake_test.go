package collect

import (
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
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// The binary of the test is also the fake worker, and the collector that is killed:
//
//	fake MODE [note=FILE] [mark=FILE] [groups=N]   FILE gets the requests' ops, says whether it was started before;
//	                                               a slow fake hangs after N groups
//	collector FOLDER [groups=N]                    collects into FOLDER, from a slow fake
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "fake" && os.Args[1] != "collector" {
		os.Exit(m.Run())
	}
	if os.Args[1] == "fake" {
		fakeWorker(os.Args[2])
	} else if err := collector(os.Args[2], os.Args[3:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// argument returns the value of an argument of the fake worker, or "".
func argument(name string) string {
	for _, a := range os.Args[3:] {
		if value, ok := strings.CutPrefix(a, name+"="); ok {
			return value
		}
	}
	return ""
}

// hanging is how long a test waits before it says that something hangs. It is long, because a
// loaded machine may take long for anything.
const hanging = 5 * time.Minute

// fakeOptions start the fake worker.
func fakeOptions(mode string, arguments ...string) WorkerOptions {
	return WorkerOptions{
		Command: append([]string{os.Args[0], "fake", mode}, arguments...),
		Warmup:  1, Repeats: 3, Seed: 7, Name: "fake", Deadline: hanging,
	}
}

func startFake(t testing.TB, opt WorkerOptions) *Worker {
	t.Helper()
	w := must.Get(StartWorker(context.Background(), opt))(t)
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

// What modes of the fake worker change in a response. again is true if it was started before.
var (
	changedHello = map[string]func(r *protocol.Response, again bool){
		"version": func(r *protocol.Response, _ bool) { r.V = 99 },
		"single": func(r *protocol.Response, _ bool) {
			r.Caps = []string{protocol.CapCompute, protocol.CapCeilings, protocol.CapLengths, "sgd", "fp32"}
		},
		"plain": func(r *protocol.Response, _ bool) { r.Caps = []string{protocol.CapCompute, protocol.CapLengths} },
		"equal": func(r *protocol.Response, _ bool) { r.Caps = []string{protocol.CapCompute, protocol.CapCeilings} },
		"files": func(r *protocol.Response, _ bool) {
			r.Caps = []string{protocol.CapCompute, protocol.CapCeilings, protocol.CapLookupFiles}
		},
		"half":            func(r *protocol.Response, _ bool) { r.Caps = append(r.Caps, protocol.CapCommPrefix+"bf16") },
		"negative memory": func(r *protocol.Response, _ bool) { r.MemoryBytes = -1 },
		"other":           func(r *protocol.Response, again bool) { r.Device += fmt.Sprint(again) },
		"other kernel":    func(r *protocol.Response, again bool) { r.Kernel += fmt.Sprint(again) },
		"other backend":   func(r *protocol.Response, again bool) { r.Backend += fmt.Sprint(again) },
		"other source":    func(r *protocol.Response, again bool) { r.Measured = !again },
	}
	changedTables = map[string]func(r *protocol.Response){
		"no tables":       func(r *protocol.Response) { r.Tables = nil },
		"lost table":      func(r *protocol.Response) { r.Tables = r.Tables[1:] },
		"negative rows":   func(r *protocol.Response) { r.Tables[0].UniqueRows = -5 },
		"more rows":       func(r *protocol.Response) { r.Tables[0].UniqueRows = 1e15 },
		"negative spread": func(r *protocol.Response) { r.Tables[0].LengthCV = -0.5 },
		"negative share":  func(r *protocol.Response) { r.Tables[0].Reuse[2] = -0.25 },
		"large shares":    func(r *protocol.Response) { r.Tables[0].Reuse[2] = 40 },
		"no shares":       func(r *protocol.Response) { clear(r.Tables[0].Reuse[:]) },
	}
	changedTimes = map[string]func(r *protocol.Response){
		"negative":  func(r *protocol.Response) { r.BackwardMS = -1 },
		"zero":      func(r *protocol.Response) { r.ForwardMS = 0 },
		"source":    func(r *protocol.Response) { r.Source = "simulated" },
		"no source": func(r *protocol.Response) { r.Source = "" },
		"no runs":   func(r *protocol.Response) { r.N = 0 },
		"id":        func(r *protocol.Response) { r.ID = "s99" },
		"op":        func(r *protocol.Response) { r.Op = protocol.OpComm },
	}
	// rawTimes are said in the place of a response.
	rawTimes = map[string]string{
		"rubbish": "Traceback (most recent call last):",
		"null":    `{"op":"compute","id":"ID","fwd_ms":null,"bwd_ms":1,"n":3,"source":"measured"}`,
		"1e999":   `{"op":"compute","id":"ID","fwd_ms":1e999,"bwd_ms":1}`,
		"string":  `{"op":"compute","id":"ID","fwd_ms":"NaN","bwd_ms":1}`,
		"NaN":     `{"op":"compute","id":"ID","fwd_ms":NaN,"bwd_ms":1}`,
		"huge":    strings.Repeat("x", protocol.MaxLine+1),
	}
)

// fake is the fake worker. It speaks the protocol; its times depend on the request only. It
// refuses groups with tables that it was not sent.
type fake struct {
	mode   string
	again  bool // whether it was started before
	known  map[int]bool
	groups int
	note   io.Writer
	raw    string // what it says in the place of a response
}

func fakeWorker(mode string) {
	f := fake{mode: mode, known: map[int]bool{}, note: io.Discard}
	if mark := argument("mark"); mark != "" {
		_, err := os.Stat(mark)
		f.again = err == nil
		if err := os.WriteFile(mark, nil, 0o666); err != nil {
			panic(err)
		}
	}
	if path := argument("note"); path != "" {
		var err error
		if f.note, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666); err != nil {
			panic(err)
		}
	}
	lines := protocol.NewReader(os.Stdin)
	for {
		line, err := lines.Line()
		if err != nil {
			return
		}
		var q protocol.Request
		if err := json.Unmarshal(line, &q); err != nil {
			panic(err)
		}
		fmt.Fprintln(f.note, q.Op, len(q.Tables))
		r := f.answer(&q)
		if f.raw != "" {
			fmt.Println(f.raw)
			f.raw = ""
			continue
		}
		r.Op, r.ID = cmp.Or(r.Op, q.Op), cmp.Or(r.ID, q.ID)
		if protocol.Write(os.Stdout, r) != nil {
			os.Exit(1) // nobody listens any more
		}
	}
}

func (f *fake) refuse(code string) protocol.Response {
	return protocol.Response{Op: protocol.OpError, Code: code, Message: "the fake " + f.mode}
}

func (f *fake) answer(q *protocol.Request) (r protocol.Response) {
	switch q.Op {
	case protocol.OpHello:
		switch f.mode {
		case "banner":
			fmt.Println("Welcome to the fake worker! " + strings.Repeat("x", 300))
		case "exit":
			fmt.Fprintln(os.Stderr, "no such module: torch")
			os.Exit(3)
		case "mute":
			select {}
		}
		r = protocol.Response{
			V: protocol.Version, Backend: "fake", Device: "a fake", Kernel: "fake 1", Clocks: "steady", Measured: true, Threads: 2,
			Caps: []string{protocol.CapCompute, protocol.CapComm, protocol.CapWeighted, protocol.CapCeilings, protocol.CapLengths},
		}
		if change := changedHello[f.mode]; change != nil {
			change(&r, f.again)
		}
	case protocol.OpInit:
		clear(f.known)
		r.Cache = "flushed 1MiB"
	case protocol.OpTables:
		if f.mode == "small" && len(f.known)+len(q.Tables) > 40 {
			return f.refuse(protocol.CodeMemory)
		}
		if f.mode == "text for a share" {
			f.raw = fmt.Sprintf(`{"op":"tables","tables":[{"t":%d,"unique_rows":1,"reuse":["1"]}]}`, q.Tables[0].T)
		}
		for i := range q.Tables {
			if f.mode == "files" {
				countLookups(&q.Tables[i])
			}
			f.known[q.Tables[i].T] = true
			q.Tables[i].Rows, q.Tables[i].PoolingFactor = 0, 0
		}
		r.Tables = q.Tables
		if change := changedTables[f.mode]; change != nil {
			change(&r)
		}
	case protocol.OpCeilings:
		r.Ceilings, r.Profile = map[string]float64{"copy_gbps": 10, "gather_gbps": 5}, fakeProfile
	case protocol.OpComm:
		r = protocol.Response{N: 3, Spread: .01, Source: "measured"}
		for i, sum := range q.Dims {
			time := .1 + float64(sum*q.Batch)/1e6
			if q.DType == "bf16" {
				time = .1 + float64(sum*q.Batch)/2e6
			}
			r.Backward, r.Forward = append(r.Backward, time), append(r.Forward, time+float64(i))
		}
	case protocol.OpCompute:
		return f.compute(q)
	}
	return r
}

func (f *fake) compute(q *protocol.Request) protocol.Response {
	f.groups++
	r := protocol.Response{N: 3, Source: "measured", ForwardSpread: .01, BackwardSpread: .02, ForwardMS: .5, BackwardMS: 1}
	for _, m := range q.Group {
		r.ForwardMS += float64(m.Dim) / 100
		r.BackwardMS += float64(m.T%1000) / 100
		if !f.known[m.T] {
			return f.refuse(protocol.CodeBadRequest)
		}
	}
	f.raw = strings.Replace(rawTimes[f.mode], "ID", q.ID, 1)
	if change := changedTimes[f.mode]; change != nil {
		change(&r)
	}
	switch f.mode {
	case "hang":
		select {}
	case "die":
		fmt.Fprintln(os.Stderr, "\x1b[31mSegmentation\xff fault\x1b[0m")
		os.Exit(5)
	case "chatty":
		fmt.Fprint(os.Stderr, strings.Repeat("noise\n", 100_000))
	case protocol.CodeMemory, protocol.CodeUnsupported, protocol.CodeInternal, protocol.CodeDrift:
		return f.refuse(f.mode)
	case "other", "other kernel", "other backend", "other source":
		if !f.again {
			select {}
		}
	case "parent":
		child := exec.Command(os.Args[0], "fake", "hang")
		child.Stderr = os.Stderr
		in, err := child.StdinPipe()
		if err != nil || child.Start() != nil {
			panic("cannot start a child")
		}
		defer in.Close()
		fmt.Fprintln(f.note, child.Process.Pid)
		select {}
	case "slow":
		if most, err := strconv.Atoi(argument("groups")); err == nil && f.groups > most {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}
		time.Sleep(3 * time.Millisecond)
	}
	return r
}

// script is a Backend in this process. A function gives its times by the number of
// the call, from 0.
type script struct {
	provenance dataset.Provenance
	compute    func(call int, g *dataset.Group) (Timing, error)
	comm       func(call int, e *dataset.Exchange) (CommTiming, error)
	calls      int
	ids        []int // of the groups measured
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

func (s *script) Close() error { return nil }

// drawn returns a design of the given numbers of groups and exchanges.
func drawn(t testing.TB, groups, exchanges int) dataset.Dataset {
	t.Helper()
	return must.Get(draw(groups, exchanges))(t)
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
	return must.Get(newRun(design, newScript(), Options{Shard: Shard{1, 1}, DriftLimit: 1}))(t)
}

// unwritten measures a design whose dataset cannot be written, and returns the journal, which is
// kept.
func unwritten(t testing.TB, design dataset.Dataset, backend Backend, folder string, opt Options) []byte {
	t.Helper()
	// A file of this name that is not a dataset's is not overwritten.
	foreign := filepath.Join(folder, dataset.TablesName)
	must.Do(t, os.WriteFile(foreign, []byte("mine"), 0o666))
	if _, err := collect(context.Background(), design, backend, folder, opt); err == nil || !strings.Contains(err.Error(), "all is measured and kept") {
		t.Fatalf("got error %v, want one of the dataset", err)
	}
	must.Do(t, os.Remove(foreign))
	return journalOf(t, folder)
}

// collector is the process that the test kills.
func collector(folder string, arguments ...string) error {
	design, err := draw(killGroups, killExchanges)
	if err != nil {
		return err
	}
	ctx := context.Background()
	w, err := StartWorker(ctx, fakeOptions("slow", arguments...))
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
	return must.Get(os.ReadFile(filepath.Join(folder, journalName)))(t)
}
