package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/lookups"
)

// lookup is a row of a log.
type lookup struct {
	Sample  int64  `parquet:"sample"`
	Table   string `parquet:"table"`
	Index   int64  `parquet:"index"`
	Feature string `parquet:"feature"`
}

// meaning sorts a log into tables in the simplest way: log.go must give the same
// tables.
func meaning(rows []lookup, batch int) []Table {
	distinct := func(key func(lookup) string, of []lookup) []string {
		var all []string
		for _, r := range of {
			all = append(all, key(r))
		}
		slices.SortFunc(all, compareNames)
		return slices.Compact(all)
	}
	var samples []int64
	for _, r := range rows {
		samples = append(samples, r.Sample)
	}
	slices.Sort(samples)
	samples = slices.Compact(samples)
	if batch > 0 && batch < len(samples) {
		samples = samples[:batch]
	}
	var tables []Table
	for _, name := range distinct(func(r lookup) string { return r.Table }, rows) {
		var of []lookup
		for _, r := range rows {
			if r.Table == name {
				of = append(of, r)
			}
		}
		t := Table{Name: name, Samples: len(samples), Bags: lookups.Bags{Offsets: []int64{0}}}
		t.Features = distinct(func(r lookup) string { return r.Feature }, of)
		for _, feature := range t.Features {
			for _, sample := range samples {
				for _, r := range of {
					if r.Feature == feature && r.Sample == sample {
						t.Bags.Indices = append(t.Bags.Indices, r.Index)
					}
				}
				t.Bags.Offsets = append(t.Bags.Offsets, int64(len(t.Bags.Indices)))
			}
		}
		if t.Features[0] == "" {
			t.Features[0] = name
		}
		tables = append(tables, t)
	}
	return tables
}

func sameTables(a, b []Table) bool {
	return slices.EqualFunc(a, b, func(a, b Table) bool {
		return a.Name == b.Name && a.Samples == b.Samples && slices.Equal(a.Features, b.Features) &&
			slices.Equal(a.Bags.Offsets, b.Bags.Offsets) && slices.Equal(a.Bags.Indices, b.Bags.Indices)
	})
}

func csvOf(rows []lookup) []byte {
	var out bytes.Buffer
	fmt.Fprintln(&out, "sample,feature,table,index")
	for _, r := range rows {
		fmt.Fprintf(&out, "%d,%s,%s,%d\n", r.Sample, r.Feature, r.Table, r.Index)
	}
	return out.Bytes()
}

func parquetOf(t testing.TB, rows []lookup, options ...parquet.WriterOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w := parquet.NewGenericWriter[lookup](&out, options...)
	must.Get(w.Write(rows))(t)
	must.Do(t, w.Close())
	return out.Bytes()
}

func packed(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := must.Get(gzip.NewWriterLevel(&out, gzip.BestSpeed))(t)
	must.Get(w.Write(data))(t)
	must.Do(t, w.Close())
	return out.Bytes()
}

func drawLog(t *rapid.T) []lookup {
	features := map[string]int{}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lookup {
		r := lookup{
			Sample: rapid.OneOf(rapid.Int64Range(0, 6), rapid.Int64Range(65530, 65600), rapid.Int64Range(1<<40, 1<<40+99)).Draw(t, "sample"),
			Table:  rapid.SampledFrom([]string{"a", "t2", "t10", "t1"}).Draw(t, "table"),
			Index:  rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, 1<<40-1)).Draw(t, "index"),
		}
		if r.Table == "t2" {
			r.Feature = rapid.SampledFrom([]string{"f", "g", "f11", "f3"}).Draw(t, "feature")
			features[r.Feature]++
		}
		return r
	}), 1, 60).Draw(t, "log")
}

func TestLogs(t *testing.T) {
	csvPath, packedPath, parquetPath := write(t, "log", nil), write(t, "log", nil), write(t, "log", nil)
	rapid.Check(t, func(rt *rapid.T) {
		rows := drawLog(rt)
		batch := rapid.IntRange(0, 10).Draw(rt, "batch")
		want := meaning(rows, batch)
		rewrite(t, csvPath, csvOf(rows))
		rewrite(t, packedPath, packed(t, csvOf(rows)))
		rewrite(t, parquetPath, parquetOf(t, rows, parquet.MaxRowsPerRowGroup(17)))
		for _, path := range []string{csvPath, packedPath, parquetPath} {
			got := must.Get(readAll(path, Options{Batch: batch}))(rt)
			if !sameTables(got, want) {
				rt.Fatalf("got %+v, want %+v", got, want)
			}
		}
	})
}

