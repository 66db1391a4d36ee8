package watch

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// esd.go is the generalised extreme Studentized deviate test (B. Rosner, Technometrics 1983;
// NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.5.17.3), and its hybrid form
// with median and median absolute deviation (O. Vallis, J. Hochenbaum, A. Kejariwal, HotCloud
// 2014). Of n values, for i = 1, 2, ..., most:
//
//	R(i)      = max |x - center| / scale      of the values that are left; remove that value
//	lambda(i) = t (n-i) / sqrt((n-i-1+t^2) (n-i+1))
//
// with t the quantile at 1 - alpha/(n-i+1) of Student's distribution with n-i-1 degrees of
// freedom (at 1 - alpha/(2(n-i+1)) in the classic, two-sided form). The outliers are the first
// i values, for the largest i with R(i) > lambda(i). Sorted values make each i cost O(n) in the
// worst case, so the test costs O(n log n + most n).

// ESD is the form of the test.
type ESD struct {
	// Most is the largest number of outliers, below half of the values. Alpha is the chance of
	// finding any outlier among normal values.
	Most  int
	Alpha float64
	// Classic chooses mean and standard deviation, and the two-sided quantile, as Rosner has
	// them. Otherwise the test takes median and MAD, and the quantile as S-H-ESD has it.
	Classic bool
}

// Outliers returns the indices of the outliers, the most extreme first, and for each value
// that was removed its R and lambda. It returns nothing if there are fewer than 3 values or
// the values that are left do not differ.
func (e ESD) Outliers(values []float64) (outliers []int, r, lambda []float64) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case values[a] < values[b]:
			return -1
		case values[a] > values[b]:
			return 1
		}
		return 0
	})
	left := make([]float64, len(values))
	for i, at := range order {
		left[i] = values[at]
	}
	n, found := len(values), 0
	var removed []int
	for i := 1; i <= e.Most && n-i-1 >= 1; i++ {
		center, scale := e.center(left)
		if !(scale > 0) {
			break
		}
		at := 0
		if low, high := center-left[0], left[len(left)-1]-center; high > low {
			at = len(left) - 1
		}
		r = append(r, math.Abs(left[at]-center)/scale)
		lambda = append(lambda, e.lambda(n, i))
		removed = append(removed, order[at])
		if r[i-1] > lambda[i-1] {
			found = i
		}
		left, order = slices.Delete(left, at, at+1), slices.Delete(order, at, at+1)
	}
	return removed[:found], r, lambda
}

// lambda returns the value that R must exceed at removal i of n values.
func (e ESD) lambda(n, i int) float64 {
	sides := 1.0
	if e.Classic {
		sides = 2
	}
	rest := float64(n - i)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: rest - 1}.Quantile(1 - e.Alpha/(sides*(rest+1)))
	return t * rest / math.Sqrt((rest-1+t*t)*(rest+1))
}

// center returns the center and the scale of sorted values.
func (e ESD) center(sorted []float64) (center, scale float64) {
	if e.Classic {
		return stat.MeanStdDev(sorted, nil)
	}
	n := len(sorted)
	center = (sorted[(n-1)/2] + sorted[n/2]) / 2
	return center, toSigma * sortedDeviation(sorted, center)
}

// sortedDeviation returns the median distance of sorted values from their median: it walks
// outwards from the middle to the nearer value, to the half of the values.
func sortedDeviation(sorted []float64, center float64) float64 {
	n := len(sorted)
	low, high := n/2-1, n/2
	var previous, current float64
	for range n/2 + 1 {
		previous = current
		if high == n || low >= 0 && center-sorted[low] <= sorted[high]-center {
			current = center - sorted[low]
			low--
		} else {
			current = sorted[high] - center
			high++
		}
	}
	if n%2 == 1 {
		return current
	}
	return (previous + current) / 2
}
