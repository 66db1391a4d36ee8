package access

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mathext"
)

// zipf.go counts independent draws: uniform ones and those of Zipf's law.
//
// In a batch of n draws row i is used Poisson(mean_i) times, mean_i its
// expected uses. What is wanted is, for each of the 17 class bounds
// m = 0, 1, 2, 4, ..., 32768, how many rows are used more than m times:
//
//	S(m) = sum over rows of F(m, mean_i),  F(m, x) = P(Poisson(x) > m)
//
// The classes are the differences of neighbouring S, and the distinct rows
// S(0). Uniform draws have one mean, so S is one evaluation.
//
// Zipf's law, mean_i = C i^-a: F falls from 1 to 0 where mean_i passes m, over
// ranks whose means differ by a few sqrt(m):
//
//	F  1 |-------.                   rank
//	     |        `.
//	   0 +----------`-------->
//	     |counted | window | nothing
//
// Ranks before the window count in full and need no evaluation. In the window,
// ranks are taken one by one while F changes noticeably from one to the next;
// from there on (few hundred ranks at most) the sum is an integral over the
// logarithm of the rank, by the midpoint form of Euler-Maclaurin's formula with
// its first correction, in bands of 12 Gauss-Legendre points each. That costs
// some dozen bands a bound whatever the number of rows, and agrees with the
// full sum to some 1e-6 of a class (access_test.go).

// uniform returns the counts of n draws from equally likely rows.
func uniform(rows, n float64) Counts {
	mean := n / rows
	var used [Classes]float64
	for j := range used {
		used[j] = rows * exceed(&bounds[j], mean)
	}
	c := classes(n, rows, &used)
	c.Most = mean
	return c
}

// zipf returns the counts of n draws, the i-th of the rows with a probability
// proportional to i^-a.
func zipf(rows, a, n float64) Counts {
	law := newZipfLaw(rows, a, n)
	var used [Classes]float64
	for j := range used {
		used[j] = law.usedMoreThan(&bounds[j])
		if used[j] == 0 {
			break
		}
	}
	c := classes(n, rows, &used)
	c.Most = law.mean(1)
	return c
}

// classes turns the numbers of rows used more often than each bound into shares.
func classes(n, rows float64, used *[Classes]float64) Counts {
	c := Counts{Lookups: n, Unique: min(used[0], rows, n)}
	if !(used[0] > 0) {
		return c
	}
	for j, above := range used {
		next := 0.0
		if j+1 < Classes {
			next = used[j+1]
		}
		c.Reuse[j] = max(0, above-next) / used[0]
	}
	return c
}

// bound is the lower bound of a use-count class: its rows are used more than m
// times.
type bound struct {
	m float64
	// lgamma is ln(m!). Above the mean high, 1 - F is below 1e-15 and the row
	// surely counts; below low, F is below 1e-15.
	lgamma, low, high float64
}

var bounds = func() (list [Classes]bound) {
	for j := range list {
		m := 0.0
		if j > 0 {
			m = math.Ldexp(1, j-1)
		}
		lgamma, _ := math.Lgamma(m + 1)
		down, up := reach(m + 1)
		list[j] = bound{m, lgamma, (m + 1) * math.Exp(-down), (m + 1) * math.Exp(up)}
	}
	return list
}()

// negligible is the natural logarithm of the inverse of what is neglected.
const negligible = 36

// reach returns how far below and above its peak, in ln x, the bell
// x^p exp(-x), p > 0, falls to exp(-negligible) of its height. With u the
// distance these are the roots of u + exp(-u) - 1 and of exp(u) - 1 - u equal
// to negligible/p. Both functions are convex, and Newton's method starts above
// the root.
func reach(p float64) (down, up float64) {
	want := negligible / p
	down = want + math.Min(1, math.Sqrt(2*want))
	up = math.Min(math.Sqrt(2*want), 2*math.Log1p(want))
	for range 50 {
		step := (down + math.Expm1(-down) - want) / -math.Expm1(-down)
		down -= step
		if math.Abs(step) < 1e-6*down {
			break
		}
	}
	for range 50 {
		step := (math.Expm1(up) - up - want) / math.Expm1(up)
		up -= step
		if math.Abs(step) < 1e-6*up {
			break
		}
	}
	return down, up
}

// exceed returns P(Poisson(mean) > b.m).
func exceed(b *bound, mean float64) float64 {
	switch {
	case mean >= b.high:
		return 1
	case mean <= 0:
		return 0
	case b.m == 0:
		return -math.Expm1(-mean)
	}
	return mathext.GammaIncReg(b.m+1, mean)
}

// zipfLaw gives rank i, from 1 to rows, the mean exp(scale) * i^-a.
type zipfLaw struct{ rows, a, scale float64 }

