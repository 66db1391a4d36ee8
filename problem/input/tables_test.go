package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// open opens a file for the time of the test.
func open(t testing.TB, name string) *os.File {
	t.Helper()
	f := must.Get(os.Open(name))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// cluster returns a valid topology of eight devices.
func cluster(t testing.TB) hardware.Topology {
	t.Helper()
	profile := must.Get(hardware.ByName("a100-80"))(t)
	return hardware.Topology{Profile: profile, Devices: 8}
}

// readAndCheck reads tables and checks them on eight devices. Tables of the
// prototype's format have 64 columns where they state none.
func readAndCheck(t testing.TB, name, content string) (TableFile, error) {
	t.Helper()
	opt := Options{}
	if strings.HasPrefix(content, "[") {
		opt.DefaultDim = 64
	}
	f, err := Tables(name, strings.NewReader(content), opt)
	p := &problem.Problem{Tables: f.Tables, Topology: cluster(t), Batch: max(f.Batch, 1)}
	return f, Join(err, Check(p, f))
}

func TestTablesJSON(t *testing.T) {
	const content = `{
  "format": "neuroshard-tables", "version": 1, "batch": 1024,
  "defaults": {"precision": "bf16", "optimizer": "adam", "weighted": true, "pooling_factor": 3},
  "tables": [
    {"name": "a", "rows": 1e6, "dim": 64.0, "access": {"zipf": 1.2}},
    {"name": "b", "rows": 7, "dim": 4, "features": [{"name": "x", "pooling_factor": 2.5}, {"pooling_factor": 0}],
     "weighted": false, "precision": "fp32", "optimizer": "sgd", "access": {"uniform": true},
     "constraints": {"devices": [3, 1], "group": "g", "no_split": true, "min_width": 4}},
    {"name": "c\u00e9", "rows": 8, "dim": 8, "pooling_factor": 0.5, "constraints": {"device": 2},
     "access": {"reuse": [0.5,0.25,0.25,0,0,0,0,0,0,0,0,0,0,0,0,0,0], "batch": 65536, "unique_rows": 5}}
  ]
}`
	got, err := readAndCheck(t, "x.json", content)
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	want := []problem.Table{
		{
			Name: "a", Rows: 1000000, Dim: 64, Features: []problem.Feature{{Name: "a", PoolingFactor: 3}}, Weighted: true,
			Access: access.Distribution{Kind: access.Zipf, Exponent: 1.2}, Precision: problem.BF16, Optimizer: problem.Adam,
		},
		{
			Name: "b", Rows: 7, Dim: 4, Features: []problem.Feature{{Name: "x", PoolingFactor: 2.5}, {}},
			Access:     access.Distribution{Kind: access.Uniform},
			Constraint: problem.Constraint{Devices: []int{3, 1}, Colocation: "g", NoSplit: true, MinWidth: 4},
		},
		{
			Name: "cé", Rows: 8, Dim: 8, Features: []problem.Feature{{Name: "cé", PoolingFactor: 0.5}}, Weighted: true,
			Access:    access.Distribution{Kind: access.Histogram, Reuse: [17]float64{.5, .25, .25}, Batch: 65536, UniqueRows: 5},
			Precision: problem.BF16, Optimizer: problem.Adam, Constraint: problem.Constraint{Devices: []int{2}},
		},
	}
	if diff := cmp.Diff(want, got.Tables); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if got.Batch != 1024 || got.Format != JSON || len(got.Warnings) != 0 {
		t.Errorf("got batch %d, format %q, warnings %q, want 1024, json, none", got.Batch, got.Format, got.Warnings)
	}
	for i, want := range []int{5, 6, 9, 0} {
		if line := got.Line(i); line != want {
			t.Errorf("line of table %d: got %d, want %d", i, line, want)
		}
	}
}

func TestDefaultsAfterTables(t *testing.T) {
	got := must.Get(readAndCheck(t, "", `{"tables": [{"name": "a", "rows": 1, "dim": 4}], "defaults": {"zipf": 2, "pooling_factor": 9}, "version": 1, "format": "neuroshard-tables"}`))(t)
	table := got.Tables[0]
	if table.Access.Exponent != 2 || table.PoolingFactor() != 9 {
		t.Errorf("got zipf %v and pooling %v, want 2 and 9", table.Access.Exponent, table.PoolingFactor())
	}
}

// TestIndexLaw: a table that does not state its index law has the one of the defaults, and
// the law alone leaves the distribution to the defaults.
func TestIndexLaw(t *testing.T) {
	const tables = `[
		{"name": "a", "rows": 1, "dim": 4},
		{"name": "b", "rows": 1, "dim": 4, "access": {"uniform": true}},
		{"name": "c", "rows": 1, "dim": 4, "access": {"index_law": "multi_hot"}},
		{"name": "d", "rows": 1, "dim": 4, "access": {"zipf": 1.5, "index_law": "independent"}}]`
	of := func(kind access.Kind, exponent float64, law access.Law) access.Distribution {
		return access.Distribution{Kind: kind, Exponent: exponent, Law: law}
	}
	for _, test := range []struct {
		defaults string
		want     []access.Distribution
		warnings []string
	}{
		{
			`{"zipf": 1.1, "index_law": "multi_hot"}`,
			[]access.Distribution{
				of(access.Zipf, 1.1, access.MultiHot), of(access.Uniform, 0, access.MultiHot),
				of(access.Zipf, 1.1, access.MultiHot), of(access.Zipf, 1.5, access.Independent),
			},
			nil,
		},
		{
			`{}`,
			[]access.Distribution{
				{},
				of(access.Uniform, 0, access.Independent),
				of(access.Unstated, 0, access.MultiHot), of(access.Zipf, 1.5, access.Independent),
			},
			[]string{"2 of 4 tables state no access distribution: Zipf 1.05 is assumed (a, c)"},
		},
	} {
		got := must.Get(readAndCheck(t, "", `{"format": "neuroshard-tables", "version": 1, "defaults": `+test.defaults+`, "tables": `+tables+`}`))(t)
		for i, want := range test.want {
			if got.Tables[i].Access != want {
				t.Errorf("defaults %s, table %d: got %+v, want %+v", test.defaults, i, got.Tables[i].Access, want)
			}
		}
		if !slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.Contains(w, "access") }) != (test.warnings == nil) ||
			test.warnings != nil && !slices.Contains(got.Warnings, test.warnings[0]) {
			t.Errorf("defaults %s: got the warnings %q, want %q among them", test.defaults, got.Warnings, test.warnings)
		}
	}
}

