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

// single returns the times of one table without weights.
func (m *measurements) single() (points []point) {
	for _, mode := range modes() {
		if !mode.weighted {
			points = append(points, m.anchors.points(mode)...)
		}
	}
	return points
}

// plainGroups returns the groups of kernels without weights: those with Adam, or all others.
func (m *measurements) plainGroups(kernels string, adam bool) []point {
	return slices.DeleteFunc(slices.Clone(m.groups[kernels]), func(p point) bool {
		return p.op.Weighted || (p.op.Optimizer == problem.Adam) != adam
	})
}

// fitGroups returns FBGEMM's groups without weights and Adam: every second one, by which the backward is
// fitted, and the others.
func (m *measurements) fitGroups() (fitted, others []point) {
	for i, p := range m.plainGroups(fbgemm, false) {
		if i%2 == 0 {
			fitted = append(fitted, p)
		} else {
			others = append(others, p)
		}
	}
	return fitted, others
}

// ownTable returns the table in Markdown.
func ownTable(folder string) string {
	m := readAll(folder)
	fitted, others := m.fitGroups()
	rows := []row{planRow(folder)}
	for _, pass := range passes() {
		rows = append(rows,
			m.rowOf("eight equal tables, alone and beside a wide one", pass, "yes", m.lanes.fitPoints()),
			m.rowOf("one table", pass, "yes", m.single()))
		if pass == forwardPass {
			rows = append(rows, m.rowOf("groups without Adam", pass, "no", m.plainGroups(fbgemm, false)))
		} else {
			rows = append(rows,
				m.rowOf("every second group without Adam", pass, "yes", fitted),
				m.rowOf("the other groups without Adam", pass, "no", others))
		}
		rows = append(rows,
			m.rowOf("groups with Adam", pass, "no", m.plainGroups(fbgemm, true)),
			m.rowOf("groups, the worker's Triton kernels", pass, "no", m.groups[triton]))
	}
	var b strings.Builder
	fmt.Fprint(&b, "| times | pass | number | in the fit | measured over simulated, median | 5 % | 95 % | Kendall's tau |\n|---|---|--:|---|--:|--:|--:|--:|")
	for _, r := range rows {
		fmt.Fprintf(&b, "\n| %s | %s | %d | %s | %.2f | %.2f | %.2f | %.2f |", r.what, r.pass, len(r.ratios), r.fitted, stats.Median(r.ratios), stats.Quantile(r.ratios, .05), stats.Quantile(r.ratios, .95), r.tau)
	}
	return b.String()
}
