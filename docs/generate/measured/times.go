package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// anchorsFile is anchors.json.
type anchorsFile struct {
	Batch         int
	Rows          int64
	PoolingFactor int `json:"pooling_factor"`
	Ceilings      struct {
		Copy   float64 `json:"copy_gbps"`
		Gather float64 `json:"gather_gbps"`
		Sort   float64 `json:"sort_mkeys"`
		Clock  float64 `json:"clock_ghz"`
	}
	Single []struct {
		Mode     string
		Dim      int
		Forward  float64 `json:"fwd_ms"`
		Backward float64 `json:"bwd_ms"`
	}
}

// The passes of an operator.
const (
	forwardPass  = "forward"
	backwardPass = "backward"
)

func passes() []string { return []string{forwardPass, backwardPass} }

// A point is the measured times of one operator, in ms.
type point struct {
	op                simulate.Op
	forward, backward float64
}

// measured returns the measured time of a pass, in ms.
func (p *point) measured(pass string) float64 {
	if pass == forwardPass {
		return p.forward
	}
	return p.backward
}

// simulated returns the time of a pass on a simulated device, in ms.
func (p *point) simulated(d *simulate.Device, pass string) float64 {
	forward, backward := d.Compute(p.op)
	if pass == forwardPass {
		return float64(forward)
	}
	return float64(backward)
}

// timesTable has the simulated over the measured times: of eight tables alone by pooling
// factor, rows and columns, and of one table by mode and columns.
func timesTable(m *measurements) (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, "| eight tables, simulated over measured | lookups a bag | rows | 8 columns | 16 | 32 | 64 |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, pass := range passes() {
		for _, pooling := range []int{1, 10, 64} {
			for _, rows := range []int64{100_000, 10_000_000} {
				fmt.Fprintf(&b, "| %s | %d | %s |", pass, pooling, sizes[rows])
				for _, dim := range []int{8, 16, 32, 64} {
					fmt.Fprintf(&b, " %s |", m.simulatedOver(pass, pooling, rows, dim))
				}
				fmt.Fprintln(&b)
			}
		}
	}
	columns := []int{4, 8, 16, 32, 64, 128}
	fmt.Fprint(&b, "\n| one table, simulated over measured | |")
	for _, dim := range columns {
		fmt.Fprintf(&b, " %d columns |", dim)
	}
	fmt.Fprint(&b, "\n|---|---|"+strings.Repeat("--:|", len(columns))+"\n")
	for _, mode := range modes() {
		for _, pass := range passes() {
			fmt.Fprintf(&b, "| %s | %s |", mode.name, pass)
			for _, p := range m.fbgemm.anchors.points(mode) {
				fmt.Fprintf(&b, " %.2f |", p.simulated(&m.device, pass)/p.measured(pass))
			}
			fmt.Fprintln(&b)
		}
	}
	return strings.TrimSpace(b.String()), nil
}

// simulatedOver returns the simulated over the measured times of eight tables without weights,
// with FBGEMM's kernels: the median over lengths and precisions, and the range.
func (m *measurements) simulatedOver(pass string, pooling int, rows int64, dim int) string {
	var ratios []float64
	for i := range m.fbgemm.lanes.Lanes {
		e := &m.fbgemm.lanes.Lanes[i]
		if e.Dim != dim || e.Rows != rows || e.PoolingFactor != pooling || e.Weighted {
			continue
		}
		p := e.alone()
		ratios = append(ratios, p.simulated(&m.device, pass)/p.measured(pass))
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// points returns the times of one table in a mode, by rising columns.
func (a *anchorsFile) points(of mode) (points []point) {
	counts := access.Distribution{Kind: access.Uniform}.At(a.Rows, float64(a.PoolingFactor), a.Batch)
	for _, s := range a.Single {
		if s.Mode == of.name {
			points = append(points, point{simulate.Op{
				Batch: a.Batch, WeightBytes: of.bytes, Weighted: of.weighted, Optimizer: of.optimizer,
				Tables: []simulate.Table{{Rows: a.Rows, Dim: s.Dim, Counts: counts}},
			}, s.Forward, s.Backward})
		}
	}
	return points
}

// A mode is an operation of the anchors.
type mode struct {
	name      string
	optimizer problem.Optimizer
	bytes     int
	weighted  bool
}

func modes() []mode {
	return []mode{
		{"sgd fp32", problem.SGD, 4, false},
		{"rowwise_adagrad fp32", problem.RowwiseAdagrad, 4, false},
		{"sgd fp16", problem.SGD, 2, false},
		{"sgd fp32 weighted", problem.SGD, 4, true},
	}
}

// lineTable has what a bag and a lookup take in the forward of narrow rows: the line through
// the times of eight tables of 8 columns, fp32, unweighted, equal bags, with 1 and with 10
// lookups a bag; alone (8 lanes a bag) and beside the wide table (32 lanes).
func lineTable(m *measurements) (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, "| kernels | rows | lanes of a bag | a bag, ns | a lookup, ns | simulated: a bag, ns | a lookup, ns |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	hw := m.device.Profile()
	times, sms := hw.KernelTimes(true), float64(hw.SMs)
	for _, k := range m.backends() {
		f := &k.lanes
		for _, rows := range []int64{100_000, 10_000_000} {
			for _, lanes := range []int{8, 32} {
				bag, lookup := f.line(rows, lanes)
				share := float64(lanes) / 32
				fmt.Fprintf(&b, "| %s | %s | %d | %.4f | %.4f | %.4f | %.4f |\n", k.name, sizes[rows], lanes, bag, lookup, times.Bag*math.Pow(share, times.BagPower)/sms, times.Row*share/sms)
			}
		}
	}
	return strings.TrimSpace(b.String()), nil
}

// ceilingsTable has the best that the device reached beside the profile.
func ceilingsTable(m *measurements) (string, error) {
	hw := m.device.Profile()
	c := &m.fbgemm.anchors.Ceilings
	var b strings.Builder
	fmt.Fprint(&b, "| | measured | profile `h200` |\n|---|--:|--:|\n")
	fmt.Fprintf(&b, "| streaming copy, GB/s read and written | %.0f | %.0f |\n", c.Copy, hw.HBMGBps*hw.HBMEfficiency)
	fmt.Fprintf(&b, "| PyTorch's `embedding_bag` or `index_select`, random rows of 256 bytes, GB/s | %.0f | |\n", c.Gather)
	fmt.Fprintf(&b, "| sort, millions of 32-bit keys with places a second | %.0f | |\n", c.Sort)
	fmt.Fprintf(&b, "| clock under load, GHz | %.3f | %.3f |\n", c.Clock, hw.ClockGHz)
	return strings.TrimSpace(b.String()), nil
}
