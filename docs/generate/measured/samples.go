package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
)

// samplesTable has the simulated over the measured times of the samples.
func samplesTable(m *measurements) (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, "| kernels | groups | pass | simulated over measured, median | 5 % | 95 % | Kendall's tau |\n|---|--:|---|--:|--:|--:|--:|\n")
	for _, k := range []struct{ name, folder string }{{"FBGEMM", fbgemm}, {"Triton", triton}} {
		set, err := dataset.Read(filepath.Join(m.folder, k.folder, "samples"))
		if err != nil {
			return "", err
		}
		measured := set.Compute
		simulated := *measured
		simulated.Samples = slices.Clone(measured.Samples)
		if err := collect.SimulateCompute(context.Background(), &simulated, m.device.Profile(), collect.Options{}); err != nil {
			return "", err
		}
		for _, pass := range []string{"forward", "backward"} {
			var ratios, a, s []float64
			for i := range measured.Samples {
				real, made := &measured.Samples[i], &simulated.Samples[i]
				x, y := float64(real.Forward), float64(made.Forward)
				if pass == "backward" {
					x, y = float64(real.Backward), float64(made.Backward)
				}
				ratios, a, s = append(ratios, y/x), append(a, x), append(s, y)
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %.2f | %.2f | %.2f | %.3f |\n", k.name, len(ratios), pass,
				median(ratios), quantile(ratios, .05), quantile(ratios, .95), kendall(a, s))
		}
	}
	return strings.TrimSpace(b.String()), nil
}

// kendall returns Kendall's tau of two lists.
func kendall(a, b []float64) float64 {
	sum, pairs := 0, 0
	for i := range a {
		for j := range i {
			pairs++
			switch d := (a[i] - a[j]) * (b[i] - b[j]); {
			case d > 0:
				sum++
			case d < 0:
				sum--
			}
		}
	}
	return float64(sum) / float64(pairs)
}
