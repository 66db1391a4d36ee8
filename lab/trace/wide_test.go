package trace

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
)

// clicks is a row of a wide log in Parquet.
type clicks struct {
	Label   int32   `parquet:"label"`
	User    int64   `parquet:"user"`
	Items   []int64 `parquet:"items,list"`
	Viewed  []int32 `parquet:"viewed"`
	Country string  `parquet:"country"`
}

// drawClicks draws rows. Each has a user, and about a third has no items.
func drawClicks(n int) []clicks {
	draw := rand.New(rand.NewPCG(7, 9))
	rows := make([]clicks, n)
	for i := range rows {
		r := &rows[i]
		r.User, r.Country = draw.Int64N(50), []string{"AT", "CH", "DE"}[draw.IntN(3)]
		for range draw.IntN(3) {
			r.Items = append(r.Items, draw.Int64N(1000))
		}
		for range draw.IntN(4) {
			r.Viewed = append(r.Viewed, draw.Int32N(20))
		}
	}
	return rows
}

// TestWideLogs reads the same log with a row for each lookup, and with a row for each
// sample as CSV, with tabs and in Parquet.
func TestWideLogs(t *testing.T) {
	rows := drawClicks(500)
	var long, wide bytes.Buffer
	long.WriteString("sample,table,index\n")
	wide.WriteString("label,user,items,viewed,country\n")
	for i, r := range rows {
		fmt.Fprintf(&long, "%d,user,%d\n", i, r.User)
		var items, viewed []string
		for _, id := range r.Items {
			fmt.Fprintf(&long, "%d,items,%d\n", i, id)
			items = append(items, fmt.Sprint(id))
		}
		for _, id := range r.Viewed {
			fmt.Fprintf(&long, "%d,viewed,%d\n", i, id)
			viewed = append(viewed, fmt.Sprint(id))
		}
		fmt.Fprintf(&wide, "%d,%d,%s,\"%s\",%s\n", r.Label, r.User, strings.Join(items, "|"), strings.Join(viewed, " "), r.Country)
	}
	var lists bytes.Buffer
	w := parquet.NewGenericWriter[clicks](&lists, parquet.MaxRowsPerRowGroup(170), parquet.PageBufferSize(300))
	must.Get(w.Write(rows))(t)
	must.Do(t, w.Close())
	tabs := bytes.ReplaceAll(wide.Bytes(), []byte(","), []byte("\t"))
	for _, batch := range []int{0, 1, 123, 340, 341, 9999} {
		want := must.Get(readAll(write(t, "long.csv", long.Bytes()), Options{Batch: batch}))(t)
		o := Options{Batch: batch, Columns: []string{"user", "items", "viewed"}}
		for name, data := range map[string][]byte{"wide.csv": wide.Bytes(), "wide.tsv": tabs, "wide.csv.gz": packed(t, wide.Bytes()), "lists.parquet": lists.Bytes()} {
			if got, err := readAll(write(t, name, data), o); err != nil || !sameTables(got, want) {
				t.Errorf("%s, batch %d: got %.500v and error %v, want %.500v", name, batch, got, err, want)
			}
		}
	}
	// Without names of columns, the lists of whole numbers are read.
	tables, err := readAll(write(t, "lists.parquet", lists.Bytes()), Options{})
	if err != nil || len(tables) != 2 || tables[0].Name != "items" || tables[1].Name != "viewed" {
		t.Errorf("got the tables %v and error %v, want items and viewed", tables, err)
	}
	for columns, want := range map[string]string{
		"nobody":    `no column "nobody" among "label", "user", "items", "viewed", "country"`,
		"country":   `column "country": row 0: "DE" is not a whole number`,
		"user,user": `column "user" is named twice`,
	} {
		_, err := readAll(write(t, "lists.parquet", lists.Bytes()), Options{Columns: strings.Split(columns, ",")})
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", columns, err, want)
		}
	}
	if _, err := readAll(write(t, "lists.parquet", lists.Bytes()), Options{Columns: []string{"country"}, IDs: Text, HashSize: 10}); err != nil {
		t.Errorf("texts: %v", err)
	}
}

// TestColumnsOfAnyLog: columns that are named are read, also in a log that has those of a
// log of lookups; a file that has no columns refuses them.
func TestColumnsOfAnyLog(t *testing.T) {
	log := write(t, "log.csv", []byte("sample,table,index\n0,7,3\n1,8,3\n"))
	got, err := readAll(log, Options{Columns: []string{"index"}})
	if err != nil || len(got) != 1 || got[0].Name != "index" || got[0].Samples != 2 {
		t.Errorf("got %v and error %v, want the table index of 2 samples", got, err)
	}
	torch, err := filepath.Glob("testdata/*.pt")
	if err != nil || len(torch) == 0 {
		t.Fatalf("got files %v and error %v", torch, err)
	}
	for _, o := range []Options{{Columns: []string{"a"}}, {IDs: Hex}, {HashSize: 10}} {
		if _, err := readAll(torch[0], o); err == nil || !strings.Contains(err.Error(), "leave out the columns") {
			t.Errorf("%+v: got error %v, want one that refuses the option", o, err)
		}
	}
}

