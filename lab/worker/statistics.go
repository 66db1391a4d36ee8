package worker

import (
	"math"

	"github.com/neuroshard/neuroshard/internal/stats"
)

// middle returns the median and the interquartile range of times in ms, to the nanosecond.
func middle(times []float64) (median, spread float64) {
	nano := func(ms float64) float64 { return math.Round(ms*1e6) / 1e6 }
	return nano(stats.Median(times)), nano(stats.Quantile(times, .75) - stats.Quantile(times, .25))
}
