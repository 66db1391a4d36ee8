package prototype

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// Vector holds a table's features in the order of the compute net's inputs.
type Vector [Features]float64

// binOrder holds, for each use-count class, its place in a Vector. Names are sorted
// as strings, so bin_10 to bin_16 lie between bin_1 and bin_2.
var binOrder = [access.Classes]int{0, 1, 9, 10, 11, 12, 13, 14, 15, 16, 2, 3, 4, 5, 6, 7, 8}

// VectorOf returns the features of a slice of t that is dim columns wide. The
// bins are the table's histogram for the batch size Batch.
func VectorOf(t *problem.Table, dim int) Vector {
	var v Vector
	for class, share := range t.Reuse(Batch) {
		v[binOrder[class]] = share
	}
	v[17], v[18], v[19] = float64(dim), t.PoolingFactor(), float64(t.Rows)
	return v
}
