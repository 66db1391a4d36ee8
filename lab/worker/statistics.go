package worker

import (
	"math"
	"slices"
)

// middle returns the median and the interquartile range of times in ms, to the
// nanosecond. It sorts the times. Quartiles between two times are interpolated.
func middle(times []float64) (median, spread float64) {
	slices.Sort(times)
	at := func(q float64) float64 {
		x := q * float64(len(times)-1)
		low := int(x)
		high := min(low+1, len(times)-1)
		return times[low] + (x-float64(low))*(times[high]-times[low])
	}
	nano := func(ms float64) float64 { return math.Round(ms*1e6) / 1e6 }
	return nano(at(.5)), nano(at(.75) - at(.25))
}