// A listed feature that does not state length_cv has the one of the defaults, wherever these stand.
func TestLengths(t *testing.T) {
	const (
		tables   = `"tables": [{"name": "d", "rows": 1, "dim": 4, "features": [{"name": "x", "pooling_factor": 2, "length_cv": 0.25}, {"name": "y", "pooling_factor": 3}]}]`
		defaults = `"defaults": {"length_cv": 0.75}`
	)
	for content, cv := range map[string]float64{tables: 0, tables + ", " + defaults: .75, defaults + ", " + tables: .75} {
		file, err := readAndCheck(t, "", `{"format": "neuroshard-tables", "version": 1, `+content+`}`)
		want := []problem.Feature{{Name: "x", PoolingFactor: 2, LengthCV: .25}, {Name: "y", PoolingFactor: 3, LengthCV: cv}}
		if diff := cmp.Diff(want, file.Tables[0].Features); err != nil || diff != "" {
			t.Errorf("%s: got error %v and features (-want +got):\n%s", content, err, diff)
		}
	}
}

func TestTablesCSV(t *testing.T) {
	reuse, shares := "", ""
	for i := range access.Classes {
		reuse += fmt.Sprintf(",reuse_%d", i)
		shares += map[bool]string{true: ",1", false: ",0"}[i == 2]
	}
	content := "\ufeff\r\n" + `rows, name ,dim,pooling_factor,weighted,precision,optimizer,zipf,devices,group,no_split,min_width,reuse_batch,unique_rows` + reuse + ",module\r\n" +
		`1e3,"a, ""b""",8,2.5,True,fp16,adagrad,1.1,0;  2,g,true,4,,` + strings.Repeat(",", 17) + ",sparse.ebc\r\n\r\n" +
		`5,z,16,,,,,,,,,,4096,3` + shares + ",\r\n"
	got, err := readAndCheck(t, "x.csv", content)
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	want := []problem.Table{
		{
			Name: `a, "b"`, Module: "sparse.ebc", Rows: 1000, Dim: 8, Features: []problem.Feature{{Name: `a, "b"`, PoolingFactor: 2.5}}, Weighted: true,
			Access: access.Distribution{Kind: access.Zipf, Exponent: 1.1}, Precision: problem.FP16, Optimizer: problem.Adagrad,
			Constraint: problem.Constraint{Devices: []int{0, 2}, Colocation: "g", NoSplit: true, MinWidth: 4},
		},
		{
			Name: "z", Rows: 5, Dim: 16, Features: []problem.Feature{{Name: "z", PoolingFactor: 1}},
			Access: access.Distribution{Kind: access.Histogram, Reuse: [17]float64{2: 1}, Batch: 4096, UniqueRows: 3},
		},
	}
	if diff := cmp.Diff(want, got.Tables); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if got.Line(0) != 3 || got.Line(1) != 5 {
		t.Errorf("lines: got %d and %d, want 3 and 5", got.Line(0), got.Line(1))
	}
	if want := []string{"1 of 2 tables states no pooling factor: 1 lookup per sample is assumed (z)", "1 of 2 tables states no optimizer: sgd, which keeps no state, is assumed; state it with --optimizer (z)"}; !cmp.Equal(got.Warnings, want) {
		t.Errorf("warnings: got %q, want %q", got.Warnings, want)
	}
}

