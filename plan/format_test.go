package plan

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

const golden = "testdata/plan.json"

func written(t must.T, pl *Plan) []byte {
	var b bytes.Buffer
	must.Do(t, pl.Write(&b))
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	_, pl := sample(t)
	got := written(t, pl)
	must.Match(t, golden, got)
	back := must.Get(Load(golden))(t)
	if d := cmp.Diff(pl, back); d != "" {
		t.Errorf("read back, -want +got:\n%s", d)
	}
	entries := must.Get(os.ReadDir("testdata"))(t)
	for _, e := range entries {
		if e.Name() != "plan.json" && e.Name() != "fuzz" {
			t.Errorf("testdata/%s belongs to no test", e.Name())
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, pl := placement(t)
		pl.Provenance = Provenance{
			Hidden: pl.Provenance.Hidden, Hierarchy: pl.Provenance.Hierarchy, Policy: rapid.String().Draw(t, "policy"),
			Tool: rapid.String().Draw(t, "tool"), Seed: rapid.Uint64().Draw(t, "seed"), Input: Digest(p),
			Warnings: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "warnings"),
		}
		first := written(t, pl)
		back, err := Read(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("got %v from what was written:\n%s", err, first)
		}
		if d := cmp.Diff(pl, back, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("read back, -want +got:\n%s", d)
		}
		if second := written(t, back); !bytes.Equal(first, second) {
			t.Fatalf("written again, -first +second:\n%s", cmp.Diff(string(first), string(second)))
		}
		if err := back.Validate(p); err != nil {
			t.Fatalf("read back, it is not valid: %v", err)
		}
	})
}

// undigested returns a plan file without its digest.
func undigested(file []byte) []byte {
	return regexp.MustCompile(`,\n  "digest": "[0-9a-f]{64}"`).ReplaceAll(file, nil)
}

// TestChangedPlans edits what nothing but the digest tells: each edit is refused, and read without a
// digest. White space is no edit.
func TestChangedPlans(t *testing.T) {
	p, _ := sample(t)
	p.Tables[3].Pooling = problem.PoolingNone
	pl := New(p, make([][]problem.Shard, 4))
	for i := range pl.Tables {
		pl.Tables[i].ShardingType = TableWise
	}
	pl.Provenance.ModelSource = Simulated
	file := string(written(t, pl))
	for _, c := range []struct{ before, after string }{
		{`"precision":"fp32"`, `"precision":"fp16"`},
		{`"optimizer":"sgd"`, `"optimizer":"adam"`},
		{`,"pooling":"none"`, ``},
		{`"source":"simulated"`, `"source":"measured"`},
		{`"profile":"`, `"profile":"other-`},
	} {
		edited := strings.Replace(file, c.before, c.after, 1)
		if edited == file {
			t.Fatalf("the plan has no %s", c.before)
		}
		if _, err := Read(strings.NewReader(edited)); !errors.Is(err, ErrChanged) {
			t.Errorf("%s for %s: got error %v, want %v", c.after, c.before, err, ErrChanged)
		}
		if _, digest, err := ReadStated(bytes.NewReader(undigested([]byte(edited)))); err != nil || digest {
			t.Errorf("%s for %s, without the digest: got %t, %v, want a plan that states none", c.after, c.before, digest, err)
		}
	}
	if _, digest, err := ReadStated(strings.NewReader(file)); err != nil || !digest {
		t.Errorf("got %t, %v, want a plan that states a digest", digest, err)
	}
	if _, err := Read(strings.NewReader(strings.ReplaceAll(file, "\n", " "))); err != nil {
		t.Errorf("on one line: %v", err)
	}
}

