package watch

import (
	"math"
	"slices"
)

// cusum.go finds changes of a series' level by a two-sided CUSUM (E. S. Page, Biometrika 1954;
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
// The level is the median of the first values, and the standard deviation 1.4826 times their
// median absolute deviation, which is the standard deviation of a normal distribution with
// that deviation.

// mostZ is the distance at which values are cut.
const mostZ = 4

// toSigma is the standard deviation of a normal distribution over its median absolute
// deviation.
const toSigma = 1.4826

// mostRecent is the number of values since the start of a change that are kept to estimate
// its size.
const mostRecent = 64

// CUSUM finds changes of the level of a series.
type CUSUM struct {
	// Allowance and Threshold are in standard deviations, Floor is the least standard
	// deviation, and Reference the number of values that set the level.
	Allowance, Threshold, Floor float64
	Reference                   int

	learning     []float64
	known        bool
	level, sigma float64
	up, down     side
}

// side is one of the two sums.
type side struct {
	sum float64
	// since is the number of values that the sum has been above 0 for, and recent the last of them.
	since  int
	recent []float64
}

// Alarm is a change of the level.
type Alarm struct {
	// Shift is the estimated change: the median of the values since the change began, less the
	// level.
	Shift float64
	// Values is the number of values since the change began, the last one included.
	Values int
}

// Known reports whether the level is known. Before that, and after an alarm, the CUSUM learns
// it from Reference values.
func (c *CUSUM) Known() bool { return c.known }

// Level and Sigma return the level and the standard deviation, which mean nothing before they
// are known.
func (c *CUSUM) Level() float64 { return c.level }

// Sigma returns the standard deviation.
func (c *CUSUM) Sigma() float64 { return c.sigma }

// Learn sets the level and the standard deviation from values, at least one.
func (c *CUSUM) Learn(values []float64) {
	c.level = median(slices.Clone(values))
	c.sigma = max(c.Floor, toSigma*deviation(values, c.level))
	c.known, c.learning = true, nil
	c.up, c.down = side{}, side{}
}

// Forget makes the CUSUM learn the level anew.
func (c *CUSUM) Forget() { c.known, c.learning = false, nil }

// Add adds a value and returns an alarm, or nil. After an alarm the CUSUM learns anew.
func (c *CUSUM) Add(x float64) *Alarm {
	if !c.known {
		if c.learning = append(c.learning, x); len(c.learning) >= c.Reference {
			c.Learn(c.learning)
		}
		return nil
	}
	z := max(-mostZ, min(mostZ, (x-c.level)/c.sigma))
	c.up.add(z-c.Allowance, x)
	c.down.add(-z-c.Allowance, x)
	for _, s := range []*side{&c.up, &c.down} {
		if s.sum > c.Threshold {
			alarm := &Alarm{Shift: median(slices.Clone(s.recent)) - c.level, Values: s.since}
			c.Forget()
			return alarm
		}
	}
	return nil
}

func (s *side) add(by, x float64) {
	if s.sum = max(0, s.sum+by); s.sum == 0 {
		s.since, s.recent = 0, s.recent[:0]
		return
	}
	s.since++
	if len(s.recent) == mostRecent {
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	s.recent = append(s.recent, x)
}

// median returns the median of values, the mean of the middle two of an even number. It sorts
// the values, at least one.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// deviation returns the median distance of values from a center.
func deviation(values []float64, center float64) float64 {
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - center)
	}
	return median(away)
}
