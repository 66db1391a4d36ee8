package main

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem/hardware"
)

func points(t *testing.T) []point {
	t.Helper()
	points, err := readPoints(pointsCSV)
	if err != nil {
		t.Fatal(err)
	}
	return points
}

// The constants in the code are those of the fit, rounded to a tenth of a cycle.
func TestConstantsAreFitted(t *testing.T) {
	row, bag := hardware.Profile{WarpLanes: 32}.IssueCycles()
	got := fit(points(t))
	if math.Round(10*got.row)/10 != row || math.Round(10*got.bag)/10 != bag {
		t.Errorf("the fit has %.3f cycles for a row step and %.3f for a bag, the code %v and %v", got.row, got.bag, row, bag)
	}
	// No value nearby is better.
	for _, other := range []fitted{{got.row * 1.03, got.bag, got.gap}, {got.row, got.bag * 1.2, got.gap}, {got.row, got.bag, got.gap + 2}, {got.row + 1, got.bag - 1, got.gap}} {
		if all := points(t); other.misfit(all) <= got.misfit(all) {
			t.Errorf("%+v fits better than %+v", other, got)
		}
	}
}

// The rows of an H100 with all tables in HBM are in no fit, and within 3 %.
func TestHeldOut(t *testing.T) {
	found := 0
	for _, p := range points(t) {
		if !strings.Contains(p.note, "held out") {
			continue
		}
		found++
		if ratio := p.predict(p.device, 0) / p.us; p.use != "out" || math.Abs(ratio-1) > .03 {
			t.Errorf("%s, %s of %v us: got a ratio of %.3f, use %q; want within 3 %%, out of the fit", p.gpu, p.pass, p.us, ratio, p.use)
		}
	}
	if found != 4 {
		t.Errorf("got %d held-out times, want 4", found)
	}
}

// docs/evidence/SIMULATED.md shows what the command prints, and docs/REALITY.md the table of errors.
func TestPageShowsTheOutput(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(out.String(), "\n\n")
	for _, part := range []struct{ page, text string }{
		{"evidence/SIMULATED.md", out.String()[:at]},
		{"REALITY.md", out.String()[at:]},
	} {
		page, err := os.ReadFile("../../" + part.page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(part.text, "\n") {
			if !strings.Contains(string(page), line) {
				t.Errorf("docs/%s has no line %q: put the output of go run ./docs/generate/kernels there", part.page, line)
			}
		}
	}
}

// Median errors stay below those that docs/REALITY.md states, rounded up, in percent.
func TestErrors(t *testing.T) {
	limits := map[string]float64{
		"forward, rows in HBM, A100 and H100 yes": 5, "forward, rows in HBM, A100 and H100 no": 2, "backward, rows in HBM, A100 and H100 no": 1,
		"backward, rows cached in HBM no": 20, "forward, rows in a host's memory no": 40, "backward, rows in a host's memory no": 69,
		"forward, rows in HBM, V100 no": 1, "backward, rows in HBM, V100 no": 50, "forward, launches alone, B200 no": 10,
		"backward, launches alone, B200 no": 8, "forward, MI350X yes": 4, "forward, MI350X no": 9,
	}
	sets := errorsOf(points(t), fit(points(t)).gap)
	if len(sets) != len(limits) {
		t.Errorf("got %d sets of errors, want the %d of the limits", len(sets), len(limits))
	}
	for i := range sets {
		name := sets[i].name + " " + sets[i].used
		if limit, ok := limits[name]; !ok || 100*sets[i].median() > limit {
			t.Errorf("%s: got a median error of %.2f %%, want at most %v", name, 100*sets[i].median(), limit)
		}
	}
}

func TestBadPoints(t *testing.T) {
	header, row, _ := strings.Cut(pointsCSV, "\n")
	row, _, _ = strings.Cut(row, "\n")
	for _, c := range []struct{ from, to, want string }{
		{",a100-80,", ",gtx,", `points.csv:2: device profile "gtx" is unknown`},
		{",sgd,", ",lamb,", `points.csv:2: optimizer "lamb" is unknown`},
		{",121.216,", ",fast,", `points.csv:2: us: "fast" is not a number`},
		{",121.216,", ",1,2,", "points.csv: record on line 2: wrong number of fields"},
	} {
		if _, err := readPoints(header + "\n" + strings.Replace(row, c.from, c.to, 1) + "\n"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in place of %s: got error %v, want %q", c.to, c.from, err, c.want)
		}
	}
}
