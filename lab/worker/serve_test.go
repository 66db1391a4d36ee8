package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/worker/engine"
	"github.com/neuroshard/neuroshard/unit"
)

// small is the options of a worker that takes almost nothing.
func small() Options { return Options{Threads: 2, Memory: 64 * unit.MiB, IndexMemory: unit.MiB} }

// talk runs a whole conversation and returns the responses.
func talk(t testing.TB, opt Options, requests ...string) []protocol.Response {
	t.Helper()
	var out bytes.Buffer
	if err := Serve(context.Background(), strings.NewReader(strings.Join(requests, "\n")), &out, opt); err != nil {
		t.Fatalf("Serve: %v", err)
	}
	var responses []protocol.Response
	for line := range strings.Lines(out.String()) {
		var r protocol.Response
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("response %q: %v", line, err)
		}
		responses = append(responses, r)
	}
	if len(responses) != len(requests) {
		t.Fatalf("got %d responses to %d requests:\n%s", len(responses), len(requests), out.String())
	}
	return responses
}

// reuse is a histogram as JSON: half of the rows once, half of them twice.
const reuse = `[0.5,0.5,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]`

const initWarm = `{"op":"init","batch":64,"repeats":3,"cache":"warm","seed":7}`

// tableLine adds table number of the rows and pooling factor.
func tableLine(number, rows int, pooling float64) string {
	return fmt.Sprintf(`{"op":"tables","tables":[{"t":%d,"rows":%d,"pooling_factor":%v,"reuse":%s}]}`, number, rows, pooling, reuse)
}

// numbers that depend on the machine or the moment.
var measured = regexp.MustCompile(`"(fwd_ms|bwd_ms|fwd_iqr|bwd_iqr|iqr|memory_bytes|cache_bytes)":[0-9.e+-]+|"(fwd|bwd)":\[[0-9.e+,-]+\]|"(device|kernel|clocks)":"[^"]+"`)

// mask hides what differs from run to run. Interquartile ranges of 0 are left out
// of a response, so all are.
func mask(responses string) string {
	masked := measured.ReplaceAllStringFunc(responses, func(found string) string {
		name, value, _ := strings.Cut(found, ":")
		switch value[0] {
		case '[':
			return name + ":[*]"
		case '"':
			return name + `:"*"`
		}
		return name + ":*"
	})
	masked = regexp.MustCompile(` of a [0-9]+[KM]?i?B cache`).ReplaceAllString(masked, "")
	return regexp.MustCompile(`,"(fwd_iqr|bwd_iqr|iqr)":\*`).ReplaceAllString(masked, "")
}

// TestConversation is a whole conversation, with what is measured masked.
func TestConversation(t *testing.T) {
	requests := must.Get(os.ReadFile("testdata/requests.jsonl"))(t)
	opt := small()
	var out bytes.Buffer
	must.Do(t, Serve(t.Context(), bytes.NewReader(requests), &out, opt))
	masked := mask(out.String())
	must.Match(t, "testdata/responses.golden", []byte(masked))
}

