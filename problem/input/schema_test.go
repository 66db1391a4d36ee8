package input

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/neuroshard/neuroshard/internal/marks"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
)

func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	return must.Get(jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "schema", name)))(t)
}

// beyondSchema are the cases that a JSON Schema cannot tell from good ones, or
// that its reader lets pass: they are the parser's and Check's alone.
var beyondSchema = []string{
	"duplicate names", "duplicate key", "reuse sum", "group apart", "min_width above dim",
	"pin to a missing device", "pooling beyond float64", "rows huge", "rows huge exponent",
	"bags of a listed sequence", "twice", "two objects", "not UTF-8", "sharding types and devices",
	"more unique rows than rows", "more unique rows than lookups", "a part of a unique row",
	"a feature twice", "half a pair of surrogates", "dedup stated and chosen",
}

// TestSchemaAgrees wants the schema to refuse what the parser and Check refuse.
func TestSchemaAgrees(t *testing.T) {
	tables := compiled(t, "tables.schema.json")
	judged := 0
	for _, c := range badTables {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(c.content))
		_, object := value.(map[string]any)
		if err != nil || !object || slices.Contains(beyondSchema, c.name) {
			continue
		}
		judged++
		if tables.Validate(value) == nil {
			t.Errorf("tables %q: the schema takes what the parser refuses: %s", c.name, c.content)
		}
	}
	if judged < 45 {
		t.Errorf("got %d bad files of tables judged, want at least 45", judged)
	}
	topology := compiled(t, "topology.schema.json")
	judged = 0
	for _, c := range badTopologies {
		var value any
		if err := yaml.Unmarshal([]byte(c.content), &value); err != nil || value == nil || slices.Contains(beyondSchema, c.name) {
			continue
		}
		switch c.name {
		case "devices missing.yaml", "reserve everything.yaml", "no network.yaml", "network slow.yaml", "two documents.yaml", "host memory huge.yaml",
			"dense dot.yaml", "dense features.yaml", "dense large.yaml", "dense in a small reserve.yaml", "activations fill a device.yaml":
			// Flags may add what is missing; the others no schema can tell.
			continue
		case "reserve NaN.yaml", "alias.yaml":
			// JSON has neither NaN nor aliases.
			continue
		case "merge.yaml":
			// YAML resolves the merge before a schema sees it.
			continue
		}
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatalf("%q: %v", c.name, err)
		}
		again := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(string(data))))(t)
		judged++
		if topology.Validate(again) == nil {
			t.Errorf("topology %q: the schema takes what the parser refuses: %s", c.name, c.content)
		}
	}
	if judged < 18 {
		t.Errorf("got %d bad topologies judged, want at least 18", judged)
	}
}

