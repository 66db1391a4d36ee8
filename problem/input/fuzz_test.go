package input

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
)

// fuzzTables wants of any content: no panic; errors are *Errors, with text; and
// what reads and checks without error is a valid problem that Write can write
// and Tables reads back.
func fuzzTables(t *testing.T, name, content string) {
	f, err := Tables(name, strings.NewReader(content), Options{DefaultDim: 64})
	p := &problem.Problem{Tables: f.Tables, Topology: cluster(t), Batch: f.Batch}
	if p.Batch == 0 {
		p.Batch = 65536
	}
	all := Join(err, Check(p, f))
	var list *Errors
	if all != nil && (!errors.As(all, &list) || len(list.List) == 0 || all.Error() == "") {
		t.Fatalf("got %T %v, want a filled *Errors", all, all)
	}
	if err == nil && all == nil != (p.Validate() == nil) {
		t.Fatalf("Check: got %v, but Validate says %v", all, p.Validate())
	}
	if all != nil {
		return
	}
	var out strings.Builder
	f.Warnings = nil // the name of a table in it may be longer than a warning
	if err := Write(&out, f); err != nil {
		t.Fatalf("got error %v, want the tables written", err)
	}
	if again, err := Tables("", strings.NewReader(out.String()), Options{}); err != nil || len(again.Tables) != len(f.Tables) || again.Samples != f.Samples {
		t.Fatalf("reading back: got %d tables, %d samples and error %v, want %d, %d and none", len(again.Tables), again.Samples, err, len(f.Tables), f.Samples)
	}
}

func seed(f *testing.F, csv bool, files ...string) {
	for _, name := range files {
		data := must.Get(os.ReadFile(name))(f)
		f.Add(string(data))
	}
	for _, c := range badTables {
		if strings.HasSuffix(c.name, ".csv") == csv {
			f.Add(c.content)
		}
	}
}

func FuzzTablesJSON(f *testing.F) {
	seed(f, false, "../../examples/tables.json")
	f.Add(`{"format": "neuroshard-tables", "version": 1, "defaults": {"length_cv": 0.5, "pooling": "mean"}, "tables": [` +
		`{"name": "a", "rows": 9, "dim": 4, "features": [{"pooling_factor": 3, "length_cv": 1e-9}, {"pooling_factor": 0}]}, {"name": "b", "rows": 9, "dim": 4, "length_cv": 1000, "pooling": "sum"}]}`)
	f.Add(`{"format": "neuroshard-tables", "version": 1, "tables": [{"name": "a", "rows": 9, "dim": 4, "features": [{"pooling_factor": 3, "bags": 2.5}]}, {"name": "b", "rows": 9, "dim": 4, "pooling": "none"}]}`)
	f.Fuzz(func(t *testing.T, content string) { fuzzTables(t, "x.json", content) })
}

func FuzzTablesCSV(f *testing.F) {
	seed(f, true, "../../examples/tables.csv")
	f.Add("name,rows,dim,pooling_factor,bags,pooling\na,9,4,2,2.5,mean\na,9,4,1,0.25,\nb,9,4,3,,none\n")
	f.Add("name,rows,dim,pooling_factor,length_cv,pooling\na,9,4,2,0.5,mean\nb,9,4,,1000,\n")
	f.Fuzz(func(t *testing.T, content string) { fuzzTables(t, "x.csv", content) })
}

func FuzzPrototype(f *testing.F) {
	f.Add(prototypeTableOf(3, `5, "dim": 8`) + "]")
	f.Add(prototypeTruncated()[1:])
	f.Add(prototypeTableOf(0, "1e6") + ", {}, 7]")
	f.Fuzz(func(t *testing.T, content string) { fuzzTables(t, "table_configs.json", "["+content) })
}

func FuzzTopology(f *testing.F) {
	data := must.Get(os.ReadFile("../../examples/cluster.yaml"))(f)
	f.Add(string(data), true)
	for _, c := range badTopologies {
		f.Add(c.content, strings.HasSuffix(c.name, ".yaml"))
	}
	f.Fuzz(func(t *testing.T, content string, isYAML bool) {
		name := "x.json"
		if isYAML {
			name = "x.yaml"
		}
		file, err := Topology(name, strings.NewReader(content))
		p := &problem.Problem{
			Tables:   []problem.Table{{Name: "a", Rows: 1, Dim: 4, Features: make([]problem.Feature, 1)}},
			Topology: file.Topology, Batch: max(1, file.Batch),
		}
		all := Join(err, Check(p, file))
		var list *Errors
		if all != nil && (!errors.As(all, &list) || len(list.List) == 0 || all.Error() == "") {
			t.Fatalf("got %T %v, want a filled *Errors", all, all)
		}
		if err == nil && all == nil != (p.Validate() == nil) {
			t.Fatalf("Check: got %v, but Validate says %v", all, p.Validate())
		}
	})
}
