package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const golden = "testdata/plan.json"

func written(t interface{ Fatal(...any) }, pl *Plan) []byte {
	var b bytes.Buffer
	if err := pl.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	_, pl := sample(t)
	got := written(t, pl)
	if *update {
		if err := os.WriteFile(golden, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("plan file differs from %s (run with -update to accept): -want +got\n%s", golden, d)
	}
	back, err := Read(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(pl, back); d != "" {
		t.Errorf("read back, -want +got:\n%s", d)
	}
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
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

// A file of an earlier version, which states neither a digest nor the precision and optimizer of its
// tables, is read, and is written again as it was, with a digest.
func TestReadWithoutPrecision(t *testing.T) {
	p, pl := sample(t)
	old := regexp.MustCompile(`,"precision":"[a-z0-9]+","optimizer":"[a-z_]+"`).ReplaceAll(undigested(written(t, pl)), nil)
	back, err := Read(bytes.NewReader(old))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range back.Tables {
		if table.Stated {
			t.Errorf("table %q: got %v and %v, want neither stated", table.Name, table.Precision, table.Optimizer)
		}
	}
	if got := undigested(written(t, back)); !bytes.Equal(got, old) {
		t.Errorf("written again, -want +got:\n%s", cmp.Diff(string(old), string(got)))
	}
	if err := back.Validate(p); err != nil {
		t.Errorf("got %v, want a valid plan", err)
	}
	if d := cmp.Diff(pl, back.Stated(p)); d != "" {
		t.Errorf("with the problem's, -want +got:\n%s", d)
	}
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
	back, err := Read(bytes.NewReader(written(t, pl)))
	if err != nil {
		t.Fatal(err)
	}
	for i, table := range back.Tables {
		want := map[int]float64{0: 1.5, 3: 3}[i]
		if sequence := i == 3 || i == 4; table.Vectors != want || table.Sequence != sequence {
			t.Errorf("table %q: got %v vectors, a sequence: %t; want %v, %t", table.Name, table.Vectors, table.Sequence, want, sequence)
		}
	}
	pl.Tables[0].Vectors = math.NaN()
	if err := pl.Write(io.Discard); err == nil || !strings.Contains(err.Error(), "vectors: NaN is not between 0 and 4294967296") {
		t.Errorf("got %v, want an error that names the vectors", err)
	}
}

// The format is in the schema, and the schema refuses what Read refuses.
func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "schema", "plan.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, pl := sample(t)
	text := string(written(t, pl))
	valid := func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return schema.Validate(v)
	}
	if err := valid(text); err != nil {
		t.Errorf("got %v, want the golden plan valid", err)
	}
	rapid.Check(t, func(r *rapid.T) {
		_, pl := placement(r)
		if err := valid(string(written(r, pl))); err != nil {
			r.Fatalf("got %v, want a valid plan valid", err)
		}
	})
	if err := valid(string(written(t, &Plan{}))); err != nil {
		t.Errorf("got %v, want an empty plan valid", err)
	}
	if err := valid(string(written(t, &Plan{Sync: Sync{Bytes: 8, Time: 0.5}, Cluster: Cluster{Replicas: 2}}))); err != nil {
		t.Errorf("got %v, want a plan of sharding groups valid", err)
	}
	for _, c := range [][2]string{
		{`"version": 1`, `"version": 2`},
		{`"neuroshard-plan"`, `"plan"`},
		{`"tier":"hbm"`, `"tier":"tape"`},
		{`"kind":"grid"`, `"kind":"square"`},
		{`"kind":"grid"`, `"kind":"grid","vectors":5e9`},
		{`"kind":"grid"`, `"kind":"grid","pooling":"sum"`},
		{`"precision":"fp32",`, ``},
		{`,"optimizer":"sgd"`, ``},
		{`"precision":"fp32"`, `"precision":"fp8"`},
		{`"optimizer":"sgd"`, `"optimizer":"lion"`},
		{`"columns":[0,64]`, `"columns":[0]`},
		{`"columns":[0,64]`, `"columns":[0,64,128]`},
		{`"replicated":true`, `"replicated":true,"device":0`},
		{`"replicated":true`, `"replicated":false`},
		{`"device":0,"columns"`, `"columns"`},
		{`"dim_sum":`, `"dimsum":`},
		{`"cost_ms":12.75`, `"cost_ms":-1`},
		{`"tier":"hbm"`, `"tier":"hbm","cache_share":0.5`},
		{`"tier":"hbm"`, `"tier":"host_cached","cache_share":0`},
		{`"tier":"hbm"`, `"tier":"host_cached","cache_share":1`},
		{`"weights_only":false`, `"weights_only":false,"comm_precision":"fp8"`},
		{`"weights_only":false`, `"weights_only":false,"lanes":"all"`},
		{`"total_ms":`, `"backward_hidden_ms":-1,"total_ms":`},
		{`"warnings":`, `"hidden":{"forward_ms":1,"backward_ms":2},"warnings":`},
		{`"warnings":`, `"hidden":{"forward_ms":-1,"backward_ms":2,"replicas":true},"warnings":`},
		{`"warnings":`, `"hierarchy":{"sent_share":1,"inside_factor":1,"between_factor":1},"warnings":`},
		{`"warnings":`, `"hierarchy":{"sent_share":1.5,"inside_factor":1,"between_factor":1,"latency_ms":0},"warnings":`},
		{`"warnings":`, `"hierarchy":{"sent_share":1,"inside_factor":1,"between_factor":1,"latency_ms":-1},"warnings":`},
		{`"weights_bytes":`, `"host_bytes":-1,"weights_bytes":`},
	} {
		changed := strings.Replace(text, c[0], c[1], 1)
		if changed == text {
			t.Errorf("%s is not in the plan", c[0])
		}
		if valid(changed) == nil {
			t.Errorf("%s for %s: got a plan valid by the schema, want an error", c[1], c[0])
		}
		if _, err := Read(strings.NewReader(changed)); err == nil {
			t.Errorf("%s for %s: got no error from Read", c[1], c[0])
		}
	}
}

func TestReadRefuses(t *testing.T) {
	_, pl := sample(t)
	text := string(written(t, pl))
	cases := []struct{ name, old, new, want string }{
		{"empty", text, "", `plan file, line 1: the file ends in the middle: unexpected EOF`},
		{"no JSON", text, "tables\n", `plan file, line 1: invalid character 'a' in literal true (expecting 'r')`},
		{"no object", text, "[1]", `plan file, line 1: a list is not an object`},
		{"binary", text, "\xff\xfe{", `plan file, line 1: invalid character '\xff' at start of value`},
		{"another file", text, `{"tables": [{"name": "a"}]}`, `not a plan file: it has no "format" key, a plan has "format": "neuroshard-plan"`},
		{"another format", `"neuroshard-plan"`, `"neuroshard-model"`, `not a plan file: its format is "neuroshard-model", not "neuroshard-plan"`},
		{"no version", `"version": 1,`, ``, `plan file has no "version" key: known is version 1`},
		{"newer version", `"version": 1`, `"version": 2`, "plan file has version 2: this program knows version 1 only; make the plan again, or read it with a program that knows version 2"},
		{"older version", `"version": 1`, `"version": 0`, "plan file has version 0: this program knows version 1 only; make the plan again, or read it with a program that knows version 0"},
		{"newer version at the end", text, `{"shape": {"a": [1, "}"]}, "format": "neuroshard-plan", "version": 7}`, "plan file has version 7: this program knows version 1 only; make the plan again, or read it with a program that knows version 7"},
		{"version of text", `"version": 1`, `"version": "1"`, `plan file, line 3: version: a string is not a whole number`},
		{"truncated", text, text[:len(text)/2], `plan file, line 19: the file ends in the middle: unexpected EOF`},
		{"all but the last brace", text, strings.TrimSuffix(text, "}\n"), `plan file, line 54: the file ends in the middle: unexpected EOF`},
		{"more after the end", text, text + "{}", `plan file, line 55: invalid character '{' after top-level value`},
		{"missing part", "\"cluster\":", "\"custer\":", `plan file, line 5: key "custer" is unknown`},
		{"unknown key", `"kind":"grid"`, `"kind":"grid","Rows":3`, `plan file, line 33: tables[7]: key "Rows" is unknown`},
		{"key twice", `"kind":"grid"`, `"kind":"grid","kind":"grid"`, `tables[7]: key "kind" is there twice`},
		{"key missing", `,"tier":"hbm"}`, `}`, `plan file, line 14: tables[0].shards[0]: tier "" is unknown: known are hbm, host, host_cached`},
		{"unknown sharding type", `"kind":"grid"`, `"kind":"squares"`, `plan file: tables[7] "grid": sharding type "squares" is unknown: known are ` + knownTypes()},
		{"unknown status", `"status": "complete"`, `"status": "complete\u001b[2J\n"`, `plan file: provenance: status "complete\x1b[2J\n" is unknown: known are complete, budget, time, interrupted`},
		{"unknown tier", `"tier":"hbm"`, `"tier":"uvm"`, `plan file, line 14: tables[0].shards[0]: tier "uvm" is unknown: known are hbm, host, host_cached`},
		{"too many vectors", `"kind":"grid"`, `"kind":"grid","vectors":4294967297`, `plan file: tables[7] "grid": vectors: 4.294967297e+09 is not between 0 and 4294967296`},
		{"pooled", `"kind":"grid"`, `"kind":"grid","pooling":"sum"`, `plan file, line 37: tables[7]: pooling: "sum" is not written: write "none", or leave the key out`},
		{"precision alone", `,"optimizer":"sgd"`, ``, `tables[0]: it has one of "precision" and "optimizer": state both or neither`},
		{"optimizer alone", `"precision":"fp16",`, ``, `tables[2]: it has one of "precision" and "optimizer": state both or neither`},
		{"unknown precision", `"precision":"fp16"`, `"precision":"fp8"`, `plan file, line 20: tables[2]: precision "fp8" is unknown: choose one of fp32, fp16, bf16`},
		{"unknown optimizer", `"optimizer":"adam"`, `"optimizer":"lion"`, `plan file, line 29: tables[5]: optimizer "lion" is unknown: choose one of sgd, rowwise_adagrad, adagrad, adam`},
		{"range of one", `"columns":[0,64]`, `"columns":[64]`, `plan file, line 14: tables[0].shards[0].columns: too few array elements`},
		{"range of three", `"columns":[0,64]`, `"columns":[0,64,128]`, `plan file, line 14: tables[0].shards[0].columns: too many array elements`},
		{"range backwards", `"columns":[0,64]`, `"columns":[64,0]`, `plan file, line 14: tables[0].shards[0]: columns: [64,0] is not a range of at least one in 0 to 16384`},
		{"negative rows", `"rows":1000`, `"rows":-1000`, `plan file: tables[0] "user": rows: -1000 is not between 0 and 1099511627776`},
		{"huge rows", `"rows":1000`, `"rows":1e30`, `plan file, line 13: tables[0].rows: "1e30" is not a whole number`},
		{"broken dim", `"dim":64`, `"dim":6.5`, `plan file, line 13: tables[0].dim: "6.5" is not a whole number`},
		{"replicated and on a device", `"replicated":true`, `"replicated":true,"device":1`, `tables[8].shards[0]: it has neither or both of "device" and "replicated": write one`},
		{"neither", `"replicated":true,`, ``, `tables[8].shards[0]: it has neither or both of "device" and "replicated": write one`},
		{"not replicated", `"replicated":true`, `"replicated":false`, `plan file, line 39: tables[8].shards[0]: it has neither or both of "device" and "replicated": write one`},
		{"negative device", `"shards":[
      {"device":0,`, `"shards":[{"device":-1,`, `plan file, line 13: tables[0].shards[0]: device: -1 is not the number of a device`},
		{"endless time", `"cost_ms":12.75`, `"cost_ms":1e999`, `plan file, line 4: predicted.cost_ms: "1e999" is not a finite number`},
		{"NaN", `"cost_ms":12.75`, `"cost_ms":NaN`, `plan file, line 4: predicted.cost_ms: invalid character 'N' at start of value`},
		{"negative time", `"forward_ms":1,`, `"forward_ms":-1,`, `plan file, line 7: devices[0]: forward_ms: -1 is not a finite number of at least 0`},
		{"wrong total", `"total_ms":4.25`, `"total_ms":4.5`, `plan file, line 7: devices[0]: total_ms: 4.5 is not the sum of the device's times, 4.25`},
		{"devices out of order", `{"device":1,"shards"`, `{"device":2,"shards"`, `devices[1]: device: 2 is out of order, here is the place of 1`},
		{"negative bytes", `"memory":{"weights_bytes":`, `"memory":{"weights_bytes":-`, `plan file, line 7: devices[0]: weights_bytes: -374560 is not between 0 and 4611686018427387904`},
		{"seed beyond 64 bits", `"seed": 18446744073709551615`, `"seed": 18446744073709551616`, `provenance.seed: "18446744073709551616" is not a whole number between 0 and 2^64-1`},
		{"flag of text", `"weights_only":false`, `"weights_only":"no"`, `plan file, line 5: cluster.weights_only: a string is not true or false`},
		{"cache in hbm", `"tier":"hbm"`, `"tier":"hbm","cache_share":0.5`, `tables[0].shards[0]: cache_share: only what lies in host_cached has one, and this lies in "hbm"`},
		{"all cached", `"tier":"hbm"`, `"tier":"host_cached","cache_share":1.0`, `plan file, line 14: tables[0].shards[0]: cache_share: 1 is not above 0 and below 1`},
		{"unknown comm precision", `"weights_only":false`, `"weights_only":false,"comm_precision":"fp8"`, `cluster.comm_precision: precision "fp8" is unknown: choose one of fp32, fp16, bf16`},
		{"unknown lanes", `"weights_only":false`, `"weights_only":false,"lanes":"all"`, `cluster.lanes: lane rule "all" is unknown: choose one of widest, own`},
		{"slow network", `"weights_only":false`, `"weights_only":false,"network_bytes_per_second":5`, `plan file: cluster: network_bytes_per_second: 5 is not between 1e+06 and 1e+14`},
		{"two accountings", `"weights_only":false`, `"weights_only":true,"torchrec_bytes":true`, `cluster: weights_only and torchrec_bytes are both true: the bytes of a plan are counted in one way`},
		{"TorchRec's usual release", `"weights_only":false`, `"weights_only":false,"torchrec_bytes":true,"torchrec_release":"1.6"`, `cluster: torchrec_release: 1.6 is not written: leave the key out`},
		{"a release to come", `"weights_only":false`, `"weights_only":false,"torchrec_bytes":true,"torchrec_release":"2.0"`, `cluster: torchrec_release: the estimators of TorchRec "2.0" are not known: the plan was made by another version of neuroshard`},
		{"a release without its count", `"weights_only":false`, `"weights_only":false,"torchrec_release":"1.9"`, `cluster: torchrec_release: it is stated without torchrec_bytes`},
		{"long value", `"dim":64`, `"dim":"` + strings.Repeat("9", 1000) + `"`, `plan file, line 13: tables[0].dim: a string is not a whole number`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(text, c.old, c.new, 1)
			if changed == text {
				t.Fatalf("%q is not in the plan", c.old)
			}
			_, err := Read(strings.NewReader(changed))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
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

func TestWriteRefuses(t *testing.T) {
	cases := []struct {
		name   string
		change func(pl *Plan)
		want   string
	}{
		{"NaN", func(pl *Plan) { pl.Predicted = unit.Millis(math.NaN()) }, "predicted cost_ms: NaN is not a finite number of at least 0"},
		{"endless", func(pl *Plan) { pl.Devices[2].Backward = unit.Millis(math.Inf(1)) }, "devices[2]: backward_ms: +Inf is not a finite number of at least 0"},
		{"endless sum", func(pl *Plan) { pl.Devices[2].Backward, pl.Devices[2].Forward = math.MaxFloat64, math.MaxFloat64 }, "devices[2]: total_ms: +Inf is not a finite number of at least 0"},
		{"negative", func(pl *Plan) { pl.Devices[1].Memory.Outputs = -4 }, "devices[1]: outputs_bytes: -4 is not between 0 and 4611686018427387904"},
		{"name", func(pl *Plan) { pl.Tables[3].Name = "a\xff" }, `tables[3] "a\xff": name: "a\xff" is not UTF-8`},
		{"range", func(pl *Plan) { pl.Tables[3].Shards[0].Rows.End = 0 }, `tables[3] "place": shards[0]: rows: [0,0] is not a range of at least one in 0 to 1099511627776`},
		{"sharding type", func(pl *Plan) { pl.Tables[3].ShardingType = "" }, `tables[3] "place": sharding type "" is unknown: known are ` + knownTypes()},
		{"precision", func(pl *Plan) { pl.Tables[3].Precision = 9 }, `tables[3] "place": precision: 9 is not between 0 and 2`},
		{"optimizer", func(pl *Plan) { pl.Tables[3].Optimizer = 9 }, `tables[3] "place": optimizer: 9 is not between 0 and 3`},
		{"status", func(pl *Plan) { pl.Provenance.Status = "done" }, `provenance: status "done" is unknown: known are complete, budget, time, interrupted`},
		{"tier", func(pl *Plan) { pl.Tables[3].Shards[0].Tier = "" }, `tables[3] "place": shards[0]: tier "" is unknown: known are hbm, host, host_cached`},
		{"device", func(pl *Plan) { pl.Tables[3].Shards[0].Device = -2 }, `tables[3] "place": shards[0]: device: -2 is not between 0 and 65536`},
		{"devices", func(pl *Plan) { pl.Devices = make([]Device, hardware.MaxDevices+1) }, "devices: 65537 are more than 65536"},
		{"tables", func(pl *Plan) { pl.Tables = make([]Table, problem.MaxTables+1) }, "tables: 1048577 are more than 1048576"},
		{"shards", func(pl *Plan) { pl.Tables[0].Shards = make([]Shard, MaxShards+1) }, `tables[0] "user": shards: 65537 are more than 65536`},
		{"batch", func(pl *Plan) { pl.Cluster.Batch = -1 }, "cluster: batch: -1 is not between 0 and 16777216"},
		{"hidden", func(pl *Plan) { pl.Provenance.Hidden.Backward = -1 }, "provenance: -1 ms are hidden of the backward exchanges: state a finite number of at least 0"},
		{"hierarchy", func(pl *Plan) { pl.Provenance.Hierarchy = problem.Hierarchy{Sent: 1, Inside: 1, Latency: 1} }, "provenance: hierarchical exchange: factor on the bandwidth between hosts: 0 is not between 0.001 and 1000"},
		{"endless hidden", func(pl *Plan) { pl.Devices[2].ForwardHidden = unit.Millis(math.Inf(1)) }, "devices[2]: forward_hidden_ms: +Inf is not a finite number of at least 0"},
		{"warnings", func(pl *Plan) { pl.Provenance.Warnings = make([]string, MaxWarnings+1) }, "provenance: warnings: 10001 are more than 10000"},
		{"warning", func(pl *Plan) { pl.Provenance.Warnings[1] = "\xc0" }, `provenance: warnings: "\xc0" is not UTF-8`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, pl := sample(t)
			c.change(pl)
			var b bytes.Buffer
			err := pl.Write(&b)
			if want := "plan cannot be written: " + c.want; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if b.Len() != 0 {
				t.Errorf("got %d bytes written, want none", b.Len())
			}
		})
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

// A plan of 10,000 tables is a few MB, and what is written by hand is JSON.
func TestWriteIsCompact(t *testing.T) {
	p, shards := large(t, 10_000, 2, 128)
	data := written(t, New(p, shards))
	if len(data) > 3e6 {
		t.Errorf("got %d bytes for 10,000 tables in two slices each, want at most 3 MB", len(data))
	}
	if !json.Valid(data) {
		t.Error("got a file that is no JSON")
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
		if err := pl.Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	p, shards := large(b, 10_000, 64, 1024)
	data := written(b, New(p, shards))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}
