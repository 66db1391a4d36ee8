package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/unit"
)

func span(start, end int64) problem.Range { return problem.Range{Start: start, End: end} }

// cluster returns a problem of no tables on n devices, perHost on a host.
func cluster(t must.T, n, perHost int) *problem.Problem {
	profile := must.Get(hardware.ByName("a100-80"))(t)
	return &problem.Problem{Topology: hardware.Topology{Profile: profile, Devices: n, DevicesPerHost: perHost, ReserveShare: hardware.NoReserve}, Batch: 1024}
}

// add adds a table to a problem, and its place to tables.
func add(p *problem.Problem, tables *[]plan.Table, t plan.Table) {
	p.Tables = append(p.Tables, problem.Table{
		Name: t.Name, Module: t.Module, Rows: t.Rows, Dim: t.Dim, Features: []problem.Feature{{Name: t.Name, PoolingFactor: 1}},
	})
	*tables = append(*tables, t)
}

// everyKind returns a plan with a table of each kind and tier on 2 hosts of 2
// devices, in two modules.
func everyKind(t testing.TB) (*problem.Problem, *plan.Plan) {
	p := cluster(t, 4, 2)
	var tables []plan.Table
	whole := func(rows int64, dim int) plan.Shard {
		return plan.Shard{Rows: span(0, rows), Columns: span(0, int64(dim)), Tier: plan.HBM}
	}
	on := func(s plan.Shard, device int) plan.Shard { s.Device = device; return s }
	rows := func(dim int64, first int, ends ...int64) (all []plan.Shard) {
		start := int64(0)
		for i, end := range ends {
			all = append(all, plan.Shard{Rows: span(start, end), Columns: span(0, dim), Device: first + i, Tier: plan.HBM})
			start = end
		}
		return all
	}
	add(p, &tables, plan.Table{Name: "user", Module: "sparse.ebc", Rows: 1000, Dim: 64, ShardingType: plan.TableWise, Shards: []plan.Shard{on(whole(1000, 64), 3)}})
	add(p, &tables, plan.Table{Name: "item", Module: "sparse.ebc", Rows: 2000, Dim: 64, ShardingType: plan.ColumnWise, Operator: 2, Shards: []plan.Shard{
		{Rows: span(0, 2000), Columns: span(0, 48), Device: 2, Tier: plan.HBM},
		{Rows: span(0, 2000), Columns: span(48, 64), Device: 0, Tier: plan.HBM},
	}})
	add(p, &tables, plan.Table{Name: "word", Module: "over.ebc", Rows: 7, Dim: 8, ShardingType: plan.RowWise, Shards: rows(8, 0, 2, 4, 6, 7)})
	add(p, &tables, plan.Table{Name: "over.ebc/user", Module: "over.ebc", Rows: 9, Dim: 8, ShardingType: plan.TableRowWise, Shards: rows(8, 2, 5, 9)})
	add(p, &tables, plan.Table{Name: "grid", Module: "over.ebc", Rows: 10, Dim: 24, ShardingType: plan.Grid, Shards: []plan.Shard{
		{Rows: span(0, 5), Columns: span(0, 16), Device: 2, Tier: plan.HBM},
		{Rows: span(5, 10), Columns: span(0, 16), Device: 3, Tier: plan.HBM},
		{Rows: span(0, 5), Columns: span(16, 24), Device: 0, Tier: plan.HBM},
		{Rows: span(5, 10), Columns: span(16, 24), Device: 1, Tier: plan.HBM},
	}})
	everywhere := whole(10, 4)
	everywhere.Device = everyRank
	add(p, &tables, plan.Table{Name: "tiny", Module: "over.ebc", Rows: 10, Dim: 4, ShardingType: plan.DataParallel, Operator: 1, Shards: []plan.Shard{everywhere}})
	host := on(whole(7, 4), 1)
	host.Tier = plan.Host
	add(p, &tables, plan.Table{Name: "far", Module: "over.ebc", Rows: 7, Dim: 4, ShardingType: plan.TableWise, Shards: []plan.Shard{host}})
	host.Tier, host.Cache = plan.HostCached, 0.25
	add(p, &tables, plan.Table{Name: "near", Module: "over.ebc", Rows: 7, Dim: 4, ShardingType: plan.TableWise, Shards: []plan.Shard{host}})
	pl := plan.Of(p, tables)
	pl.Predicted = 12.75
	pl.Provenance = plan.Provenance{
		Tool: "neuroshard", Version: "0.1.0", Method: "hand", Seed: 7, Status: "complete",
		Model: "a100-80 1", ModelSource: "simulated", Input: plan.Digest(p),
	}
	return p, pl
}