// A plan states the vectors of sequences and of tables of several bags, and of no other table.
func TestVectors(t *testing.T) {
	p, _ := sample(t)
	p.Tables[0].Features = []problem.Feature{{PoolingFactor: 3, Bags: .5}, {PoolingFactor: 1}}
	p.Tables[3].Pooling = problem.PoolingNone
	p.Tables[4].Pooling, p.Tables[4].Features[0].PoolingFactor = problem.PoolingNone, 0
	p.Tables[1].Features[0].Bags = 1 // stated, and one
	pl := New(p, make([][]problem.Shard, 4))
	for i := range pl.Tables {
		pl.Tables[i].ShardingType = TableWise
	}
	back := must.Get(Read(bytes.NewReader(written(t, pl))))(t)
	for i, table := range back.Tables {
		want := map[int]float64{0: 1.5, 3: 3}[i]
		if sequence := i == 3 || i == 4; table.Vectors != want || table.Sequences() != sequence {
			t.Errorf("table %q: got %v vectors, a sequence: %t; want %v, %t", table.Name, table.Vectors, table.Sequences(), want, sequence)
		}
	}
}

// The format is in the schema.
func TestSchema(t *testing.T) {
	valid := bySchema(t)
	for _, pl := range []*Plan{{}, {Sync: Sync{Bytes: 8, Time: 0.5}, Cluster: Cluster{Replicas: 2}}} {
		if err := valid(string(written(t, pl))); err != nil {
			t.Errorf("got %v, want %+v valid", err, pl)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		_, pl := placement(r)
		if err := valid(string(written(r, pl))); err != nil {
			r.Fatalf("got %v, want a valid plan valid", err)
		}
	})
}

// bySchema returns what the schema finds wrong with a file.
func bySchema(t *testing.T) func(file string) error {
	schema := must.Get(jsonschema.NewCompiler().Compile(filepath.Join("..", "schema", "plan.schema.json")))(t)
	return func(file string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(file))
		if err != nil {
			return err
		}
		return schema.Validate(v)
	}
}

