package input

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func scenarioFiles(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "scenarios", "*.json"))
	if err != nil || len(names) != 5 {
		t.Fatalf("got scenarios %v and error %v, want five", names, err)
	}
	return names
}

// readScenarioText reads and checks a scenario on devices of a profile, as the command
// does.
func readScenarioText(t testing.TB, name, content string) (*problem.Problem, TableFile, error) {
	t.Helper()
	f, err := Tables(name, strings.NewReader(content), Options{})
	if f.Format != Scenario || f.Cluster == nil {
		t.Fatalf("%s: read as %q, with cluster %v: %s", name, f.Format, f.Cluster, content)
	}
	p := &problem.Problem{Tables: f.Tables, Topology: f.Cluster.Topology, Batch: f.Batch}
	p.Topology.Profile = cluster(t).Profile
	return p, f, Join(err, Check(p, f, *f.Cluster))
}

// TestScenarios reads the files that TorchRec's planner was timed on, as they are.
func TestScenarios(t *testing.T) {
	for _, name := range scenarioFiles(t) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		p, f, err := readScenarioText(t, name, string(content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var tables, devices, batch int
		optimizer, memory := problem.SGD, 80*unit.GiB
		switch filepath.Base(name) {
		case "dlrm_8x40_adagrad.json":
			tables, devices, batch, optimizer, memory = 26, 8, 65536, problem.Adagrad, 40*unit.GiB
		case "dlrm_8x80_none.json":
			tables, devices, batch = 26, 8, 65536
		case "syn_100t_8g.json":
			tables, devices, batch = 100, 8, 4096
		case "syn_100t_32g.json":
			tables, devices, batch = 100, 32, 16384
		case "syn_100t_128g.json":
			tables, devices, batch = 100, 128, 65536
		}
		want := hardware.Topology{Profile: p.Topology.Profile, Devices: devices, DevicesPerHost: 8, Memory: memory}
		if diff := cmp.Diff(want, p.Topology); diff != "" || len(p.Tables) != tables || p.Batch != batch || f.Cluster.Batch != batch {
			t.Errorf("%s: %d tables, batch %d; topology (-want +got):\n%s", name, len(p.Tables), p.Batch, diff)
		}
		for _, table := range p.Tables {
			if table.Optimizer != optimizer {
				t.Errorf("%s: %s has optimizer %v, want %v", name, table.Name, table.Optimizer, optimizer)
			}
		}
		if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "state no access distribution") {
			t.Errorf("%s: warnings %q", name, f.Warnings)
		}
	}
	p, _ := must.Get2(readScenarioText(t, "x.json", inScenario(`{"name": "t1", "rows": 838412, "dim": 128, "pooling": 7.67, "dtype": "bf16"}`, "")))(t)
	want := problem.Table{Name: "t1", Rows: 838412, Dim: 128, Features: []problem.Feature{{Name: "t1", PoolingFactor: 7.67}}, Precision: problem.BF16, Optimizer: problem.Adam}
	if diff := cmp.Diff([]problem.Table{want}, p.Tables); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const scenarioTableText = `{"name": "a", "rows": 10, "dim": 8, "pooling": 1.5}`

// scenarioOf puts a scenario together; an empty topology is that of eight devices.
func scenarioOf(begin, tables, batch, topology string) string {
	if topology == "" {
		topology = `"topology": {"world_size": 8, "local_world_size": 4, "hbm_bytes": 42949672960}`
	}
	return fmt.Sprintf(`{%s
"tables": [%s]%s,
%s}`, begin, tables, batch, topology)
}

func inScenario(tables, topology string) string {
	return scenarioOf(`"name": "s", "optimizer": "adam",`, tables, `, "global_batch": 4096, "batch_size_per_rank": 512`, topology)
}

func scenarioTopology(world, local, hbm string) string {
	return inScenario(scenarioTableText, fmt.Sprintf(`"topology": {"world_size": %s, "local_world_size": %s, "hbm_bytes": %s}`, world, local, hbm))
}

// scenarioBandwidths states all bandwidths.
var scenarioBandwidths = scenarioTopology("8", "4", `1e10, "intra_host_bw": 6e8, "inter_host_bw": 12500000.5, "hbm_mem_bw": 1e11, "hbm_to_ddr_mem_bw": 1000`)

// TestScenarioBandwidths: TorchRec states bytes a millisecond.
func TestScenarioBandwidths(t *testing.T) {
	p, _ := must.Get2(readScenarioText(t, "x.json", scenarioBandwidths))(t)
	want := hardware.Bandwidths{Links: 6e11, HBM: 1e14, HostLink: 1e6}
	if got := p.Topology; got.Bandwidths != want || got.NetworkBandwidth != 12_500_000_500 {
		t.Errorf("got %+v and %v, want %+v and 12500000500", got.Bandwidths, got.NetworkBandwidth, want)
	}
}

func scenarioBatch(batch string) string {
	return scenarioOf(`"name": "s", "optimizer": "adam",`, scenarioTableText, batch, "")
}

// goodScenarios read without error.
var goodScenarios = []struct {
	name, content string
	batch         int
}{
	{"whole", inScenario(scenarioTableText, ""), 4096},
	{"global batch alone", scenarioBatch(`, "global_batch": 1000`), 1000},
	{"batch per rank alone", scenarioBatch(`, "batch_size_per_rank": 16`), 128},
	{"optimizer first", scenarioOf(`"optimizer": "none",`, scenarioTableText, `, "global_batch": 8`, ""), 8},
	{"sorted keys", `{"batch_size_per_rank": 512, "global_batch": 4096, "name": "s", "optimizer": "none", "tables": [` + scenarioTableText + `], "topology": {"hbm_bytes": 1e10, "local_world_size": 8, "world_size": 8}}`, 4096},
	{"no lookups", inScenario(`{"name": "a", "rows": 10, "dim": 8, "pooling": 0, "dtype": "fp16"}`, ""), 4096},
	{"last host not full", scenarioTopology("8", "3", "1e10"), 4096},
	{"bandwidths", scenarioBandwidths, 4096},
}

func TestGoodScenarios(t *testing.T) {
	s := compiled(t, "scenario.schema.json")
	for _, c := range goodScenarios {
		p, _, err := readScenarioText(t, "x.json", c.content)
		if err != nil || p.Batch != c.batch {
			t.Errorf("%s: batch %d, want %d; error %v", c.name, p.Batch, c.batch, err)
		}
		value := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(c.content)))(t)
		if err := s.Validate(value); err != nil {
			t.Errorf("%s: the schema refuses it: %v", c.name, err)
		}
	}
	for _, name := range scenarioFiles(t) {
		file := open(t, name)
		value := must.Get(jsonschema.UnmarshalJSON(file))(t)
		if err := s.Validate(value); err != nil {
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
	}
}