func exported(t must.T, pl *plan.Plan, opt Options) []byte {
	var b bytes.Buffer
	must.Do(t, TorchRec(&b, pl, opt))
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	_, pl := everyKind(t)
	must.Match(t, "testdata/torchrec.json", exported(t, pl, Options{}))
	var b bytes.Buffer
	pl.Tables = slices.DeleteFunc(pl.Tables, func(t plan.Table) bool {
		return t.Name == "item" || t.Name == "far" || t.Name == "near" || t.Name == "grid"
	})
	pl.Tables = append(pl.Tables, plan.Table{Name: "cut", Rows: 10, Dim: 16, ShardingType: plan.ColumnWise, Shards: []plan.Shard{
		{Rows: span(0, 10), Columns: span(0, 4), Device: 3, Tier: plan.HBM},
		{Rows: span(0, 10), Columns: span(4, 12), Device: 1, Tier: plan.HBM},
		{Rows: span(0, 10), Columns: span(12, 16), Device: 3, Tier: plan.HBM},
	}})
	pl.Tables[0].IndexDedup = true
	must.Do(t, HugeCTR(&b, pl, Options{}))
	must.Match(t, "testdata/hugectr.json", b.Bytes())
	b.Reset()
	must.Do(t, HugeCTR(&b, pl, Options{Python: true}))
	must.Match(t, "testdata/hugectr.py", b.Bytes())
	entries := must.Get(os.ReadDir("testdata"))(t)
	for _, e := range entries {
		if !slices.Contains([]string{"torchrec.json", "hugectr.json", "hugectr.py", "serialized.json", "serialize.py", "operators.json", "fuzz", "rapid"}, e.Name()) {
			t.Errorf("testdata/%s belongs to no test", e.Name())
		}
	}
}

// place reads an export and places the problem's tables.
func place(t must.T, data []byte, p *problem.Problem) *plan.Plan {
	f := must.Get(ReadTorchRec("plan.json", bytes.NewReader(data)))(t)
	pl := must.Get(f.Place(p))(t)
	return pl
}

func TestRoundTripOfEveryKind(t *testing.T) {
	p, pl := everyKind(t)
	data := exported(t, pl, Options{})
	back := place(t, data, p)
	if d := gocmp.Diff(pl.Tables, back.Tables); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if !back.Cluster.Equal(pl.Cluster) {
		t.Errorf("got cluster %+v, want %+v", back.Cluster, pl.Cluster)
	}
	for i := range pl.Devices {
		if back.Devices[i] != pl.Devices[i] {
			t.Errorf("device %d: got %+v, want %+v", i, back.Devices[i], pl.Devices[i])
		}
	}
	// "plan" alone is what a ShardingPlan serializes to, and says as much but for
	// the shape of what is data-parallel.
	var whole map[string]json.RawMessage
	must.Do(t, json.Unmarshal(data, &whole))
	bare := fmt.Sprintf(`{"plan": %s}`, whole["plan"])
	if d := gocmp.Diff(pl.Tables, place(t, []byte(bare), p).Tables); d != "" {
		t.Errorf("bare: -want +got\n%s", d)
	}
	f := must.Get(ReadTorchRec("bare.json", strings.NewReader(bare)))(t)
	if f.World != 4 || f.Local != 2 || f.Cluster != nil {
		t.Errorf("got %d ranks, %d a host, cluster %v", f.World, f.Local, f.Cluster)
	}
	if _, err := f.Shapes(); err == nil || !strings.Contains(err.Error(), `1 data_parallel table has: "tiny"`) {
		t.Errorf("got %v, want the table without a shape named", err)
	}
}

// drawn draws a plan of any kinds that TorchRec runs.
func drawn(t *rapid.T) (*problem.Problem, *plan.Plan) {
	per := rapid.IntRange(1, 4).Draw(t, "per host")
	hosts := rapid.IntRange(1, 3).Draw(t, "hosts")
	n := hosts * per
	p := cluster(t, n, per)
	p.Topology.HostMemory = rapid.SampledFrom([]unit.Bytes{0, unit.TiB}).Draw(t, "host memory")
	p.CommPrecision = problem.Precision(rapid.IntRange(0, 2).Draw(t, "comm precision"))
	var tables []plan.Table
	modules := []string{"a.ebc", "b.ebc", "b"}
	for i := range rapid.IntRange(1, 8).Draw(t, "tables") {
		module := rapid.SampledFrom(modules).Draw(t, "module")
		// Names that are in other modules, too, and such that look as if they were.
		local := rapid.SampledFrom([]string{"user", "item", "b/user", fmt.Sprint("t", i), "漢\"\n<&>"}).Draw(t, "name")
		if slices.ContainsFunc(tables, func(o plan.Table) bool { return o.Module == module && problem.LocalName(module, o.Name) == local }) {
			continue
		}
		t := drawTable(t, n, per)
		t.Module, t.Name = module, module+"/"+local
		add(p, &tables, t)
	}
	if rapid.Bool().Draw(t, "plain names") {
		for i := range p.Tables {
			local := problem.LocalName(tables[i].Module, tables[i].Name)
			plain := problem.LocalName(tables[i].Module, local) == local && !slices.ContainsFunc(tables, func(o plan.Table) bool { return o.Name == local })
			if plain {
				p.Tables[i].Name, tables[i].Name = local, local
			}
		}
	}
	return p, plan.Of(p, tables)
}