// TestRefusals: every wrong request has its code and says what is wrong.
func TestRefusals(t *testing.T) {
	opt := small()
	prefix := []string{
		initWarm,
		tableLine(0, 1000, 2),
		fmt.Sprintf(`{"op":"tables","tables":[{"t":1,"rows":1000,"pooling_factor":2,"batch":32,"reuse":%s},{"t":2,"rows":1000,"pooling_factor":0},{"t":3,"rows":4294967296,"pooling_factor":1,"reuse":%s}]}`, reuse, reuse),
	}
	for _, c := range []struct{ request, id, code, message string }{
		{`rubbish`, "", "bad_request", "invalid character"},
		{`{"op":"compute","id":"x","group":7}`, "x", "bad_request", "group"},
		{`[]`, "", "bad_request", "array"},
		{`null`, "", "bad_request", `op ""`},
		{`{"op":"dance","id":"x"}`, "x", "bad_request", `op "dance"`},
		{`{"op":"hello"}`, "", "unsupported", "version 0"},
		{`{"op":"hello","v":2}`, "", "unsupported", "version 2"},

		{`{"op":"init","repeats":3,"cache":"warm"}`, "", "bad_request", "batch: 0"},
		{`{"op":"init","batch":16777217,"repeats":3,"cache":"warm"}`, "", "bad_request", "batch: 16777217"},
		{`{"op":"init","batch":64,"cache":"warm"}`, "", "bad_request", "repeats: 0"},
		{`{"op":"init","batch":64,"repeats":3,"warmup":-1,"cache":"warm"}`, "", "bad_request", "warmup: -1"},
		{`{"op":"init","batch":64,"repeats":3}`, "", "bad_request", `cache: ""`},
		{`{"op":"init","batch":64,"repeats":3,"cache":"cold","flush_bytes":-1}`, "", "bad_request", "flush_bytes: -1"},
		{`{"op":"init","batch":64,"repeats":3,"cache":"cold","flush_bytes":67108865}`, "", "oom", "67108864"},

		{tableLine(-1, 1000, 2), "", "bad_request", "table -1"},
		{tableLine(5, 0, 2), "", "bad_request", "rows: 0"},
		{tableLine(5, 1000, -2), "", "bad_request", "pooling_factor: -2"},
		{`{"op":"tables","tables":[{"t":5,"rows":9,"pooling_factor":1,"length_cv":-1}]}`, "", "bad_request", "length_cv: -1"},
		{`{"op":"tables","tables":[{"t":5,"rows":9,"pooling_factor":1,"length_cv":1001}]}`, "", "bad_request", "length_cv: 1001"},
		{tableLine(5, 1000, 1e7), "", "bad_request", "pooling_factor: 1e+07"},
		{tableLine(5, 1000, 1e6), "", "oom", "send init"},
		{`{"op":"tables","tables":[{"t":5,"rows":4294967297}]}`, "", "bad_request", "rows: 4294967297"},
		{`{"op":"tables","tables":[{"t":5,"rows":9,"features":-1}]}`, "", "bad_request", "features: -1"},
		{`{"op":"tables","tables":[{"t":5,"rows":9,"batch":-1}]}`, "", "bad_request", "batch: -1"},
		{`{"op":"tables","tables":[{"t":5,"rows":9,"pooling_factor":1}]}`, "", "bad_request", "table 5"},
		{`{"op":"tables","tables":[{"t":5,"rows":9,"pooling_factor":1,"unique_rows":10,"reuse":` + reuse + `}]}`, "", "bad_request", "distinct rows"},
		{`{"op":"tables","tables":[{"t":5,"rows":9},{"t":5,"rows":9}]}`, "", "bad_request", "twice"},
		{`{"op":"tables","tables":[{"t":5,"rows":9,"pool":"/nonexistent"}]}`, "", "bad_request", "/nonexistent"},

		{`{"op":"compute","id":"c","group":[{"t":0,"dim":8}],"opt":"momentum","dtype":"fp32"}`, "c", "bad_request", "momentum"},
		{`{"op":"compute","id":"c","group":[{"t":0,"dim":8}],"opt":"sgd","dtype":"int4"}`, "c", "bad_request", "int4"},
		{`{"op":"compute","id":"c","group":[{"t":0,"dim":8}],"opt":"sgd","dtype":"fp16"}`, "c", "unsupported", "fp16"},
		{`{"op":"compute","id":"c","opt":"sgd","dtype":"fp32"}`, "c", "bad_request", "0 members"},
		{`{"op":"compute","id":"c","group":[{"t":9,"dim":8}],"opt":"sgd","dtype":"fp32"}`, "c", "bad_request", "table 9"},
		{`{"op":"compute","id":"c","group":[{"t":0,"dim":6}],"opt":"sgd","dtype":"fp32"}`, "c", "bad_request", "dim 6"},
		{`{"op":"compute","id":"c","group":[{"t":0,"dim":0}],"opt":"sgd","dtype":"fp32"}`, "c", "bad_request", "dim 0"},
		{`{"op":"compute","id":"c","group":[{"t":0,"dim":16388}],"opt":"sgd","dtype":"fp32"}`, "c", "bad_request", "dim 16388"},
		{`{"op":"compute","id":"c","group":[{"t":0,"dim":8},{"t":1,"dim":8}],"opt":"sgd","dtype":"fp32"}`, "c", "bad_request", "batch of 64"},
		{`{"op":"compute","id":"c","group":[{"t":2,"dim":8}],"opt":"sgd","dtype":"fp32"}`, "c", "bad_request", "without lookups"},
		{`{"op":"compute","id":"c","group":[{"t":3,"dim":16384}],"opt":"adam","dtype":"fp32"}`, "c", "oom", "844424930132096 bytes"},

		{`{"op":"comm","id":"d"}`, "d", "bad_request", "dims"},
		{`{"op":"comm","id":"d","dims":[8]}`, "d", "unsupported", "one rank"},
		{`{"op":"comm","id":"d","dims":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}`, "d", "unsupported", "17 ranks"},
		{`{"op":"comm","id":"d","dims":[8,-8]}`, "d", "bad_request", "dims: -8"},
		{`{"op":"comm","id":"d","dims":[8,9000000]}`, "d", "bad_request", "dims: 9000000"},
		{`{"op":"comm","id":"d","dims":[8,8],"batch":-1}`, "d", "bad_request", "batch: -1"},
		{`{"op":"comm","id":"d","dims":[8,8],"dtype":"fp8"}`, "d", "unsupported", "dtype: precision \"fp8\" is unknown"},
		{`{"op":"comm","id":"d","dims":[1000000,1000000],"batch":16777216,"dtype":"bf16"}`, "d", "oom", "402653184000512 bytes"},
		{`{"op":"comm","id":"d","dims":[8,8],"start_ms":[1]}`, "d", "bad_request", "1 starts"},
		{`{"op":"comm","id":"d","dims":[8,8],"start_ms":[0,-1]}`, "d", "bad_request", "start_ms: -1"},
		{`{"op":"comm","id":"d","dims":[8,8],"start_ms":[0,1e9]}`, "d", "bad_request", "start_ms: 1e+09"},
		{`{"op":"comm","id":"d","dims":[8,8],"per_host":1}`, "d", "unsupported", "per_host: 1"},
		{`{"op":"comm","id":"d","dims":[8,8],"per_host":-1}`, "d", "bad_request", "per_host: -1"},
		{`{"op":"comm","id":"d","dims":[1000000,1000000],"batch":16777216}`, "d", "oom", "536870912000512 bytes"},
	} {
		r := talk(t, opt, append(prefix[:len(prefix):len(prefix)], c.request)...)
		for _, before := range r[:len(prefix)] {
			if before.Op == protocol.OpError {
				t.Fatalf("before: %s", before.Message)
			}
		}
		got := r[len(prefix)]
		if got.Op != protocol.OpError || got.ID != c.id || got.Code != c.code || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s:\n got op %q, id %q, code %q, %q\nwant an error, id %q, code %q, %q in it", c.request, got.Op, got.ID, got.Code, got.Message, c.id, c.code, c.message)
		}
	}
	for _, request := range []string{tableLine(0, 1000, 2), `{"op":"compute","id":"c","group":[{"t":0,"dim":8}],"opt":"sgd","dtype":"fp32"}`, `{"op":"comm","id":"c","dims":[8,8]}`} {
		if got := talk(t, opt, request)[0]; got.Code != protocol.CodeBadRequest || !strings.Contains(got.Message, "before init") {
			t.Errorf("%s before init: got %q, %q", request, got.Code, got.Message)
		}
	}
}