// badScenarios are scenarios with something wrong in each.
var badScenarios = []struct{ name, content string }{
	{"batches differ", scenarioBatch(`, "global_batch": 65536, "batch_size_per_rank": 512`)},
	{"no batch", scenarioBatch("")},
	{"batch zero", scenarioBatch(`, "global_batch": 0`)},
	{"batch per rank zero", scenarioBatch(`, "batch_size_per_rank": 0`)},
	{"batch per rank huge", scenarioBatch(`, "batch_size_per_rank": 1e18`)},
	{"batch of all huge", scenarioBatch(`, "batch_size_per_rank": 16777216`)},
	{"batch of all huge and stated", scenarioBatch(`, "global_batch": 8, "batch_size_per_rank": 16777216`)},
	{"batch a string", scenarioBatch(`, "batch_size_per_rank": "512"`)},
	{"only a name", `{"name": "s"}`},
	{"no tables", inScenario("", "")},
	{"tables an object", `{"name": "s", "tables": {}, "optimizer": "none", "global_batch": 8, "topology": {"world_size": 8, "local_world_size": 8, "hbm_bytes": 1e10}}`},
	{"name a number", strings.Replace(inScenario(scenarioTableText, ""), `"s"`, "7", 1)},
	{"optimizer unknown", strings.Replace(inScenario(scenarioTableText, ""), `"adam"`, `"adamw"`, 1)},
	{"optimizer null", strings.Replace(inScenario(scenarioTableText, ""), `"adam"`, `null`, 1)},
	{"topology missing", `{"name": "s", "optimizer": "none", "global_batch": 8, "tables": [` + scenarioTableText + `]}`},
	{"topology a list", inScenario(scenarioTableText, `"topology": [8, 8]`)},
	{"topology empty", inScenario(scenarioTableText, `"topology": {}`)},
	{"topology in our words", inScenario(scenarioTableText, `"topology": {"devices": 8, "devices_per_host": 8, "memory": "80GiB"}`)},
	{"no devices", scenarioTopology("0", "8", "1e10")},
	{"devices negative", scenarioTopology("-8", "8", "1e10")},
	{"devices too many", scenarioTopology("65537", "8", "1e10")},
	{"devices a fraction", scenarioTopology("8.5", "8", "1e10")},
	{"host of none", scenarioTopology("8", "0", "1e10")},
	{"no memory", scenarioTopology("8", "8", "0")},
	{"memory with a unit", scenarioTopology("8", "8", `"80GiB"`)},
	{"memory huge", scenarioTopology("8", "8", "1e18")},
	{"bandwidth zero", scenarioTopology("8", "8", `1e10, "intra_host_bw": 0`)},
	{"bandwidth too high", scenarioTopology("8", "8", `1e10, "hbm_mem_bw": 2e11`)},
	{"bandwidth with a unit", scenarioTopology("8", "8", `1e10, "inter_host_bw": "50GB/s", "hbm_to_ddr_mem_bw": -1`)},
	{"rows zero", inScenario(`{"name": "a", "rows": 0, "dim": 8, "pooling": 1}`, "")},
	{"dim odd", inScenario(`{"name": "a", "rows": 10, "dim": 6, "pooling": 1}`, "")},
	{"dtype unknown", inScenario(`{"name": "a", "rows": 10, "dim": 8, "pooling": 1, "dtype": "fp64"}`, "")},
	{"pooling missing", inScenario(`{"name": "a", "rows": 10, "dim": 8}`, "")},
	{"pooling negative", inScenario(`{"name": "a", "rows": 10, "dim": 8, "pooling": -1}`, "")},
	{"pooling NaN", inScenario(`{"name": "a", "rows": 10, "dim": 8, "pooling": NaN}`, "")},
	{"table empty", inScenario(`{}`, "")},
	{"table a list", inScenario(`[1, 2]`, "")},
	{"table in our words", inScenario(`{"name": "a", "rows": 10, "dim": 8, "pooling_factor": 1, "precision": "fp32"}`, "")},
	{"table in TorchRec's words", inScenario(`{"name": "a", "num_embeddings": 10, "embedding_dim": 8, "pooling": 1}`, "")},
	{"duplicate names", inScenario(scenarioTableText+", "+scenarioTableText, "")},
	{"duplicate key", inScenario(scenarioTableText, `"topology": {"world_size": 8, "world_size": 8, "local_world_size": 8, "hbm_bytes": 1e10}`)},
	{"unknown key", strings.Replace(inScenario(scenarioTableText, ""), `"name": "s"`, `"name": "s", "seed": 1`, 1)},
	{"truncated", inScenario(scenarioTableText, "")[:80]},
	{"truncated in the topology", strings.TrimSuffix(inScenario(scenarioTableText, ""), "42949672960}}")},
	{"two objects", inScenario(scenarioTableText, "") + "{}"},
	{"all at once", `{"name": 1, "optimizer": "none?", "batch_size_per_rank": 0, "global_batch": 1.5, "ranks": 8,
"tables": [{"name": "", "rows": -1, "dim": 3, "pooling": "x"}, 7],
"topology": {"world_size": 0, "hbm_bytes": null}}`},
}

