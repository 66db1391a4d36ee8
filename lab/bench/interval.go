package bench

import (
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/neuroshard/neuroshard/search"
)

const (
	// resamples is the number of bootstrap samples of an interval, and resampleSeed seeds them.
	resamples    = 2000
	resampleSeed = 0x626f6f74
)

// Interval is a mean with its bootstrap interval of 95 %.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Against compares a method with a reference over the tasks that every method solved.
type Against struct {
	Reference search.Method `json:"reference"`
	// Ratio is the mean, over the tasks, of the method's cost to the reference's. Its interval
	// is paired: a bootstrap sample draws tasks, with the costs of both.
	Ratio Interval `json:"ratio"`
}

// meanOf returns the mean of the values, at least one, with its interval: the 2.5th and the
// 97.5th percentile of the means of samples that are drawn with replacement (Efron, 1979).
// The same values give the same interval.
func meanOf(values []float64) Interval {
	draw := rand.New(rand.NewPCG(resampleSeed, uint64(len(values))))
	means := make([]float64, resamples)
	for i := range means {
		sum := 0.0
		for range values {
			sum += values[draw.IntN(len(values))]
		}
		means[i] = sum / float64(len(values))
	}
	slices.Sort(means)
	return Interval{mean(values), stat.Quantile(.025, stat.Empirical, means, nil), stat.Quantile(.975, stat.Empirical, means, nil)}
}
