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

func readAll(folder string) (*measurements, error) {
	hw, err := hardware.ByName(profile)
	if err != nil {
		return nil, err
	}
	m := &measurements{device: simulate.NewDevice(hw), groups: map[string][]point{}}
	if err := readJSON(filepath.Join(folder, fbgemm, "lanes.json"), &m.lanes); err != nil {
		return nil, err
	}
	if err := readJSON(filepath.Join(folder, fbgemm, "anchors.json"), &m.anchors); err != nil {
		return nil, err
	}
	for _, kernels := range []string{fbgemm, triton} {
		if m.groups[kernels], err = samplePoints(filepath.Join(folder, kernels, "samples")); err != nil {
			return nil, err
		}
	}
	return m, nil
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
func ownTable(folder string) (string, error) {
	m, err := readAll(folder)
	if err != nil {
		return "", err
	}
	plain := slices.DeleteFunc(slices.Clone(m.groups[fbgemm]), func(p point) bool { return p.op.Weighted })
	var anchors []point
	for _, mode := range modes() {
		if !mode.weighted {
			anchors = append(anchors, m.anchors.points(mode)...)
		}
	}
	plans, err := planRow(folder)
	if err != nil {
		return "", err
	}
	rows := []row{plans}
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
	return b.String(), nil
}

// ofAdam returns the points of operators with Adam, or those of all others.
func ofAdam(points []point, adam bool) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return (p.op.Optimizer == problem.Adam) != adam })
}