// TestIDs: ids become rows as TorchRec and DLRM take them.
func TestIDs(t *testing.T) {
	rows := map[string]int64{"small": 10}
	for _, c := range []struct {
		form     IDs
		hash     int64
		table    string
		id, want string
	}{
		{"", 0, "t", " 17 ", "17"},
		{"", 0, "t", "-1", "-1"},
		{"", 0, "t", "18446744073709551615", "above the largest row"},
		{"", 0, "t", "abc", `"abc" is not a whole number; if ids are hexadecimal, say so (--set ids=hex)`},
		{"", 0, "t", "x", `"x" is not a whole number`},
		{"", 100, "t", "-1", "99"},
		{"", 100, "t", "18446744073709551615", "15"},
		{"", 100, "small", "123", "3"},
		{"hex", 0, "t", "ff", "255"},
		{"hex", 1000, "t", "68fd1e64", "852"}, // 1761418852
		{"hex", 1000, "t", "0x68FD1E64", "852"},
		{"hex", 1000, "t", "ffffffffffffffff", "615"},
		{"hex", 1000, "t", "10000000000000000", "not a hexadecimal number"},
		{"hex", 1000, "t", "DE", "222"},
		{"text", 1 << 40, "t", "a", fmt.Sprint(uint64(0xaf63dc4c8601ec8c) % (1 << 40))},
	} {
		o := Options{IDs: c.form, HashSize: c.hash, Rows: rows}
		got, err := o.index([]byte(c.table), []byte(c.id))
		if text := fmt.Sprint(got); err == nil && text != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %s and error %v", c, text, err)
		}
	}
	for _, o := range []Options{{HashSize: -1}, {HashSize: problem.MaxRows + 1}, {IDs: "octal"}, {IDs: Text}, {Batch: -1}} {
		if _, err := readAll(filepath.Join(t.TempDir(), "none"), o); err == nil || os.IsNotExist(err) {
			t.Errorf("%+v: got error %v, want one about the options", o, err)
		}
	}
}

// TestEnrich: tables that exist get the accesses of a trace, and keep all else.
func TestEnrich(t *testing.T) {
	known := Known{
		{Name: "user", Rows: 100, Dim: 32, Features: []problem.Feature{{Name: "id", PoolingFactor: 9}}, Constraint: problem.Constraint{NoSplit: true}},
		{Name: "item", Rows: 50, Dim: 64, Features: []problem.Feature{{Name: "seen", PoolingFactor: 9}, {Name: "bought", PoolingFactor: 9}}},
		{Name: "rest", Rows: 5, Dim: 8, Features: []problem.Feature{{Name: "rest", PoolingFactor: 2}}},
	}
	read := func(log string, columns ...string) (Tables, error) {
		return ReadTables(write(t, "log.csv", []byte(log)), Options{Columns: columns, TableOf: known.TableOf()}, TableOptions{Rows: known.Rows(), MoreRows: true, Dim: 4})
	}
	found, err := read("id,seen,bought\n1,2|3,4\n1,,\n", "id", "seen", "bought")
	if err != nil {
		t.Fatal(err)
	}
	got, warnings, err := known.Enrich(found)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], `1 of 3 tables ("rest") are not in the trace`) {
		t.Fatalf("got warnings %q and error %v", warnings, err)
	}
	user, item := got[0], got[1]
	if user.Rows != 100 || user.Dim != 32 || !user.Constraint.NoSplit || user.Features[0] != (problem.Feature{Name: "id", PoolingFactor: 1}) || user.Access.UniqueRows != 1 {
		t.Errorf("user: got %+v", user)
	}
	if item.Features[0].PoolingFactor != 1 || item.Features[1].PoolingFactor != .5 || item.Access.UniqueRows != 3 || item.Rows != 50 {
		t.Errorf("item: got %+v", item)
	}
	// Bags of 2 and 0 lookups, and of 1 and 0: as far apart as their mean.
	if item.Features[0].LengthCV != 1 || item.Features[1].LengthCV != 1 || user.Features[0].LengthCV != 0 {
		t.Errorf("got lengths of item %+v and of user %+v", item.Features, user.Features)
	}
	if known[0].Features[0].PoolingFactor != 9 || got[2].Features[0].PoolingFactor != 2 {
		t.Error("the tables that were given have changed, or one that is not in the trace")
	}
	for log, want := range map[string]string{
		"sample,table,index\n0,usr,1\n":                   `the trace has the tables "usr", which are not among those to enrich, "user", "item", "rest"; did you mean "user"?`,
		"sample,table,index\n0,item,1\n":                  `table "item": the trace has the features "item", and the table "seen", "bought"`,
		"sample,table,index,feature\n0,item,1,seen\n":     `table "item": the trace has the features "seen", and the table "seen", "bought"`,
		"sample,table,index,feature\n0,user,100,id\n":     "the stated number of rows is 100",
		"sample,table,index\n0,user,1\n0,user,1\n0,x,1\n": `the trace has the tables "x"`,
	} {
		found, err := read(log)
		if err == nil {
			_, _, err = known.Enrich(found)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", log, err, want)
		}
	}
}

// FuzzWide: any text with a row for each sample is read or refused, and what is read are
// lookups inside the tables.
func FuzzWide(f *testing.F) {
	f.Add([]byte("C1,C2\n1|2,3\n,4 5\n"), int64(0), "")
	f.Add([]byte("C1\tC2\nff\t\n"), int64(7), "hex")
	f.Add([]byte(strings.Repeat("1\t", 39)+"68fd1e64\n"), int64(100), "")
	f.Add([]byte("cat_0\na b\n\"c|d\"\n"), int64(9), "text")
	f.Fuzz(func(t *testing.T, data []byte, hash int64, ids string) {
		found, err := ReadTables(write(t, "log", data), Options{HashSize: hash, IDs: IDs(ids)}, TableOptions{Dim: 4})
		if err != nil {
			return
		}
		for i := range found.List {
			if table := &found.List[i]; hash > 0 && table.Rows > hash || table.Rows < 1 {
				t.Errorf("table %q: got %d rows with a hash size of %d", table.Name, table.Rows, hash)
			}
		}
	})
}