// Read refuses each of these changes of the sample's file, and so does the schema unless the change is
// marked: the schema knows no sums, for example.
func TestReadRefuses(t *testing.T) {
	_, pl := sample(t)
	text := string(written(t, pl))
	valid := bySchema(t)
	if err := valid(text); err != nil {
		t.Errorf("got %v, want the sample valid", err)
	}
	const alone = true // only Read refuses it
	for _, c := range []struct {
		old, new, want string
		alone          bool
	}{
		{text, "", `plan file, line 1: the file ends in the middle`, false},
		{text, text[:len(text)/2], `the file ends in the middle`, false},
		{text, text + "{}", `plan file, line 55: invalid character '{' after top-level value`, false},
		{text, `{"tables": [{"name": "a"}]}`, `not a plan file: it has no "format" key, a plan has "format": "neuroshard-plan"`, false},
		{text, `{"shape": {"a": [1, "}"]}, "format": "neuroshard-plan", "version": 7}`, "plan file has version 7: this program knows version 1 only; make the plan again, or read it with a program that knows version 7", false},
		{`"neuroshard-plan"`, `"neuroshard-model"`, `not a plan file: its format is "neuroshard-model", not "neuroshard-plan"`, false},
		{`"version": 1`, `"version": 0`, "plan file has version 0", false},
		{`"cluster":`, `"custer":`, `plan file, line 5: key "custer" is unknown`, false},
		{`"kind":"grid"`, `"kind":"grid","kind":"grid"`, `tables[7]: key "kind" is there twice`, alone},
		{`"kind":"grid"`, `"kind":"squares"`, `plan file: tables[7] "grid": sharding type "squares" is unknown: known are ` + join(shardingTypes), false},
		{`"kind":"grid"`, `"kind":"grid","vectors":4294967297`, `tables[7] "grid": vectors: 4294967297 is not between 0 and 4294967296`, false},
		{`"kind":"grid"`, `"kind":"grid","pooling":"mean"`, `tables[7] "grid": pooling: mean is not written: write none, or leave the key out`, false},
		{`,"optimizer":"sgd"`, ``, `tables[0]: it states no name, no rows, no dim, no precision or no optimizer`, false},
		{`"precision":"fp16",`, ``, `tables[2]: it states no name, no rows, no dim, no precision or no optimizer`, false},
		{`"precision":"fp16"`, `"precision":"fp8"`, `tables[2].precision: precision "fp8" is unknown: choose one of fp32, fp16, bf16`, false},
		{`"optimizer":"adam"`, `"optimizer":"lion"`, `tables[5].optimizer: optimizer "lion" is unknown`, false},
		{`"rows":1000`, `"rows":-1000`, `plan file: tables[0] "user": rows: -1000 is not between 0 and 1099511627776`, false},
		{`"dim":64`, `"dim":6.5`, `plan file, line 13: tables[0].dim: "6.5" is not a whole number`, false},
		{`"columns":[0,64]`, `"columns":[64]`, `tables[0].shards[0].columns: too few array elements`, false},
		{`"columns":[0,64]`, `"columns":[0,64,128]`, `tables[0].shards[0].columns: too many array elements`, false},
		{`"columns":[0,64]`, `"columns":[64,0]`, `columns: [64,0] is not a range of at least one in 0 to 16384`, alone},
		{`,"tier":"hbm"}`, `}`, `tables[0] "user": shards[0]: tier "" is unknown: known are hbm, host, host_cached`, false},
		{`"tier":"hbm"`, `"tier":"tape"`, `tier "tape" is unknown`, false},
		{`"tier":"hbm"`, `"tier":"hbm","cache_share":0.5`, `cache_share: only what lies in host_cached has one, and this lies in "hbm"`, false},
		{`"tier":"hbm"`, `"tier":"host_cached","cache_share":1.0`, `cache_share: 1 is not above 0 and below 1`, false},
		{`"replicated":true`, `"replicated":true,"device":1`, `tables[8].shards[0]: it has neither or both of "device" and "replicated": write one`, false},
		{`"replicated":true`, `"replicated":false`, `tables[8].shards[0]: it has neither or both of "device" and "replicated": write one`, false},
		{"\"shards\":[\n      {\"device\":0,", `"shards":[{"device":-1,`, `tables[0].shards[0]: device: -1 is not the number of a device`, false},
		{`"cost_ms":12.75`, `"cost_ms":1e999`, `plan file, line 4: predicted.cost_ms: "1e999" is not a finite number`, alone},
		{`"cost_ms":12.75`, `"cost_ms":-1`, `predicted cost_ms: -1 is not a finite number of at least 0`, false},
		{`"total_ms":4.25`, `"total_ms":4.5`, `plan file, line 7: devices[0]: total_ms: 4.5 is not the sum of the device's times, 4.25`, alone},
		{`"total_ms":4.25`, `"backward_hidden_ms":-1,"total_ms":4.25`, `devices[0]: backward_hidden_ms: -1 is not a finite number of at least 0`, false},
		{`{"device":1,"shards"`, `{"device":2,"shards"`, `devices[1]: device: 2 is out of order, here is the place of 1`, alone},
		{`"memory":{"weights_bytes":`, `"memory":{"weights_bytes":-`, `devices[0]: weights_bytes: -374560 is not between 0 and `, false},
		{`"weights_only":false`, `"weights_only":"no"`, `plan file, line 5: cluster.weights_only: a string is not true or false`, false},
		{`"weights_only":false`, `"weights_only":false,"comm_precision":"fp8"`, `cluster.comm_precision: precision "fp8" is unknown`, false},
		{`"weights_only":false`, `"weights_only":false,"lanes":"all"`, `cluster.lanes: lane rule "all" is unknown: choose one of widest, own`, false},
		{`"weights_only":false`, `"weights_only":false,"pipeline":"staged"`, `cluster.pipeline: pipeline "staged" is unknown: choose one of base,`, false},
		{`"weights_only":false`, `"weights_only":false,"allocator_overhead":10.5`, `cluster: allocator_overhead: 10.5 is not between 0 and 10`, false},
		{`"weights_only":false`, `"weights_only":false,"network_bytes_per_second":5`, `cluster: network_bytes_per_second: 5 is not between 1000000 and 100000000000000`, false},
		{`"weights_only":false`, `"weights_only":true,"torchrec_bytes":true`, `cluster: weights_only and torchrec_bytes are both true`, false},
		{`"weights_only":false`, `"weights_only":false,"torchrec_bytes":true,"torchrec_release":"1.6"`, `cluster: torchrec_release: 1.6 is not written: leave the key out`, false},
		{`"weights_only":false`, `"weights_only":false,"torchrec_bytes":true,"torchrec_release":"2.0"`, `cluster: torchrec_release: the estimators of TorchRec "2.0" are not known`, false},
		{`"weights_only":false`, `"weights_only":false,"torchrec_release":"1.9"`, `cluster: torchrec_release: it is stated without torchrec_bytes`, false},
		{`"seed": 18446744073709551615`, `"seed": 18446744073709551616`, `provenance.seed: "18446744073709551616" is not a whole number between 0 and 2^64-1`, alone},
		{`"status": "complete"`, `"status": "complete\u001b[2J\n"`, `plan file: provenance: status "complete\x1b[2J\n" is unknown: known are complete, budget, time, interrupted`, false},
		{`"warnings":`, `"hidden":{"forward_ms":-1,"backward_ms":2,"replicas":true},"warnings":`, `-1 ms are hidden of the forward exchanges`, false},
		{`"warnings":`, `"hierarchy":{"sent_share":1.5,"inside_factor":1,"between_factor":1,"latency_ms":0},"warnings":`, `hierarchical exchange`, false},
		{`"warnings":`, `"hierarchy":{"sent_share":1,"inside_factor":1,"between_factor":1,"latency_ms":-1},"warnings":`, `hierarchical exchange`, false},
	} {
		changed := strings.Replace(text, c.old, c.new, 1)
		if changed == text {
			t.Fatalf("%q is not in the plan", c.old)
		}
		if _, err := Read(strings.NewReader(changed)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s for %.60s: got %v, want %s", c.new, c.old, err, c.want)
		}
		if err := valid(changed); (err == nil) != c.alone {
			t.Errorf("%.60s for %.60s: by the schema got error %v", c.new, c.old, err)
		}
	}
}