// drawTable draws a table without a name.
func drawTable(t *rapid.T, n, per int) plan.Table {
	rows, dim := rapid.Int64Range(1, 40).Draw(t, "rows"), 4*rapid.IntRange(1, 8).Draw(t, "dim/4")
	out := plan.Table{Rows: rows, Dim: dim, ShardingType: rapid.SampledFrom([]plan.ShardingType{plan.TableWise, plan.ColumnWise, plan.RowWise, plan.TableRowWise, plan.Grid, plan.DataParallel}).Draw(t, "kind")}
	out.Operator = problem.Operator(rapid.IntRange(0, problem.Operators-1).Draw(t, "operator"))
	tier := rapid.SampledFrom([]plan.Tier{plan.HBM, plan.Host, plan.HostCached}).Draw(t, "tier")
	cache := 0.0
	if tier == plan.HostCached {
		cache = rapid.Float64Range(1e-9, 0.999999).Draw(t, "cache")
	}
	device := func() int { return rapid.IntRange(0, n-1).Draw(t, "device") }
	blocks := func(columns problem.Range, first, n int) {
		block := (rows + int64(n) - 1) / int64(n)
		for i := range n {
			r := span(min(rows, int64(i)*block), min(rows, int64(i+1)*block))
			if r.Len() > 0 {
				out.Shards = append(out.Shards, plan.Shard{Rows: r, Columns: columns, Device: first + i, Tier: tier})
			}
		}
	}
	var cuts []problem.Range
	for start := 0; start < dim; {
		end := min(dim, start+4*rapid.IntRange(1, 4).Draw(t, "width/4"))
		cuts = append(cuts, span(int64(start), int64(end)))
		start = end
	}
	whole := span(0, int64(dim))
	// What TorchRec does not run, is placed whole.
	leaves := func(n int) bool { return (rows+int64(n)-1)/int64(n)*int64(n-1) >= rows }
	if out.ShardingType == plan.RowWise && leaves(n) || (out.ShardingType == plan.TableRowWise || out.ShardingType == plan.Grid) && leaves(per) {
		out.ShardingType = plan.TableWise
	}
	width := map[int]int64{}
	// apart returns the next device on which slices are as wide as c, or -1.
	apart := func(from, step int, c problem.Range) int {
		for i := 0; i < n; i += step {
			d := (from + i) % n
			if w, used := width[d]; !used || w == c.Len() {
				width[d] = c.Len()
				return d
			}
		}
		return -1
	}
	switch out.ShardingType {
	case plan.DataParallel:
		out.Shards = []plan.Shard{{Rows: span(0, rows), Columns: whole, Device: everyRank, Tier: plan.HBM}}
	case plan.TableWise:
		out.Shards = []plan.Shard{{Rows: span(0, rows), Columns: whole, Device: device(), Tier: tier}}
	case plan.ColumnWise:
		for _, c := range cuts {
			d := apart(device(), 1, c)
			if d < 0 {
				out.Shards = []plan.Shard{{Rows: span(0, rows), Columns: whole, Device: 0, Tier: tier}}
				break
			}
			out.Shards = append(out.Shards, plan.Shard{Rows: span(0, rows), Columns: c, Device: d, Tier: tier})
		}
	case plan.RowWise:
		blocks(whole, 0, n)
	case plan.TableRowWise:
		blocks(whole, device()/per*per, per)
	case plan.Grid:
		for _, c := range cuts {
			d := apart(device()/per*per, per, c)
			if d < 0 {
				out.Shards = []plan.Shard{{Rows: span(0, rows), Columns: whole, Device: 0, Tier: tier}}
				break
			}
			blocks(c, d, per)
		}
	}
	if len(out.Shards) == 1 && out.ShardingType != plan.DataParallel {
		out.ShardingType = plan.TableWise
	}
	for k := range out.Shards {
		if out.Shards[k].Tier == plan.HostCached {
			out.Shards[k].Cache = cache
		}
	}
	return out
}