// TestComputeRunsTheGroup: what compute times is the group that the request names. The
// op gets the rows, widths and lookups of its tables, in the order of the request, and
// the op's updates reach the state of exactly the rows that are looked up.
func TestComputeRunsTheGroup(t *testing.T) {
	s := newServer(t.Context(), small())
	for _, request := range []string{
		`{"op":"init","batch":64,"warmup":1,"repeats":7,"cache":"warm","seed":7}`,
		tableLine(0, 1000, 2), tableLine(1, 2000, 10), tableLine(2, 3000, 5),
	} {
		if r := s.answer([]byte(request)); r.Op == protocol.OpError {
			t.Fatalf("%s: %s", request, r.Message)
		}
	}
	group := []protocol.Member{{T: 2, Dim: 8}, {T: 0, Dim: 4}, {T: 2, Dim: 12}}
	for _, c := range []struct {
		optimizer string
		weighted  bool
	}{{"sgd", false}, {"rowwise_adagrad", false}, {"adagrad", true}, {"adam", false}} {
		q := &protocol.Request{Op: protocol.OpCompute, ID: "c", Group: group, Opt: c.optimizer, DType: "fp32", Weighted: c.weighted}
		request := must.Get(json.Marshal(q))(t)
		run := func() protocol.Response { return s.answer(request) }
		if r := run(); r.Op == protocol.OpError { // makes room
			t.Fatalf("%v: %s", c, r.Message)
		}
		optimizer, members := must.Get2(s.checkGroup(q))(t)
		shards := s.shards(q, optimizer, members)
		before := make([][]float32, len(shards))
		for i, shard := range shards {
			before[i] = slices.Clone(shard.State)
		}
		r := run()
		if r.Op != protocol.OpCompute || r.ID != "c" || r.N != 7 || r.Source != "measured" {
			t.Fatalf("%v: got %+v", c, r)
		}
		if !(r.ForwardMS > 0 && r.BackwardMS > 0 && r.ForwardSpread >= 0 && r.BackwardSpread >= 0) {
			t.Errorf("%v: times are not above zero: %+v", c, r)
		}
		if len(shards) != len(group) {
			t.Fatalf("%v: got %d shards, want %d", c, len(shards), len(group))
		}
		for i, m := range group {
			checkShard(t, fmt.Sprintf("%v: member %d", c, i), shards[i], s.tables.known[m.T], m.Dim, c.weighted)
			checkUpdated(t, fmt.Sprintf("%v: member %d", c, i), shards[i], before[i])
		}
	}
}

