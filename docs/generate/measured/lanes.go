package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// The wide table of the lanes experiment, and the number of narrow ones
// (python/src/neuroshard_worker/lanes.py).
const (
	narrowTables = 8
	wideColumns  = 128
	wideRows     = 1000
	wideEvery    = 100
	// lanesCases is the number of cases: precisions, weights, rows, pooling factors, lengths
	// and columns.
	lanesCases = 2 * 2 * 2 * 3 * 2 * 4
)

// lanesFile is lanes.json.
type lanesFile struct {
	Kernel string
	Lanes  []lanesEntry
	Sweep  []lanesEntry
	Wide   []struct {
		Batch       int
		DType       string
		Weighted    bool
		Wide, Floor quartiles
	}
	Verdict struct {
		Rule           string
		Ratio, Largest float64
	}
}

// quartiles are the lower quartile, the median and the upper quartile, in ms.
type quartiles struct {
	Forward  [3]float64 `json:"fwd_ms"`
	Backward [3]float64 `json:"bwd_ms"`
}

// lanesEntry is the times of one case.
type lanesEntry struct {
	Dim           int
	Rows          int64
	Batch         int
	PoolingFactor int `json:"pooling_factor"`
	Lengths       string
	DType         string
	Weighted      bool
	Alone, Beside quartiles
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// exponential are the lengths of bags whose coefficient of variation is 1.
const exponential = "exponential"

// narrow returns the tables of a case as the simulated device takes them.
func (e *lanesEntry) narrow() simulate.Op {
	op := simulate.Op{Batch: e.Batch, WeightBytes: 4, Weighted: e.Weighted, Optimizer: problem.SGD}
	if e.DType == "fp16" {
		op.WeightBytes = 2
	}
	cv := 0.0
	if e.Lengths == exponential {
		cv = 1
	}
	counts := access.Distribution{Kind: access.Uniform}.At(e.Rows, float64(e.PoolingFactor), e.Batch)
	for range narrowTables {
		op.Tables = append(op.Tables, simulate.Table{Rows: e.Rows, Dim: e.Dim, Counts: counts, LengthCV: cv})
	}
	return op
}

// alone and both return the times of the narrow tables alone, and beside the wide table.
func (e *lanesEntry) alone() point {
	return point{e.narrow(), e.Alone.Forward[1], e.Alone.Backward[1]}
}

func (e *lanesEntry) both() point {
	return point{beside(e.narrow()), e.Beside.Forward[1], e.Beside.Backward[1]}
}

// beside adds the wide table to the narrow ones.
func beside(op simulate.Op) simulate.Op {
	op.Tables = append(slices.Clone(op.Tables), simulate.Table{
		Rows: wideRows, Dim: wideColumns, Counts: access.Distribution{Kind: access.Uniform}.At(wideRows, 1./wideEvery, op.Batch),
	})
	return op
}

// empty returns the time of the empty bags of the wide table in ms, forward and backward; NaN
// if it was not measured.
func (f *lanesFile) empty(e *lanesEntry) (forward, backward float64) {
	for i := range f.Wide {
		w := &f.Wide[i]
		if w.Batch == e.Batch && w.DType == e.DType && w.Weighted == e.Weighted {
			return max(0, w.Wide.Forward[1]-w.Floor.Forward[1]), max(0, w.Wide.Backward[1]-w.Floor.Backward[1])
		}
	}
	return math.NaN(), math.NaN()
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

// ratios returns by how much the wide table slows the narrow ones, as measured and as
// simulated.
func (f *lanesFile) ratios(d *simulate.Device, e *lanesEntry) (measured, simulated [2]float64) {
	forward, backward := f.empty(e)
	measured = [2]float64{
		(e.Beside.Forward[1] - forward) / e.Alone.Forward[1],
		(e.Beside.Backward[1] - backward) / e.Alone.Backward[1],
	}
	op := e.narrow()
	aloneF, aloneB := d.Compute(op)
	bothF, bothB := d.Compute(beside(op))
	wide := op
	wide.Tables = beside(simulate.Op{Batch: op.Batch}).Tables
	wideF, wideB := d.Compute(wide)
	one := wide
	one.Batch = 1
	one.Tables = []simulate.Table{{Rows: wideRows, Dim: wideColumns, Counts: access.Counts{Lookups: 1, Unique: 1, Reuse: [access.Classes]float64{1}}}}
	oneF, oneB := d.Compute(one)
	simulated = [2]float64{
		float64(bothF-max(0, wideF-oneF)) / float64(aloneF),
		float64(bothB-max(0, wideB-oneB)) / float64(aloneB),
	}
	return measured, simulated
}

// lanesTable has the ratios of FBGEMM's kernels beside the simulated ones.
func lanesTable(m *measurements) (string, error) { return ratioTable(m, &m.fbgemm.lanes), nil }

// tritonLanesTable has the ratios of the worker's Triton kernels.
func tritonLanesTable(m *measurements) (string, error) { return ratioTable(m, &m.triton.lanes), nil }

// ratioTable sums up the ratios of all cases by columns, rows and lengths: the medians over
// pooling factors, precisions and weights, and the range.
func ratioTable(m *measurements, f *lanesFile) string {
	var b strings.Builder
	fmt.Fprint(&b, "| columns | rows | lengths | forward, measured | simulated | backward, measured | simulated |\n|--:|--:|---|--:|--:|--:|--:|\n")
	for _, c := range lanesClasses() {
		var columns [4][]float64
		for i := range f.Lanes {
			e := &f.Lanes[i]
			if e.Dim != c.dim || e.Rows != c.rows || e.Lengths != c.lengths {
				continue
			}
			measured, simulated := f.ratios(&m.device, e)
			for p := range 2 {
				columns[2*p] = append(columns[2*p], measured[p])
				columns[2*p+1] = append(columns[2*p+1], simulated[p])
			}
		}
		fmt.Fprintf(&b, "| %d | %s | %s |", c.dim, c.size(), c.lengths)
		for _, r := range columns {
			fmt.Fprintf(&b, " %.2f (%.2f-%.2f) |", median(r), slices.Min(r), slices.Max(r))
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "\nThe verdict of the script: `%s`, a ratio of %.2f in the median of the decisive cases, %.2f at most over all.", f.Verdict.Rule, f.Verdict.Ratio, f.Verdict.Largest)
	return b.String()
}

// A lanesClass is the cases of one line.
type lanesClass struct {
	dim     int
	rows    int64
	lengths string
}

// size returns the rows in words.
func (c lanesClass) size() string { return sizes[c.rows] }

// sizes are the numbers of rows of the experiment, in words.
var sizes = map[int64]string{100_000: "100,000", 10_000_000: "10 million"}

func lanesClasses() (all []lanesClass) {
	for _, dim := range []int{8, 16, 32, 64} {
		for _, rows := range []int64{100_000, 10_000_000} {
			for _, lengths := range []string{"equal", exponential} {
				all = append(all, lanesClass{dim, rows, lengths})
			}
		}
	}
	return all
}

func median(values []float64) float64 { return quantile(values, .5) }

// quantile returns the quantile of a share in [0, 1], interpolated between neighbours.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := share * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
