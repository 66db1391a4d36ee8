package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// The wide table of the lanes experiment, and the number of narrow ones.
const (
	narrowTables = 8
	wideColumns  = 128
	wideRows     = 1000
	wideEvery    = 100
)

// lanesFile is lanes.json.
type lanesFile struct {
	Lanes []lanesEntry
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

// readJSON reads a file as one value.
func readJSON[T any](folder, name string) (v T) {
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(folder, name))), &v); err != nil {
		panic("generate: " + name + ": " + err.Error())
	}
	return v
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
