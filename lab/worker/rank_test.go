package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/problem"
)

// asRank in the environment makes the test binary one rank of an all-to-all, and
// asWorker a whole worker whose ranks are the same binary.
const (
	asRank   = "NEUROSHARD_TEST_RANK"
	asWorker = "NEUROSHARD_TEST_WORKER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asRank) != "":
		if err := ServeRank(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case os.Getenv(asWorker) != "":
		if err := Serve(context.Background(), os.Stdin, os.Stdout, Options{Threads: 1, Memory: 1 << 26, Rank: testRank, Log: os.Stderr}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// testRank starts the test binary as a rank, which says its process number first.
func testRank(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), asRank+"=1", asWorker+"=")
	return cmd
}

// newRanks returns ranks that end with the test.
func newRanks(t *testing.T) *ranks {
	t.Helper()
	log := new(bytes.Buffer)
	g := &ranks{start: testRank, log: logTo(log), lifetime: t.Context()}
	t.Cleanup(func() {
		g.close()
		if t.Failed() {
			t.Logf("ranks: %s", log)
		}
	})
	return g
}

// offsets are n starts. One start is late by the given time.
func offsets(n, one int, late time.Duration) []time.Duration {
	s := make([]time.Duration, n)
	s[one] = late
	return s
}

// TestExchangeTransposes checks the layout without any network: chunks are handed
// over in memory.
func TestExchangeTransposes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "ranks")
		batch := rapid.IntRange(1, 23).Draw(t, "batch")
		dims := rapid.SliceOfN(rapid.IntRange(0, 9), n, n).Draw(t, "dims")
		precision := rapid.SampledFrom([]problem.Precision{problem.FP32, problem.FP16, problem.BF16}).Draw(t, "precision")
		all := make([]*exchange, n)
		for r := range all {
			all[r] = newExchange(r, sizes{batch, dims, precision}, func(size int) []byte { return bytes.Repeat([]byte{0xee}, size) })
		}
		for _, backward := range []bool{false, true} {
			for _, e := range all {
				e.fill(backward)
				for p := range n {
					e.pack(p, backward)
				}
			}
			for r, e := range all {
				for p := range n {
					if p != r {
						if got, want := len(e.received(p, backward)), len(all[p].sent(r, backward)); got != want {
							t.Fatalf("rank %d expects %d bytes of rank %d, which sends %d", r, got, p, want)
						}
						copy(e.received(p, backward), all[p].sent(r, backward))
					}
					e.unpack(p, backward)
				}
				if !e.arrived(backward) {
					t.Fatalf("rank %d, backward %v: what arrived is not what was sent", r, backward)
				}
			}
		}
		// The numbers of the check depend on the direction, and one byte is seen.
		e := all[0]
		if len(e.wide) > 0 && e.arrived(false) && len(e.tall) > 0 {
			t.Fatal("the backward's numbers pass for the forward's")
		}
		if len(e.wide) > 0 {
			e.wide[rapid.IntRange(0, len(e.wide)-1).Draw(t, "byte")] ^= 1
			if e.arrived(true) {
				t.Fatal("a wrong byte was not seen")
			}
		}
	})
}

func TestExchangeBytes(t *testing.T) {
	for _, precision := range []problem.Precision{problem.FP32, problem.FP16, problem.BF16} {
		s := sizes{101, []int{8, 0, 12}, precision}
		total := 0
		for r := range s.Dims {
			newExchange(r, s, func(size int) []byte {
				total += size - 2*len(s.Dims)*header
				return make([]byte, size)
			})
		}
		if got := s.bytes(); got != int64(total) {
			t.Errorf("%v: got %d bytes, the ranks take %d", precision, got, total)
		}
	}
}

// TestAllToAll runs real processes: the checks of what arrives are their own, so
// here it is that they say so, and that sizes of all kinds pass.
func TestAllToAll(t *testing.T) {
	g := newRanks(t)
	for _, s := range []sizes{
		{64, []int{8, 8}, problem.FP32},
		{64, []int{64, 4, 0, 12}, problem.BF16}, // grows the group; a rank without dims
		{7, []int{4, 8, 16}, problem.FP16},      // a remainder; ranks are left out
		{2, []int{4, 4, 4, 4}, problem.FP32},    // ranks without samples
		{5, []int{0, 0}, problem.FP32},
		{4096, []int{128, 64}, problem.BF16}, // more than socket buffers hold
		{4096, []int{128, 64}, problem.FP32},
	} {
		times, err := g.allToAll(s, make([]time.Duration, len(s.Dims)), 0, 3)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		for r := range s.Dims {
			for i := range 3 {
				if !(times.forward[r][i] > 0 && times.backward[r][i] > 0) || len(times.forward[r]) != 3 {
					t.Errorf("%+v: rank %d took %v and %v ms", s, r, times.forward[r], times.backward[r])
				}
			}
		}
	}
	if len(g.processes) != 4 {
		t.Errorf("%d processes were started, want 4: ranks are kept", len(g.processes))
	}
}

