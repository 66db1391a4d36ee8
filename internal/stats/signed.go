package stats

import (
	"cmp"
	"math"
	"slices"
)

// exactPairs is the largest number of differences for which Wilcoxon counts all signs. Above it,
// the normal distribution is within 0.002 of the exact p-value.
const exactPairs = 50

// Wilcoxon returns the one-sided p-value of Wilcoxon's signed-rank test that paired
// differences are below 0 rather than as often above: the probability that differences
// whose signs are drawn evenly have a sum of positive ranks at most as large as these have. The
// ranks are those of the absolute differences; equal ones share the mean of their ranks, and
// differences of 0 are left out. Without a difference it returns 1. No difference may be NaN.
//
// Up to 50 differences the p-value is exact, of more it is that of the normal distribution
// with the same mean and variance and a correction for continuity (F. Wilcoxon, "Individual
// comparisons by ranking methods", Biometrics Bulletin 1, 1945).
func Wilcoxon(differences []float64) float64 {
	sorted := slices.DeleteFunc(slices.Clone(differences), func(d float64) bool { return d == 0 })
	if len(sorted) == 0 {
		return 1
	}
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	// Twice the ranks, because shared ranks may end in a half.
	twice := make([]int, len(sorted))
	positive, all := 0, 0
	for first := 0; first < len(sorted); {
		end := first + 1
		for end < len(sorted) && math.Abs(sorted[end]) == math.Abs(sorted[first]) {
			end++
		}
		for i := first; i < end; i++ {
			twice[i] = first + 1 + end
			if all += twice[i]; sorted[i] > 0 {
				positive += twice[i]
			}
		}
		first = end
	}
	if len(sorted) > exactPairs {
		return belowNormally(twice, positive, all)
	}
	// share[s] is the share of all choices of signs whose positive ranks have the sum s / 2.
	share := make([]float64, all+1)
	share[0] = 1
	for _, r := range twice {
		for s := all; s >= 0; s-- {
			share[s] /= 2
			if s >= r {
				share[s] += share[s-r] / 2
			}
		}
	}
	p := 0.
	for _, s := range share[:positive+1] {
		p += s
	}
	return min(1, p)
}

// belowNormally returns the p-value by the normal distribution. The sums are of twice the ranks.
func belowNormally(twice []int, positive, all int) float64 {
	squares := 0.
	for _, r := range twice {
		squares += float64(r) * float64(r)
	}
	mean, deviation := float64(all)/2, math.Sqrt(squares)/2
	return math.Erfc(-(float64(positive)+1-mean)/deviation/math.Sqrt2) / 2
}