// checkShard compares what the op gets of a member of a group with the table that the
// member names.
func checkShard(t *testing.T, member string, got engine.Shard, of *table, dim int, weighted bool) {
	t.Helper()
	if got.Rows != of.rows || got.Dim != dim || len(got.Weights) != int(of.rows)*dim {
		t.Errorf("%s: got %d rows, dim %d and %d weights, want %d rows of dim %d", member, got.Rows, got.Dim, len(got.Weights), of.rows, dim)
	}
	if !cmp.Equal(got.Bags, of.bags) {
		t.Errorf("%s: the lookups are not those of the table", member)
	}
	want := 0
	if weighted {
		want = len(of.bags.Indices)
	}
	if len(got.PerSample) != want {
		t.Errorf("%s: got %d weights of lookups, want %d", member, len(got.PerSample), want)
	}
}

// checkUpdated: the optimizer's state differs from before in the rows that are looked
// up, and in no other row.
func checkUpdated(t *testing.T, member string, shard engine.Shard, before []float32) {
	t.Helper()
	looked := make(map[int64]bool)
	for _, row := range shard.Bags.Indices {
		looked[row] = true
	}
	each := len(before) / int(shard.Rows)
	for row := range shard.Rows {
		if each == 0 {
			return // SGD has no state
		}
		from, to := int(row)*each, int(row+1)*each
		if changed := !slices.Equal(before[from:to], shard.State[from:to]); changed != looked[row] {
			t.Fatalf("%s: row %d: got changed %v, looked up %v", member, row, changed, looked[row])
		}
	}
}

