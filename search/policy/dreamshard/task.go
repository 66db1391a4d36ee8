package dreamshard

import "github.com/neuroshard/neuroshard/search/policy"

// Task is the tables of one task as the nets read them.
type Task struct {
	// x holds the features of the distinct slices, Features each, and before them the
	// features of the table that an empty device holds, which are all 0.
	x []float32
	// rows lists the rows of x of each piece: rows[offsets[i]:offsets[i+1]].
	rows, offsets []int32
	// bytes is the memory that the weights of each piece take.
	bytes []int64
}

// emptyRow is the row of the table that an empty device holds.
const emptyRow = 0

// scaled are the features that are standardised inside a task: the same table looks different
// in another task, and the nets never see an absolute scale.
var scaled = []int{policy.Rows, policy.Pooling, policy.Size}

// NewTask standardises the tables of a task: rows, pooling factor and size to mean 0 and
// deviation 1 over the slices of the task, in float64; dim and bins stay. A feature that all
// slices have alike becomes 0. Slices with the same features share a row, so that they are
// predicted alike to the last bit.
func NewTask(t policy.Tables) *Task {
	task := &Task{x: make([]float32, policy.Features), offsets: t.Offsets, rows: make([]int32, len(t.Vectors)), bytes: make([]int64, t.Pieces())}
	for i := range task.bytes {
		for _, bytes := range t.Bytes[t.Offsets[i]:t.Offsets[i+1]] {
			task.bytes[i] += bytes
		}
	}
	var mean, deviation policy.Vector
	for _, f := range scaled {
		mean[f], deviation[f] = policy.Moments(t.Vectors, f)
	}
	known := make(map[policy.Vector]int32, len(t.Vectors))
	for i, v := range t.Vectors {
		row, ok := known[v]
		if !ok {
			row = int32(len(task.x) / policy.Features)
			known[v] = row
			for _, f := range scaled {
				if v[f] -= mean[f]; deviation[f] > 0 {
					v[f] /= deviation[f]
				}
			}
			for _, value := range v {
				task.x = append(task.x, float32(value))
			}
		}
		task.rows[i] = row
	}
	return task
}

// Pieces is the number of pieces.
func (t *Task) Pieces() int { return len(t.offsets) - 1 }

// count is the number of rows of x.
func (t *Task) count() int { return len(t.x) / policy.Features }

// of returns the rows of a piece.
func (t *Task) of(piece int32) []int32 { return t.rows[t.offsets[piece]:t.offsets[piece+1]] }

// sum adds the embedded rows of a piece to a device's sum. embedded holds all rows.
func (t *Task) sum(piece int32, embedded, to []float32) {
	for _, row := range t.of(piece) {
		for i, v := range embedded[int(row)*embed : (int(row)+1)*embed] {
			to[i] += v
		}
	}
}
