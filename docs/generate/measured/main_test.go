package main

import (
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/marks"
	"github.com/neuroshard/neuroshard/simulate"
)

var update = flag.Bool("update", false, "write the tables into the document")

const (
	folder = "../../measured"
	page   = "../../RESULTS.md"
)

// docs/RESULTS.md has what the command prints, and names the command.
func TestDocument(t *testing.T) {
	want, err := tables(folder)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := marks.Replace(page, "measured", []string{want}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := marks.Part(string(text), "measured"); !ok || got != want || !strings.Contains(string(text), "go run ./docs/generate/measured") {
		t.Errorf("docs/RESULTS.md has other tables than\n%s\n(rewrite them: go test ./docs/generate/measured -update)", want)
	}
}

// The constants of the simulated device are those of the fit, rounded. No constants near
// the fitted ones fit better.
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
	now := shipped(m.device)
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
	if alone, beside := weightShares(&m.lanes); len(alone) != 96 || len(beside) != 96 || rounded(median(beside), .1) != rounded(simulate.WeightedShare, .1) {
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
}
