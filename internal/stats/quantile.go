package stats

import "slices"

// Quantile returns the value below which a share of the values lie, interpolated linearly between
// neighbours: the least value for a share of 0, and the largest for 1. There must be a value.
func Quantile[V ~float64](values []V, share float64) V {
	sorted := slices.Sorted(slices.Values(values))
	at := share * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + V(at-float64(low))*(sorted[high]-sorted[low])
}

// Median returns the value in the middle, or the mean of both of an even number.
func Median[V ~float64](values []V) V { return Quantile(values, .5) }