// TestTorchRecKeepsDedup: the export says which tables the plan deduplicates, and a plan made of it does, with the tables
// and without them. Tables that state it are deduplicated whether the file says so or not, and tables that state nothing
// refuse a file that says so.
func TestTorchRecKeepsDedup(t *testing.T) {
	p := cluster(t, 2, 2)
	p.Engine = problem.TorchRec
	p.Tables = []problem.Table{{Name: "m/a", Module: "m", Rows: 40, Dim: 8, Pooling: problem.PoolingNone, ChooseDedup: true, Features: []problem.Feature{{PoolingFactor: 3}}}}
	whole := []plan.Shard{{Rows: span(0, 40), Columns: span(0, 8), Device: 1, Tier: plan.HBM}}
	pl := plan.Of(p, []plan.Table{{Name: "m/a", Module: "m", Rows: 40, Dim: 8, IndexDedup: true, ShardingType: plan.TableWise, Shards: whole}})
	export := exported(t, pl, Options{})
	if note := `deduplicates the indices of 1 of 1 tables, \"m/a\"`; !bytes.Contains(export, []byte(note)) {
		t.Errorf("got %s, want %q", export, note)
	}
	f, err := ReadTorchRec("x.json", bytes.NewReader(export))
	if err != nil {
		t.Fatal(err)
	}
	back, err := f.Place(p)
	if d := gocmp.Diff(pl, back); err != nil || d != "" || !back.Tables[0].IndexDedup {
		t.Errorf("got %v\n%s", err, d)
	}
	shapes, err := f.Shapes()
	if err != nil || !shapes[0].IndexDedup {
		t.Errorf("without tables: got %v, %+v, want IndexDedup", err, shapes)
	}
	p.Tables[0].ChooseDedup = false
	if _, err = f.Place(p); err == nil || !strings.Contains(err.Error(), "states neither index_dedup nor choose_dedup") {
		t.Errorf("a table that states nothing: got error %v", err)
	}
	p.Tables[0].IndexDedup = true
	for _, said := range []bool{true, false} {
		f.Tables[0].IndexDedup = said
		if back, err = f.Place(p); err != nil || !back.Tables[0].IndexDedup || back.Validate(p) != nil {
			t.Errorf("a table that states it, in a file that says %v: got %v, %+v", said, err, back)
		}
	}
}

// Exported and imported, a plan places all tables alike; exported again, it is the
// same bytes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, pl := drawn(t)
		data := exported(t, pl, Options{})
		f, err := ReadTorchRec("plan.json", bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		back := must.Get(f.Place(p))(t)
		if !f.Cluster.Equal(pl.Cluster) || len(f.Notes) > 0 {
			t.Fatalf("got cluster %+v and notes %q, want %+v and none", *f.Cluster, f.Notes, pl.Cluster)
		}
		if hosted := p.Topology.HostMemory > 0; hosted {
			if err := back.Validate(p); err != nil {
				t.Fatalf("what TorchRec runs is not valid: %v", err)
			}
		}
		if d := gocmp.Diff(pl.Tables, back.Tables); d != "" {
			t.Fatalf("-want +got\n%s", d)
		}
		if again := exported(t, back, Options{}); !bytes.Equal(data[:bytes.Index(data, []byte(`"provenance"`))], again[:bytes.Index(again, []byte(`"provenance"`))]) {
			t.Fatalf("exported again: %s", gocmp.Diff(string(data), string(again)))
		}
		// Without the tables the names are unique, and export to the same places.
		shapes := must.Get(f.Shapes())(t)
		alone := *p
		alone.Tables = shapes
		again := must.Get(f.Place(&alone))(t)
		if got := exported(t, again, Options{}); !bytes.Equal(placesOf(data), placesOf(got)) {
			t.Fatalf("exported without tables: %s", gocmp.Diff(string(placesOf(data)), string(placesOf(got))))
		}
	})
}

// placesOf returns the part of an export that says what lies where.
func placesOf(data []byte) []byte { return data[:bytes.Index(data, []byte(`"cluster"`))] }

