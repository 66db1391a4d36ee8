// Command kernels fits the times of kernels that keep lookups apart, and compares the simulated
// device with every published time of the kernels that it describes. It prints the fit and two
// tables of docs/evidence/SIMULATED.md: the points that can be predicted
// (docs/generate/published), and the others, with the reason (unpredicted.csv). The last table
// sums up the errors, for docs/REALITY.md.
//
//	go run ./docs/generate/kernels
//
// A point is a published time of a forward or backward, with the shapes that the source
// states. The fit takes the points of use "fit" without pooling. It minimizes the sum of the
// squared logarithms of predicted over measured times, over the time of a bag and one gap: the
// time of the host inside the measurements of one source. The times of kernels that pool are
// fitted by docs/generate/measured.
package main

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/docs/generate/published"
	"github.com/neuroshard/neuroshard/problem"
)

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
	points, err := published.Points()
	if err != nil {
		return err
	}
	best := fit(points)
	fmt.Fprintf(w, "Fit: t_bag = %.1f ns without pooling, and a gap of %.0f us in the times of FBGEMM #1197.\n", best.bag, best.gap)
	other := fit(published.OnProfile(points, "a100-40", "a100-80"))
	fmt.Fprintf(w, "If the GPU of FBGEMM #1197 was an A100-80: %.1f ns and %.0f us.\n\n", other.bag, other.gap)
	fmt.Fprint(w, "| GPU, as profile | source | tables x rows x columns | bags x lookups | pass | measured us | predicted us | ratio | limit | in the fit | note |\n")
	fmt.Fprint(w, "|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range points {
		predicted := p.Predict(p.Device, best.gap)
		used := "no"
		if p.Use == "fit" {
			used = "yes"
		}
		apart := ""
		if p.Op.Pooling == problem.PoolingNone {
			apart = ", not pooled"
		}
		fmt.Fprintf(w, "| %s, %s | %s | %d x %d x %d | %d x %d%s | %s | %.0f | %.0f | %.2f | %s | %s | %s |\n",
			p.GPU, p.Device.Profile().Name, p.Source, p.Tables, p.Rows, p.Dim, p.Bags, p.Lookups, apart, p.Pass,
			p.US, predicted, predicted/p.US, p.Limit(), used, p.Note)
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
func errorsOf(points []published.Point, gap float64) []errorSet {
	var sets []errorSet
	for i := range points {
		p := &points[i]
		name, used := p.Pass+", "+p.Place(), "no"
		if p.Use == "fit" {
			used = "yes"
		}
		at := slices.IndexFunc(sets, func(s errorSet) bool { return s.name == name && s.used == used })
		if at < 0 {
			sets, at = append(sets, errorSet{name: name, used: used}), len(sets)
		}
		sets[at].errors = append(sets[at].errors, p.Predict(p.Device, gap)/p.US-1)
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
	records, err := published.Records(unpredictedCSV, "unpredicted.csv")
	if err != nil {
		return err
	}
	fmt.Fprint(w, "\n| source | GPU | points | kernels | why they are not predicted |\n|---|---|---|---|---|\n")
	for _, r := range records {
		fmt.Fprintf(w, "| %s |\n", strings.Join([]string{r["source"], r["gpu"], r["points"], r["kernel"], r["reason"]}, " | "))
	}
	return nil
}

// fitted are the constants that the fit finds: the time of a bag in ns, and the gap in us.
type fitted struct{ bag, gap float64 }

// misfit returns the sum of the squared logarithms of predicted over measured times.
func (f fitted) misfit(points []published.Point) float64 {
	sum := 0.0
	for _, p := range points {
		if p.Use != "fit" || p.Op.Pooling != problem.PoolingNone {
			continue
		}
		hw := p.Device.Profile()
		apart := hw.KernelTimes(false)
		apart.Bag = f.bag
		off := math.Log(p.Predict(p.Device.WithKernels(hw.KernelTimes(true), apart), f.gap) / p.US)
		sum += off * off
	}
	return sum
}

// fit searches from rounded values in steps that are halved where none is an improvement.
func fit(points []published.Point) fitted {
	best := fitted{bag: 10, gap: 60}
	least := best.misfit(points)
	for step := 8.0; step > 1e-3; {
		improved := false
		for _, try := range []fitted{
			{best.bag + step, best.gap},
			{best.bag - step, best.gap},
			{best.bag, best.gap + step},
			{best.bag, best.gap - step},
			{best.bag + step, best.gap - step},
			{best.bag - step, best.gap + step},
		} {
			if off := try.misfit(points); try.bag >= 0 && off < least {
				best, least, improved = try, off, true
			}
		}
		if !improved {
			step /= 2
		}
	}
	return best
}
