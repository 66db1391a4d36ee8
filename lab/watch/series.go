package watch

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/stats"
)

// series.go finds changes of a series' level by a two-sided CUSUM (E. S. Page, Biometrika 1954;
// D. C. Montgomery, Introduction to Statistical Quality Control, chapter 9). With z the
// distance of a value from the level in standard deviations,
//
//	up   = max(0, up   + z - allowance)
//	down = max(0, down - z - allowance)
//
// and an alarm is raised when either sum exceeds the threshold. A change of s standard
// deviations is found after about threshold / (s - allowance) values. z is cut at 4 standard
// deviations, so that one or two wild values never raise an alarm alone.
//
// The level is the median of the first n values, and the standard deviation 1.4826 times their
// median absolute deviation, which is the standard deviation of a normal distribution with
// that deviation. Both are uncertain, and an error of the level is a change for ever; so the
// allowance is wider by the standard error of a median, 1.2533 / sqrt(n), and the standard
// deviation by a share of 1 / sqrt(n), about its own standard error. While no change is in
// sight, n grows up to ten times the first values. After an alarm the level is that of the values
// since the change began.

const (
	// allowance is the distance that is no change, in standard deviations.
	allowance = 0.5
	// mostZ is the distance at which values are cut.
	mostZ = 4
	// grown is the largest number of values that the level is learned from, in multiples of reference.
	grown = 10
	// mostRecent is the number of values among which the start of a change is looked for.
	mostRecent = 64
	// toSigma is the standard deviation of a normal distribution over its median absolute deviation.
	toSigma = 1.4826
	// medianError is the standard error of the median of n normal values of standard deviation 1,
	// times sqrt(n): sqrt(pi/2).
	medianError = 1.2533
)

// series is one watched series. Its values are logarithms.
type series struct {
	opt Options
	// base holds the values of the level: first those of the reference, later those since a change.
	base  []float64
	level float64
	// sigma is 0 until it is known. origin is the level before the first alarm; moved is true after
	// it.
	sigma, origin float64
	moved         bool
	// said is the change since the reference that was reported last.
	said     float64
	up, down float64
	// last are the last values, each with the first step of its window.
	last []value
}

type value struct {
	x    float64
	step int64
}

// change is what is to be reported of a series.
type change struct {
	// total is the change since the reference, as a share. ended is whether it is below the least
	// that is reported.
	total float64
	ended bool
	// since is the first step of the change.
	since int64
}

// learn sets the level and the noise from values, at least one.
func (s *series) learn(values []float64) {
	s.base, s.level = values, stats.Median(values)
	if !s.moved {
		s.origin = s.level
	}
	s.sigma = max(floor, (1+1/math.Sqrt(float64(len(values))))*toSigma*deviation(values, s.level))
}

// add adds a value and returns what is to be reported, or nil.
func (s *series) add(x float64, step int64) *change {
	if s.sigma == 0 {
		if s.base = append(s.base, x); len(s.base) >= reference {
			s.learn(s.base)
		}
		return nil
	}
	if len(s.last) == mostRecent {
		s.last = slices.Delete(s.last, 0, 1)
	}
	s.last = append(s.last, value{x, step})
	z, wider := s.z(x), allowance+medianError/math.Sqrt(float64(len(s.base)))
	s.up, s.down = max(0, s.up+z-wider), max(0, s.down-z-wider)
	if most := max(s.up, s.down); most <= s.opt.Threshold {
		if 2*most < s.opt.Threshold {
			s.refine(x)
		}
		return nil
	}
	s.restart()
	total := s.level - s.origin
	c := &change{total: math.Expm1(total), ended: s.small(total), since: s.last[0].step}
	switch {
	case c.ended && s.said == 0 || !c.ended && s.small(total-s.said):
		return nil
	case c.ended:
		total = 0
	}
	s.said = total
	return c
}

// refine has the level follow from one more value, while no change is in sight, and the noise
// with each reference values.
func (s *series) refine(x float64) {
	if len(s.base) >= grown*reference {
		return
	}
	s.base = append(s.base, x)
	switch n := len(s.base); {
	case n < reference:
		s.level = stats.Median(s.base)
	case n%reference == 0:
		s.learn(s.base)
	}
}

// z returns the distance of a value from the level in standard deviations, cut.
func (s *series) z(x float64) float64 { return max(-mostZ, min(mostZ, (x-s.level)/s.sigma)) }

// restart goes on from the values since a change. It began where the values since then are furthest
// from the level, for their number.
func (s *series) restart() {
	start, best, sum := 0, 0.0, 0.0
	for i, v := range slices.Backward(s.last) {
		sum += s.z(v.x)
		if far := sum * sum / float64(len(s.last)-i); far > best {
			start, best = i, far
		}
	}
	s.last = slices.Delete(s.last, 0, start)
	s.base = nil
	for _, v := range s.last {
		s.base = append(s.base, v.x)
	}
	s.level, s.up, s.down, s.moved = stats.Median(s.base), 0, 0, true
}

func (s *series) small(total float64) bool { return math.Abs(math.Expm1(total)) < least }

// current returns the change that was reported, as it is now; 0 if nothing is.
func (s *series) current() float64 {
	if s.said == 0 {
		return 0
	}
	return s.level - s.origin
}

// deviation returns the median distance of values from a center.
func deviation(values []float64, center float64) float64 {
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - center)
	}
	return stats.Median(away)
}