// orders keeps the runs that a rank is ordered to make, in order.
type orders struct {
	io.WriteCloser
	runs []order
}

func (o *orders) Write(line []byte) (int, error) {
	var said order
	if err := json.Unmarshal(line, &said); err != nil {
		return 0, err
	}
	if said.Do == doRun {
		o.runs = append(o.runs, said)
	}
	return o.WriteCloser.Write(line)
}

// TestWait: the forward of each rank starts at its own time, and the backward of all ranks
// at one time. The time of a rank counts from its own start, so the time of those that
// start early contains the wait for the last.
func TestWait(t *testing.T) {
	const late, one, ranks = 30 * time.Millisecond, 1, 3
	g := newRanks(t)
	if err := g.grow(ranks); err != nil {
		t.Fatal(err)
	}
	said := make([]*orders, ranks)
	for r, p := range g.processes {
		said[r] = &orders{WriteCloser: p.in}
		p.in = said[r]
	}
	times, err := g.allToAll(sizes{Batch: 32, Dims: []int{4, 4, 4}}, offsets(ranks, one, late), 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	for r := range ranks {
		if forward, _ := middle(times.forward[r]); r != one && forward < late.Seconds()*1e3 {
			t.Errorf("rank %d: the forward took %v ms, want the wait of %v in it", r, forward, late)
		}
		for i, run := range said[r].runs {
			want := said[0].runs[i].At
			if !run.Backward && r == one {
				want += late.Nanoseconds()
			}
			if run.At != want || run.Backward != said[0].runs[i].Backward {
				t.Errorf("rank %d, run %d: got the order %+v, want the start %d", r, i, run, want)
			}
		}
	}
	// A run ends before its answers come, so no rank can have taken longer than from its own
	// start until then.
	starts := offsets(ranks, one, late)
	for range 5 {
		answers, err := g.punctual(starts, late, false)
		end := now()
		if err != nil {
			t.Fatal(err)
		}
		for r, a := range answers {
			runs := said[r].runs
			if most := end - runs[len(runs)-1].At; a.NS <= 0 || a.NS > most {
				t.Errorf("rank %d took %d ns, want at most the %d ns from its own start to the answer", r, a.NS, most)
			}
		}
	}
}

// TestRanksThatDie are replaced, by the first try that notices.
func TestRanksThatDie(t *testing.T) {
	g := newRanks(t)
	run := func() error {
		_, err := g.allToAll(sizes{Batch: 16, Dims: []int{4, 4}}, make([]time.Duration, 2), 0, 1)
		return err
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	first := g.processes[1].cmd.Process
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil {
		t.Fatalf("after a rank had been killed: %v", err)
	}
	if g.processes[1].cmd.Process.Pid == first.Pid {
		t.Error("the dead rank was not replaced")
	}
}

func TestRanksThatDoNotStart(t *testing.T) {
	for name, command := range map[string][]string{
		"missing": {"/nonexistent/rank"},
		"silent":  {"/bin/sh", "-c", "exit 3"},
		"rubbish": {"/bin/sh", "-c", "echo hello; cat >/dev/null"},
	} {
		g := newRanks(t)
		g.start = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, command[0], command[1:]...) }
		if _, err := g.allToAll(sizes{Batch: 16, Dims: []int{4, 4}}, make([]time.Duration, 2), 0, 1); err == nil || !strings.Contains(err.Error(), "rank") {
			t.Errorf("%s: got %v, want an error that names a rank", name, err)
		}
		if len(g.processes) != 0 {
			t.Errorf("%s: %d processes are left", name, len(g.processes))
		}
	}
}

// TestRanksEnd: close ends and reaps every process.
func TestRanksEnd(t *testing.T) {
	for name, end := range map[string]func(*ranks){"close": (*ranks).close, "kill": (*ranks).kill} {
		g := newRanks(t)
		if err := g.grow(3); err != nil {
			t.Fatal(err)
		}
		var processes []*os.Process
		for _, p := range g.processes {
			processes = append(processes, p.cmd.Process)
		}
		end(g)
		for r, p := range processes {
			if err := p.Signal(syscall.Signal(0)); err == nil {
				t.Errorf("%s: rank %d is still there", name, r)
			}
		}
	}
}

