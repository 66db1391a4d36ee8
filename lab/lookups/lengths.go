package lookups

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// lengths.go divides lookups into bags whose lengths have a stated spread. The lengths are
// those of a Weibull distribution: exponential at a coefficient of variation of 1, close to
// the normal distribution at 0.3, and with a long tail above 1. Its quantiles are a closed
// form, (-ln(1-u))^(1/k), with one parameter, so bags of any spread come from one formula:
//
//	strata   the quantiles at (i+1/2)/strata, each for an equal number of bags
//	mean     all of them times the factor at which they add up to n
//	whole    a stratum gets the whole lookups up to its end less those up to its start,
//	         and its bags are one lookup apart at most
//	level    the parameter at which the whole lengths have the asked spread, by bisection
//	order    the bags in random order
//
// The sum is exactly n. Whole lengths have a least spread: bags with a mean of 1.5 lookups
// cannot be of one length. They also have a greatest spread, with all lookups in the longest
// stratum. A spread outside these limits is replaced by the nearest possible one.

// mostStrata is the largest number of strata. Fewer bags have a stratum each.
const mostStrata = 1 << 12

// MaxLengthCV is the largest spread that Synthesise is asked for.
const MaxLengthCV = 1000

// checkLengthCV returns an error unless the spread of the lengths is a number within its
// limits.
func checkLengthCV(cv float64) error {
	if !(cv >= 0 && cv <= MaxLengthCV) {
		return fmt.Errorf("length cv: %v, want from 0 to %d", cv, MaxLengthCV)
	}
	return nil
}

// lengthStrata are the strata of the lengths of bags.
type lengthStrata struct {
	n, bags int64
	// logs holds ln(-ln(1-u)) of each stratum's quantile u.
	logs []float64
	// quantiles is where the quantiles at a parameter are put, and totals the lookups of
	// each stratum.
	quantiles []float64
	totals    []int64
}

func newLengthStrata(n, bags int64) *lengthStrata {
	count := int(min(bags, mostStrata))
	s := &lengthStrata{n: n, bags: bags, logs: make([]float64, count), quantiles: make([]float64, count), totals: make([]int64, count)}
	for i := range s.logs {
		s.logs[i] = math.Log(-math.Log1p(-(float64(i) + 0.5) / float64(count)))
	}
	return s
}

// size returns the number of bags of stratum i.
func (s *lengthStrata) size(i int) int64 {
	count := int64(len(s.totals))
	return s.bags*int64(i+1)/count - s.bags*int64(i)/count
}

// set divides the lookups at 1/k = power and returns the spread of the whole lengths. power
// is at least 0; at 0 all quantiles are 1.
func (s *lengthStrata) set(power float64) float64 {
	// The quantiles relative to the largest, which is the last, so that none overflows.
	last, sum := s.logs[len(s.logs)-1], 0.0
	for i, log := range s.logs {
		s.quantiles[i] = math.Exp(power*(log-last)) * float64(s.size(i))
		sum += s.quantiles[i]
	}
	before, upTo := int64(0), 0.0
	var squares uint64
	for i, q := range s.quantiles {
		upTo += q
		end := int64(math.Round(float64(s.n) * (upTo / sum)))
		if i == len(s.quantiles)-1 {
			end = s.n
		}
		s.totals[i] = max(0, end-before)
		before += s.totals[i]
		size := s.size(i)
		short, long := uint64(s.totals[i]/size), uint64(s.totals[i]%size)
		squares += (uint64(size)-long)*short*short + long*(short+1)*(short+1)
	}
	return cvOf(uint64(s.bags), uint64(s.n), squares)
}

// unequalOffsets divides n lookups into bags whose lengths have about the given coefficient of
// variation, above 0, in random order.
func unequalOffsets(n int64, bags int, cv float64, random *rand.Rand) []int64 {
	list := make([]int64, bags+1)
	if n == 0 {
		return list
	}
	s := newLengthStrata(n, int64(bags))
	low, high := 0.0, 1.0
	for s.set(high) < cv && high < 64 {
		high *= 2
	}
	for range 40 {
		if middle := (low + high) / 2; s.set(middle) < cv {
			low = middle
		} else {
			high = middle
		}
	}
	// The spread jumps where bags change their length: the nearer side of the jump.
	if below := s.set(low); cv-below > s.set(high)-cv {
		low = high
	}
	s.set(low)
	lengths := list[1:]
	at := 0
	for i, total := range s.totals {
		size := s.size(i)
		for k := range size {
			lengths[at] = total*(k+1)/size - total*k/size
			at++
		}
	}
	random.Shuffle(bags, func(i, j int) { lengths[i], lengths[j] = lengths[j], lengths[i] })
	sum := int64(0)
	for b, length := range lengths {
		sum += length
		lengths[b] = sum
	}
	return list
}
