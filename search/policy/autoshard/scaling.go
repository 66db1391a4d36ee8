package autoshard

import "github.com/neuroshard/neuroshard/search/policy"

// Scaling standardises dim, rows and pooling factor with constants of the training
// tables, which belong to the weights of a Net.
type Scaling struct {
	Mean      [standardised]float64
	Deviation [standardised]float64 // population standard deviation; 0 leaves the mean subtracted
}

// standardised is the number of features, from the first one on, that Scaling
// standardises.
const standardised = policy.Size

// NewScaling returns the constants of some tables.
func NewScaling(tables []policy.Vector) (s Scaling) {
	for i := range standardised {
		s.Mean[i], s.Deviation[i] = policy.Moments(tables, i)
	}
	return s
}

// Append appends the features of a table as the nets read them: standardised dim, rows
// and pooling factor, the GiB of the weights, and the shares of the reuse histogram.
func (s Scaling) Append(x []float32, v policy.Vector) []float32 {
	for i := range standardised {
		v[i] -= s.Mean[i]
		if s.Deviation[i] != 0 {
			v[i] /= s.Deviation[i]
		}
	}
	v[policy.Size] = GiB(v)
	for _, value := range v {
		x = append(x, float32(value))
	}
	return x
}

// GiB is the size of a table's weights in two bytes each, as published: what the policy
// sees of memory. What fits is decided by exact bytes, elsewhere.
func GiB(v policy.Vector) float64 { return v[policy.Size] * 2 / (1 << 30) }
