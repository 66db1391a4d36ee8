package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/neuroshard/neuroshard/internal/rank"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/simulate"
)

// samplesTable has the simulated over the measured times of the samples.
func samplesTable(m *measurements) (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, "| kernels | groups | pass | simulated over measured, median | 5 % | 95 % | Kendall's tau |\n|---|--:|---|--:|--:|--:|--:|\n")
	for _, k := range m.backends() {
		points, err := samplePoints(filepath.Join(m.folder, k.folder, "samples"))
		if err != nil {
			return "", err
		}
		for _, pass := range passes() {
			var ratios, measured, simulated []float64
			for _, p := range points {
				measured = append(measured, p.measured(pass))
				simulated = append(simulated, p.simulated(&m.device, pass))
				ratios = append(ratios, p.simulated(&m.device, pass)/p.measured(pass))
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %.2f | %.2f | %.2f | %.3f |\n", k.name, len(points), pass,
				median(ratios), quantile(ratios, .05), quantile(ratios, .95), rank.Kendall(simulated, measured))
		}
	}
	return strings.TrimSpace(b.String()), nil
}

// samplePoints returns the times of the samples in a folder.
func samplePoints(folder string) (points []point, err error) {
	set, err := dataset.Read(folder)
	if err != nil {
		return nil, err
	}
	for i := range set.Compute.Samples {
		g := &set.Compute.Samples[i]
		op := simulate.Op{
			Batch: g.Operation.Batch, WeightBytes: int(g.Operation.Precision.Bytes()),
			Optimizer: g.Operation.Optimizer, Weighted: g.Operation.Weighted,
		}
		for _, member := range g.Members {
			t := &set.Compute.Tables[member.Table]
			op.Tables = append(op.Tables, simulate.Table{
				Rows: t.Rows, Dim: int(member.Dim), Bags: t.Bags(), LengthCV: t.LengthCV(),
				Counts: t.Counts(g.Operation.Batch),
			})
		}
		points = append(points, point{op, float64(g.Forward), float64(g.Backward)})
	}
	return points, nil
}
