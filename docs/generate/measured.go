package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// The folders of the measurements, by the kernels that ran.
const (
	fbgemm = "h200-fbgemm"
	triton = "h200-triton"
)

// profile is the profile of the GPU that was measured.
const profile = "h200"

// measurements is what the folders hold.
type measurements struct {
	// lanes and anchors are of FBGEMM's kernels, and groups those of both kernels.
	lanes   lanesFile
	anchors anchorsFile
	groups  map[string][]point
	// device is the simulated device of the profile.
	device simulate.Device
}

func readAll(folder string) *measurements {
	hw := must(hardware.ByName(profile))
	own := filepath.Join(folder, fbgemm)
	m := &measurements{readJSON[lanesFile](own, "lanes.json"), readJSON[anchorsFile](own, "anchors.json"), map[string][]point{}, simulate.NewDevice(hw)}
	for _, kernels := range []string{fbgemm, triton} {
		m.groups[kernels] = samplePoints(filepath.Join(folder, kernels, "samples"))
	}
	return m
}

// A row is a line of the table of errors: ratios are measured over simulated times.
type row struct {
	what, pass, fitted string
	ratios             []float64
	tau                float64
}

// rowOf returns the line of some points.
func (m *measurements) rowOf(what, pass, fitted string, points []point) row {
	r := row{what: what, pass: pass, fitted: fitted}
	var simulated, measured []float64
	for _, p := range points {
		s := p.simulated(&m.device, pass)
		r.ratios = append(r.ratios, p.measured(pass)/s)
		simulated, measured = append(simulated, s), append(measured, p.measured(pass))
	}
	r.tau = stats.Kendall(simulated, measured)
	return r
}

// ownTable returns the table in Markdown.
func ownTable(folder string) string {
	m := readAll(folder)
	plain := slices.DeleteFunc(slices.Clone(m.groups[fbgemm]), func(p point) bool { return p.op.Weighted })
	var anchors []point
	for _, mode := range modes() {
		if !mode.weighted {
			anchors = append(anchors, m.anchors.points(mode)...)
		}
	}
	rows := []row{planRow(folder)}
	for _, pass := range passes() {
		rows = append(rows,
			m.rowOf("eight equal tables, alone and beside a wide one", pass, "yes", m.lanes.fitPoints()),
			m.rowOf("one table", pass, "no", anchors),
			m.rowOf("groups without Adam", pass, "no", ofAdam(plain, false)),
			m.rowOf("groups with Adam", pass, "no", ofAdam(plain, true)),
			m.rowOf("groups, the worker's Triton kernels", pass, "no", m.groups[triton]))
	}
	var b strings.Builder
	fmt.Fprint(&b, "| times | pass | number | in the fit | measured over simulated, median | 5 % | 95 % | Kendall's tau |\n|---|---|--:|---|--:|--:|--:|--:|")
	for _, r := range rows {
		fmt.Fprintf(&b, "\n| %s | %s | %d | %s | %.2f | %.2f | %.2f | %.2f |", r.what, r.pass, len(r.ratios), r.fitted, stats.Median(r.ratios), stats.Quantile(r.ratios, .05), stats.Quantile(r.ratios, .95), r.tau)
	}
	return b.String()
}

// ofAdam returns the points of operators with Adam, or those of all others.
func ofAdam(points []point, adam bool) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return (p.op.Optimizer == problem.Adam) != adam })
}
