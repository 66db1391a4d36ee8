package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/lab/train"
)

// Accuracy writes what a model was trained on, and the errors of its predictions on tables
// that it was not trained on. If the samples were measured, it also writes which backend
// measured them, and how far two measurements of one sample lie apart.
func Accuracy(w io.Writer, m modelfile.Manifest, r *train.Report, opt Options) error {
	p := &printer{w: w, opt: opt}
	origin(p, m)
	heldOutErrors(p, r)
	order(p, cmp.Or(r.Source, m.Source), &r.Compute)
	if s := r.Compute.Spread; s != nil {
		calibration(p, s)
	}
	p.section("Relative errors by properties of the groups and clusters")
	var rows [][]string
	for _, part := range append(slices.Clone(r.Compute.Parts), r.Comm.Parts...) {
		rows = append(rows, errorsRow(part.By+"  "+part.Name, part.Errors))
	}
	p.grid([]string{"<", "samples", "mean %", "p95 %"}, rows)
	return p.err
}

// origin writes what the model was trained on.
func origin(p *printer, m modelfile.Manifest) {
	trained := kernels(m.Source)
	if m.CommSource != "" {
		trained += ", " + source(m.CommSource) + " all-to-alls"
	}
	p.printf("%s  %s\n", p.paint(bold, "model "+OneLine(m.ID)), trained)
	p.printf("profile %s, %s groups, %s all-to-alls, seed %d, by %s\n",
		OneLine(m.Profile), count(int64(m.Card.ComputeSamples)), count(int64(m.Card.CommSamples)), m.Card.Seed, OneLine(m.Backend))
	p.fact("device", m.Measured.Device)
	p.fact("clocks", m.Measured.Clocks)
	p.fact("kernel", m.Measured.Kernel)
	p.fact("cache", m.Measured.Cache)
	p.fact("lookups", m.Measured.Lookups)
	p.fact("each sample", runs(m.Measured.Passes, m.Measured.Fastest, m.Measured.Repeats, m.Measured.Warmup))
	if m.CommSource != "" {
		text := source(m.CommSource) + ", by " + m.CommBackend
		if m.CommMeasured.Device != "" {
			text += ", on " + m.CommMeasured.Device
		}
		p.fact("all-to-alls", text)
	}
	if n := m.Card.LeftOut; n > 0 {
		p.fact("left out", plural(n, "sample")+": the backend drifted, or an exchange was over before its last device was ready")
	}
}

// heldOutErrors writes the errors over all held-out samples, and beside them the noise of the
// measurement backend.
func heldOutErrors(p *printer, r *train.Report) {
	p.section("Relative errors on tables not trained on")
	rows := [][]string{
		errorsRow("forward and backward", r.Compute.All),
		errorsRow("forward", r.Compute.Forward),
		errorsRow("backward", r.Compute.Backward),
	}
	if r.Large.All.Samples > 0 {
		rows = append(rows, errorsRow("groups of 100 to 200 shards", r.Large.All))
	}
	comm := "all-to-all, without wait"
	if r.CommSource != "" {
		comm += " (" + source(r.CommSource) + ")"
	}
	rows = append(rows, errorsRow(comm, r.Comm.All))
	noise := r.Compute.Noise
	if noise.Repeats > 0 {
		rows = append(rows, errorsRow("the backend: a second measurement against the first", modelfile.Errors{Samples: noise.Repeats, Mean: noise.Mean, P95: noise.P95}))
	}
	p.grid([]string{"<", "samples", "mean %", "p95 %"}, rows)
	switch {
	case noise.Repeats > 0:
		// Both times err, independently: their difference by the root of two more.
		p.printf("the noise of the backend alone gives a perfect model an error of about %s %%\n", hundredths(noise.Mean/math.Sqrt2))
	case noise.Spread > 0:
		p.printf("nothing was measured twice; the runs of a sample lie %s %% apart (median interquartile range)\n", hundredths(noise.Spread))
	}
}

// order writes how well the predictions put the groups in the order of their times.
func order(p *printer, from string, r *train.ComputeReport) {
	if r.All.Samples == 0 {
		return
	}
	p.printf("Kendall tau of predicted and %s times %.3f; mean squared error %.3g ms²\n", source(from), r.KendallTau, r.MSE)
}

// calibration writes how well the spread of an ensemble's nets tells their errors.
func calibration(p *printer, s *train.Calibration) {
	p.section("Spread of the %d nets, %s %% on average, compared with their error", s.Members, hundredths(s.MeanPercent))
	share := func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }
	rows := [][]string{{"the spread", share(s.Within1), share(s.Within2)}}
	if s.NoisePercent > 0 {
		rows = append(rows, []string{fmt.Sprintf("with the noise of the backend, %s %%", hundredths(s.NoisePercent)), share(s.WithNoise1), share(s.WithNoise2)})
	}
	// The share of a normal distribution.
	rows = append(rows, []string{"well calibrated", "68 %", "95 %"})
	p.grid([]string{"<times within", "1 sigma", "2 sigma"}, rows)
	p.printf("Kendall tau of spread and error %.3f\n", s.KendallTau)
}

func errorsRow(name string, e modelfile.Errors) []string {
	return []string{OneLine(name), count(int64(e.Samples)), hundredths(e.Mean), hundredths(e.P95)}
}

// LearningCurve writes the errors by the number of samples.
func LearningCurve(w io.Writer, points []train.CurvePoint, opt Options) error {
	p := &printer{w: w, opt: opt}
	p.section("Relative errors by samples drawn, on the same held-out groups")
	titles := []string{"samples", "mean %", "p95 %"}
	large := slices.ContainsFunc(points, func(c train.CurvePoint) bool { return c.Large.Samples > 0 })
	if large {
		titles = append(titles, "100-200 shards: mean %", "p95 %")
	}
	var rows [][]string
	for _, point := range points {
		row := []string{count(int64(point.Samples)), hundredths(point.Compute.Mean), hundredths(point.Compute.P95)}
		if large {
			row = append(row, hundredths(point.Large.Mean), hundredths(point.Large.P95))
		}
		rows = append(rows, row)
	}
	p.grid(titles, rows)
	return p.err
}

func hundredths(v float64) string { return unsigned(fmt.Sprintf("%.2f", v)) }
