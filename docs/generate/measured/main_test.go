package main

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/marks"
)

const (
	folder = "../../measured"
	page   = "../../MEASURED.md"
)

// docs/MEASURED.md has what the command prints.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	m, err := readAll(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables() {
		want, err := table.make(m)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := marks.Part(string(text), "measured "+table.name)
		if !ok || strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("the page's table %s differs: run go run ./docs/generate/measured -doc docs/MEASURED.md", table.name)
		}
	}
	if strings.Count(string(text), "<!-- measured ") != len(tables()) {
		t.Error("the page has marks of other tables")
	}
	var out bytes.Buffer
	if err := run(&out, t.TempDir(), ""); err == nil {
		t.Error("a folder without measurements: got no error")
	}
}

// What the text of the page says of its tables.
func TestStatements(t *testing.T) {
	m, err := readAll(folder)
	if err != nil {
		t.Fatal(err)
	}
	tasks, plans := byTask(m.fbgemm.plans)
	if len(tasks) != 11 {
		t.Fatalf("got %d tasks, want 11", len(tasks))
	}
	var paper, lookup []float64
	for _, task := range tasks {
		own := plans[task]["neuroshard"].measured
		if own >= plans[task]["paper"].measured || own >= plans[task]["size-lookup"].measured {
			t.Errorf("%s: the default's plan is not the fastest", task)
		}
		paper, lookup = append(paper, own/plans[task]["paper"].measured), append(lookup, own/plans[task]["size-lookup"].measured)
	}
	if got := geomean(paper); math.Abs(got-.888) > .001 {
		t.Errorf("got %.3f of the published search, the page says 11 %% less", got)
	}
	if got := geomean(lookup); math.Abs(got-.777) > .001 {
		t.Errorf("got %.3f of size-lookup", got)
	}
	// In every case the wide table slows the narrow ones.
	for _, f := range []*lanesFile{&m.fbgemm.lanes, &m.triton.lanes} {
		if len(f.Lanes) != 192 || len(f.Sweep) != 8 {
			t.Fatalf("got %d cases and a sweep of %d", len(f.Lanes), len(f.Sweep))
		}
		for i := range f.Lanes {
			measured, _ := f.ratios(&m.device, &f.Lanes[i])
			if measured[0] < 1 || measured[1] < 1 {
				t.Errorf("%s: case %d: got ratios %.2f", f.Kernel, i, measured)
			}
		}
	}
}