// TestLongLog reads more rows than the buffers hold, in random order, sorted by
// sample and sorted by table.
func TestLongLog(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]lookup, 60_000)
	for i := range rows {
		rows[i] = lookup{Sample: random.Int64N(3000) * 7, Table: fmt.Sprint("t", random.IntN(3)), Index: random.Int64N(1 << 40)}
	}
	plain := func(r lookup) string { return fmt.Sprint(r.Table, " ", r.Sample) }
	for _, order := range []func(a, b lookup) int{
		func(a, b lookup) int { return 0 },
		func(a, b lookup) int { return cmp.Compare(a.Sample, b.Sample) },
		func(a, b lookup) int { return cmp.Compare(a.Table, b.Table) },
	} {
		slices.SortStableFunc(rows, order)
		want := map[string][]int64{}
		for _, r := range rows {
			want[plain(r)] = append(want[plain(r)], r.Index)
		}
		for _, data := range [][]byte{csvOf(rows), parquetOf(t, rows)} {
			tables := must.Get(readAll(write(t, "log", data), Options{Batch: 2000}))(t)
			for _, table := range tables {
				for i := range table.Samples {
					got := table.Bags.Indices[table.Bags.Offsets[i]:table.Bags.Offsets[i+1]]
					if !slices.Equal(got, want[plain(lookup{Table: table.Name, Sample: int64(i) * 7})]) {
						t.Fatalf("table %s, sample %d: got %d", table.Name, i, got)
					}
				}
			}
			if len(tables) != 3 || tables[0].Samples != 2000 {
				t.Errorf("got %d tables of %d samples, want 3 of 2000", len(tables), tables[0].Samples)
			}
		}
	}
}

func TestBadLogs(t *testing.T) {
	const head = "sample,table,index\n"
	for _, test := range []struct{ data, want string }{
		{head, "the log has no rows"},
		{"C1\n", "the log has no rows"},
		{"label\tC1\tC2\n", "the log has no rows"},
		{"\n\n", "the file is empty: want a first line with the names"},
		{"sample,table\n0,a\n", `no column "index" among ["sample" "table"]: want the columns sample, table, index`},
		{"sample,table,index,table\n", `two columns "table"`},
		{head + "0,a\n", "line 2: 2 fields, but the header has 3"},
		{head + "0,a,1\n\n0,a,1,2\n", "line 4: 4 fields"},
		{head + "x,a,1\n", `line 2: sample "x" is not a whole number`},
		{head + "0,a,NaN\n", `line 2: index "NaN" is not a whole number`},
		{head + "0,a,1.5\n", `index "1.5" is not a whole number`},
		{head + "0,a,\n", `index "" is not a whole number`},
		{head + "0,a,99999999999999999999\n", `index "99999999999999999999" is not a whole number`},
		{head + "0,a,-1\n", "line 2: index -1: want from 0 to 1099511627775"},
		{head + "0,a,1099511627776\n", "index 1099511627776"},
		{head + "-1,a,1\n", "line 2: sample -1: want 0 or more"},
		{head + "0,,1\n", "line 2: the name of a table is empty"},
		{head + "0," + strings.Repeat("a", 2000) + ",1\n", "a table's name has 2000 bytes"},
		{head + "0," + strings.Repeat("a", 70_000) + ",1\n", "line 2: more than 65536 bytes"},
		{head + "0,\"a,1\n", "line 2: a quoted field does not end in its line"},
		{head + "0,\"a\"b,1\n", "line 2: 'b' after the end of a quoted field"},
		{"sample,table,index,feature\n0,a,1,f\n0,a,1,\n", "line 3: table \"a\": some rows have a feature, others have none"},
		{"sample,table,index,feature\n0,a,1,\n0,a,1,f\n", "line 3: table \"a\": some rows have a feature, others have none"},
	} {
		if _, err := readAll(write(t, "log.csv", []byte(test.data)), Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.data, err, test.want)
		}
	}
	long := packed(t, []byte(head+strings.Repeat("0,a,1\n", 10_000)))
	if _, err := readAll(write(t, "log.csv.gz", long[:len(long)-9]), Options{}); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("a packed log without its end: got %v", err)
	}
	twice := packed(t, long)
	if _, err := readAll(write(t, "log.csv.gz", twice), Options{}); err == nil || !strings.Contains(err.Error(), "compressed twice") {
		t.Errorf("compressed twice: got %v", err)
	}
	var far strings.Builder
	far.WriteString(head)
	for i := range maxPages + 1 {
		fmt.Fprintf(&far, "%d,a,1\n", i*samplePage)
	}
	if _, err := readAll(write(t, "log.csv", []byte(far.String())), Options{}); err == nil || !strings.Contains(err.Error(), "too far apart") {
		t.Errorf("samples far apart: got %v", err)
	}
}

