// Package stats has what the statistics of times need beside gonum's: quantiles between neighbours
// (quantile.go), whether two lists of numbers put the same items in the same order (kendall.go), and
// whether the numbers of one list are below those of the other (signed.go).
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Kendall returns Kendall's tau-b of two lists of equal length: 1 if the lists put
// their items in the same order, -1 if in the opposite order. If all numbers are
// equal in both lists it returns 1, and 0 if they are equal in one list only. It
// panics if the lengths differ.
//
// It is Knight's algorithm (J. Am. Stat. Assoc. 61, 1966), O(n log n): sort by a,
// with ties by b. Then sort by b with a merge sort, and count the exchanges, which
// are the pairs in opposite order.
func Kendall(a, b []float64) float64 {
	if len(a) != len(b) {
		panic("stats: lengths do not match")
	}
	n := len(a)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(a[i], a[j]), cmp.Compare(b[i], b[j]))
	})
	x, y := make([]float64, n), make([]float64, n)
	for k, i := range order {
		x[k], y[k] = a[i], b[i]
	}
	pairs := float64(n) * float64(n-1) / 2
	tiesA := ties(n, func(i, j int) bool { return x[i] == x[j] })
	tiesBoth := ties(n, func(i, j int) bool { return x[i] == x[j] && y[i] == y[j] })
	opposite := inversions(y, make([]float64, n))
	tiesB := ties(n, func(i, j int) bool { return y[i] == y[j] }) // y is sorted now
	switch {
	case pairs == tiesA && pairs == tiesB:
		return 1
	case pairs == tiesA || pairs == tiesB:
		return 0
	}
	// A pair that is tied in neither list is in the same or in the opposite order.
	same := pairs - tiesA - tiesB + tiesBoth - opposite
	return (same - opposite) / math.Sqrt((pairs-tiesA)*(pairs-tiesB))
}

// ties counts the pairs of equal items among n that lie in runs.
func ties(n int, equal func(i, j int) bool) float64 {
	pairs, run := 0., 1.
	for i := 1; i <= n; i++ {
		if i < n && equal(i-1, i) {
			run++
			continue
		}
		pairs += run * (run - 1) / 2
		run = 1
	}
	return pairs
}

// inversions sorts the values by merging and returns the number of pairs that
// were in falling order. room is scratch memory of the length of values.
func inversions(values, room []float64) float64 {
	n := len(values)
	if n < 2 {
		return 0
	}
	left, right := values[:n/2], values[n/2:]
	count := inversions(left, room[:n/2]) + inversions(right, room[n/2:])
	i, j := 0, 0
	for k := range room {
		if j == len(right) || i < len(left) && left[i] <= right[j] {
			room[k] = left[i]
			i++
		} else {
			room[k] = right[j]
			j++
			count += float64(len(left) - i)
		}
	}
	copy(values, room)
	return count
}
