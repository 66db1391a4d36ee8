// Package policy is what learned placement policies share: the features of tables that their
// nets read (policy.go), and the folder that a trained policy is kept in (folder.go). Packages
// search/policy/dreamshard and search/policy/autoshard are the policies; package lab/reinforce trains them.
//
//	Describe            the features of the slices to be placed
//	Read, Folder.Write  a trained policy on disk, with its card
//
// A policy chooses devices and nothing else: package search counts the memory, and offers
// only devices with room.
package policy

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// The methods that policies are trained for, as package search names them.
const (
	DreamShard = "dreamshard"
	AutoShard  = "autoshard"
)

// Features is the number of features of a table.
const Features = 4 + access.Classes

// The indices of the features in a Vector.
const (
	Dim = iota
	Rows
	Pooling
	Size
	// Bins is the index of the first bin of the histogram; the others follow.
	Bins
)

// Vector holds the features of a table as both prototypes order them: dim in columns, rows,
// pooling factor, size (dim times rows, the number of weights), and the 17 bins of the
// histogram of reuse: the share of the distinct rows of a batch in each use-count class.
type Vector [Features]float64

// FeatureNames returns the names of the features, in the order of a Vector. The slice is the
// caller's.
func FeatureNames() []string {
	names := []string{"dim", "rows", "pooling_factor", "size"}
	for i := range access.Classes {
		names = append(names, fmt.Sprintf("bin_%d", i))
	}
	return names
}

// VectorOf returns the features of a slice of t that is dim columns wide, in a batch. To a
// policy, a slice of columns is a table with a smaller dim.
func VectorOf(t *problem.Table, dim, batch int) Vector {
	v := Vector{Dim: float64(dim), Rows: float64(t.Rows), Pooling: t.PoolingFactor(), Size: float64(dim) * float64(t.Rows)}
	bins := t.Reuse(batch)
	copy(v[Bins:], bins[:])
	return v
}

// Tables are the features of the tables of some pieces, as package search lists them
// (search.Policy): a piece is a slice of one table, or the tables of a co-location.
type Tables struct {
	// Vectors holds the features of each slice, in the order of the pieces. Rows
	// Offsets[i] up to, not including, Offsets[i+1] belong to piece i.
	Vectors []Vector
	Offsets []int32
	// Bytes is the memory that the weights of each piece take.
	Bytes []int64
}

// Describe returns the features of the pieces in the problem's batch. Slices of columns of the
// same table and width have the same features.
func Describe(p *problem.Problem, pieces [][]problem.Shard) Tables {
	t := Tables{Offsets: make([]int32, 1, 1+len(pieces))}
	reuse := make(map[int]Vector, len(p.Tables))
	for _, piece := range pieces {
		bytes := int64(0)
		for _, s := range piece {
			v, ok := reuse[s.Table]
			if !ok {
				v = VectorOf(&p.Tables[s.Table], p.Tables[s.Table].Dim, p.Batch)
				reuse[s.Table] = v
			}
			v[Dim] = float64(s.Columns.Len())
			v[Size] = v[Dim] * v[Rows]
			t.Vectors = append(t.Vectors, v)
			bytes += int64(p.ShardMemory(s)[problem.ForwardExchange].Used())
		}
		t.Bytes = append(t.Bytes, bytes)
		t.Offsets = append(t.Offsets, int32(len(t.Vectors)))
	}
	return t
}

// Pieces is the number of pieces.
func (t *Tables) Pieces() int { return len(t.Offsets) - 1 }

// Matrix holds the vectors of distinct slices as nets read them. Row 0 is a slice whose features are
// all 0, which stands for nothing.
type Matrix struct {
	// X holds the rows, Features numbers each.
	X     []float32
	scale func(Vector) Vector
	known map[Vector]int32
}

// NewMatrix returns a matrix of row 0 alone. scale makes what nets read of a vector.
func NewMatrix(scale func(Vector) Vector) *Matrix {
	return &Matrix{X: make([]float32, Features), scale: scale, known: map[Vector]int32{}}
}

// Add returns the rows of each piece, and adds those that are missing. Slices with the same
// features share a row, so that nets predict the same for them to the last bit.
func (r *Matrix) Add(t *Tables) [][]int32 {
	pieces := make([][]int32, t.Pieces())
	for i := range pieces {
		for _, v := range t.Vectors[t.Offsets[i]:t.Offsets[i+1]] {
			row, ok := r.known[v]
			if !ok {
				row = int32(len(r.X) / Features)
				r.known[v] = row
				for _, value := range r.scale(v) {
					r.X = append(r.X, float32(value))
				}
			}
			pieces[i] = append(pieces[i], row)
		}
	}
	return pieces
}
