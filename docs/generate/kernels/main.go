// Command kernels fits the constants of the simulated device that count cycles, and
// compares its times with every published time of the kernels that it describes. It prints
// the fit and two tables of docs/SIMULATED.md: the points that can be predicted
// (points.csv), and the others, with the reason (unpredicted.csv).
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
	return unpredicted(w)
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