// TestNumbersStaySound runs every optimizer over the same memory, in windows that
// lie differently each time: a moment of one group is a weight of the next.
func TestNumbersStaySound(t *testing.T) {
	s := newServer(t.Context(), small())
	serve := func(request string) {
		t.Helper()
		if r := s.answer([]byte(request)); r.Op == protocol.OpError {
			t.Fatalf("%s: %s", request, r.Message)
		}
	}
	serve(`{"op":"init","batch":64,"warmup":2,"repeats":20,"cache":"warm","seed":7}`)
	serve(tableLine(0, 40, 20))
	serve(tableLine(1, 100, 3))
	for _, dim := range []int{64, 4, 20} {
		for _, optimizer := range []string{"adam", "sgd", "adagrad", "rowwise_adagrad", "adam"} {
			for _, weighted := range []bool{false, true} {
				serve(fmt.Sprintf(`{"op":"compute","group":[{"t":1,"dim":4},{"t":0,"dim":%d}],"opt":%q,"dtype":"fp32","weighted":%v}`, dim, optimizer, weighted))
			}
		}
	}
	for i, w := range s.weights {
		if !(w >= 1e-6 && w <= 1e15) {
			t.Fatalf("number %d has become %v", i, w)
		}
	}
}

// TestIndexMemory: the cap holds, a refused request changes nothing, and init
// makes room.
func TestIndexMemory(t *testing.T) {
	opt := small()
	opt.IndexMemory = 8 * (64*10 + 65 + 1) * 2
	compute := `{"op":"compute","id":"c","group":[{"t":%d,"dim":8}],"opt":"sgd","dtype":"fp32"}`
	r := talk(t, opt, initWarm,
		tableLine(0, 1000, 10), tableLine(1, 1000, 10), tableLine(2, 1000, 10),
		tableLine(1, 1000, 9), // in the place of the old one
		fmt.Sprintf(compute, 1), fmt.Sprintf(compute, 2),
		initWarm, fmt.Sprintf(compute, 1), tableLine(2, 1000, 10), fmt.Sprintf(compute, 2))
	var got []string
	for _, r := range r {
		got = append(got, r.Op+r.Code)
	}
	want := []string{"init", "tables", "tables", "erroroom", "tables", "compute", "errorbad_request", "init", "errorbad_request", "tables", "compute"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if message := r[3].Message; !strings.Contains(message, "init") || !strings.Contains(message, "table 2") {
		t.Errorf("the error %q does not name the table and init", message)
	}
}

// TestLookupsAreSeeded: the same seed and number give the same lookups, in
// whatever order and company; others differ.
func TestLookupsAreSeeded(t *testing.T) {
	lookups := func(requests ...string) lookups.Bags {
		s := newServer(t.Context(), small())
		for _, request := range requests {
			if r := s.answer([]byte(request)); r.Op == protocol.OpError {
				t.Fatal(r.Message)
			}
		}
		return s.tables.known[3].bags
	}
	a := lookups(initWarm, tableLine(3, 1000, 10))
	b := lookups(initWarm, tableLine(1, 1000, 10), tableLine(3, 1000, 10))
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the table before it changes a table's lookups:\n%s", diff)
	}
	if c := lookups(strings.Replace(initWarm, "7}", "8}", 1), tableLine(3, 1000, 10)); cmp.Equal(a, c) {
		t.Error("another seed gives the same lookups")
	}
	s := newServer(t.Context(), small())
	s.answer([]byte(initWarm))
	s.answer([]byte(tableLine(3, 1000, 10)))
	s.answer([]byte(tableLine(4, 1000, 10)))
	if cmp.Equal(s.tables.known[3].bags, s.tables.known[4].bags) {
		t.Error("two tables have the same lookups")
	}
}