// Slices of different widths on one rank become one.
func TestJoined(t *testing.T) {
	slice := func(start, end int64, device int) plan.Shard {
		return plan.Shard{Rows: span(0, 10), Columns: span(start, end), Device: device, Tier: plan.HBM}
	}
	for _, c := range []struct{ in, want []plan.Shard }{
		{[]plan.Shard{slice(0, 48, 0), slice(48, 64, 1)}, []plan.Shard{slice(0, 48, 0), slice(48, 64, 1)}},
		{[]plan.Shard{slice(0, 16, 3), slice(16, 48, 1), slice(48, 64, 3)}, []plan.Shard{slice(0, 16, 3), slice(16, 48, 1), slice(48, 64, 3)}},
		{[]plan.Shard{slice(0, 48, 0), slice(48, 96, 1), slice(96, 128, 0)}, []plan.Shard{slice(0, 80, 0), slice(80, 128, 1)}},
		{[]plan.Shard{slice(0, 4, 2), slice(4, 8, 1), slice(8, 16, 2), slice(16, 20, 1)}, []plan.Shard{slice(0, 12, 2), slice(12, 16, 1), slice(16, 20, 1)}},
		{[]plan.Shard{slice(0, 4, 2), slice(4, 16, 2)}, []plan.Shard{slice(0, 16, 2)}},
		{[]plan.Shard{slice(0, 8, 2), slice(8, 16, 2)}, []plan.Shard{slice(0, 8, 2), slice(8, 16, 2)}},
	} {
		if d := gocmp.Diff(c.want, joined(c.in, false)); d != "" {
			t.Errorf("%v: -want +got\n%s", c.in, d)
		}
	}
	p := cluster(t, 4, 2)
	var tables []plan.Table
	add(p, &tables, plan.Table{Name: "t", Module: "ebc", Rows: 10, Dim: 16, ShardingType: plan.ColumnWise, Shards: []plan.Shard{slice(0, 4, 2), slice(4, 16, 2)}})
	var told []string
	got := string(exported(t, plan.Of(p, tables), Options{OnWarning: func(message string) { told = append(told, message) }}))
	if want := `joined for 1 of 1 tables, "t"`; len(told) != 1 || !strings.Contains(told[0], want) || !strings.Contains(got, `joined for 1 of 1 tables, \"t\"`) {
		t.Errorf("told %q, want one warning with %s, in the file, too:\n%s", told, want, got)
	}
	if !strings.Contains(got, `"t": {"sharding_type":"table_wise"`) {
		t.Errorf("got %s, want what is left in one slice table_wise", got)
	}
	tables, told = nil, nil
	p = cluster(t, 4, 2)
	p.Engine = problem.TorchRec
	add(p, &tables, plan.Table{Name: "t", Module: "ebc", Rows: 10, Dim: 16, ShardingType: plan.ColumnWise, Shards: []plan.Shard{slice(0, 8, 2), slice(8, 16, 2)}})
	got = string(exported(t, plan.Of(p, tables), Options{OnWarning: func(message string) { told = append(told, message) }}))
	if want := `"t": {"sharding_type":"column_wise","compute_kernel":"fused","ranks":[2,2]`; len(told) > 0 || !strings.Contains(got, want) {
		t.Errorf("equal slices on one rank: told %q, got %s, want %s and no warning", told, got, want)
	}
}

// HugeCTR has no slices of a table on one GPU, so the export joins them and says so.
func TestHugeCTRJoinsSlices(t *testing.T) {
	for _, python := range []bool{false, true} {
		p := cluster(t, 2, 2)
		var tables []plan.Table
		var shards []plan.Shard
		for i := range int64(4) {
			shards = append(shards, plan.Shard{Rows: span(0, 10), Columns: span(4*i, 4*i+4), Device: int(i / 2), Tier: plan.HBM})
		}
		add(p, &tables, plan.Table{Name: "t", Rows: 10, Dim: 16, ShardingType: plan.ColumnWise, Shards: shards})
		var said []string
		var out bytes.Buffer
		must.Do(t, HugeCTR(&out, plan.Of(p, tables), Options{Python: python, OnWarning: func(message string) { said = append(said, message) }}))
		const want = "the slices on a GPU were joined for 1 of 1 tables"
		if len(said) != 1 || !strings.Contains(said[0], want) || !strings.Contains(out.String(), want) {
			t.Errorf("python %v: got warnings %q, want one with %q, in the file, too:\n%s", python, said, want, out.String())
		}
	}
}

// HugeCTR does not keep operators apart: a plan made for it is refused if it divides them,
// another plan is exported with a warning.
func TestHugeCTRLeavesNumbersOut(t *testing.T) {
	p := cluster(t, 1, 1)
	var tables []plan.Table
	for i := range problem.Operators {
		add(p, &tables, plan.Table{Name: fmt.Sprint("t", i), Rows: 10, Dim: 4, ShardingType: plan.TableWise, Operator: problem.Operator(i), Shards: []plan.Shard{
			{Rows: span(0, 10), Columns: span(0, 4), Tier: plan.HBM},
		}})
	}
	pl := plan.Of(p, tables)
	var said []string
	var out bytes.Buffer
	must.Do(t, HugeCTR(&out, pl, Options{OnWarning: func(message string) { said = append(said, message) }}))
	const want = `the numbers of operators were left out for 2 of 3 tables, "t1", "t2"`
	if len(said) != 1 || !strings.Contains(said[0], want) || !strings.Contains(out.String(), "left out for 2 of 3 tables") {
		t.Errorf("got warnings %q, want one with %q, in the file, too:\n%s", said, want, out.String())
	}
	pl.Cluster.Engine = problem.HugeCTR
	if err := HugeCTR(&out, pl, Options{}); !strings.Contains(faultsOf(t, err), "it is in operator 2: HugeCTR does not let a plan divide its operators") {
		t.Errorf("a plan for HugeCTR: got %v", err)
	}
}

