// Command kernels fits the constants of the simulated device that count cycles, and
// compares its times with every published time of the kernels that it describes. It prints
// the fit and two tables of docs/evidence/SIMULATED.md: the points that can be predicted
// (points.csv), and the others, with the reason (unpredicted.csv). The last table sums up
// the errors, for docs/REALITY.md.
//
//	go run ./docs/generate/kernels
//
// A point is a published time of a forward or backward, with the shapes that the source
// states. The fit takes the points of use "fit" on warps of 32 lanes. It minimizes the sum of
// the squared logarithms of predicted over measured times, over the cycles of a row step, the
// cycles of a bag, and one gap: the time of the host inside the measurements of one source.
package main

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

//go:embed points.csv
var pointsCSV string

//go:embed unpredicted.csv
var unpredictedCSV string

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kernels: error:", err)
		os.Exit(1)
	}
}

// run prints the fit and the tables.
func run(w io.Writer) error {
	points, err := readPoints(pointsCSV)
	if err != nil {
		return err
	}
	best := fit(points)
	fmt.Fprintf(w, "Fit: c_row = %.1f and c_bag = %.1f cycles, and a gap of %.0f us in the times of FBGEMM #1197.\n", best.row, best.bag, best.gap)
	other := fit(onProfile(points, "a100-40", "a100-80"))
	fmt.Fprintf(w, "If the GPU of FBGEMM #1197 was an A100-80: %.1f, %.1f and %.0f us.\n\n", other.row, other.bag, other.gap)
	fmt.Fprint(w, "| GPU, as profile | source | tables x rows x columns | bags x lookups | pass | measured us | predicted us | ratio | limit | in the fit | note |\n")
	fmt.Fprint(w, "|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range points {
		predicted := p.predict(p.device, best.gap)
		used := "no"
		if p.use == "fit" {
			used = "yes"
		}
		fmt.Fprintf(w, "| %s, %s | %s | %d x %d x %d | %d x %d | %s | %.0f | %.0f | %.2f | %s | %s | %s |\n",
			p.gpu, p.device.Profile().Name, p.source, p.tables, p.rows, p.dim, p.bags, p.lookups, p.pass,
			p.us, predicted, predicted/p.us, p.limit(), used, p.note)
	}
	if err := unpredicted(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	summary(w, errorsOf(points, best.gap))
	return nil
}

// An errorSet is the errors of points that are alike.
type errorSet struct {
	name, used string
	// errors are predicted over measured, less 1.
	errors []float64
}

// errorsOf returns the errors by what the points measure, in the order of the points.
func errorsOf(points []point, gap float64) []errorSet {
	var sets []errorSet
	for i := range points {
		p := &points[i]
		name, used := p.pass+", "+p.place(), "no"
		if p.use == "fit" {
			used = "yes"
		}
		at := slices.IndexFunc(sets, func(s errorSet) bool { return s.name == name && s.used == used })
		if at < 0 {
			sets, at = append(sets, errorSet{name: name, used: used}), len(sets)
		}
		sets[at].errors = append(sets[at].errors, p.predict(p.device, gap)/p.us-1)
	}
	return sets
}

// median returns the median error, without its sign.
func (s *errorSet) median() float64 {
	var sizes []float64
	for _, e := range s.errors {
		sizes = append(sizes, math.Abs(e))
	}
	slices.Sort(sizes)
	return (sizes[(len(sizes)-1)/2] + sizes[len(sizes)/2]) / 2
}

// summary prints the table of errors.
func summary(w io.Writer, sets []errorSet) {
	fmt.Fprint(w, "| points | number | in the fit | median error, % | lowest, % | highest, % |\n|---|--:|---|--:|--:|--:|\n")
	for i := range sets {
		s := &sets[i]
		fmt.Fprintf(w, "| %s | %d | %s | %.1f | %+.1f | %+.1f |\n", s.name, len(s.errors), s.used, 100*s.median(), 100*slices.Min(s.errors), 100*slices.Max(s.errors))
	}
}

// unpredicted prints the table of points that cannot be predicted.
func unpredicted(w io.Writer) error {
	records, err := records(unpredictedCSV, "unpredicted.csv")
	if err != nil {
		return err
	}
	fmt.Fprint(w, "\n| source | GPU | points | kernels | why they are not predicted |\n|---|---|---|---|---|\n")
	for _, r := range records {
		fmt.Fprintf(w, "| %s |\n", strings.Join([]string{r["source"], r["gpu"], r["points"], r["kernel"], r["reason"]}, " | "))
	}
	return nil
}

// fitted are the constants that the fit finds: cycles of a row step and of a bag, and the
// gap in us.
type fitted struct{ row, bag, gap float64 }

// misfit returns the sum of the squared logarithms of predicted over measured times.
func (f fitted) misfit(points []point) float64 {
	sum := 0.0
	for _, p := range points {
		if p.use != "fit" || p.device.Profile().Warp() != 32 {
			continue
		}
		d := p.device
		d.RowCycles, d.BagCycles = f.row, f.bag
		off := math.Log(p.predict(d, f.gap) / p.us)
		sum += off * off
	}
	return sum
}

// fit searches from rounded values in steps that are halved where none is an improvement.
func fit(points []point) fitted {
	best := fitted{row: 30, bag: 10, gap: 60}
	least := best.misfit(points)
	for step := 8.0; step > 1e-3; {
		improved := false
		for _, try := range []fitted{
			{best.row + step, best.bag, best.gap},
			{best.row - step, best.bag, best.gap},
			{best.row, best.bag + step, best.gap},
			{best.row, best.bag - step, best.gap},
			{best.row + step, best.bag - step, best.gap},
			{best.row - step, best.bag + step, best.gap},
			{best.row, best.bag, best.gap + step},
			{best.row, best.bag, best.gap - step},
		} {
			if off := try.misfit(points); try.row > 0 && try.bag >= 0 && off < least {
				best, least, improved = try, off, true
			}
		}
		if !improved {
			step /= 2
		}
	}
	return best
}
