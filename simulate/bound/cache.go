package bound

import (
	"math"

	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// cache finds the misses of one table as simulate/cache.go does. The time y in
// which the room fills with distinct rows solves
//
//	phi(y) = sum over j of p_j (1 - exp(-c_j y)) = room/U
//
// and later uses miss with probability exp(-c_j y). A y that is slightly too large gives
// slightly too few misses, which keeps the bound valid. So y may be too large, but never
// too small.
type cache struct {
	counts     access.Counts
	scale, sum float64
	// y solves phi(y) = target: the last answer, from which the next search starts.
	y, target float64
}

// newCache returns the cache model of a table with the given counts.
func newCache(c access.Counts) *cache {
	u := &cache{counts: c}
	for _, share := range c.Reuse {
		u.sum += share
	}
	if mean := c.MeanUse(); mean > 0 && c.Unique > 0 {
		u.scale = c.Lookups / (c.Unique * mean)
	}
	return u
}

// misses returns the row reads that go to memory, or slightly fewer, with room for the
// given number of rows. A call is fastest if it has less room than the call before.
func (u *cache) misses(room float64) float64 {
	unique := u.counts.Unique
	if room >= unique {
		return unique
	}
	y := u.solve(room / unique)
	extra := 0.0
	for j, share := range &u.counts.Reuse {
		if uses := access.ClassMean(j)*u.scale - 1; uses > 0 && share > 0 {
			extra += share * uses * math.Exp(-access.ClassMean(j)*y)
		}
	}
	return unique * (1 + extra)
}

// solve returns a y, too large by less than 2e-9 of it, with phi(y) = target.
func (u *cache) solve(target float64) float64 {
	const slack = 1e-9
	limit := simulate.TauLimit * u.scale
	if target >= u.sum {
		return limit
	}
	low, high := 0.0, limit
	if u.y > 0 && target <= u.target {
		// phi is concave from 0 on, so phi(a y) >= a phi(y) for a below 1.
		high = min(high, u.y*target/u.target*(1+slack))
	}
	y := high
	for range 200 {
		at, slope := u.phi(y)
		if at <= target {
			low = y
		} else {
			high = y
		}
		step := (target - at) / slope
		if math.Abs(step) <= 1e-10*y {
			y += step
			break
		}
		if y += step; !(y > low && y < high) {
			y = low + (high-low)/2
			if low == 0 {
				y = high / 16
			}
		}
	}
	y = min(y*(1+slack), limit)
	u.y, u.target = y, target
	return y
}

// phi returns phi(y) and its derivative. From the third class on, rows are used twice as
// often as in the class before, which saves exponentials.
func (u *cache) phi(y float64) (value, slope float64) {
	p := &u.counts.Reuse
	q := -math.Expm1(-y)
	value, slope = p[0]*q, p[0]*(1-q)
	q *= 2 - q
	value += p[1] * q
	slope += p[1] * 2 * (1 - q)
	q = -math.Expm1(-access.ClassMean(2) * y)
	for j := 2; j < len(p); j++ {
		value += p[j] * q
		slope += p[j] * access.ClassMean(j) * (1 - q)
		q *= 2 - q
	}
	return value, slope
}