// A file of a spreadsheet and a list of TorchRec's configs are read as files of our own words are.
func TestTablesCSVInOtherWords(t *testing.T) {
	want := must.Get(readAndCheck(t, "ours.csv", "name,rows,dim,precision,weighted,no_split,pooling_factor\nuser,1000,64,fp16,true,false,2.5\n"))(t)
	for _, content := range []string{
		"name,num_embeddings,embedding_dim,data_type,weighted,no_split,pooling_factor\nuser,1000,64,FP16,yes,no,2.5\n",
		"name;rows;dim;precision;weighted;no_split;pooling_factor\nuser;1000;64;fp16;Yes;No;2.5\n",
		"name,num_embeddings,embedding_dim,data_type,is_weighted,no_split,pooling_factors,feature_names\nuser,1000,64,FP16,yes,no,2.5,user\n",
	} {
		got, err := readAndCheck(t, "theirs.csv", content)
		if err != nil {
			t.Fatalf("%q: got error %v", content, err)
		}
		if diff := cmp.Diff(want.Tables, got.Tables); diff != "" {
			t.Errorf("%q: tables (-want +got):\n%s", content, diff)
		}
	}
}

// Lines under a wrong header would repeat its errors: they are not read.
func TestWrongHeaderEndsTheFile(t *testing.T) {
	content := "name,row,dims,pooling,lookups_a_sample\n" + strings.Repeat("t,x,y,z,v\n", 60)
	_, err := readAndCheck(t, "x.csv", content)
	errs, ok := err.(*Errors)
	if !ok {
		t.Fatalf("got error %v, want *Errors", err)
	}
	if len(errs.List) != 3 || errs.More != 0 { // three unknown columns, two of them meant as rows and dim
		t.Errorf("got %d errors, want 3: %v", len(errs.List)+errs.More, err)
	}
	for _, e := range errs.List {
		if e.Line != 1 {
			t.Errorf("got %v, want an error of line 1", e)
		}
	}
}

