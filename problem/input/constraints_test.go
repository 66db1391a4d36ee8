package input

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
)

// TestDefaultConstraints: a constraint of the defaults holds for each table that does not
// state that constraint itself. A table narrower than the least width stays whole.
func TestDefaultConstraints(t *testing.T) {
	const content = `{"format": "neuroshard-tables", "version": 1,
		"tables": [
			{"name": "a", "rows": 10, "dim": 64},
			{"name": "narrow", "rows": 10, "dim": 8, "constraints": {}},
			{"name": "own", "rows": 10, "dim": 64, "kernel_settings": "x", "constraints": {"min_width": 8, "one_host": false, "device": 3, "cache_share": 0.5}},
			{"name": "free", "rows": 10, "dim": 64, "constraints": {"no_split": false, "sharding_types": ["row_wise"], "devices": [2, 1], "tiers": ["hbm"]}}],
		"defaults": {"constraints": {"min_width": 32, "one_host": true, "no_split": true, "sharding_types": ["row_wise", "column_wise"], "devices": [0, 1, 2, 3], "tiers": ["host", "host_cached"], "cache_share": 0.2}}}`
	file, err := Tables("tables.json", strings.NewReader(content), Options{})
	if err != nil {
		t.Fatal(err)
	}
	hosted := []problem.Tier{problem.Host, problem.HostCached}
	types, all := []problem.ShardingType{problem.RowWise, problem.ColumnWise}, []int{0, 1, 2, 3}
	want := []problem.Constraint{
		{Devices: all, NoSplit: true, MinWidth: 32, OneHost: true, ShardingTypes: types, Tiers: hosted, CacheShare: 0.2},
		{Devices: all, NoSplit: true, MinWidth: 8, OneHost: true, ShardingTypes: types, Tiers: hosted, CacheShare: 0.2},
		{Devices: []int{3}, NoSplit: true, MinWidth: 8, ShardingTypes: types, Tiers: hosted, CacheShare: 0.5},
		{Devices: []int{2, 1}, MinWidth: 32, OneHost: true, ShardingTypes: []problem.ShardingType{problem.RowWise}, Tiers: []problem.Tier{problem.HBM}},
	}
	if got := file.Tables[2].KernelSettings; got != "x" {
		t.Errorf("got kernel settings %q, want x", got)
	}
	for i, table := range file.Tables {
		if diff := cmp.Diff(want[i], table.Constraint); diff != "" {
			t.Errorf("table %s (-want +got):\n%s", table.Name, diff)
		}
	}
	var written bytes.Buffer
	must.Do(t, Write(&written, TableFile{Tables: file.Tables[:3]}))
	again, err := Tables("tables.json", &written, Options{})
	if diff := cmp.Diff(file.Tables[:3], again.Tables); err != nil || diff != "" {
		t.Errorf("written and read, error %v (-want +got):\n%s", err, diff)
	}
}

// Each field reads the same from JSON, CSV and the defaults, and back from what is written.
func TestEveryFieldInEveryFormat(t *testing.T) {
	for _, f := range problem.TableFields() {
		if !slices.Contains([]string{"name", "rows", "dim", "reuse", "batch", "unique_rows"}, f.Key) {
			conforms(t, f, func(t *problem.Table) *problem.Table { return t })
		}
	}
	for _, f := range problem.FeatureFields()[1:] {
		conforms(t, f, func(t *problem.Table) *problem.Feature { return &t.Features[0] })
	}
}

func conforms[T any](t *testing.T, f problem.Field[T], of func(*problem.Table) *T) {
	values := map[string][2]string{ // of JSON and CSV, by type
		"*string": {`"x"`, "x"}, "*bool": {"true", "yes"}, "*int": {"8", "8"}, "*float64": {"0.5", ".5"},
		"*problem.Precision": {`"fp16"`, "fp16"}, "*problem.OutputPrecision": {`"fp16"`, "FP16"}, "*problem.Optimizer": {`"adam"`, "adam"},
		"*problem.Pooling": {`"none"`, "none"}, "*access.Law": {`"multi_hot"`, "multi_hot"}, "*[]int": {"[2, 0]", "2;0"},
		"*[]problem.ShardingType": {`["row_wise", "grid"]`, "row_wise; grid"}, "*[]problem.Tier": {`["host_cached", "hbm"]`, "host_cached;hbm"},
	}
	var table T
	value, known := values[fmt.Sprintf("%T", f.At(&table))]
	if !known {
		t.Fatalf("%s: state a value of its type here", f.Key)
	}
	stated := fmt.Sprintf("%q: %s", f.Key, value[0])
	inside := stated
	if f.In != "" {
		inside = fmt.Sprintf("%q: {%s}", f.In, stated)
	}
	if f.In == problem.InConstraints {
		stated = inside // in the defaults, too
	}
	base, csvBase := `"name": "a", "rows": 9, "dim": 8`, [2]string{"name,rows,dim", "a,9,8"}
	if f.Key == "index_dedup" {
		base, csvBase = base+`, "pooling": "none"`, [2]string{"name,rows,dim,pooling", "a,9,8,none"}
	}
	json := func(more, defaults string) string {
		return `{"format": "neuroshard-tables", "version": 1, "tables": [{` + base + more + `}], "defaults": {` + defaults + `}}`
	}
	contents := []string{json(", "+inside, ""), csvBase[0] + "," + f.Key + "\n" + csvBase[1] + "," + value[1] + "\n"}
	if f.ForAll {
		contents = append(contents, json("", stated))
	}
	read := func(content string) any {
		file, err := Tables("t", strings.NewReader(content), Options{})
		if err != nil {
			t.Fatalf("%s: %v", content, err)
		}
		var written bytes.Buffer
		if err := Write(&written, file); err == nil { // not of host memory alone
			again, err := Tables("t", &written, Options{})
			if diff := cmp.Diff(file.Tables, again.Tables); err != nil || diff != "" {
				t.Errorf("%s: written and read, error %v (-want +got):\n%s", f.Key, err, diff)
			}
		}
		return f.At(of(&file.Tables[0]))
	}
	nothing, want := read(json("", "")), read(contents[0])
	if cmp.Equal(nothing, want) {
		t.Errorf("%s: it is read as nothing", f.Key)
	}
	for _, content := range contents {
		if diff := cmp.Diff(want, read(content)); diff != "" {
			t.Errorf("%s (-JSON +got):\n%s", content, diff)
		}
	}
}