// newZipfLaw returns the law of n draws.
func newZipfLaw(rows, a, n float64) zipfLaw {
	return zipfLaw{rows: rows, a: a, scale: math.Log(n / harmonic(rows, a))}
}

func (z *zipfLaw) mean(rank float64) float64 {
	return math.Exp(z.scale - z.a*math.Log(rank))
}

// smooth is how many ranks the steepest part of a window must span, in units
// of its standard width, before an integral replaces the sum. What the formula's
// first correction leaves falls as the cube of it: at 4, some 1e-5 of a row.
const smooth = 4

// minSingle ranks are always taken one by one unless they surely count.
const minSingle = 24

// usedMoreThan returns the expected number of rows used more than b.m times.
func (z *zipfLaw) usedMoreThan(b *bound) float64 {
	// Ranks 1 to sure have means above b.high.
	sure := math.Floor(math.Exp(math.Min((z.scale-math.Log(b.high))/z.a, math.Log(z.rows))))
	sure = math.Min(sure, z.rows)
	sum := sure
	single := math.Min(z.rows, math.Max(minSingle, math.Ceil(smooth*z.a*math.Sqrt(b.m+1))))
	for rank := sure + 1; rank <= single; rank++ {
		mean := z.mean(rank)
		if mean < b.low {
			return sum
		}
		sum += exceed(b, mean)
	}
	if from := math.Max(sure, single); from < z.rows {
		sum += z.integral(b, from+0.5, z.rows+0.5)
	}
	return sum
}

// integral returns the sum of F(b.m, mean) over the ranks between from and to,
// both half-way between ranks. By parts, with v = ln x and m = b.m,
//
//	integral of F dx = [x F] + a * integral of exp(v) mean^(m+1) exp(-mean)/m! dv
//
// which needs F at the two ends only and elementary functions inside.
func (z *zipfLaw) integral(b *bound, from, to float64) float64 {
	start, end := math.Log(from), math.Log(to)
	sum := z.slope(b, from)/24 - from*exceed(b, z.mean(from))
	// In terms of the mean the integrand is a bell mean^p exp(-mean): it is cut
	// where it vanishes.
	if p := b.m + 1 - 1/z.a; p > 0 {
		down, up := reach(p)
		peak := (z.scale - math.Log(p)) / z.a
		if peak <= end { // else the integrand is largest at the end
			start = math.Max(start, peak-up/z.a)
		}
		end = math.Min(end, peak+down/z.a)
	}
	if end >= math.Log(to) {
		sum += to*exceed(b, z.mean(to)) - z.slope(b, to)/24
	}
	if start >= end {
		return math.Max(0, sum)
	}
	width := math.Min(bandWidth, bandWidth/(z.a*math.Sqrt(b.m+1)))
	bands := math.Ceil((end - start) / width)
	half := (end - start) / bands / 2
	total := 0.0
	for band := range int(bands) {
		mid := start + half*float64(2*band+1)
		for k, node := range nodes {
			v := mid + half*node
			u := z.scale - z.a*v
			total += weights[k] * math.Exp(v+(b.m+1)*u-math.Exp(u)-b.lgamma)
		}
	}
	return math.Max(0, sum+z.a*half*total)
}

// slope returns dF/drank, which is not above 0.
func (z *zipfLaw) slope(b *bound, rank float64) float64 {
	u := z.scale - z.a*math.Log(rank)
	return -z.a / rank * math.Exp((b.m+1)*u-math.Exp(u)-b.lgamma)
}

// bandWidth is the width of a band of the integral in standard widths of the
// bell, or in ln(rank) where that is narrower.
const bandWidth = 3

// nodes and weights are the points of Gauss and Legendre on [-1, 1].
var nodes, weights = func() (x, w [12]float64) {
	quad.Legendre{}.FixedLocations(x[:], w[:], -1, 1)
	return x, w
}()

// harmonic returns the sum of i^-a for i from 1 to rows: the first terms one by
// one, the rest by the formula of Euler and Maclaurin to its third derivative.
func harmonic(rows, a float64) float64 {
	const direct = 64
	sum, last := 0.0, math.Min(rows, direct)
	for i := last; i >= 1; i-- {
		sum += math.Exp(-a * math.Log(i))
	}
	if rows == last {
		return sum
	}
	at := func(x, power float64) float64 { return math.Exp(-power * math.Log(x)) }
	span := math.Log(rows / last)
	area := last * at(last, a) * span
	if z := (1 - a) * span; z != 0 {
		area *= math.Expm1(z) / z
	}
	return sum + area +
		(at(rows, a)-at(last, a))/2 -
		a/12*(at(rows, a+1)-at(last, a+1)) +
		a*(a+1)*(a+2)/720*(at(rows, a+3)-at(last, a+3))
}
