package trace

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// twoFeatures is a table that two features read in 4 samples, with 6 and 2 lookups.
// Row 9 is used 4 times and row 3 twice.
func twoFeatures() Table {
	return Table{
		Name: "user", Samples: 4, Features: []string{"clicked", "shown"},
		Bags: lookups.Bags{
			Indices: []int64{9, 3, 9, 9, 1, 3, 2, 9},
			Offsets: []int64{0, 2, 2, 5, 6, 7, 7, 7, 8},
		},
	}
}

func TestProfile(t *testing.T) {
	got := must.Get(profile(twoFeatures(), 0, 64))(t)
	want := problem.Table{
		Name: "user", Rows: 10, Dim: 64,
		Features: []problem.Feature{{Name: "clicked", PoolingFactor: 1.5, LengthCV: math.Sqrt(20) / 6}, {Name: "shown", PoolingFactor: .5, LengthCV: 1}},
		Access:   access.Distribution{Kind: access.Histogram, Batch: 4, UniqueRows: 4},
	}
	want.Access.Reuse[0], want.Access.Reuse[1], want.Access.Reuse[2] = .5, .25, .25
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// At the trace's batch size the table's counts are the trace's.
	if counts := got.Counts(4); counts.Lookups != 8 || counts.Unique != 4 || counts.Reuse != want.Access.Reuse {
		t.Errorf("counts: got %+v", counts)
	}
	p := problem.Problem{Tables: []problem.Table{got}, Topology: hardware.Topology{Profile: hardware.Profiles()[0], Devices: 1}, Batch: 4}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

// TestProfilesAgree profiles lookups that were made up from counts, through a log:
// the table must have the same counts.
func TestProfilesAgree(t *testing.T) {
	counts := access.Distribution{Kind: access.Zipf, Exponent: 1.1}.At(5000, 6, 512)
	bags, realised, err := lookups.Synthesise(lookups.Spec{Rows: 5000, Batch: 512, Features: 1, Counts: counts, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	var rows []lookup
	for b := range bags.Len() {
		for _, row := range bags.Indices[bags.Offsets[b]:bags.Offsets[b+1]] {
			rows = append(rows, lookup{Sample: int64(b), Table: "a", Index: row})
		}
	}
	tables, err := readAll(write(t, "log.csv", csvOf(rows)), Options{})
	if err != nil || len(tables) != 1 || !slices.Equal(tables[0].Bags.Indices, bags.Indices) {
		t.Fatalf("got other lookups than the log's, error %v", err)
	}
	got := must.Get(profile(tables[0], 5000, 4))(t)
	want := access.Counts{Lookups: float64(realised.Lookups), Unique: float64(realised.Unique), Reuse: realised.Reuse}
	if got := got.Counts(512); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func ExampleReadTables() {
	tables, err := ReadTables("testdata/zip.pt.gz", Options{}, TableOptions{Dim: 64, Rows: map[string]int64{"t0": 100}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range tables.List {
		fmt.Printf("%s: %d rows, pooling factor %.2f, %v distinct\n", t.Name, t.Rows, t.PoolingFactor(), t.Access.UniqueRows)
	}
	for _, warning := range tables.Warnings {
		fmt.Println(warning)
	}
	// Output:
	// t0: 100 rows, pooling factor 1.57, 9 distinct
	// t1: 1 rows, pooling factor 0.00, 0 distinct
	// t2: 43 rows, pooling factor 1.14, 6 distinct
	// table "t1": 1 rows is the highest row used, plus one: the table may have more; state its rows
	// table "t2": 43 rows is the highest row used, plus one: the table may have more; state its rows
	// table "t1": the trace has no lookups in it
}
