package input

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

func TestTopology(t *testing.T) {
	profile := must.Get(hardware.ByName("a100-80"))(t)
	full := hardware.Topology{Profile: profile, Devices: 16, DevicesPerHost: 8, Memory: 40 * unit.GiB, ReserveShare: 0.1, ReserveFixed: 2 * unit.GB}
	for _, c := range []struct {
		name, content string
		want          hardware.Topology
		batch         int
	}{
		{"a.yaml", "devices: 16\ndevices_per_host: 8\ndevice: a100-80\nmemory: 40GiB\nreserve_share: .1\nreserve_fixed: 2 GB\nbatch: 65536\n", full, 65536},
		{"a.yml", "{devices: 16, devices_per_host: 8, device: a100-80, memory: 40GiB, reserve_share: 0.1, reserve_fixed: 2GB}", full, 0},
		{"a.json", "\ufeff" + ` {"devices": 16, "devices_per_host": 8, "device": "a100-80", "memory": "40GiB", "reserve_share": 1e-1, "reserve_fixed": "2GB", "batch": 1e3}`, full, 1000},
		{"a.yaml", `{"devices": 16, "device": "a100-80"}`, hardware.Topology{Profile: profile, Devices: 16}, 0},
		{"b.yaml", "devices: 16\ndevice: a100-80\nhost_memory: 1TiB\ncomm_precision: bf16\n", hardware.Topology{Profile: profile, Devices: 16, HostMemory: unit.TiB}, 0},
		{"b.json", `{"devices": 16, "device": "a100-80", "host_memory": "1 TiB", "comm_precision": "bf16"}`, hardware.Topology{Profile: profile, Devices: 16, HostMemory: unit.TiB}, 0},
		{"c.yaml", "devices: 16\ndevice: a100-80\nlanes: own\n", hardware.Topology{Profile: profile, Devices: 16}, 0},
		{"c.yaml", "devices: 16\ndevice: a100-80\nallocator_overhead: 0.1\n", hardware.Topology{Profile: profile, Devices: 16, Numbers: hardware.Numbers{AllocatorOverhead: 0.1}}, 0},
		{"c.json", `{"devices": 16, "device": "a100-80", "lanes": "own", "pipeline": "Sparse-Dist+clear_data_dist_inputs"}`, hardware.Topology{Profile: profile, Devices: 16}, 0},
		{"", "devices: 1", hardware.Topology{Devices: 1}, 0},
		{"", "reserve_share: 0\n", hardware.Topology{ReserveShare: hardware.NoReserve}, 0},
		{"", "{}", hardware.Topology{}, 0},
	} {
		got, err := Topology(c.name, strings.NewReader(c.content))
		if err != nil {
			t.Errorf("%q: got error %v, want none", c.content, err)
			continue
		}
		if diff := cmp.Diff(c.want, got.Topology); diff != "" || got.Batch != c.batch {
			t.Errorf("%q: got batch %d, want %d; topology (-want +got):\n%s", c.content, got.Batch, c.batch, diff)
		}
		if precision := got.CommPrecision; got.Has("comm_precision") != (precision == problem.BF16) {
			t.Errorf("%q: got comm precision %v", c.content, precision)
		}
		if rule := got.LaneRule; got.Has("lanes") != (rule == problem.LanesByTable) {
			t.Errorf("%q: got lane rule %v", c.content, rule)
		}
		if pipeline := got.Pipeline; got.Has("pipeline") != (pipeline == "sparse-dist+clear_data_dist_inputs") {
			t.Errorf("%q: got pipeline %q", c.content, pipeline)
		}
		if has := strings.Contains(c.content, "batch"); got.Has("batch") != has {
			t.Errorf("%q: Has(batch): got %v, want %v", c.content, !has, has)
		}
	}
	huge := "devices: 8\n" + strings.Repeat("# padding\n", 1<<17)
	if _, err := Topology("x.yaml", strings.NewReader(huge)); err == nil || !strings.Contains(err.Error(), "the file is over 1.00 MiB") {
		t.Errorf("got %v, want an error that says the file is over 1.00 MiB", err)
	}
}

