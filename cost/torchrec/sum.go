package torchrec

import (
	"math"

	"github.com/neuroshard/neuroshard/unit"
)

// sum is a sum of times that does not depend on the order of adding, and from which a
// time can be removed exactly: two integers, one of coarse and one of fine parts. Times
// are rounded to 2^-50 ms, and limited to 2^30 ms (12 days), so that a sum has room for
// 2^22 of them.
type sum struct{ coarse, fine int64 }

const (
	coarseBits, fineBits = 10, 40
	longest              = 1 << 30
	coarseUnit           = 1.0 / (1 << coarseBits)
	fineUnit             = coarseUnit / (1 << fineBits)
)

// sumOf returns the sum of one time.
func sumOf(time unit.Millis) sum {
	coarse, rest := math.Modf(min(float64(time), longest) / coarseUnit)
	return sum{int64(coarse), int64(math.Round(rest * (1 << fineBits)))}
}

func (s *sum) add(o sum) {
	s.coarse += o.coarse
	s.fine += o.fine
}

func (s *sum) sub(o sum) {
	s.coarse -= o.coarse
	s.fine -= o.fine
}

// with returns the time of s and o together, in ms.
func (s sum) with(o sum) float64 {
	s.add(o)
	return s.millis()
}

// millis returns the time in ms.
func (s sum) millis() float64 {
	return float64(float64(s.coarse)*coarseUnit) + float64(s.fine)*fineUnit
}