// TestSchemaTakesGood wants the schema and the parser to take the same files.
func TestSchemaTakesGood(t *testing.T) {
	tables := compiled(t, "tables.schema.json")
	example := must.Get(os.ReadFile("../../examples/tables.json"))(t)
	for _, content := range []string{
		string(example),
		inTable(`"pooling_factor": 0`),
		inTable(`"weighted": false, "precision": "bf16", "optimizer": "adam"`),
		inTable(`"features": [{"pooling_factor": 1.5}, {"name": "", "pooling_factor": 0}]`),
		inTable(`"features": [{"pooling_factor": 1.5, "length_cv": 0}, {"pooling_factor": 0, "length_cv": 1000}]`),
		inTable(`"length_cv": 0.7`),
		inTable(`"pooling": "mean"`),
		inTable(`"pooling": "none", "weighted": false, "pooling_factor": 20`),
		inTable(`"bags": 0.125`),
		inTable(`"precision": "fp32", "output_precision": "bf16"`),
		inTable(`"features": [{"pooling_factor": 6, "bags": 1048576}, {"pooling_factor": 1}]`),
		`{"format": "neuroshard-tables", "version": 1, "defaults": {"pooling": "none"}, "tables": [{"name": "a", "rows": 1, "dim": 4, "pooling": "sum", "bags": 2}]}`,
		`{"format": "neuroshard-tables", "version": 1, "defaults": {"pooling": "mean"}, "tables": [{"name": "a", "rows": 1, "dim": 4, "pooling": "sum"}]}`,
		inTable(`"pooling_factor": 12, "length_cv": 1e-3`),
		`{"format": "neuroshard-tables", "version": 1, "defaults": {"length_cv": 0.5}, "tables": [{"name": "a", "rows": 1, "dim": 4}]}`,
		inTable(`"access": {"zipf": 10}`),
		inTable(`"access": {"uniform": true}`),
		inTable(`"access": {"zipf": 1.1, "index_law": "multi_hot"}`),
		inTable(`"access": {"uniform": true, "index_law": "independent"}`),
		inTable(`"access": {"index_law": "multi_hot"}`),
		inTable(`"access": {"reuse": [1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0], "batch": 5, "index_law": "multi_hot"}`),
		`{"format": "neuroshard-tables", "version": 1, "defaults": {"index_law": "multi_hot"}, "tables": [{"name": "a", "rows": 1, "dim": 4}]}`,
		inTable(`"access": {"reuse": [1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0], "batch": 1e3, "unique_rows": 1.5}`),
		inTable(`"constraints": {}`),
		inTable(`"constraints": {"devices": [7, 0], "no_split": false, "min_width": 0, "one_host": true}`),
		inTables(`{"name": "a", "rows": 1e6, "dim": 4.0}`),
		inTable(`"constraints": {"sharding_types": ["row_wise", "grid"]}`),
		`{"format": "neuroshard-tables", "version": 1, "defaults": {"constraints": {"devices": [0, 1], "no_split": true, "min_width": 64, "sharding_types": ["column_wise"]}}, "tables": [{"name": "a", "rows": 1, "dim": 4}]}`,
		inTables(`{"name": "a", "rows": 1099511627776, "dim": 4}`),
		`{"tables": [{"dim": 16384, "rows": 1, "name": "a"}], "batch": 16777216, "version": 1, "format": "neuroshard-tables", "defaults": {}}`,
		`{"tables": [{"dim": 4, "rows": 1, "name": "a"}], "version": 1, "format": "neuroshard-tables", "defaults": {"pooling_factor": 2, "weighted": true, "precision": "fp16", "optimizer": "sgd", "zipf": 1}}`,
	} {
		value := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(content)))(t)
		if err := tables.Validate(value); err != nil {
			t.Errorf("the schema refuses %s: %v", content, err)
		}
		if _, err := readAndCheck(t, "x.json", content); err != nil {
			t.Errorf("the parser refuses %s: %v", content, err)
		}
	}
	topology := compiled(t, "topology.schema.json")
	for _, content := range []string{
		`{}`,
		`{"devices": 8, "devices_per_host": 8, "device": "h200", "memory": "1.5 tib", "reserve_share": 0, "reserve_fixed": "0B", "batch": 1}`,
		`{"devices": 8, "device": "h200", "host_memory": "1.5TiB", "comm_precision": "fp16"}`,
		`{"devices": 8, "device": "h200", "engine": "torchrec"}`,
		`{"devices": 144, "devices_per_host": 4, "device": "b200", "network_bandwidth": "50 GB/s", "nvlink_domain": 72}`,
		`{"devices": 8, "device": "h200", "lanes": "own", "pipeline": "base"}`,
		`{"devices": 8, "device": "h200", "pipeline": "sparse-dist+clear_data_dist_inputs+free_features_storage_early"}`,
		`{"devices": 16, "devices_per_host": 8, "device": "h200", "replicas": 2, "sync_every": 10, "inter_host_allreduce": true}`,
		`{"devices": 8, "device": "h200", "dense": "mlperf-dlrm-dcnv2", "stack": "hugectr", "step": "3.9ms", "loader": "20 GB/s", "price": 2.95}`,
		`{"dense": {"bottom": [13, 512, 4], "interaction": "dot", "top": [1024, 1]}, "step": "900us", "price": "$2.95"}`,
		`{"dense": {"interaction": {"dcn": {"layers": 3, "rank": 512}}, "top": [1], "precision": "bf16", "activations": "250kB", "parallel": "fsdp", "optimizer": "adam"}}`,
		`{"dense": {"interaction": {"flops": 638e6, "parameters": 320e6, "layers": 20}}}`,
		`{"dense": {"preset": "madmax-dlrm-a", "parallel": "fsdp"}, "stack": {"preset": "torchrec-base", "forward": "bf16", "overlap": [], "launch": "graph", "sharp": true}}`,
		`{"devices": 65536, "device": "a100-80", "devices_per_host": 8, "memory": "40gb", "reserve_share": 0.99}`,
	} {
		value := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(content)))(t)
		if err := topology.Validate(value); err != nil {
			t.Errorf("the schema refuses %s: %v", content, err)
		}
		if _, err := Topology("x.json", strings.NewReader(content)); err != nil {
			t.Errorf("the parser refuses %s: %v", content, err)
		}
	}
}