// faultsOf returns the errors of an export, one a line with its hint.
func faultsOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var list *input.Errors
	if !errors.As(err, &list) {
		t.Fatalf("got %T %v, want an *input.Errors", err, err)
	}
	return err.Error()
}

// TestTorchRecRefuses: what TorchRec could not run is an error that begins with the text, and nothing is
// written. Without a text it is written.
func TestTorchRecRefuses(t *testing.T) {
	const (
		user = iota
		item
		word
		over
		grid
		tiny
		far
	)
	module := "ebc"
	host := func(pl *plan.Plan) { pl.Tables = pl.Tables[:far+1] }
	for _, c := range []struct {
		opt    Options
		mutate func(pl *plan.Plan)
		want   string
	}{
		{Options{}, func(pl *plan.Plan) { pl.Tables[user].Module, pl.Tables[item].Module = "", "" }, `2 of 8 tables state no module: "user", "item" (state "module" for tables in the tables file, or give the module's path: --set module=sparse.ebc)`},
		{Options{Module: &module}, func(pl *plan.Plan) { pl.Tables[user].Module = "" }, ""},
		{Options{}, func(pl *plan.Plan) { pl.Tables[word].Name = "user" }, `table "user": it is there twice`},
		{Options{}, func(pl *plan.Plan) { pl.Tables[user].Module, pl.Tables[over].Module = "over.ebc", "over.ebc" }, `table "over.ebc/user": module "over.ebc" would have two tables named "user": this one and "user" (rename one of them, in the model too)`},
		{Options{}, func(pl *plan.Plan) { pl.Tables[word].Shards[0].Rows.End, pl.Tables[word].Shards[1].Rows.Start = 3, 3 }, `table "word": shard 0: rows [0, 3) of columns [0, 8) lie on device 0, but the 7 rows of a row_wise table are cut into blocks of 2`},
		{Options{}, func(pl *plan.Plan) { pl.Tables[word].Shards[1].Device, pl.Tables[word].Shards[2].Device = 2, 1 }, `table "word": shard 1: rows [2, 4) of columns [0, 8) lie on device 2, but the 7 rows`},
		{Options{}, func(pl *plan.Plan) { pl.Tables[over].Shards[0].Rows.End, pl.Tables[over].Shards[1].Rows.Start = 4, 4 }, `table "over.ebc/user": shard 0: rows [0, 4) of columns [0, 8) lie on device 2, but the 9 rows`},
		{Options{}, func(pl *plan.Plan) {
			t := &pl.Tables[word]
			t.Rows, t.Shards = 5, t.Shards[:3]
			t.Shards[2].Rows.End = 5
		}, `table "word": its 5 rows in blocks of 2 leave ranks without any, and TorchRec does not run that: it is row_wise over 4 ranks (make it table_wise or data_parallel)`},
		{Options{}, func(pl *plan.Plan) {
			for k := range 2 {
				pl.Tables[grid].Shards[k].Device -= 2
			}
		}, `table "grid": shard 2: its slice has 8 columns and another on host 0 has 16: TorchRec does not load slices of different widths from one rank`},
		{Options{}, func(pl *plan.Plan) {
			pl.Cluster.Devices, pl.Tables = 3, []plan.Table{pl.Tables[over]}
			pl.Tables[0].Shards[1].Device = 2
		}, `table "over.ebc/user": a table_row_wise table's rows lie on all 2 devices of a full host, but host 1 has only 1`},
		{Options{}, func(pl *plan.Plan) { pl.Tables[item].Shards[1].Tier = plan.Host }, `table "item": shard 1: it lies in host memory and shard 0 in hbm: TorchRec keeps all shards of a table in one memory (plan with --engine torchrec)`},
		{Options{}, func(pl *plan.Plan) {
			s := pl.Tables[item].Shards
			s[0].Tier, s[0].Cache, s[1].Tier, s[1].Cache = plan.HostCached, 0.1, plan.HostCached, 0.2
		}, `table "item": shard 1: of its rows 0.2 are cached, and of shard 0's 0.1`},
		{Options{}, func(pl *plan.Plan) {
			pl.Tables[item].Shards[0].Tier, pl.Tables[item].Shards[1].Tier = plan.HostCached, plan.HostCached
		}, ""},
		{Options{}, func(pl *plan.Plan) { pl.Cluster.Pipeline = problem.SemiSyncPipeline }, `table "tiny": shard 0: TorchRec's semi-sync pipeline does not train a data_parallel table: its optimizer would step between the lookups and the backward of a batch`},
		{Options{}, func(pl *plan.Plan) { pl.Tables[tiny].Shards[0].Tier = plan.HostCached }, `table "tiny": shard 0: a data_parallel table lies in hbm: TorchRec has no other kernel for it than dense`},
		{Options{Accelerator: CPU}, host, `table "far": shard 0: kernel fused_uvm needs cuda`},
		{Options{Accelerator: "abacus"}, host, `the accelerator is "abacus": known are cuda and cpu`},
		{Options{}, func(pl *plan.Plan) {
			pl.Tables[user].Shards[0].Device = 7
			pl.Tables[item].Shards[0].Columns.End = 44
			pl.Tables[word].Shards = nil
		}, `table "user": shard 0: there is no device 7: the cluster has 4 (neuroshard check says what else is wrong with the plan)
table "item": columns [44, 48) are placed nowhere (neuroshard check says what else is wrong with the plan)
table "word": it has no shard: it is placed nowhere (neuroshard check says what else is wrong with the plan)`},
		{Options{}, func(pl *plan.Plan) { pl.Cluster.Devices = 0 }, "the plan is for 0 devices"},
		{Options{}, func(pl *plan.Plan) {
			pl.Cluster.Devices = hardware.MaxDevices
			pl.Tables = slices.Repeat(pl.Tables[tiny:tiny+1], 100)
			for i := range pl.Tables {
				pl.Tables[i].Name = fmt.Sprint(i)
			}
		}, "the tables would be listed 6553600 times in all, for they lie on many devices: more than 4194304 are not written"},
	} {
		_, pl := everyKind(t)
		c.mutate(pl)
		var b bytes.Buffer
		got := faultsOf(t, TorchRec(&b, pl, c.opt))
		if (b.Len() > 0) != (c.want == "") || (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("got %d bytes and\n%s\nwant\n%s", b.Len(), got, c.want)
		}
	}
}

