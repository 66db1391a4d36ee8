package input

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	if err := Write(&written, TableFile{Tables: file.Tables[:3]}); err != nil {
		t.Fatal(err)
	}
	again, err := Tables("tables.json", &written, Options{})
	if diff := cmp.Diff(file.Tables[:3], again.Tables); err != nil || diff != "" {
		t.Errorf("written and read, error %v (-want +got):\n%s", err, diff)
	}
}

func TestConstraintsInCSV(t *testing.T) {
	file, err := Tables("t.csv", strings.NewReader("name,rows,dim,sharding_types,one_host\na,10,4,row_wise; grid,true\nb,10,4,,\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []problem.ShardingType{problem.RowWise, problem.Grid}
	if diff := cmp.Diff(want, file.Tables[0].Constraint.ShardingTypes); diff != "" || file.Tables[1].Constraint.ShardingTypes != nil {
		t.Errorf("got %v and %v, want %v and none", file.Tables[0].Constraint.ShardingTypes, file.Tables[1].Constraint.ShardingTypes, want)
	}
	if !file.Tables[0].Constraint.OneHost || file.Tables[1].Constraint.OneHost {
		t.Errorf("got one_host %v and %v, want true and false", file.Tables[0].Constraint.OneHost, file.Tables[1].Constraint.OneHost)
	}
	file, err = Tables("t.csv", strings.NewReader("name,rows,dim,kernel_settings,tiers,cache_share,output_precision\na,10,4,x,host_cached; hbm,0.25,fp16\nb,10,4,,,,\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	memory := problem.Constraint{Tiers: []problem.Tier{problem.HostCached, problem.HBM}, CacheShare: .25}
	if diff := cmp.Diff(memory, file.Tables[0].Constraint); diff != "" || file.Tables[0].KernelSettings != "x" {
		t.Errorf("kernel settings %q, want x (-want +got):\n%s", file.Tables[0].KernelSettings, diff)
	}
	if a, b := file.Tables[0].OutputPrecision, file.Tables[1].OutputPrecision; a != problem.OutputIn(problem.FP16) || b != 0 {
		t.Errorf("got output precisions %v and %v, want fp16 and that of the weights", a, b)
	}
	_, err = Tables("t.csv", strings.NewReader("name,rows,dim,output_precision\na,10,4,fp8\n"), Options{})
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
	file, err := Tables("tables.json", strings.NewReader(`{"format": "neuroshard-tables", "version": 1, "tables": [
		{"name": "wide", "rows": 10, "dim": 128}, {"name": "narrow", "rows": 10, "dim": 16},
		{"name": "own", "rows": 10, "dim": 128, "constraints": {"min_width": 64}}]}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	flags := Overrides{"min_width": "32", "engine": "torchrec", "devices": "4", "device": "a100-80"}
	parts := Parts{Tables: file, Overrides: flags}
	p, _, err := parts.Problem()
	if err != nil {
		t.Fatal(err)
	}
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
		if _, _, err := parts.Problem(); err == nil || !strings.Contains(err.Error(), "--min-width: ") {
			t.Errorf("width %d: got error %v, want one of --min-width", wrong, err)
		}
	}
	flags["min_width"], flags["engine"] = "4", "pytorch"
	if _, _, err := parts.Problem(); err == nil || !strings.Contains(err.Error(), `--for: "pytorch" is unknown`) {
		t.Errorf("got error %v, want one of --for", err)
	}
}