func TestCSVForms(t *testing.T) {
	want := meaning([]lookup{{Sample: 0, Table: "a,\"b", Index: 5}, {Sample: 1, Table: "a,\"b", Index: 6}}, 0)
	for _, data := range []string{
		"\xef\xbb\xbf" + `Sample, TABLE ,index,other` + "\r\n" + `0,"a,""b",5,` + "\r\n\r\n" + `1,"a,""b", 6 ,x`,
		`index,"table",sample` + "\n" + `"5","a,""b","0"` + "\n" + `6,"a,""b",1` + "\n",
		`table,sample,index` + "\n" + `"a,""b",00,+5` + "\n" + `"a,""b",1,6`,
	} {
		got, err := readAll(write(t, "log.csv", []byte(data)), Options{})
		if err != nil || !sameTables(got, want) {
			t.Errorf("%q: got %+v and %v, want %+v", data, got, err, want)
		}
	}
}

func TestCompareNames(t *testing.T) {
	names := []string{"", "10", "a", "a1", "a1b", "a02", "a2", "a10", "a10b", "b", "18446744073709551616", "2"}
	slices.SortFunc(names, compareNames)
	want := []string{"", "2", "10", "18446744073709551616", "a", "a1", "a1b", "a02", "a2", "a10", "a10b", "b"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab019]{0,22}`)
		a, b, c := text.Draw(t, "a"), text.Draw(t, "b"), text.Draw(t, "c")
		if (compareNames(a, b) == 0) != (a == b) || compareNames(a, b) != -compareNames(b, a) {
			t.Fatalf("%q and %q: %d and %d", a, b, compareNames(a, b), compareNames(b, a))
		}
		if compareNames(a, b) < 0 && compareNames(b, c) < 0 && compareNames(a, c) >= 0 {
			t.Fatalf("%q < %q < %q, and not the first before the last", a, b, c)
		}
	})
}

func TestReadRows(t *testing.T) {
	got, err := ReadRows(write(t, "rows.csv", []byte("rows,note,table\n100,,a\n1099511627776,x,b\n")))
	if err != nil || len(got) != 2 || got["a"] != 100 || got["b"] != 1<<40 {
		t.Errorf("got %v and %v", got, err)
	}
	for _, test := range []struct{ data, want string }{
		{"", "the file is empty"},
		{"table\na\n", `no column "rows"`},
		{"table,rows\na,0\n", `line 2: table "a": 0 rows`},
		{"table,rows\na,1e6\n", `line 2: rows "1e6" is not a whole number`},
		{"table,rows\na,5\na,6\n", `line 3: table "a" occurs twice`},
		{"table,rows\n,5\n", "a table's name has 0 bytes"},
	} {
		if _, err := ReadRows(write(t, "rows.csv", []byte(test.data))); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.data, err, test.want)
		}
	}
}

func TestSampleSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s sampleSet
		all := rapid.SliceOf(rapid.OneOf(rapid.Int64Range(0, 200), rapid.Int64Range(1<<40, 1<<40+200_000), rapid.Just(int64(math.MaxInt64)))).Draw(t, "samples")
		batch := rapid.IntRange(0, 20).Draw(t, "batch")
		sorted := slices.Clone(all)
		slices.Sort(sorted)
		sorted = slices.Compact(sorted)
		for _, sample := range all {
			must.Do(t, s.add(sample, batch))
			if rank := slices.Index(sorted, sample); s.beyond(sample) && rank < batch {
				t.Fatalf("sample %d is number %d and not taken in a batch of %d", sample, rank, batch)
			}
		}
		if got := s.close(); got != len(sorted) {
			t.Fatalf("got %d samples, want %d", got, len(sorted))
		}
		for i, sample := range sorted {
			if got := s.below(sample); got != i {
				t.Fatalf("sample %d: got %d, want %d", sample, got, i)
			}
		}
	})
}