// A plan file without a part of a plan, or without a device, is refused: its readers count on them.
func TestReadWantsEveryPart(t *testing.T) {
	parts := [][2]string{
		{"format", `"neuroshard-plan"`},
		{"version", "1"},
		{"predicted", `{"cost_ms": 1, "source": ""}`},
		{"cluster", `{"profile": "a100-80", "devices": 1, "devices_per_host": 1, "batch": 1, "device_memory_bytes": 1}`},
		{"devices", `[{"device": 0}]`},
		{"tables", "[]"},
		{"provenance", "{}"},
	}
	without := func(key, instead string) error {
		var fields []string
		for _, p := range parts {
			if p[0] == key {
				p[1] = instead
			}
			if p[1] != "" {
				fields = append(fields, `"`+p[0]+`": `+p[1])
			}
		}
		_, err := Read(strings.NewReader("{" + strings.Join(fields, ", ") + "}"))
		return err
	}
	if err := without("", ""); err != nil {
		t.Fatalf("got %v, want no error of a plan of no tables", err)
	}
	for _, p := range parts {
		for _, instead := range []string{"", "null"} {
			if err := without(p[0], instead); err == nil || !strings.Contains(err.Error(), `"`+p[0]+`"`) {
				t.Errorf("got error %v with %q for %s", err, instead, p[0])
			}
		}
	}
	for _, c := range []struct{ key, instead, want string }{
		{"cluster", `{"devices_per_host": 1}`, "0 devices"},
		{"cluster", `{"devices": 1, "devices_per_host": 1}`, "no profile"},
		{"devices", "[]", "it lists 0 devices, and its cluster has 1"},
		{"devices", "[null]", "null is not an object"},
		{"cluster", `{"fixed": [` + strings.Repeat("{},", 5000) + `{}]}`, "more than 4096 elements"},
	} {
		if err := without(c.key, c.instead); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.50s: got error %v, want %q in it", c.key, c.instead, err, c.want)
		}
	}
}

// endless is a plan file whose middle never ends.
type endless struct {
	start  string
	repeat string
	read   int64
}

func (e *endless) Read(b []byte) (int, error) {
	n := 0
	if e.start != "" {
		n = copy(b, e.start)
		e.start = e.start[n:]
	}
	for n+len(e.repeat) <= len(b) {
		n += copy(b[n:], e.repeat)
	}
	e.read += int64(n)
	return n, nil
}