// TestLookupFiles: the lookups of a file are used as they are, cut to the batch.
func TestLookupFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.lookups")
	bags := lookups.Bags{Indices: []int64{5, 5, 5, 9, 1, 2}, Offsets: []int64{0, 1, 3, 4, 6}}
	must.Do(t, lookups.WriteFile(path, bags))
	ask := func(opt Options, batch, features, rows int) (protocol.Response, *table) {
		s := newServer(t.Context(), opt)
		s.answer([]byte(initWarm))
		request := must.Get(json.Marshal(protocol.Request{Op: protocol.OpTables, Tables: []protocol.Table{{T: 1, Rows: int64(rows), Batch: batch, Features: features, LookupFile: path}}}))(t)
		return s.answer(request), s.tables.known[1]
	}
	r, made := ask(small(), 4, 1, 10)
	if made == nil || !cmp.Equal(made.bags, bags) {
		t.Fatalf("got %+v: %+v", r, made)
	}
	if got := r.Tables[0]; got.UniqueRows != 4 || math.Abs(got.Reuse[0]-.75) > 1e-9 {
		t.Errorf("realised: got %+v, want 4 rows, 3 of them once", got)
	}
	want := lookups.Bags{Indices: []int64{5, 9}, Offsets: []int64{0, 1, 2}}
	if _, made = ask(small(), 1, 2, 10); made == nil || !cmp.Equal(made.bags, want) {
		t.Errorf("one sample of two features: got %+v, want %+v", made, want)
	}
	for _, c := range []struct{ batch, features, rows int }{{4, 1, 9}, {5, 1, 10}, {1, 3, 10}} {
		if r, _ = ask(small(), c.batch, c.features, c.rows); r.Code != protocol.CodeBadRequest {
			t.Errorf("%+v: got %q %q, want bad_request", c, r.Code, r.Message)
		}
	}
	opt := small()
	opt.IndexMemory = 64
	if r, _ = ask(opt, 4, 1, 10); r.Code != protocol.CodeMemory {
		t.Errorf("above the cap: got %q %q, want oom", r.Code, r.Message)
	}
}

func TestMemoryIsShared(t *testing.T) {
	opt := small()
	opt.Memory = 8*unit.MiB + 1024
	s := newServer(t.Context(), opt)
	defer s.ranks.close()
	for _, request := range []string{
		initWarm,
		tableLine(0, 20000, 1),
		`{"op":"comm","id":"a","dims":[64,64],"batch":4096}`,                              // 8 MiB
		`{"op":"compute","id":"b","group":[{"t":0,"dim":64}],"opt":"sgd","dtype":"fp32"}`, // 5 MiB: the ranks give theirs back
		`{"op":"comm","id":"c","dims":[64,64],"batch":4096}`,                              // and the weights theirs
		`{"op":"compute","id":"d","group":[{"t":0,"dim":64}],"opt":"sgd","dtype":"fp32"}`,
	} {
		if r := s.answer([]byte(request)); r.Op == protocol.OpError {
			t.Fatalf("%s: %s", request, r.Message)
		}
		if held := 4*int64(len(s.weights)) + int64(len(s.ranks.memory)); held > int64(opt.Memory)+4096 {
			t.Errorf("%s: %d bytes are held, the cap is %d", request, held, int64(opt.Memory))
		}
	}
}

// TestCeilings also checks that a profile comes out that can be used.
func TestCeilings(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for a second")
	}
	r := talk(t, small(), `{"op":"ceilings"}`)[0]
	for _, name := range []string{"copy_gbps", "gather_gbps", "cached_gather_gbps", "sort_mkeys", "clock_ghz", "alltoall_us", "alltoall_gbps"} {
		if !(r.Ceilings[name] > 0) {
			t.Errorf("%s is %v", name, r.Ceilings[name])
		}
	}
	if problems := r.Profile.Problems(); len(problems) > 0 {
		t.Errorf("the profile %+v has problems: %v", r.Profile, problems)
	}
}