// prototypeTableOf returns a table of the prototype's format whose rows are all
// of one use-count class.
func prototypeTableOf(class int, row string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"row": %s, "pooling_factor": 2.5`, row)
	for i := range access.Classes {
		fmt.Fprintf(&b, `, "bin_%d": %s`, i, map[bool]string{true: "1.0", false: "0.0"}[i == class])
	}
	return b.String() + "}"
}

func TestTablesPrototype(t *testing.T) {
	content := `[` + prototypeTableOf(1, "10") + `, ` + prototypeTableOf(1, `20, "dim": 16`) + `]`
	got, err := readAndCheck(t, "table_configs.json", content)
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	histogram := access.Distribution{Kind: access.Histogram, Reuse: [17]float64{1: 1}, Batch: 65536}
	want := []problem.Table{
		{Name: "t0", Rows: 10, Dim: 64, Features: []problem.Feature{{Name: "t0", PoolingFactor: 2.5}}, Access: histogram},
		{Name: "t1", Rows: 20, Dim: 16, Features: []problem.Feature{{Name: "t1", PoolingFactor: 2.5}}, Access: histogram},
	}
	if diff := cmp.Diff(want, got.Tables); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if got.Format != Prototype || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], problem.NoOptimizer) {
		t.Errorf("got format %q and warnings %q, want prototype and no optimizer", got.Format, got.Warnings)
	}

	_, err = Tables("table_configs.json", strings.NewReader(content), Options{})
	if want := "table_configs.json:1: 1 of 2 tables state no dim (give the dim of such tables with --set dim=N, for example --set dim=64)"; err == nil || err.Error() != want {
		t.Errorf("without a default dim: got %v, want %s", err, want)
	}
}

// TestPrototypeFile reads 40 tables as Python wrote them for the prototype.
func TestPrototypeFile(t *testing.T) {
	name := filepath.Join("testdata", "table_configs_head.json")
	got := must.Get(Tables(name, open(t, name), Options{DefaultDim: 128}))(t)
	must.Do(t, Check(&problem.Problem{Tables: got.Tables, Topology: cluster(t), Batch: 65536}, got))
	if len(got.Tables) != 40 || got.Tables[0].Rows != 230997 || got.Tables[0].PoolingFactor() != 8.959915161132812 || got.Tables[39].Name != "t39" {
		t.Errorf("got %d tables, the first %+v, want 40, the first with 230997 rows and pooling 8.959915161132812", len(got.Tables), got.Tables[0])
	}
}

func TestExamples(t *testing.T) {
	y := "../../examples/cluster.yaml"
	topology := must.Get(Topology(y, open(t, y)))(t)
	if topology.Topology.Devices != 8 || topology.Topology.Profile.Name != "a100-80" || topology.Topology.ReserveFixed != 2*unit.GiB {
		t.Errorf("got %+v, want 8 x a100-80 with 2 GiB reserved", topology.Topology)
	}
	for name, n := range map[string]int{"../../examples/tables.json": 12, "../../examples/tables.csv": 8} {
		f := must.Get(Tables(name, open(t, name), Options{}))(t)
		p := &problem.Problem{Tables: f.Tables, Topology: topology.Topology, Batch: 65536}
		if err := Check(p, f, topology); err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
		}
		if len(f.Tables) != n {
			t.Errorf("%s: got %d tables, want %d", name, len(f.Tables), n)
		}
	}
}

func TestWarnings(t *testing.T) {
	var b strings.Builder
	b.WriteString("name,rows,dim,pooling_factor,optimizer,zipf\n")
	for i := range 30 {
		zipf := ""
		if i%5 < 3 {
			zipf = "1.1"
		}
		fmt.Fprintf(&b, "t%d,10,4,2,sgd,%s\n", i, zipf)
	}
	got := must.Get(readAndCheck(t, "", b.String()))(t)
	want := []string{"12 of 30 tables state no access distribution: Zipf 1.05 is assumed (t3, t4, t8 and 9 more)"}
	if !cmp.Equal(got.Warnings, want) {
		t.Errorf("got %q, want %q", got.Warnings, want)
	}
	if got.Tables[3].Access.Kind != access.Unstated {
		t.Errorf("got access %v, want unstated", got.Tables[3].Access.Kind)
	}
}

func TestWarningQuotesNames(t *testing.T) {
	got := must.Get(readAndCheck(t, "", inTables(`{"name": "a\u001b[2J", "rows": 1, "dim": 4, "pooling_factor": 1}`)))(t)
	if want := `1 of 1 tables states no access distribution: Zipf 1.05 is assumed ("a\x1b[2J")`; got.Warnings[0] != want {
		t.Errorf("got %q, want %q", got.Warnings[0], want)
	}
}

func TestErrorsAreCapped(t *testing.T) {
	var b strings.Builder
	b.WriteString("name,rows,dim\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "t%d,x,4\n", i)
	}
	_, err := Tables("big.csv", strings.NewReader(b.String()), Options{})
	var list *Errors
	if !errors.As(err, &list) {
		t.Fatalf("got %T, want *Errors", err)
	}
	if len(list.List) != 1000 || list.More != 2000 {
		t.Errorf("got %d errors and %d more, want 1000 and 2000", len(list.List), list.More)
	}
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != 51 || last != "and 2950 more" {
		t.Errorf("got %d lines, the last %q, want 51, the last \"and 2950 more\"", len(lines), last)
	}
	if doubled := Join(err, err).(*Errors); len(doubled.List)+doubled.More != 6000 {
		t.Errorf("joined: got %d errors, want 6000", len(doubled.List)+doubled.More)
	}
}

func TestJoin(t *testing.T) {
	if err := Join(nil, nil); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	err := Join(&Errors{List: []Error{{File: "a", Message: "one", Hint: "do"}}}, nil, io.ErrUnexpectedEOF)
	if got, want := err.Error(), "a: one (do)\nunexpected EOF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// endless yields a prefix and then the same line without end, and counts what
// was read of it.
type endless struct {
	prefix, line string
	read         int64
	rest         []byte
}

func (e *endless) Read(p []byte) (int, error) {
	for len(e.rest) < len(p) {
		if e.prefix != "" {
			e.rest, e.prefix = append(e.rest, e.prefix...), ""
		}
		e.rest = append(e.rest, e.line...)
	}
	n := copy(p, e.rest)
	e.rest = append(e.rest[:0], e.rest[n:]...)
	e.read += int64(n)
	return n, nil
}

func TestTooBig(t *testing.T) {
	for _, c := range []struct{ name, prefix, line string }{
		{"json", `{"format": "neuroshard-tables", "version": 1, "tables": [`, ` {"name": "a", "rows": 1, "dim": 4},`},
		{"space", "", "\n"},
		{"blank json", "{", "\n"},
		{"prototype", "[", `{"row": 1},`},
		{"csv", "name,rows,dim\n", "a,1,4\n"},
		{"csv quote", "name,rows,dim\n\"", "a\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := &endless{prefix: c.prefix, line: c.line}
			_, err := Tables("x", in, Options{maxBytes: 1 << 18})
			want := "the file is over 256 KiB"
			if c.name == "blank json" {
				want = errLiteral.Error()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one that says %s", err, want)
			}
			if most := int64(1<<18 + 1<<17); in.read > most {
				t.Errorf("got %d bytes read, want at most %d", in.read, most)
			}
		})
	}
}

func TestTooBigFileIsNotRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "big.json")
	must.Do(t, os.WriteFile(name, bytes.Repeat([]byte(" "), 2000), 0o644))
	f := open(t, name)
	if _, err := Tables("big.json", f, Options{maxBytes: 1000}); err == nil || !strings.HasPrefix(err.Error(), "big.json: the file is over 1000 B") {
		t.Errorf("got %v, want an error that says the file is too big", err)
	}
	if at, _ := f.Seek(0, io.SeekCurrent); at != 0 {
		t.Errorf("got %d bytes read, want 0", at)
	}
}

func TestLongLiterals(t *testing.T) {
	for name, in := range map[string]*endless{
		"string": {prefix: `{"format": "`, line: "aaaaaaaa"},
		"number": {prefix: `{"version": 1`, line: "00000000"},
		"depth":  {prefix: `{"x": `, line: "[[[[[[[["},
		"keys":   {prefix: `{"x": 1`, line: `,"x": 1`},
		"csv":    {prefix: "name,rows,dim", line: ",,,,,,,,"},
	} {
		_, err := Tables("x", in, Options{})
		if err == nil || in.read > 2<<20 {
			t.Errorf("%s: got %v after %d bytes, want an error within 2 MiB", name, err, in.read)
		}
	}
}

func TestTooManyTables(t *testing.T) {
	for name, in := range map[string]*endless{
		"json":      {prefix: `{"format": "neuroshard-tables", "version": 1, "tables": [`, line: `{"name":"a","rows":1,"dim":4},`},
		"prototype": {prefix: "[", line: prototypeTableOf(0, "1") + ","},
		"csv":       {prefix: "name,rows,dim\n", line: "a,1,4\n"},
	} {
		f, err := Tables("x", in, Options{DefaultDim: 4, MaxTables: 10000})
		if err == nil || !strings.Contains(err.Error(), "the file has more than 10000 tables") || len(f.Tables) != 10000 {
			t.Errorf("%s: got %d tables and error %v, want 10000 and one that says there are more", name, len(f.Tables), err)
		}
	}
}

func TestTooManyErrors(t *testing.T) {
	in := &endless{prefix: `{"format": "neuroshard-tables", "version": 1, "tables": [`, line: `{},`}
	_, err := Tables("x", in, Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "x:1: the file has more than 100000 errors") {
		t.Errorf("got %.200v, want an error that says there are too many", err)
	}
}

// TestMemory reads a large file and wants memory to grow with the tables only:
// the file is 16 MiB, and 99 % of it is space. The race detector adds to what is
// allocated.
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	padding := strings.Repeat(" ", 4000)
	table := `{"name": "a",` + padding + `"rows": 1, "dim": 4},`
	in := io.MultiReader(strings.NewReader(`{"format": "neuroshard-tables", "version": 1, "tables": [`),
		io.LimitReader(&endless{line: table}, int64(len(table))*4000), strings.NewReader(strings.TrimSuffix(table, ",")+"]}"))
	runtime.ReadMemStats(&before)
	f, err := Tables("x", in, Options{})
	runtime.ReadMemStats(&after)
	if err != nil || len(f.Tables) != 4001 {
		t.Fatalf("got %d tables and error %v, want 4001 and none", len(f.Tables), err)
	}
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(12<<20); got > most {
		t.Errorf("got %d bytes allocated, want at most %d", got, most)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

func TestReadErrors(t *testing.T) {
	in := func(s string) io.Reader { return io.MultiReader(strings.NewReader(s), failing{}) }
	for _, content := range []string{"", `{"format":`, `[{"row"`, "name,rows,dim\n"} {
		if _, err := Tables("x", in(content), Options{}); err == nil || !strings.Contains(err.Error(), "disk on fire") {
			t.Errorf("tables %q: got %v, want the reader's error", content, err)
		}
	}
	if _, err := Topology("x", in("devices: 8")); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("topology: got %v, want the reader's error", err)
	}
}

// TestWarningsTravel: what had to be assumed about tables is written and read back, and a
// warning that a terminal could not show is an error.
func TestWarningsTravel(t *testing.T) {
	tables := []problem.Table{{Name: "t", Rows: 9, Dim: 4, Features: []problem.Feature{{Name: "t", PoolingFactor: 1}}, Access: access.Distribution{Kind: access.Zipf, Exponent: 1}}}
	var text bytes.Buffer
	must.Do(t, Write(&text, TableFile{Tables: tables, Batch: 8, Warnings: []string{`table "t": 9 rows is the highest row used`}}))
	file, err := Tables("t.json", bytes.NewReader(text.Bytes()), Options{})
	if err != nil || len(file.Warnings) != 1 || file.Warnings[0] != `table "t": 9 rows is the highest row used` {
		t.Errorf("got warnings %q, error %v", file.Warnings, err)
	}
	for _, warnings := range []string{`["a\u001b[31m"]`, `[""]`, `["a\nb"]`, `[3]`, `"a"`, `["` + strings.Repeat("x", 2000) + `"]`} {
		broken := strings.Replace(text.String(), `"warnings": [`, `"warnings": `+warnings+`, "x": [`, 1)
		if _, err := Tables("t.json", strings.NewReader(broken), Options{}); err == nil || !strings.Contains(err.Error(), "warning") {
			t.Errorf("%.30s: got error %v, want one about warnings", warnings, err)
		}
	}
}

// Tables without an optimizer take the one of the options; without it, a warning says what is assumed.
func TestNoOptimizer(t *testing.T) {
	const (
		csv      = "name,rows,dim,pooling_factor,zipf,optimizer\na,100,8,1,1,\nb,100,8,1,1,adam\n"
		whole    = "name,rows,dim,pooling_factor,zipf,optimizer\na,100,8,1,1,sgd\n"
		defaults = `{"format": "neuroshard-tables", "version": 1, "defaults": {"optimizer": "sgd", "zipf": 1, "pooling_factor": 1}, "tables": [{"name": "a", "rows": 100, "dim": 8}]}`
		assumed  = "1 of 2 tables states no optimizer: sgd, which keeps no state, is assumed; state it with --optimizer (a)"
	)
	for _, tt := range []struct {
		text   string
		stated string
		first  problem.Optimizer
		want   []string
	}{
		{csv, "", problem.SGD, []string{assumed}},
		{csv, "adagrad", problem.Adagrad, nil},
		{whole, "", problem.SGD, nil},
		{whole, "adagrad", problem.SGD, []string{"--optimizer adagrad is not used: every table states its optimizer"}},
		{defaults, "", problem.SGD, nil},
	} {
		var o Overrides
		if tt.stated != "" {
			o = Overrides{"optimizer": tt.stated}
		}
		file := must.Get(Tables("tables", strings.NewReader(tt.text), o.Options()))(t)
		if got := file.Tables[0].Optimizer; got != tt.first || !slices.Equal(file.Warnings, tt.want) {
			t.Errorf("%s with %v: got %v and %q, want %v and %q", tt.text, tt.stated, got, file.Warnings, tt.first, tt.want)
		}
	}
	wrong := composed(t, "devices: 4\ndevice: h100-80\n", Overrides{"optimizer": "adamw"})
	if _, _, err := wrong.Problem(); err == nil || !strings.Contains(err.Error(), `--optimizer: "adamw" is unknown`) {
		t.Errorf("got %v, want an error of --optimizer", err)
	}
}

// Tables in TorchRec's words, and as a bare list, are those of the project's own.
func TestTorchRecWords(t *testing.T) {
	const (
		ours   = `{"format": "neuroshard-tables", "version": 1, "tables": [{"name": "a", "rows": 10, "dim": 8, "precision": "fp16", "pooling": "mean", "optimizer": "sgd", "access": {"zipf": 1}, "features": [{"name": "x", "pooling_factor": 1}, {"name": "y", "pooling_factor": 1}]}]}`
		theirs = `[{"num_embeddings": 10, "embedding_dim": 8, "name": "a", "data_type": "FP16", "feature_names": ["x", "y"], "pooling": "MEAN", "optimizer": "sgd", "access": {"zipf": 1}}]`
	)
	want := must.Get(Tables("tables.json", strings.NewReader(ours), Options{}))(t)
	got := must.Get(Tables("tables.json", strings.NewReader(theirs), Options{}))(t)
	if diff := cmp.Diff(want.Tables, got.Tables); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if warned := []string{"1 of 1 tables states no pooling factor: 1 lookup per sample is assumed (a)"}; !slices.Equal(got.Warnings, warned) {
		t.Errorf("got warnings %q, want %q", got.Warnings, warned)
	}
	if _, err := Tables("tables.json", strings.NewReader(`[{"name": "a", "rows": 10, "num_embeddings": 10, "dim": 8}]`), Options{}); err == nil || !strings.Contains(err.Error(), `the key "rows" is there twice`) {
		t.Errorf("got %v, want that the rows are there twice", err)
	}
}

// Errors that differ only in their line and table are one; more than a few that differ in numbers, too.
func TestAlikeErrors(t *testing.T) {
	said := func(list []Error) (all []string) {
		for _, one := range (&Errors{List: list}).Alike() {
			all = append(all, one.String())
		}
		return all
	}
	_, err := Tables("t.json", strings.NewReader("[{\"name\": \"a\", \"rows\": 1, \"dim\": 4, \"zip\": 1},\n{\"name\": \"b\", \"rows\": 1, \"dim\": 4, \"zip\": 1, \"zop\": 1}]"), Options{})
	var all *Errors
	if !errors.As(err, &all) {
		t.Fatalf("got %v, want errors", err)
	}
	want := []string{`t.json:1: table "a": unknown key "zip" in a table (2 times)`, `t.json:2: table "b": unknown key "zop" in a table`}
	if got := said(all.List); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var many []Error
	for i := range fewNumbers + 1 {
		many = append(many, Error{File: "t", Line: i + 2, Message: fmt.Sprintf("rows: -%d is not between 1 and 100", i)}, Error{File: "t", Line: i + 2, Message: "dim: 6 is not a multiple of 4"})
	}
	want = []string{"t:2: rows: -0 is not between 1 and 100 (6 times, with other numbers)", "t:2: dim: 6 is not a multiple of 4 (6 times)"}
	if got := said(many); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := said(many[:4]); len(got) != 3 {
		t.Errorf("got %q, want both numbers of rows, and dim once", got)
	}
}
