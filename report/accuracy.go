package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/neuroshard/neuroshard/modelfile"
	"github.com/neuroshard/neuroshard/pretrain"
	"github.com/neuroshard/neuroshard/train"
)

// Accuracy writes what a model was made from and how far its predictions lie
// from the samples of tables it did not see.
func Accuracy(w io.Writer, m modelfile.Manifest, r *train.Report, opt Options) error {
	p := &printer{w: w, opt: opt}
	p.printf("%s  %s\n", p.paint(bold, "model "+m.ID), kernels(m.Source))
	p.printf("profile %s, %s groups, %s all-to-alls, seed %d, by %s\n",
		m.Profile, count(int64(m.Card.ComputeSamples)), count(int64(m.Card.CommSamples)), m.Card.Seed, m.Meter)
	p.section("Relative errors on tables not trained on")
	row := func(name string, e modelfile.Errors) []string {
		return []string{name, count(int64(e.Samples)), hundredths(e.Mean), hundredths(e.P95)}
	}
	titles := []string{"<", "samples", "mean %", "p95 %"}
	p.grid(titles, [][]string{
		row("forward and backward", r.Compute.All),
		row("forward", r.Compute.Forward),
		row("backward", r.Compute.Backward),
		row("groups of 100 to 200 shards", r.Large.All),
		row("all-to-all, without wait", r.Comm.All),
	})
	p.section("By what the groups and clusters are")
	var rows [][]string
	for _, part := range append(slices.Clone(r.Compute.Parts), r.Comm.Parts...) {
		rows = append(rows, row(part.Kind+"  "+part.Name, part.Errors))
	}
	p.grid(titles, rows)
	return p.err
}

// LearningCurve writes the errors by the number of samples.
func LearningCurve(w io.Writer, points []pretrain.Point, opt Options) error {
	p := &printer{w: w, opt: opt}
	p.section("Relative errors by samples drawn, on the same held-out groups")
	var rows [][]string
	for _, point := range points {
		rows = append(rows, []string{
			count(int64(point.Samples)), hundredths(point.Compute.Mean), hundredths(point.Compute.P95),
			hundredths(point.Large.Mean), hundredths(point.Large.P95),
		})
	}
	p.grid([]string{"samples", "mean %", "p95 %", "100-200 shards: mean %", "p95 %"}, rows)
	return p.err
}

func hundredths(v float64) string { return fmt.Sprintf("%.2f", v) }