// TestRanksDieWithTheWorker kills a worker as the system would, with no chance to
// tidy up: its ranks see their input end.
func TestRanksDieWithTheWorker(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a worker's children are found in /proc, which Linux alone has; CI runs this there")
	}
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), asWorker+"=1")
	in, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}()
	// The second exchange keeps them busy for a minute.
	requests := `{"op":"init","batch":16,"repeats":1,"cache":"warm"}
{"op":"comm","id":"c","dims":[4,4,4]}
`
	if _, err := io.WriteString(in, requests); err != nil {
		t.Fatal(err)
	}
	for line := make([]byte, 4096); !strings.Contains(string(line), `"c"`); {
		n, err := out.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		line = line[:n]
		if !strings.Contains(string(line), `"c"`) {
			line = line[:cap(line)]
		}
	}
	children := childrenOf(t, worker.Process.Pid)
	if len(children) != 3 {
		t.Fatalf("the worker has the children %v, want 3", children)
	}
	if _, err := io.WriteString(in, `{"op":"comm","id":"d","dims":[4,4,4],"start_ms":[0,0,60000]}`+"\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // most often the ranks have their orders then
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	// Ranks that did not see their input end would live on until the exchange starts.
	deadline := time.Now().Add(50 * time.Second)
	for _, pid := range children {
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("rank %d outlives its worker", pid)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(t *testing.T, pid int) (children []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if _, parent := stateOf(child); parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// alive reports whether a process runs: one that nobody has reaped does not.
func alive(pid int) bool {
	state, _ := stateOf(pid)
	return state != "" && state != "Z" && state != "X"
}

func stateOf(pid int) (state string, parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	// The name, in brackets, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}

// TestStrangers: a rank talks to nobody who does not know the token.
func TestStrangers(t *testing.T) {
	g := newRanks(t)
	if err := g.grow(1); err != nil {
		t.Fatal(err)
	}
	stranger := &rank{joined: nil, number: 1, token: make([]byte, tokenBytes)}
	if err := stranger.dial(g.addrs[:1]); err == nil {
		t.Error("a stranger joined")
	}
}

// TestRankOrders: wrong orders are answered, and change nothing.
func TestRankOrders(t *testing.T) {
	token := strings.Repeat("A", 43) + "="
	in := strings.Join([]string{
		`rubbish`,
		`{"Do":"dance"}`,
		`{"Do":"run","At":1}`,
		`{"Do":"listen","Rank":0,"Token":"AAAA"}`,
		`{"Do":"listen","Rank":1,"Token":"` + token + `"}`,
		`{"Do":"listen","Rank":1,"Token":"` + token + `"}`,
		`{"Do":"prepare","Batch":4,"Dims":[4]}`,
		`{"Do":"prepare","Batch":-4,"Dims":[4,4]}`,
		`{"Do":"prepare","Batch":4,"Dims":[4,-4]}`,
		`{"Do":"prepare","Batch":4,"Dims":[4,4]}`,
		`{"Do":"run","At":1}`,
		`{"Do":"prepare"}`,
		`{"Do":"fill"}`,
	}, "\n")
	var out strings.Builder
	if err := ServeRank(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	want := []string{"invalid", "dance", "prepared", "token", "Addr", "already", "rank 1 of 1", "batch", "dims", "{}", "not joined", "{}", "prepared"}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != len(want) {
		t.Fatalf("got %d answers, want %d:\n%s", len(got), len(want), out.String())
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("answer %d: got %s, want %q in it", i, got[i], want[i])
		}
	}
}

func TestSleepUntil(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Second, 0, 5 * time.Microsecond, 3 * time.Millisecond} {
		at := now() + ahead.Nanoseconds()
		sleepUntil(at)
		if early := at - now(); early > 0 {
			t.Errorf("%v ahead: woke %d ns early", ahead, early)
		}
	}
}

func TestLastMoment(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		-time.Second:           10 * time.Millisecond,
		time.Millisecond:       10 * time.Millisecond,
		400 * time.Millisecond: 100 * time.Millisecond,
		8 * time.Second:        time.Second,
	} {
		if got := lastMoment(left); got != want {
			t.Errorf("left %v: got %v, want %v", left, got, want)
		}
	}
}