// TestSchemaFollowsFields holds the properties of tables and clusters in the schemas to the lists of fields;
// -update writes them. What a list does not know of a property, such as a pattern, stays.
func TestSchemaFollowsFields(t *testing.T) {
	follow := func(name string, change func(root map[string]any)) {
		path := filepath.Join("..", "..", "schema", name)
		text := must.Get(os.ReadFile(path))(t)
		var root map[string]any
		must.Do(t, json.Unmarshal(text, &root))
		change(root)
		var out bytes.Buffer
		encode := json.NewEncoder(&out)
		encode.SetEscapeHTML(false)
		encode.SetIndent("", "  ")
		must.Do(t, encode.Encode(root))
		if bytes.Equal(out.Bytes(), text) {
			return
		}
		if !*must.Update {
			t.Errorf("%s does not follow the fields: rewrite it with -update", path)
		} else if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	object := func(of any, key string) map[string]any { return of.(map[string]any)[key].(map[string]any) }
	follow("tables.schema.json", func(root map[string]any) {
		definitions := object(root, "$defs")
		properties(object(definitions, "table"), ownFields)
		properties(object(definitions, "feature"), featureFields)
		properties(object(definitions, "access"), accessFields)
		properties(object(definitions, "constraints"), constraintFields)
		properties(object(object(root, "properties"), "defaults"), defaultsShape.fields)
		for _, key := range slices.Sorted(maps.Keys(object(root, "properties"))) {
			if !slices.Contains(fileShape.keys, key) {
				t.Errorf("the schema of files of tables has the key %s, which no file may state", key)
			}
		}
	})
	follow("topology.schema.json", func(root map[string]any) {
		properties(root, clusterFields)
		object(object(root, "properties"), "device")["enum"] = hardware.Names()
		object(object(root, "$defs"), "densePreset")["enum"] = step.DenseNames()
		object(object(root, "$defs"), "stackPreset")["enum"] = step.StackNames()
		properties(object(object(root, "$defs"), "dense"), denseFields)
		properties(object(object(root, "$defs"), "stack"), stackFields)
	})
	follow("plan.schema.json", func(root map[string]any) {
		cluster := object(object(root, "properties"), "cluster")
		before, after := object(cluster, "properties"), map[string]any{}
		for _, f := range reflect.VisibleFields(reflect.TypeFor[plan.Cluster]()) {
			key, _, stated := strings.Cut(f.Tag.Get("json"), ",")
			if after[key] = before[key]; stated && before[key] == nil {
				i := slices.IndexFunc(clusterFields, func(f *field[TopologyFile]) bool { return f.key == key })
				after[key] = map[string]any{"type": "number", "minimum": 0, "description": clusterFields[i].hint}
			}
		}
		delete(after, "") // of embedded structs
		cluster["properties"] = after
		object(object(object(root, "$defs"), "table"), "properties")["kind"] = map[string]any{"enum": problem.ShardingTypes()}
	})
}

// properties gives an object of a schema the properties that follow from fields.
func properties[T any](of map[string]any, fields []*field[T]) {
	before, after := of["properties"].(map[string]any), map[string]any{}
	for _, f := range fields {
		property, _ := before[f.key].(map[string]any)
		if property == nil {
			property = map[string]any{}
		}
		if after[f.key] = property; f.hint == "" {
			continue
		}
		maps.Copy(property, f.schema)
		property["description"] = f.hint
	}
	of["properties"] = after
}

// TestDocumentFollowsFields holds the tables of fields in docs/FORMATS.md to the lists; -update writes them.
func TestDocumentFollowsFields(t *testing.T) {
	const page = "../../docs/FORMATS.md"
	tables := "| key | column of CSV | meaning |\n|---|---|---|"
	row := func(f *field[table], object string) {
		column := "`" + f.column + "`"
		if f.column == reuse {
			column = "`reuse_0` to `reuse_16`"
		} else if f.column == "-" {
			column = ""
		}
		if object != "" {
			object += "."
		}
		tables += fmt.Sprintf("\n| `%s%s` | %s | %s |", object, f.key, column, strings.TrimPrefix(f.hint, f.key+" is "))
	}
	for _, f := range ownFields {
		if f.hint != "" {
			row(f, "")
		}
	}
	for _, f := range accessFields {
		row(f, problem.InAccess)
	}
	for _, f := range constraintFields {
		row(f, problem.InConstraints)
	}
	for name, want := range map[string]string{"fields of tables": tables, "fields of clusters": rows(clusterFields), "fields of dense parts": rows(denseFields), "fields of stacks": rows(stackFields)} {
		if *must.Update {
			must.Do(t, marks.Replace(page, name, []string{want}))
		}
		text := must.Get(os.ReadFile(page))(t)
		if got, ok := marks.Part(string(text), name); !ok || got != want {
			t.Errorf("%s: the %s are not those of the lists: rewrite them with -update", page, name)
		}
	}
}

// rows returns the table of a list of fields.
func rows[T any](fields []*field[T]) string {
	table := "| key | meaning |\n|---|---|"
	for _, f := range fields {
		table += fmt.Sprintf("\n| `%s` | %s", f.key, strings.TrimPrefix(f.hint, f.key+" is "))
		known, _ := f.schema["enum"].([]string)
		if slices.ContainsFunc(known, func(word string) bool { return !strings.Contains(f.hint, word) }) && len(known) < 6 {
			table += " (" + strings.Join(known, ", ") + ")"
		}
		table += " |"
	}
	return table
}
