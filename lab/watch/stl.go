package watch

import (
	"errors"
	"math"
	"slices"
)

// stl.go takes a series apart into seasonal, trend and remainder: STL (R. B. Cleveland, W. S.
// Cleveland, J. E. McRae, I. Terpenning, Journal of Official Statistics 1990). The names of the
// parameters are the paper's. The inner loop, with y the series and p its period:
//
//	C        = each cycle-subseries of y - trend, smoothed by loess over ns cycles, and
//	           extended by one cycle at each end
//	L        = moving averages of C over p, p and 3, smoothed by loess over nl
//	seasonal = C - L
//	trend    = y - seasonal, smoothed by loess over nt
//
// The outer loop gives values with a large remainder less weight. The cost is O(n (ns/p + nl +
// nt)) for each run of the inner loop.

// STL holds the parameters of a decomposition. The zero value of each field but Period stands
// for its default.
type STL struct {
	// Period is the number of values of one cycle, at least 2.
	Period int
	// Seasonal, Trend and LowPass are ns, nt and nl, odd numbers of at least 3. Defaults: 10 n
	// + 1, and the least odd numbers of at least 1.5 p / (1 - 1.5/ns) and p.
	Seasonal, Trend, LowPass int
	// SeasonalDegree is the degree of the loess of the cycle-subseries: 0 or 1. Trend and low
	// pass have degree 1.
	SeasonalDegree int
	// Inner and Outer are the numbers of runs of the two loops: 2 and 0.
	Inner, Outer int
	// Periodic replaces the seasonal part by its mean at each place of the cycle, so that all
	// cycles are alike.
	Periodic bool
}

func (s STL) withDefaults(n int) STL {
	odd := func(x float64) int {
		least := int(math.Ceil(x))
		return least + 1 - least%2
	}
	if s.Seasonal == 0 {
		s.Seasonal = 10*n + 1
	}
	if s.Trend == 0 {
		s.Trend = odd(1.5 * float64(s.Period) / (1 - 1.5/float64(s.Seasonal)))
	}
	if s.LowPass == 0 {
		s.LowPass = odd(float64(s.Period))
	}
	if s.Inner == 0 {
		s.Inner = 2
	}
	return s
}

// Decompose returns the seasonal and the trend part of a series of at least two periods. What
// is left of the series is the remainder.
func (s STL) Decompose(y []float64) (seasonal, trend []float64, err error) {
	n, p := len(y), s.Period
	if p < 2 || n < 2*p {
		return nil, nil, errors.New("a series must have at least two periods, and a period at least two values")
	}
	s = s.withDefaults(n)
	for _, q := range []int{s.Seasonal, s.Trend, s.LowPass} {
		if q < 3 || q%2 == 0 {
			return nil, nil, errors.New("the widths of the smoothing must be odd numbers of at least 3")
		}
	}
	seasonal, trend = make([]float64, n), make([]float64, n)
	var weights []float64 // nil: all are 1
	for outer := 0; ; outer++ {
		for range s.Inner {
			s.inner(y, weights, seasonal, trend)
		}
		if outer == s.Outer {
			break
		}
		weights = robustness(y, seasonal, trend)
	}
	if s.Periodic {
		periodic(seasonal, p)
	}
	return seasonal, trend, nil
}

// inner is one run of the inner loop.
func (s STL) inner(y, weights, seasonal, trend []float64) {
	n, p := len(y), s.Period
	cycle := make([]float64, n+2*p)
	for phase := range p {
		var sub, w []float64
		for i := phase; i < n; i += p {
			sub = append(sub, y[i]-trend[i])
			if weights != nil {
				w = append(w, weights[i])
			}
		}
		for i := -1; i <= len(sub); i++ {
			cycle[phase+(i+1)*p] = loess(sub, w, s.Seasonal, s.SeasonalDegree, i)
		}
	}
	low := average(average(average(cycle, p), p), 3)
	for i := range n {
		seasonal[i] = cycle[p+i] - loess(low, nil, s.LowPass, 1, i)
	}
	rest := make([]float64, n)
	for i := range rest {
		rest[i] = y[i] - seasonal[i]
	}
	for i := range trend {
		trend[i] = loess(rest, weights, s.Trend, 1, i)
	}
}

// average returns the moving averages over q values.
func average(x []float64, q int) []float64 {
	out := make([]float64, len(x)-q+1)
	sum := 0.0
	for i, v := range x {
		sum += v
		if i >= q {
			sum -= x[i-q]
		}
		if i >= q-1 {
			out[i-q+1] = sum / float64(q)
		}
	}
	return out
}

// loess returns the value at place at, which may be just outside, of the locally weighted line
// (degree 1) or mean (degree 0) of the q values that are nearest. weights may be nil. If all
// weights are 0, it is the value itself, or the nearest one.
func loess(y, weights []float64, q, degree, at int) float64 {
	n := len(y)
	first := max(0, min(at-q/2, n-q))
	last := min(n-1, first+q-1)
	reach := float64(max(at-first, last-at))
	if q > n {
		reach += float64((q - n) / 2)
	}
	var sum, mean float64
	w := make([]float64, last-first+1)
	for i := first; i <= last; i++ {
		away := math.Abs(float64(i - at))
		v := 0.0
		if away <= 0.999*reach {
			v = 1
			if away > 0.001*reach {
				r := away / reach
				r = 1 - r*r*r
				v = r * r * r
			}
			if weights != nil {
				v *= weights[i]
			}
		}
		w[i-first] = v
		sum += v
		mean += v * float64(i)
	}
	if sum <= 0 {
		return y[max(0, min(n-1, at))]
	}
	if degree > 0 && reach > 0 {
		tilt(w, first, float64(at), mean/sum, sum, n)
	}
	value := 0.0
	for i, v := range w {
		value += v / sum * y[first+i]
	}
	return value
}

// tilt changes the weights of a mean into those of a line, unless the places are too close.
func tilt(w []float64, first int, at, mean, sum float64, n int) {
	variance := 0.0
	for i, v := range w {
		d := float64(first+i) - mean
		variance += v / sum * d * d
	}
	if math.Sqrt(variance) <= 0.001*float64(n-1) {
		return
	}
	slope := (at - mean) / variance
	for i := range w {
		w[i] *= slope*(float64(first+i)-mean) + 1
	}
}

// robustness returns bisquare weights of the remainders: 1 for small ones, 0 beyond six times
// their median.
func robustness(y, seasonal, trend []float64) []float64 {
	away := make([]float64, len(y))
	for i := range y {
		away[i] = math.Abs(y[i] - seasonal[i] - trend[i])
	}
	limit := 6 * median(slices.Clone(away))
	for i, a := range away {
		switch {
		case a <= 0.001*limit:
			away[i] = 1
		case a <= 0.999*limit:
			r := a / limit
			away[i] = (1 - r*r) * (1 - r*r)
		default:
			away[i] = 0
		}
	}
	return away
}

// periodic replaces each value by the mean of its place in the cycle.
func periodic(x []float64, p int) {
	for phase := range p {
		sum, count := 0.0, 0
		for i := phase; i < len(x); i += p {
			sum += x[i]
			count++
		}
		for i := phase; i < len(x); i += p {
			x[i] = sum / float64(count)
		}
	}
}