func TestReadIsBounded(t *testing.T) {
	e := &endless{start: `{"format":"neuroshard-plan","version":1,`, repeat: " "}
	_, err := Read(e)
	if want := "plan file is larger than 100000000 bytes: no plan is"; err == nil || err.Error() != want {
		t.Errorf("endless file: got %v, want %s", err, want)
	}
	if e.read > 2*MaxFile {
		t.Errorf("endless file: %d bytes were read, want hardly more than %d", e.read, MaxFile)
	}
	_, pl := sample(t)
	pl.Devices = make([]Device, 1)
	text := string(written(t, pl))
	shard := `{"device":0,"columns":[0,64],"rows":[0,1000],"tier":"hbm"}`
	for _, c := range []struct {
		old  string
		more int
		want string
	}{
		{shard, MaxShards, "tables[0].shards: there are more than 65536 elements"},
		{`"predicted times are simulated"`, MaxWarnings, "provenance.warnings: there are more than 10000 elements"},
	} {
		_, err := Read(strings.NewReader(strings.Replace(text, c.old, c.old+strings.Repeat(","+c.old, c.more), 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// Write refuses what Read refuses, and what no file can state, before it writes anything.
func TestWriteRefuses(t *testing.T) {
	for want, change := range map[string]func(pl *Plan){
		"predicted cost_ms: NaN is not a finite number of at least 0":         func(pl *Plan) { pl.Predicted = unit.Millis(math.NaN()) },
		"devices[2]: backward_ms: +Inf is not a finite number of at least 0":  func(pl *Plan) { pl.Devices[2].Backward = unit.Millis(math.Inf(1)) },
		"devices[2]: the sum of its times is not finite":                      func(pl *Plan) { pl.Devices[2].Backward, pl.Devices[2].Forward = math.MaxFloat64, math.MaxFloat64 },
		"devices[1]: outputs_bytes: -4 is not between 0 and ":                 func(pl *Plan) { pl.Devices[1].Memory.Outputs = -4 },
		`tables[3] "a\xff": name: "a\xff" is not UTF-8`:                       func(pl *Plan) { pl.Tables[3].Name = "a\xff" },
		`tables[3] "place": shards[0]: rows: [0,0] is not a range`:            func(pl *Plan) { pl.Tables[3].Shards[0].Rows.End = 0 },
		`tables[3] "place": sharding type "" is unknown: known are `:          func(pl *Plan) { pl.Tables[3].ShardingType = "" },
		`tables[3] "place": precision: 9 is not between 0 and 2`:              func(pl *Plan) { pl.Tables[3].Precision = 9 },
		`tables[3] "place": optimizer: 9 is not between 0 and 3`:              func(pl *Plan) { pl.Tables[3].Optimizer = 9 },
		`tables[3] "place": vectors: NaN is not between 0 and 4294967296`:     func(pl *Plan) { pl.Tables[3].Vectors = math.NaN() },
		`tables[3] "place": operator: 3 is not between 0 and 2`:               func(pl *Plan) { pl.Tables[3].Operator = 3 },
		`tables[3] "place": shards[0]: device: -2 is not between 0 and 65536`: func(pl *Plan) { pl.Tables[3].Shards[0].Device = -2 },
		"devices: 65537 are more than 65536":                                  func(pl *Plan) { pl.Devices = make([]Device, hardware.MaxDevices+1) },
		"tables: 1048577 are more than 1048576":                               func(pl *Plan) { pl.Tables = make([]Table, problem.MaxTables+1) },
		`tables[0] "user": shards: 65537 are more than 65536`:                 func(pl *Plan) { pl.Tables[0].Shards = make([]Shard, MaxShards+1) },
		"cluster: batch: -1 is not between 1 and 16777216":                    func(pl *Plan) { pl.Cluster.Batch = -1 },
		`provenance: status "done" is unknown: known are complete, `:          func(pl *Plan) { pl.Provenance.Status = "done" },
		"provenance: warnings: 10001 are more than 10000":                     func(pl *Plan) { pl.Provenance.Warnings = make([]string, MaxWarnings+1) },
		`provenance: "\xc0" is not UTF-8`:                                     func(pl *Plan) { pl.Provenance.Warnings[1] = "\xc0" },
	} {
		_, pl := sample(t)
		change(pl)
		var b bytes.Buffer
		if err := pl.Write(&b); err == nil || !strings.HasPrefix(err.Error(), "plan cannot be written: "+want) || b.Len() > 0 {
			t.Errorf("got %v and %d bytes, want %s and none", err, b.Len(), want)
		}
	}
}

func TestWriteTooLarge(t *testing.T) {
	_, pl := sample(t)
	pl.Provenance.Warnings = []string{strings.Repeat("w", MaxFile)}
	err := pl.Write(io.Discard)
	if want := "plan cannot be written: it is larger than 100000000 bytes"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

type brokenWriter struct{ left int }

func (w *brokenWriter) Write(b []byte) (int, error) {
	if len(b) > w.left {
		return 0, errors.New("disk full")
	}
	w.left -= len(b)
	return len(b), nil
}

func TestWriteReportsErrors(t *testing.T) {
	p, shards := large(t, 2000, 2, 8)
	for _, left := range []int{0, 100_000} {
		if err := New(p, shards).Write(&brokenWriter{left}); err == nil || err.Error() != "disk full" {
			t.Errorf("after %d bytes: got %v, want disk full", left, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	_, pl := sample(f)
	text := string(written(f, pl))
	f.Add([]byte(text))
	f.Add(written(f, &Plan{}))
	f.Add([]byte(text[:len(text)/2]))
	f.Add([]byte(`{"version":1,"format":"neuroshard-plan","tables":[{"name":"a","shards":[{"columns":[0,4]}]}]}`))
	f.Add([]byte(strings.Replace(text, `"name":"user"`, `"name":"user","module":"sparse.ebc"`, 1)))
	f.Add([]byte(strings.Replace(text, `"cost_ms":12.75`, `"cost_ms":-0`, 1)))
	f.Add([]byte(strings.Replace(text, `"tier":"hbm"`, `"tier":"host_cached","cache_share":1e-300`, 1)))
	f.Add([]byte(strings.Replace(text, `"tier":"hbm"`, `"cache_share":0.5,"tier":"host"`, 1)))
	f.Add([]byte(strings.Replace(text, `"weights_only":false`, `"host_memory_bytes":1048576,"weights_only":true,"comm_precision":"bf16"`, 1)))
	f.Add([]byte(strings.Replace(text, `"reserve_bytes":21474836480}`, `"reserve_bytes":1,"host_bytes":7,"cache_bytes":4611686018427387904}`, 1)))
	f.Add([]byte(strings.Replace(text, `"kind":"grid"`, `"kind":"grid","pooling":"none","vectors":2.5e-7`, 1)))
	f.Add([]byte(strings.Replace(text, `"name":"user"`, `"name":"\ud800\u0000\u2028<&>"`, 1)))
	f.Add([]byte(strings.Replace(text, `"forward_ms":1,`, `"forward_ms":1e308,`, 1)))
	p, _ := sample(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		pl, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		first := written(t, pl)
		back, err := Read(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("got %v from what was written:\n%s", err, first)
		}
		if d := cmp.Diff(pl, back, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("read back, -want +got:\n%s", d)
		}
		if second := written(t, back); !bytes.Equal(first, second) {
			t.Fatalf("written again: got\n%s\nwant\n%s", second, first)
		}
		_ = pl.Validate(p) // whatever it finds, it must not panic
		Diff(pl, back)
	})
}

func BenchmarkWrite(b *testing.B) {
	p, shards := large(b, 10_000, 64, 1024)
	pl := New(p, shards)
	for b.Loop() {
		must.Do(b, pl.Write(io.Discard))
	}
}

func BenchmarkRead(b *testing.B) {
	p, shards := large(b, 10_000, 64, 1024)
	data := written(b, New(p, shards))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(Read(bytes.NewReader(data)))(b)
	}
}