// TestCheckSeveralFiles wants the errors of all files at once, those of reading
// and those of meaning, and none that only follows from another.
func TestCheckSeveralFiles(t *testing.T) {
	a, err1 := Tables("a.csv", strings.NewReader("name,rows,dim\nuser,0,4\nitem,x,4\n"), Options{})
	b, err2 := Tables("b.json", strings.NewReader("{\"format\": \"neuroshard-tables\", \"version\": 1, \"tables\": [\n\n{\"name\": \"user\", \"rows\": 1, \"dim\": 7, \"constraints\": {\"device\": 8}}]}"), Options{})
	c, err3 := Topology("c.yaml", strings.NewReader("devices: 8\ndevice: a100\nbatch: 5\n"))
	p := &problem.Problem{Tables: append(append([]problem.Table{}, a.Tables...), b.Tables...), Topology: c.Topology, Batch: c.Batch}
	err := Join(err1, err2, err3, Check(p, a, b, c))
	want := strings.Join([]string{
		`a.csv:2: table "user": rows: 0 is not between 1 and 1099511627776 (rows is the table's hash size)`,
		`a.csv:3: table "item": rows: "x" is not a number (rows is the table's hash size)`,
		`c.yaml:2: device profile "a100" is unknown (did you mean "a100-40" or "a100-80"?): choose one of ` + strings.Join(hardware.Names(), ", ") + ` (device is the name of the device profile, such as a100-80; describe them with: neuroshard list devices)`,
		`b.json:3: table "user": the name is used twice, at a.csv:2 and b.json:3 (give every table a name of its own)`,
		`b.json:3: table "user": dim 7 is not a multiple of 4 (pad the table to 8 columns)`,
		`b.json:3: table "user": allowed device 8 does not exist: the cluster has 8 devices (devices are numbered from 0)`,
	}, "\n")
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if p.Tables[2].Name != "user" {
		t.Errorf("Check renamed a table of its argument to %q", p.Tables[2].Name)
	}
}

func TestCheckForgivesFailedReads(t *testing.T) {
	tables, err1 := Tables("a.json", strings.NewReader(`{"format": "neuroshard-tables", "version": 1, "tables": [{"name": 5}]}`), Options{})
	topology, err2 := Topology("c.yaml", strings.NewReader("devices: x\ndevice: 7\nmemory: big\nreserve_fixed: 300GiB\n"))
	if err1 == nil || err2 == nil {
		t.Fatalf("got errors %v and %v, want two", err1, err2)
	}
	p := &problem.Problem{Tables: tables.Tables, Topology: topology.Topology}
	if err := Check(p, tables, topology); err != nil {
		t.Errorf("got %v, want none: the reads reported everything", err)
	}
	if err := Check(p); err == nil {
		t.Error("without sources: got no error, want those of an empty problem")
	}
}

func TestCheckWithoutSources(t *testing.T) {
	p := &problem.Problem{Tables: []problem.Table{{Name: "a", Rows: 1, Dim: 4, Features: make([]problem.Feature, 1)}, {Name: "a", Rows: 1, Dim: 5, Features: make([]problem.Feature, 1)}}, Topology: cluster(t), Batch: 1}
	want := "table \"a\": the name is used twice, by tables #0 and #1 (give every table a name of its own)\ntable \"a\": dim 5 is not a multiple of 4 (pad the table to 8 columns)"
	if err := Check(p); fmt.Sprint(err) != want {
		t.Errorf("got %v, want %v", err, want)
	}
	p.Tables = p.Tables[:1]
	if err := Check(p); err != nil {
		t.Errorf("got %v, want none", err)
	}
}

// names draws names with everything JSON has to escape.
func names() *rapid.Generator[string] {
	return rapid.StringOf(rapid.OneOf(rapid.RuneFrom([]rune("ab\"\\/<&\n\t\u2028é漢\U0001f600#\x01")), rapid.Rune()))
}