// TestHugeCTRRefuses is the same for HugeCTR, of a table of ten rows on four devices.
func TestHugeCTRRefuses(t *testing.T) {
	shardsOf := func(cuts ...int64) (all []plan.Shard) {
		start := int64(0)
		for device, end := range cuts {
			all = append(all, plan.Shard{Rows: span(0, 10), Columns: span(start, end), Device: device, Tier: plan.HBM})
			start = end
		}
		return all
	}
	blocks := func(first int, columns problem.Range, ends ...int64) (all []plan.Shard) {
		start := int64(0)
		for i, end := range ends {
			all = append(all, plan.Shard{Rows: span(start, end), Columns: columns, Device: first + i, Tier: plan.HBM})
			start = end
		}
		return all
	}
	for _, c := range []struct {
		kind   plan.ShardingType
		dim    int
		shards []plan.Shard
		alone  bool
		want   string
	}{
		{plan.ColumnWise, 12, shardsOf(4, 8, 12), false, ""},
		{plan.ColumnWise, 12, shardsOf(4, 8, 12), true, "1 of 4 devices hold no table: 3; HugeCTR needs a part of a table on every device (plan with --engine hugectr)"},
		{plan.ColumnWise, 64, shardsOf(32, 48, 64), false, `table "t": shard 1: it has 16 columns and shard 0 has 32: HugeCTR cuts a table into slices of the same width (plan with --engine hugectr)`},
		{plan.TableWise, 4, []plan.Shard{{Rows: span(0, 10), Columns: span(0, 4), Tier: plan.Host}}, false, `table "t": shard 0: it lies in host memory: HugeCTR keeps tables in the memory of the devices`},
		{plan.RowWise, 4, blocks(0, span(0, 4), 3, 6, 9, 10), false, ""},
		{plan.RowWise, 4, blocks(0, span(0, 4), 1, 6, 9, 10), false, `table "t": shard 0: rows [0, 1) of columns [0, 4) lie on device 0, but the 10 rows`},
		{plan.TableRowWise, 4, append(blocks(1, span(0, 4), 5), plan.Shard{Rows: span(5, 10), Columns: span(0, 4), Device: 1, Tier: plan.HBM}), false, `table "t": shard 0: rows [0, 5) of columns [0, 4) lie on device 1, but the 10 rows`},
		{plan.Grid, 8, append(blocks(2, span(0, 4), 5, 10), blocks(0, span(4, 8), 5, 10)...), false, ""},
		{plan.Grid, 12, append(blocks(2, span(0, 4), 5, 10), blocks(0, span(4, 12), 5, 10)...), false, `table "t": shard 2: it has 8 columns and shard 0 has 4: HugeCTR cuts a table into slices of the same width`},
		{plan.Grid, 8, append(blocks(2, span(0, 4), 5, 10), blocks(2, span(4, 8), 5, 10)...), false, `table "t": shard 2: shard 0 of the table is on device 2, too: HugeCTR puts at most one slice of a table on a device`},
		{plan.Grid, 8, append(blocks(2, span(0, 4), 5, 10), blocks(0, span(4, 8), 10)...), false, `table "t": columns [0, 4) are cut into 2 blocks and columns [4, 8) into 1`},
		{plan.Grid, 8, []plan.Shard{
			{Rows: span(0, 5), Columns: span(0, 4), Device: 0, Tier: plan.HBM},
			{Rows: span(5, 10), Columns: span(0, 4), Device: 2, Tier: plan.HBM},
			{Rows: span(0, 5), Columns: span(4, 8), Device: 1, Tier: plan.HBM},
			{Rows: span(5, 10), Columns: span(4, 8), Device: 3, Tier: plan.HBM},
		}, false, `table "t": its slices lie on devices [0 2 1 3]: in HugeCTR the GPUs of a slice follow each other`},
		{plan.TableWise, 8, shardsOf(4), false, `table "t": columns [4, 8) are placed nowhere`},
	} {
		p := cluster(t, 4, 2)
		if c.kind == plan.Grid {
			p.Engine = problem.HugeCTR // for others, the rows of a slice lie on a host
		}
		var tables []plan.Table
		add(p, &tables, plan.Table{Name: "t", Rows: 10, Dim: c.dim, ShardingType: c.kind, Shards: c.shards})
		if !c.alone {
			add(p, &tables, plan.Table{Name: "all", Rows: 10, Dim: 4, ShardingType: plan.DataParallel, Shards: []plan.Shard{{Rows: span(0, 10), Columns: span(0, 4), Device: everyRank, Tier: plan.HBM}}})
		}
		var b bytes.Buffer
		got := faultsOf(t, HugeCTR(&b, plan.Of(p, tables), Options{}))
		if (b.Len() > 0) != (c.want == "") || (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %v: got %d bytes and\n%s\nwant\n%s", c.kind, c.shards, b.Len(), got, c.want)
		}
	}
}

