package main

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/neuroshard/neuroshard/internal/marks"
	"github.com/neuroshard/neuroshard/internal/rank"
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
	if got := stat.GeometricMean(paper, nil); math.Abs(got-.888) > .001 {
		t.Errorf("got %.3f of the published search, the page says 11 %% less", got)
	}
	if got := stat.GeometricMean(lookup, nil); math.Abs(got-.777) > .001 {
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

// The constants that are fitted to the lanes experiment order the groups, which no fit saw,
// better than those of the simulated device, and none near them fits better.
func TestForwardFit(t *testing.T) {
	m, err := readAll(folder)
	if err != nil {
		t.Fatal(err)
	}
	row, bag := m.device.Profile().IssueCycles()
	old := version3(forwardPass, row, bag)
	points := m.fbgemm.lanes.fitPoints()
	start := old
	start.bag = 60
	found := fitKernels(&m.device, points, forwardPass, start)
	least := found.misfit(&m.device, points, forwardPass)
	for i := range found.free(forwardPass) {
		for _, factor := range []float64{.95, 1.05} {
			near := found
			*near.free(forwardPass)[i] *= factor
			if off := near.misfit(&m.device, points, forwardPass); off < least-1e-6 {
				t.Errorf("constant %d times %v fits better: %v instead of %v", i, factor, off, least)
			}
		}
	}
	samples, err := samplePoints(folder + "/" + fbgemm + "/samples")
	if err != nil {
		t.Fatal(err)
	}
	samples = slices.DeleteFunc(samples, func(p point) bool { return p.op.Weighted })
	tau := func(k kernelFit) float64 {
		var predicted, measured []float64
		for _, p := range samples {
			predicted, measured = append(predicted, k.predict(&m.device, p.op, forwardPass)), append(measured, p.measured(forwardPass))
		}
		return rank.Kendall(predicted, measured)
	}
	if before, after := tau(old), tau(found); len(samples) != 76 || before > .86 || after < .94 {
		t.Errorf("got taus of %.3f before and %.3f after the fit on %d groups", before, after, len(samples))
	}
	// The constants of the simulated device predict as it does.
	forward, _ := m.device.Compute(points[0].op)
	if got := old.predict(&m.device, points[0].op, forwardPass); math.Abs(got/float64(forward)-1) > 1e-12 {
		t.Errorf("got %v, the simulated device has %v", got, forward)
	}
}