// TestDefaultDedup: a default of index_dedup holds for a table that states no choice, and one of choose_dedup for a table that
// does not state index_dedup, whatever the pooling.
func TestDefaultDedup(t *testing.T) {
	for _, test := range []struct {
		table, defaults string
		dedup, choose   bool
	}{
		{`, "pooling": "none"`, `"index_dedup": true`, true, false},
		{`, "choose_dedup": false`, `"index_dedup": true`, true, false},
		{`, "choose_dedup": true`, `"index_dedup": true`, false, true},
		{``, `"choose_dedup": true`, false, true},
		{`, "index_dedup": false`, `"choose_dedup": true`, false, false},
		{``, `"index_dedup": true`, true, false},
	} {
		content := `{"format": "neuroshard-tables", "version": 1, "defaults": {` + test.defaults + `}, "tables": [{"name": "a", "rows": 9, "dim": 8` + test.table + `}]}`
		file := must.Get(Tables("t", strings.NewReader(content), Options{}))(t)
		if got := file.Tables[0]; got.IndexDedup != test.dedup || got.ChooseDedup != test.choose {
			t.Errorf("%s: got index_dedup %v and choose_dedup %v", content, got.IndexDedup, got.ChooseDedup)
		}
	}
}

func TestConstraintsInCSV(t *testing.T) {
	_, err := Tables("t.csv", strings.NewReader("name,rows,dim,output_precision\na,10,4,fp8\n"), Options{})
	if want := `precision: "fp8" is unknown`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %s", err, want)
	}
	_, err = readAndCheck(t, "t.csv", "name,rows,dim,tiers,cache_share\na,10,4,uvm,0.25\nb,10,4,hbm,25\n")
	if want := "t.csv:2: table \"a\": tiers: \"uvm\" is unknown"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "cache_share: 25 is not above 0 and below 1") {
		t.Errorf("got %v, want %s, and an error of the cache share", err, want)
	}
	_, err = Tables("t.csv", strings.NewReader("name,rows,dim,sharding_types\na,10,4,rowwise\n"), Options{})
	if want := `t.csv:2: table "a": sharding_types: "rowwise" is unknown (did you mean "row_wise"?)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestMinWidthForAllTables: --min-width raises the least width of every table, up to the
// width of the table.
func TestMinWidthForAllTables(t *testing.T) {
	file := must.Get(Tables("tables.json", strings.NewReader(`{"format": "neuroshard-tables", "version": 1, "tables": [
		{"name": "wide", "rows": 10, "dim": 128}, {"name": "narrow", "rows": 10, "dim": 16},
		{"name": "own", "rows": 10, "dim": 128, "constraints": {"min_width": 64}}]}`), Options{}))(t)
	flags := Overrides{"min_width": "32", "engine": "torchrec", "devices": "4", "device": "a100-80"}
	parts := Parts{Tables: file, Overrides: flags}
	p, _ := must.Get2(parts.Problem())(t)
	for i, want := range []int{32, 16, 64} {
		if got := p.Tables[i].MinWidth(); got != want {
			t.Errorf("table %s: got a least width of %d, want %d", p.Tables[i].Name, got, want)
		}
	}
	if p.Engine != problem.TorchRec || file.Tables[0].Constraint.MinWidth != 0 {
		t.Errorf("engine %q, and the file's own table has %+v: want torchrec, and no change of the file", p.Engine, file.Tables[0].Constraint)
	}
	for _, wrong := range []int{0, -4, 6, problem.MaxDim + 4} {
		flags["min_width"] = strconv.Itoa(wrong)
		if _, _, err := parts.Problem(); err == nil || !strings.Contains(err.Error(), "min_width: ") {
			t.Errorf("width %d: got error %v, want one of min_width", wrong, err)
		}
	}
	flags["min_width"], flags["engine"] = "4", "pytorch"
	if _, _, err := parts.Problem(); err == nil || !strings.Contains(err.Error(), `--engine: "pytorch" is unknown`) {
		t.Errorf("got error %v, want one of --engine", err)
	}
}
