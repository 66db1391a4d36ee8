package dreamshard

import "github.com/neuroshard/neuroshard/search/policy"

// Task is the tables of one task as the nets read them.
type Task struct {
	// x holds the features of the distinct slices, Features each, and before them the
	// features of the table that an empty device holds, which are all 0.
	x []float32
	// rows lists the rows of x of each piece.
	rows [][]int32
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
// slices have alike becomes 0.
func NewTask(t policy.Tables) *Task {
	var mean, deviation policy.Vector
	for _, f := range scaled {
		mean[f], deviation[f] = policy.Moments(t.Vectors, f)
	}
	rows := policy.NewMatrix(func(v policy.Vector) policy.Vector {
		for _, f := range scaled {
			if v[f] -= mean[f]; deviation[f] > 0 {
				v[f] /= deviation[f]
			}
		}
		return v
	})
	task := &Task{rows: rows.Add(&t), bytes: t.Bytes}
	task.x = rows.X
	return task
}

// Pieces is the number of pieces.
func (t *Task) Pieces() int { return len(t.rows) }

// count is the number of rows of x.
func (t *Task) count() int { return len(t.x) / policy.Features }

// of returns the rows of a piece.
func (t *Task) of(piece int32) []int32 { return t.rows[piece] }

// sum adds the embedded rows of a piece to a device's sum. embedded holds all rows.
func (t *Task) sum(piece int32, embedded, to []float32) {
	for _, row := range t.of(piece) {
		for i, v := range embedded[int(row)*embed : (int(row)+1)*embed] {
			to[i] += v
		}
	}
}
