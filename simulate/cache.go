package simulate

import (
	"math"

	"github.com/neuroshard/neuroshard/problem/access"
)

// cache.go estimates how many row reads of a batch miss a least-recently-used
// cache that starts out cold and holds X rows (Che's approximation [read in
// the literature on caches; applied here by assumption]).
//
// A row stays cached for about the time tau in which X distinct rows are
// touched. With U_j rows used k_j times in n lookups, tau solves
//
//	sum over j of U_j (1 - exp(-k_j tau/n)) = X
//
// and a later use of a row misses with probability exp(-k_j tau/n):
//
//	m = U + sum over j of U_j max(0, k_j - 1) exp(-k_j tau/n)
//
// k_j = c_j n/(U s), with the class means c_j and s = sum of p_j c_j, so the
// counts add up to n. In y = tau/(U s) the equation is
//
//	phi(y) = sum over j of p_j (1 - exp(-c_j y)) = X/U
//
// which depends on the histogram alone. phi is solved 10 to 60 times for each device and
// plan, so the solution is made cheap:
//
//   - From class 2 on each mean is twice the one before. So q_j = 1 - exp(-c_j y)
//     follows by q_(j+1) = q_j (2 - q_j), which loses no precision: two
//     exponentials give all 17.
//   - At y = 2^k the q_j are fixed numbers (kernel), so phi there is an inner
//     product, and five inner products find y to a factor of two.
//   - Newton's method, kept inside that bracket, ends after three or four steps.

// Usage is a table's counts with what the cache model derives from them. It is
// the same for every slice of columns of the table.
type Usage struct {
	counts access.Counts
	// scale is n/(U s). The mean c_j of a class times scale is k_j, the number of uses of
	// each row in the class.
	scale float64
	// sum is the sum of the shares p_j, which is 1 except for rounding.
	sum float64
}

// NewUsage returns the usage of a table with the given counts.
func NewUsage(c access.Counts) Usage {
	u := Usage{counts: c}
	for _, share := range c.Reuse {
		u.sum += share
	}
	if mean := c.MeanUse(); mean > 0 && c.Unique > 0 {
		u.scale = c.Lookups / (c.Unique * mean)
	}
	return u
}

// Misses returns the row reads of the batch that go to memory, with room for
// the given number of rows in the cache.
func (u *Usage) Misses(room float64) float64 {
	unique := u.counts.Unique
	if room >= unique {
		return unique
	}
	y := u.solve(room / unique)
	q := uncached(y)
	extra := 0.0
	for j, share := range &u.counts.Reuse {
		if uses := means[j]*u.scale - 1; uses > 0 {
			extra += share * uses * (1 - q[j])
		}
	}
	return unique * (1 + extra)
}

// solve returns the y with phi(y) = target, above 0.
func (u *Usage) solve(target float64) float64 {
	limit := TauLimit * u.scale
	if target >= u.sum {
		return limit
	}
	p := &u.counts.Reuse
	// Invariant: phi(low) <= target, and phi(high) > target except at the ends.
	first, last := 0, len(kernel)
	var below, above float64
	for first < last {
		mid := (first + last) / 2
		if at := dot(p, &kernel[mid]); at <= target {
			first, below = mid+1, at
		} else {
			last, above = mid, at
		}
	}
	var low, high, y float64
	switch {
	case first == 0:
		high = kernelAt(0)
		y = high * target / above
	case first == len(kernel):
		low, high = kernelAt(first-1), limit
		y = low
	default:
		low, high = kernelAt(first-1), kernelAt(first)
		y = low * (1 + (target-below)/(above-below))
	}
	for range 60 {
		at, slope := phi(p, y)
		if at <= target {
			low = y
		} else {
			high = y
		}
		step := (target - at) / slope
		if math.Abs(step) <= 1e-8*y {
			// Each of Newton's steps squares the error, so the next step would be below
			// 1e-15.
			y += step
			break
		}
		if y += step; !(y > low && y < high) {
			y = low + (high-low)/2
		}
	}
	return math.Min(y, limit)
}

// phi returns phi(y) and its derivative. It computes the same numbers q_j as uncached,
// in one pass.
func phi(p *[access.Classes]float64, y float64) (value, slope float64) {
	q := -math.Expm1(-y)
	value, slope = p[0]*q, p[0]*(1-q)
	q *= 2 - q
	value += p[1] * q
	slope += p[1] * 2 * (1 - q)
	q = -math.Expm1(-means[2] * y)
	for j := 2; j < len(p); j++ {
		value += p[j] * q
		slope += p[j] * means[j] * (1 - q)
		q *= 2 - q
	}
	return value, slope
}

// uncached returns 1 - exp(-c_j y) for every class.
func uncached(y float64) (q [access.Classes]float64) {
	q[0] = -math.Expm1(-y)
	q[1] = q[0] * (2 - q[0])
	x := -math.Expm1(-means[2] * y)
	for j := 2; j < len(q); j++ {
		q[j] = x
		x *= 2 - x
	}
	return q
}

func dot(a, b *[access.Classes]float64) float64 {
	sum := 0.0
	for j, x := range a {
		sum += x * b[j]
	}
	return sum
}

// means holds access.ClassMean of every class.
var means = func() (m [access.Classes]float64) {
	for j := range m {
		m[j] = access.ClassMean(j)
	}
	return m
}()

// kernel holds 1 - exp(-c_j y) at y = kernelAt(k). At the first y even the most used rows
// leave the cache; at the last y every row stays.
var kernel = func() (rows [27][access.Classes]float64) {
	for k := range rows {
		rows[k] = uncached(kernelAt(k))
	}
	return rows
}()

// kernelAt returns 2^(k-20).
func kernelAt(k int) float64 { return math.Ldexp(1, k-20) }