func TestMachine(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	full := fstest.MapFS{
		"proc/cpuinfo": file("processor\t: 0\nmodel name\t: Swift CPU @ 3\n\nprocessor : 1\nmodel name : other\n"),
		"proc/meminfo": file("MemTotal:       16384 kB\nMemFree: 1 kB\n"),
		"sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": file("3500000\n"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": file("performance\n"),
		"sys/fs/cgroup/memory.max":                             file("max\n"),
	}
	want := machine{model: "Swift CPU @ 3", clocks: "at most 3.50 GHz, governor performance", memory: 16 * unit.MiB, cache: defaultCache}
	if got := describe(full); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	full["sys/fs/cgroup/memory.max"] = file("8388608\n")
	if got := describe(full).memory; got != 8*unit.MiB {
		t.Errorf("in a container: got %v, want 8 MiB", got)
	}
	for _, odd := range []fstest.MapFS{{}, {"proc/cpuinfo": file("\x00\n"), "proc/meminfo": file("MemTotal: lots"), "sys/fs/cgroup/memory.max": file("-1")}} {
		got := describe(odd)
		if got.model == "" || got.clocks == "" || got.memory != defaultMemory || got.cache != defaultCache {
			t.Errorf("of a machine that does not tell: got %+v", got)
		}
	}
	for name, c := range map[string]struct {
		level, kind, size string
		want              unit.Bytes
	}{
		"third": {"3", "Unified", "36864K", 36 * unit.MiB}, "instructions": {"3", "Instruction", "64K", 2 * unit.MiB},
		"rubbish": {"x", "Data", "9K", 2 * unit.MiB}, "rubbish size": {"3", "Data", "-9K", 2 * unit.MiB}, "no size": {"3", "Data", "", 2 * unit.MiB},
	} {
		got := lastLevelCache(fstest.MapFS{
			"index2/level": file("2\n"), "index2/type": file("Unified\n"), "index2/size": file("2048K\n"),
			"index3/level": file(c.level), "index3/type": file(c.kind), "index3/size": file(c.size),
		})
		if got != c.want {
			t.Errorf("%s: got a cache of %v, want %v", name, got, c.want)
		}
	}
	if got, want := want.device(&Options{Threads: 1}), "Swift CPU @ 3, 1 thread"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCancel: the worker ends soon after its context, also amid measuring and
// amid an all-to-all.
func TestCancel(t *testing.T) {
	cause := errors.New("enough")
	for name, request := range map[string]string{
		"idle":    "",
		"compute": `{"op":"compute","id":"c","group":[{"t":0,"dim":64}],"opt":"sgd","dtype":"fp32"}`,
		"comm":    `{"op":"comm","id":"c","dims":[4,4],"start_ms":[0,50000]}`,
	} {
		opt := small()
		ctx, cancel := context.WithCancelCause(t.Context())
		in, requests := io.Pipe() // never closed: the worker must not wait for it
		ended := make(chan error, 1)
		var out bytes.Buffer
		go func() { ended <- Serve(ctx, in, &out, opt) }()
		// Ten thousand repeats would end with a response, which is looked for below.
		for _, line := range []string{`{"op":"init","batch":1024,"repeats":10000,"cache":"warm"}`, tableLine(0, 20000, 20), request} {
			must.Get(io.WriteString(requests, line+"\n"))(t)
		}
		time.Sleep(50 * time.Millisecond)
		cancel(cause)
		if err := <-ended; !errors.Is(err, cause) {
			t.Errorf("%s: got %v, want the cause", name, err)
		}
		if strings.Contains(out.String(), `"id":"c"`) {
			t.Errorf("%s: a request that was broken off was answered", name)
		}
		shut(requests)
	}
}

func TestLongLineEndsTheConversation(t *testing.T) {
	var out bytes.Buffer
	in := `{"op":"hello","v":1}` + "\n" + strings.Repeat("x", protocol.MaxLine+1) + "\n" + `{"op":"hello","v":1}`
	if err := Serve(t.Context(), strings.NewReader(in), &out, small()); !errors.Is(err, protocol.ErrLong) {
		t.Errorf("got %v, want ErrLong", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[1], "bad_request") {
		t.Errorf("got %q", lines)
	}
}

// FuzzServe: whatever comes, each line that is not blank has one response.
func FuzzServe(f *testing.F) {
	requests := must.Get(os.ReadFile("testdata/requests.jsonl"))(f)
	f.Add(string(requests))
	f.Add(initWarm + "\n" + tableLine(0, 100, 2) + "\n" + `{"op":"compute","group":[{"t":0,"dim":4}],"opt":"sgd","dtype":"fp32"}`)
	f.Add("\n \t\nnull\n{}\n\xff\n{\"op\":7}")
	f.Add(initWarm + "\n" + `{"op":"tables","tables":[{"t":0,"rows":9,"pooling_factor":1.5,"length_cv":0.7,"unique_rows":3,"reuse":[1]},{"t":1,"rows":1,"length_cv":1e300}]}`)
	f.Add(`{"op":"tables","tables":[{"t":0,"rows":1,"pooling_factor":1e-300,"reuse":[1e300]}]}`)
	f.Fuzz(func(t *testing.T, in string) {
		// Many repeats are allowed and only take time; ceilings always do.
		if strings.Contains(in, "ceil") || regexp.MustCompile(`(?i)(repeats|warmup)"\s*:\s*\S{3}`).MatchString(in) {
			return
		}
		want := 0
		for line := range strings.Lines(in) {
			if strings.TrimSpace(line) != "" {
				want++
			}
		}
		var out bytes.Buffer
		opt := Options{Threads: 1, Memory: unit.MiB, IndexMemory: 64 * unit.KiB}
		must.Do(t, Serve(t.Context(), strings.NewReader(in), &out, opt))
		got := 0
		for line := range strings.Lines(out.String()) {
			var r protocol.Response
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Op == "" {
				t.Fatalf("response %q: %v", line, err)
			}
			if r.Op == protocol.OpError && (r.Code == "" || r.Message == "") {
				t.Errorf("an error without code or message: %s", line)
			}
			got++
		}
		if got != want {
			t.Fatalf("got %d responses to %d lines", got, want)
		}
	})
}

// TestColdRuns: the caches are flushed before each warm-up and repeat, and never
// for warm ones.
func TestColdRuns(t *testing.T) {
	serve := func(s *server, request string) protocol.Response {
		t.Helper()
		r := s.answer([]byte(request))
		if r.Op == protocol.OpError {
			t.Fatalf("%s: %s", request, r.Message)
		}
		return r
	}
	compute := `{"op":"compute","id":"c","group":[{"t":0,"dim":8}],"opt":"sgd","dtype":"fp32"}`
	cold := newServer(t.Context(), small())
	serve(cold, `{"op":"init","batch":64,"warmup":2,"repeats":3,"cache":"cold","flush_bytes":2097216,"seed":7}`)
	serve(cold, tableLine(0, 1000, 2))
	if len(cold.flush) != 2097216/8 {
		t.Fatalf("got %d numbers to flush, want those of 2097216 bytes", len(cold.flush))
	}
	for group := range uint64(2) {
		if r := serve(cold, compute); r.N != 3 {
			t.Errorf("got the times of %d runs, want 3", r.N)
		}
		for i := 0; i < len(cold.flush); i += 8 {
			if got, want := cold.flush[i], 5*(group+1); got != want {
				t.Fatalf("group %d: line %d was written %d times, want %d", group, i/8, got, want)
			}
		}
	}

	warm := newServer(t.Context(), small())
	serve(warm, `{"op":"init","batch":64,"warmup":2,"repeats":3,"cache":"warm","flush_bytes":2097216,"seed":7}`)
	serve(warm, tableLine(0, 1000, 2))
	serve(warm, compute)
	if len(warm.flush) != 0 {
		t.Errorf("warm caches: got %d numbers to flush, want none", len(warm.flush))
	}
}