// TestBadScenarios compares all errors with testdata/bad_scenarios.golden, and wants
// the schema to refuse the same files.
func TestBadScenarios(t *testing.T) {
	s := compiled(t, "scenario.schema.json")
	var got strings.Builder
	for _, c := range badScenarios {
		_, _, err := readScenarioText(t, "x.json", c.content)
		var list *Errors
		if !errors.As(err, &list) {
			t.Errorf("%q: got %v (%T), want *Errors", c.name, err, err)
			continue
		}
		fmt.Fprintf(&got, "== %s\n%s\n", c.name, err)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(c.content))
		beyond := []string{"batches differ", "batch of all huge", "batch of all huge and stated", "duplicate names", "duplicate key", "two objects"}
		if err == nil && !slices.Contains(beyond, c.name) && s.Validate(value) == nil {
			t.Errorf("%q: the schema takes what the parser refuses: %s", c.name, c.content)
		}
	}
	must.Match(t, "testdata/bad_scenarios.golden", []byte(got.String()))
}

// TestScenarioBegins: the first key tells a scenario from the project's own format.
func TestScenarioBegins(t *testing.T) {
	for _, content := range []string{
		inTables(scenarioTableText),
		`{"tables": [], "name": "s"}`,
		`{"batch": 8, "topology": {}}`,
		`{"": 1}`, `{`, `{}`, `{"name`, "{\x00", `{"` + strings.Repeat("x", 1<<13) + `": 1}`,
	} {
		if f, _ := Tables("x.json", strings.NewReader(content), Options{}); f.Format != JSON || f.Cluster != nil {
			t.Errorf("%.40q: read as %q", content, f.Format)
		}
	}
	for _, content := range []string{"\ufeff { \n\t\"name\" : 1}", `{"topology": {}}`, `{"optimizer": 1`} {
		if f, _ := Tables("x.json", strings.NewReader(content), Options{}); f.Format != Scenario || f.Cluster == nil {
			t.Errorf("%.40q: read as %q", content, f.Format)
		}
	}
	f, err := Tables("x.json", strings.NewReader(`{"tables": [`+scenarioTableText+`], "topology": {}}`), Options{})
	if f.Format != JSON || err == nil || !strings.Contains(err.Error(), "a scenario, which begins with its name") {
		t.Errorf("got %v, want an error that says how a scenario begins", err)
	}
	big := `{"name": "s", "tables": [` + strings.Repeat(scenarioTableText+",", 20)
	if _, err := Tables("x.json", strings.NewReader(big), Options{MaxTables: 10}); err == nil || !strings.Contains(err.Error(), "more than 10 tables") {
		t.Errorf("got %v, want an error about the number of tables", err)
	}
	if _, err := Tables("x.json", strings.NewReader(big), Options{maxBytes: 100}); err == nil || !strings.Contains(err.Error(), "the file is over 100 B") {
		t.Errorf("got %v, want an error about the size", err)
	}
}

func FuzzScenario(f *testing.F) {
	for _, c := range goodScenarios {
		f.Add(c.content)
	}
	for _, c := range badScenarios {
		f.Add(c.content)
	}
	profile := cluster(f).Profile
	f.Fuzz(func(t *testing.T, content string) {
		fuzzTables(t, "x.json", content)
		file, err := Tables("x.json", strings.NewReader(content), Options{})
		if file.Cluster == nil {
			return
		}
		p := &problem.Problem{Tables: file.Tables, Topology: file.Cluster.Topology, Batch: file.Batch}
		p.Topology.Profile = profile
		all := Join(err, Check(p, file, *file.Cluster))
		if err == nil && all == nil != (p.Validate() == nil) {
			t.Fatalf("Check: got %v, but Validate says %v", all, p.Validate())
		}
	})
}
