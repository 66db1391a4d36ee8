package main

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/neuroshard/neuroshard/internal/marks"
	"github.com/neuroshard/neuroshard/simulate"
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

// The constants of the simulated device are those of the fit, rounded. They order the groups,
// which no fit saw, better than those of version 3. No constants near the fitted ones fit better.
func TestConstantsAreFitted(t *testing.T) {
	m, err := readAll(folder)
	if err != nil {
		t.Fatal(err)
	}
	found, err := fitBoth(m)
	if err != nil {
		t.Fatal(err)
	}
	rounded := func(x, to float64) float64 { return math.Round(x/to) * to }
	now := version4(m.device)
	for _, c := range []struct {
		name             string
		fitted, to, code float64
	}{
		{"row", found.Row, .1, now.Row},
		{"bag", found.Bag, 1, now.Bag},
		{"power of a bag", found.BagPower, .01, now.BagPower},
		{"overhead", found.overhead, 1, now.overhead},
		{"update", found.Update, .1, now.Update},
		{"power of an update", found.UpdatePower, .01, now.UpdatePower},
		{"prepare", found.Prepare, 1, now.Prepare},
	} {
		if got := rounded(c.fitted, c.to); math.Abs(got-c.code) > 1e-9 {
			t.Errorf("%s: the fit has %.4f, the code %v", c.name, c.fitted, c.code)
		}
	}
	if alone, beside := weightShares(&m.fbgemm.lanes); len(alone) != 96 || len(beside) != 96 || rounded(median(beside), .1) != rounded(simulate.WeightedShare, .1) {
		t.Errorf("weights: got a median of %.3f over %d pairs beside the wide table, the code has %v", median(beside), len(beside), simulate.WeightedShare)
	}
	for _, pass := range passes() {
		f, err := fitDataOf(m, pass)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]int{forwardPass: 9, backwardPass: 2}[pass]; len(f.points) != 192 || len(f.published) != want {
			t.Fatalf("%s: got %d points and %d published ones, want 192 and %d", pass, len(f.points), len(f.published), want)
		}
		least := f.misfit(&found, pass)
		for i := range found.free(pass) {
			for _, factor := range []float64{.95, 1.05} {
				near := found
				*near.free(pass)[i] *= factor
				if off := f.misfit(&near, pass); off < least {
					t.Errorf("%s: constant %d times %v fits better: %v instead of %v", pass, i, factor, off, least)
				}
			}
		}
	}
	if times, cycles, err := clockMisfits(m); err != nil || !(times < .85*cycles) {
		t.Errorf("got misfits of %v by times and %v by cycles, error %v, want times to fit better", times, cycles, err)
	}
	sets, err := fitSets(m)
	if err != nil {
		t.Fatal(err)
	}
	old := version3(m.device.Profile().ClockGHz)
	_, before := sets[2].errors(&old, m.device, forwardPass)
	ratios, after := sets[2].errors(&now, m.device, forwardPass)
	if len(ratios) != 71 || before > .87 || after < .93 || math.Abs(median(ratios)-1) > .05 {
		t.Errorf("got taus of %.3f before and %.3f after on %d groups, and a median of %.2f", before, after, len(ratios), median(ratios))
	}
}
