package prototype

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// maxResults is the most results in a file.
const maxResults = 100_000

// Result is one record of a results file: a plan and its costs.
type Result struct {
	Setting string `json:"setting"`
	// Task is the number of the task in its file, from 0.
	Task int `json:"task"`
	// Method is the prototype's name of the method; its "neuroshard" is the
	// published search.
	Method    string  `json:"alg"`
	Devices   int     `json:"ndevices"`
	MemoryGiB float64 `json:"max_mem"`
	// Tables is the number of tables of the task; 0 if the record does not state it.
	Tables int `json:"T"`
	// Steps lists the column splits, in order: each halves an entry of the list
	// of slices and appends a copy of it. Shards lists each device's entries; nil
	// if there is no plan.
	Steps  []int   `json:"steps"`
	Shards [][]int `json:"shards"`
	// Valid is true for a plan that fits; Cost, in ms, is nil otherwise.
	Valid bool          `json:"valid"`
	Cost  *float64      `json:"cost"`
	Parts ResultDevices `json:"device"`
}

// ResultDevices are the numbers of a result, one for each device. Times are in ms.
type ResultDevices struct {
	SizesGiB     []float64 `json:"sizes_gb"`
	Dims         []int     `json:"dims"`
	Compute      []float64 `json:"compute"`
	BackwardComm []float64 `json:"bw_comm"`
	ForwardComm  []float64 `json:"fw_comm"`
	Total        []float64 `json:"total"`
}

// ReadResults reads a list of results, gzipped or not. A record needs only its task
// and its plan; other fields may be missing.
func ReadResults(name string, r io.Reader) ([]Result, error) {
	data, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	var results []Result
	if err := decode(name, data, &results); err != nil {
		return nil, err
	}
	if len(results) == 0 || len(results) > maxResults {
		return nil, fmt.Errorf("%s: %d results, want 1 to %d", name, len(results), maxResults)
	}
	for i := range results {
		r := &results[i]
		if r.Task < 0 || r.Task >= maxTasks || len(r.Shards) > maxDevices || len(r.Steps) > maxTaskTables {
			return nil, fmt.Errorf("%s: result %d: task %d, %d devices and %d steps: want at most %d, %d and %d", name, i, r.Task, len(r.Shards), len(r.Steps), maxTasks-1, maxDevices, maxTaskTables)
		}
	}
	return results, nil
}

// Placement returns the plan as shards of p, the problem of the result's task,
// device by device. A split cuts a slice into its left and its right columns.
// Placement fails if the plan does not place every column of p once, on p's
// devices.
func (r *Result) Placement(p *problem.Problem) ([][]problem.Shard, error) {
	if r.Shards == nil {
		return nil, errors.New("the record does not hold a plan")
	}
	if len(r.Shards) != p.Topology.Devices {
		return nil, fmt.Errorf("shards: %d devices, want %d", len(r.Shards), p.Topology.Devices)
	}
	slices := make([]problem.Shard, len(p.Tables))
	for i := range slices {
		slices[i] = p.Whole(i)
	}
	for k, i := range r.Steps {
		if i < 0 || i >= len(slices) {
			return nil, fmt.Errorf("steps: number %d is %d, where the slices are 0 to %d", k, i, len(slices)-1)
		}
		left, right := slices[i], slices[i]
		if left.Dim()%(2*problem.ColumnGranule) != 0 {
			return nil, fmt.Errorf("steps: number %d halves a slice of dim %d, which is not a multiple of %d", k, left.Dim(), 2*problem.ColumnGranule)
		}
		middle := left.Columns.Start + int64(left.Dim()/2)
		left.Columns.End, right.Columns.Start = middle, middle
		slices[i] = left
		slices = append(slices, right)
	}
	return r.place(slices)
}

// place returns the slices of each device, and fails if a slice is not placed once.
func (r *Result) place(list []problem.Shard) ([][]problem.Shard, error) {
	placed := make([]bool, len(list))
	shards := make([][]problem.Shard, len(r.Shards))
	for d, held := range r.Shards {
		for _, i := range held {
			if i < 0 || i >= len(list) {
				return nil, fmt.Errorf("shards: device %d holds %d, where the slices are 0 to %d", d, i, len(list)-1)
			}
			if placed[i] {
				return nil, fmt.Errorf("shards: slice %d is placed twice", i)
			}
			placed[i] = true
			shards[d] = append(shards[d], list[i])
		}
	}
	if i := slices.Index(placed, false); i >= 0 {
		return nil, fmt.Errorf("shards: slice %d is placed nowhere", i)
	}
	return shards, nil
}
