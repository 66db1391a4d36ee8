package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/stats"
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
)

// lanesFile is lanes.json.
type lanesFile struct {
	Lanes []lanesEntry
	Wide  []struct {
		Batch       int
		DType       string
		Weighted    bool
		Wide, Floor quartiles
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

// fitPoints returns the times of the lanes experiment without weights, alone and beside the
// wide table.
func (f *lanesFile) fitPoints() (points []point) {
	for i := range f.Lanes {
		if e := &f.Lanes[i]; !e.Weighted {
			points = append(points, e.alone(), e.both())
		}
	}
	return points
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

// lanesTable has by how much a wide table slows narrow ones with FBGEMM's kernels, by the columns
// of the narrow tables: medians over rows, pooling factors, lengths, precisions and weights.
func lanesTable(m *measurements) string {
	var b strings.Builder
	fmt.Fprint(&b, "| columns | forward, measured | simulated | backward, measured | simulated |\n|--:|--:|--:|--:|--:|")
	for _, dim := range []int{8, 16, 32, 64} {
		var columns [4][]float64
		for i := range m.lanes.Lanes {
			if e := &m.lanes.Lanes[i]; e.Dim == dim {
				measured, simulated := m.lanes.ratios(&m.device, e)
				for p := range 2 {
					columns[2*p] = append(columns[2*p], measured[p])
					columns[2*p+1] = append(columns[2*p+1], simulated[p])
				}
			}
		}
		fmt.Fprintf(&b, "\n| %d |", dim)
		for _, r := range columns {
			fmt.Fprintf(&b, " %.2f |", stats.Median(r))
		}
	}
	return b.String()
}

// weightShares returns, for each case with weights and the same case without, the difference of
// the backwards over the weighted forward less its fixed time.
func weightShares(f *lanesFile) (alone, beside []float64) {
	type key struct {
		dim, pooling, batch int
		rows                int64
		lengths, dtype      string
	}
	without := map[key]*lanesEntry{}
	keyOf := func(e *lanesEntry) key {
		return key{e.Dim, e.PoolingFactor, e.Batch, e.Rows, e.Lengths, e.DType}
	}
	for i := range f.Lanes {
		if e := &f.Lanes[i]; !e.Weighted {
			without[keyOf(e)] = e
		}
	}
	share := func(weighted, plain *quartiles) float64 {
		return (weighted.Backward[1] - plain.Backward[1]) / (weighted.Forward[1] - simulate.ForwardFixedUS/1000)
	}
	for i := range f.Lanes {
		e := &f.Lanes[i]
		plain := without[keyOf(e)]
		if !e.Weighted || plain == nil {
			continue
		}
		alone = append(alone, share(&e.Alone, &plain.Alone))
		beside = append(beside, share(&e.Beside, &plain.Beside))
	}
	return alone, beside
}
