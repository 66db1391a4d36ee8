package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// anchorsFile is anchors.json.
type anchorsFile struct {
	Batch         int
	Rows          int64
	PoolingFactor int `json:"pooling_factor"`
	Ceilings      struct {
		Copy   float64 `json:"copy_gbps"`
		Gather float64 `json:"gather_gbps"`
		Cached float64 `json:"cached_gather_gbps"`
		Sort   float64 `json:"sort_mkeys"`
		Clock  float64 `json:"clock_ghz"`
	}
	Single []struct {
		Mode     string
		Dim      int
		Forward  float64 `json:"fwd_ms"`
		Backward float64 `json:"bwd_ms"`
	}
	Mixed []struct {
		ForwardOverSum  float64 `json:"fwd_over_sum"`
		BackwardOverSum float64 `json:"bwd_over_sum"`
	}
}

// timesTable has the simulated over the measured times: of eight tables alone by pooling
// factor, rows and columns, and of one table by mode and columns.
func timesTable(m *measurements) (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, "| eight tables, simulated over measured | lookups a bag | rows | 8 columns | 16 | 32 | 64 |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, pass := range []string{"forward", "backward"} {
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
	a := &m.fbgemm.anchors
	for _, mode := range modes() {
		for _, pass := range []string{"forward", "backward"} {
			fmt.Fprintf(&b, "| %s | %s |", mode.name, pass)
			for _, dim := range columns {
				forward, backward := m.device.Compute(simulate.Op{
					Batch: a.Batch, WeightBytes: mode.bytes, Weighted: mode.weighted, Optimizer: mode.optimizer,
					Tables: []simulate.Table{{Rows: a.Rows, Dim: dim, Counts: access.Distribution{Kind: access.Uniform}.At(a.Rows, float64(a.PoolingFactor), a.Batch)}},
				})
				for i := range a.Single {
					if s := &a.Single[i]; s.Mode == mode.name && s.Dim == dim {
						fmt.Fprintf(&b, " %.2f |", ratio(pass, forward, backward, s.Forward, s.Backward))
					}
				}
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
		forward, backward := m.device.Compute(e.narrow())
		ratios = append(ratios, ratio(pass, forward, backward, e.Alone.Forward[1], e.Alone.Backward[1]))
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// ratio returns the simulated over the measured time of a pass.
func ratio(pass string, forward, backward unit.Millis, measuredForward, measuredBackward float64) float64 {
	if pass == "forward" {
		return float64(forward) / measuredForward
	}
	return float64(backward) / measuredBackward
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

// fitTable has what a bag and a lookup take in the forward of narrow rows: the line through
// the times of eight tables of 8 columns, fp32, unweighted, equal bags, with 1 and with 10
// lookups a bag; alone (8 lanes a bag) and beside the wide table (32 lanes).
func fitTable(m *measurements) (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, "| kernels | rows | lanes of a bag | a bag, ns | a lookup, ns | a bag, cycles of a multiprocessor | a lookup, cycles | simulated: a bag | a lookup |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	hw := m.device.Profile()
	for _, k := range []struct {
		name  string
		times *kernelTimes
	}{{"FBGEMM", &m.fbgemm}, {"Triton", &m.triton}} {
		f := &k.times.lanes
		clock := k.times.anchors.Ceilings.Clock * float64(hw.SMs)
		for _, rows := range []int64{100_000, 10_000_000} {
			for _, lanes := range []int{8, 32} {
				bag, lookup := f.line(rows, lanes)
				share := float64(lanes) / 32
				row, each := hw.IssueCycles()
				fmt.Fprintf(&b, "| %s | %s | %d | %.4f | %.4f | %.0f | %.1f | %.1f | %.1f |\n", k.name, sizes[rows], lanes, bag, lookup, bag*clock, lookup*clock, each*share, row*share)
			}
		}
	}
	return strings.TrimSpace(b.String()), nil
}

// line returns the ns of a bag and of a lookup.
func (f *lanesFile) line(rows int64, lanes int) (bag, lookup float64) {
	var at [2]float64 // with 1 and with 10 lookups a bag
	bags := 0.0
	for i := range f.Lanes {
		e := &f.Lanes[i]
		if e.Dim != 8 || e.Rows != rows || e.Lengths != "equal" || e.DType != "fp32" || e.Weighted || e.PoolingFactor > 10 {
			continue
		}
		bags = float64(narrowTables * e.Batch)
		time := e.Alone.Forward[1]
		if lanes == 32 {
			empty, _ := f.empty(e)
			time = e.Beside.Forward[1] - empty
		}
		at[min(e.PoolingFactor-1, 1)] = time
	}
	lookup = (at[1] - at[0]) / (9 * bags) * 1e6
	return at[0]/bags*1e6 - lookup, lookup
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