func drawTable(t *rapid.T, i int) problem.Table {
	table := problem.Table{
		Name:      fmt.Sprintf("%s%d", names().Draw(t, "name"), i),
		Module:    rapid.OneOf(rapid.Just(""), names()).Draw(t, "module"),
		Rows:      rapid.Int64Range(1, 1<<40).Draw(t, "rows"),
		Dim:       4 * rapid.IntRange(1, 64).Draw(t, "dim"),
		Weighted:  rapid.Bool().Draw(t, "weighted"),
		Prefetch:  rapid.Bool().Draw(t, "prefetch"),
		Precision: problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision")),
		Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
		Pooling:   problem.Pooling(rapid.IntRange(0, 2).Draw(t, "how")),
	}
	bags := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-9, 1000))
	if table.Pooling == problem.PoolingNone {
		bags, table.Weighted = rapid.Just(0.0), false
		table.IndexDedup = rapid.Bool().Draw(t, "index dedup")
	}
	table.OutputPrecision = problem.OutputPrecision(rapid.IntRange(0, 3).Draw(t, "output precision"))
	table.KernelSettings = rapid.OneOf(rapid.Just(""), names()).Draw(t, "kernel settings")
	for range rapid.IntRange(1, 3).Draw(t, "features") {
		name := rapid.OneOf(rapid.Just(table.Name), rapid.Just(""), names()).Draw(t, "feature")
		if slices.ContainsFunc(table.Features, func(f problem.Feature) bool { return f.Name == name }) {
			name = ""
		}
		table.Features = append(table.Features, problem.Feature{
			Name: name, PoolingFactor: rapid.Float64Range(0, 1<<19).Draw(t, "pooling"),
			LengthCV: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, problem.MaxLengthCV)).Draw(t, "lengths"),
			Bags:     bags.Draw(t, "bags"),
		})
	}
	table.Access.Kind = access.Kind(rapid.IntRange(0, 3).Draw(t, "access"))
	table.Access.Law = rapid.SampledFrom(access.Laws()).Draw(t, "law")
	switch table.Access.Kind {
	case access.Zipf:
		table.Access.Exponent = rapid.Float64Range(math.SmallestNonzeroFloat64, 10).Draw(t, "zipf")
	case access.Histogram:
		rest := 1.0
		for j := range access.Classes - 1 {
			table.Access.Reuse[j] = rest * rapid.Float64Range(0, 1).Draw(t, "share")
			rest -= table.Access.Reuse[j]
		}
		table.Access.Reuse[access.Classes-1] = max(0, rest)
		table.Access.Batch = rapid.IntRange(1, problem.MaxBatch).Draw(t, "batch")
		table.Access.UniqueRows = min(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1, 1<<40)).Draw(t, "unique"), float64(table.Rows), mostUnique(&table))
	}
	// All tables may go to device 3, so that no group is contradictory.
	if rapid.Bool().Draw(t, "limited") {
		table.Constraint.Devices = append([]int{3}, rapid.SliceOfNDistinct(rapid.IntRange(4, 60000), 0, 3, rapid.ID[int]).Draw(t, "devices")...)
	}
	table.Constraint.Colocation = rapid.OneOf(rapid.Just(""), names()).Draw(t, "group")
	table.Constraint.NoSplit = rapid.Bool().Draw(t, "no split")
	table.Constraint.OneHost = rapid.Bool().Draw(t, "one host")
	table.Constraint.MinWidth = 4 * rapid.IntRange(0, table.Dim/4).Draw(t, "min width")
	if rapid.Bool().Draw(t, "in tiers") {
		table.Constraint.Tiers = rapid.SampledFrom([][]problem.Tier{{problem.HBM}, {problem.HostCached, problem.HBM}, {problem.HBM, problem.Host, problem.HostCached}}).Draw(t, "tiers")
	}
	if table.Constraint.PermitsTier(problem.HostCached) {
		table.Constraint.CacheShare = rapid.SampledFrom([]float64{0, .001, .5}).Draw(t, "cache share")
	}
	return table
}

func TestWriteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tables []problem.Table
		for i := range rapid.IntRange(1, 5).Draw(t, "tables") {
			tables = append(tables, drawTable(t, i))
		}
		file := TableFile{
			Tables: tables, Batch: rapid.IntRange(0, problem.MaxBatch).Draw(t, "batch"),
			Samples: rapid.Int64Range(0, step.MaxSamples).Draw(t, "samples"),
		}
		var first, second strings.Builder
		if err := Write(&first, file); err != nil {
			t.Fatalf("got error %v, want none", err)
		}
		got, err := Tables("", strings.NewReader(first.String()), Options{})
		if err != nil {
			t.Fatalf("got error %v, want none, for:\n%s", err, first.String())
		}
		if diff := cmp.Diff(tables, got.Tables); diff != "" || got.Batch != file.Batch || got.Samples != file.Samples {
			t.Fatalf("got batch %d and %d samples, want %d and %d; tables (-want +got):\n%s", got.Batch, got.Samples, file.Batch, file.Samples, diff)
		}
		got.Warnings = nil // of what the tables leave open
		if err := Write(&second, got); err != nil || first.String() != second.String() {
			t.Fatalf("writing again: got %v and\n%s\nwant\n%s", err, second.String(), first.String())
		}
	})
}

func TestWriteRefuses(t *testing.T) {
	good := problem.Table{Name: "a", Rows: 1, Dim: 4, Features: []problem.Feature{{Name: "a", PoolingFactor: 1}}}
	for name, spoil := range map[string]func(*problem.Table){
		"rows":    func(t *problem.Table) { t.Rows = 0 },
		"pooling": func(t *problem.Table) { t.Features = []problem.Feature{{PoolingFactor: math.NaN()}} },
		"lengths": func(t *problem.Table) { t.Features = []problem.Feature{{LengthCV: math.Inf(1)}} },
		"bags":    func(t *problem.Table) { t.Features = []problem.Feature{{Bags: -1}} },
		"name":    func(t *problem.Table) { t.Name = "\xff" },
		"group":   func(t *problem.Table) { t.Constraint.Colocation = "\xff" },
		"feature": func(t *problem.Table) { t.Features = []problem.Feature{{Name: strings.Repeat("x", 1<<16)}} },
	} {
		table := good
		spoil(&table)
		var out strings.Builder
		if err := Write(&out, TableFile{Tables: []problem.Table{good, table}, Batch: 1}); err == nil || out.Len() > 0 {
			t.Errorf("%s: got error %v and %d bytes, want an error and none", name, err, out.Len())
		}
	}
	var out strings.Builder
	for _, file := range []TableFile{{Batch: -1}, {Samples: -1}, {Samples: step.MaxSamples + 1}, {Warnings: []string{"two\nlines"}}} {
		file.Tables = []problem.Table{good}
		if err := Write(&out, file); err == nil || out.Len() > 0 {
			t.Errorf("batch %d, %d samples and warnings %q: got error %v and %d bytes, want an error and none", file.Batch, file.Samples, file.Warnings, err, out.Len())
		}
	}
	if err := Write(&out, TableFile{Batch: 1}); err == nil {
		t.Error("no tables: got no error")
	}
}

func ExampleTables() {
	const content = `name,rows,dim,pooling_factor,zipf
user,1000000,64,1,1.1
item,50000,30,20,
`
	tables, err := Tables("model.csv", strings.NewReader(content), Options{})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(tables.Warnings[0])
	cluster, err := Topology("cluster.yaml", strings.NewReader("devices: 8\ndevice: a100-80\n"))
	if err != nil {
		fmt.Println(err)
	}
	p := &problem.Problem{Tables: tables.Tables, Topology: cluster.Topology, Batch: 65536}
	fmt.Println(Check(p, tables, cluster))
	// Output:
	// 1 of 2 tables states no access distribution: Zipf 1.05 is assumed (item)
	// model.csv:3: table "item": dim 30 is not a multiple of 4 (pad the table to 32 columns)
}

func ExampleWrite() {
	tables := []problem.Table{{Name: "user", Rows: 1000, Dim: 64, Features: []problem.Feature{{Name: "user", PoolingFactor: 2.5}}}}
	var out strings.Builder
	if err := Write(&out, TableFile{Tables: tables, Batch: 65536, Samples: 4195197692}); err != nil {
		fmt.Println(err)
	}
	fmt.Print(out.String())
	// Output:
	// {
	//   "format": "neuroshard-tables",
	//   "version": 1,
	//   "batch": 65536,
	//   "samples": 4195197692,
	//   "tables": [
	//     {"name":"user","rows":1000,"dim":64,"pooling_factor":2.5,"precision":"fp32","optimizer":"sgd"}
	//   ]
	// }
}
