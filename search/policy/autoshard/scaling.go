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

// Of returns the features of a table as the nets read them: standardised dim, rows and pooling
// factor, the GiB of the weights, and the shares of the reuse histogram.
func (s Scaling) Of(v policy.Vector) policy.Vector {
	for i := range standardised {
		v[i] -= s.Mean[i]
		if s.Deviation[i] != 0 {
			v[i] /= s.Deviation[i]
		}
	}
	v[policy.Size] = gib(v)
	return v
}

// gib is the size of a table's weights in two bytes each, as published: what the policy
// sees of memory. What fits is decided by exact bytes, elsewhere.
func gib(v policy.Vector) float64 { return v[policy.Size] * 2 / (1 << 30) }

// GiB returns the size of each piece that the policy sees.
func GiB(t *policy.Tables) []float64 {
	sizes := make([]float64, t.Pieces())
	for i := range sizes {
		for _, v := range t.Vectors[t.Offsets[i]:t.Offsets[i+1]] {
			sizes[i] += gib(v)
		}
	}
	return sizes
}