// Nothing that a plan says becomes code.
func TestPythonIsOnlyText(t *testing.T) {
	_, pl := everyKind(t)
	pl.Tables = pl.Tables[5:6] // tiny is on all devices
	pl.Tables[0].Name = "a\"]\nimport os\r#'''\u2028"
	pl.Provenance.Method = "x\nimport os"
	pl.Provenance.Tool = "\r\nimport os"
	var b bytes.Buffer
	must.Do(t, HugeCTR(&b, pl, Options{Python: true}))
	for _, line := range strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if strings.HasPrefix(strings.TrimSpace(line), "import") {
			t.Errorf("got the line %q in\n%s", line, b.String())
		}
	}
}

func TestProvenance(t *testing.T) {
	_, pl := everyKind(t)
	for _, c := range []struct{ source, want, not string }{
		{"simulated", "SIMULATED", "unknown"},
		{"measured", `"cost_ms":12.75`, "SIMULATED"},
		{plan.Unpriced, `"source":"none"`, "cost_ms"},
	} {
		pl.Provenance.ModelSource = c.source
		if got := string(exported(t, pl, Options{})); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s: got %s, want %q and not %q", c.source, got[strings.Index(got, `"provenance"`):], c.want, c.not)
		}
	}
}

// TestUnequalSlices: TorchRec trains slices of unequal widths, and load_state_dict fails on
// them. So a plan for TorchRec may not have such slices, and another plan gets a warning.
func TestUnequalSlices(t *testing.T) {
	p := &problem.Problem{
		Tables:   []problem.Table{{Name: "t", Module: "ebc", Rows: 10, Dim: 16, Features: make([]problem.Feature, 1)}},
		Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 2}, Batch: 8,
	}
	cut := func() *plan.Plan {
		return plan.New(p, [][]problem.Shard{
			{{Columns: problem.Range{Start: 0, End: 12}, Rows: problem.Range{End: 10}}},
			{{Columns: problem.Range{Start: 12, End: 16}, Rows: problem.Range{End: 10}}},
		})
	}
	got := string(exported(t, cut(), Options{}))
	if want := `its load_state_dict fails on them: 1 of 1 tables have such slices, \"t\"; plan with --engine torchrec`; !strings.Contains(got, want) {
		t.Errorf("got %s, want the warning %s", got, want)
	}
	p.Engine = problem.TorchRec
	err := TorchRec(io.Discard, cut(), Options{})
	if want := `table "t": shard 1: it has 4 columns and shard 0 has 12: TorchRec cuts a table into slices of the same width (plan with --engine torchrec)`; err == nil || err.Error() != want {
		t.Errorf("a plan for TorchRec: got %v, want %s", err, want)
	}
}
