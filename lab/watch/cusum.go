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
// The level is the median of the first n values, and the standard deviation 1.4826 times their
// median absolute deviation, which is the standard deviation of a normal distribution with
// that deviation. Both are uncertain, and an error of the level is a change for ever; so the
// allowance is wider by the standard error of a median, 1.2533 / sqrt(n), and the standard
// deviation by a share of 1 / sqrt(n), about its own standard error. While no change is in
// sight, n grows up to ten times the first values, so both margins shrink. From 100 values on,
// the standard deviation is at least the one that the medians of ten values show: that of a
// series that wanders is larger.

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

	// values are those that the level is learned from; known is true once it is.
	values []float64
	known  bool
	// level, sigma and allowance are what the values give.
	level, sigma, allowance float64
	up, down                side
}

// side is one of the two sums.
type side struct {
	sum float64
	// recent are the values since the sum was last 0, the last mostRecent of them.
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

// Known reports whether the level is known: the CUSUM learns it from Reference values first.
func (c *CUSUM) Known() bool { return c.known }

// Level and Sigma return the level and the standard deviation, which mean nothing before they
// are known.
func (c *CUSUM) Level() float64 { return c.level }

// Sigma returns the standard deviation.
func (c *CUSUM) Sigma() float64 { return c.sigma }

// Learn sets the level and the standard deviation from values, at least one.
func (c *CUSUM) Learn(values []float64) {
	c.values, c.known = slices.Clone(values), true
	c.up, c.down = side{}, side{}
	c.estimate()
}

// estimate sets the level, the standard deviation and the allowance from the values.
func (c *CUSUM) estimate() {
	c.center()
	margin := 1 / math.Sqrt(float64(len(c.values)))
	c.sigma = max(c.Floor, (1+margin)*max(toSigma*deviation(c.values, c.level), slow(c.values)))
}

// block is the number of values in the blocks of slow, and leastBlocks the least number of blocks.
const (
	block       = 10
	leastBlocks = 10
)

// slow returns the standard deviation that the medians of blocks of values suggest for single
// values that do not depend on each other; 0 if there are too few blocks. A series that wanders
// has a larger one than its single values show, and its sums reach further.
func slow(values []float64) float64 {
	n := len(values) / block
	if n < leastBlocks {
		return 0
	}
	medians := make([]float64, n)
	for i := range medians {
		medians[i] = median(slices.Clone(values[i*block : (i+1)*block]))
	}
	center := median(slices.Clone(medians))
	return toSigma * deviation(medians, center) * math.Sqrt(block) / medianOfBlock
}

// medianOfBlock is the standard error of the median of 10 normal values of standard deviation
// 1, times sqrt(10).
const medianOfBlock = 1.18

// medianError is the standard error of the median of n normal values of standard deviation 1,
// times sqrt(n): sqrt(pi/2).
const medianError = 1.2533

// grown is the largest number of values that the level is learned from, in Reference values.
const grown = 10

// refine learns from one more value, as long as no change is in sight.
func (c *CUSUM) refine(x float64) {
	if len(c.values) >= grown*c.Reference {
		return
	}
	c.values = append(c.values, x)
	switch {
	case 2*max(c.up.sum, c.down.sum) >= c.Threshold:
	case len(c.values) < c.Reference:
		c.center()
	case len(c.values)%c.Reference == 0:
		c.estimate()
	}
}

// restart goes on from the values since a change. They are few at first, and the standard
// deviation stays until there are Reference of them; a further change is found meanwhile.
func (c *CUSUM) restart(values []float64) {
	c.values = slices.Clone(values)
	c.up, c.down = side{}, side{}
	c.center()
}

// center sets the level and the allowance from the values.
func (c *CUSUM) center() {
	c.level = median(slices.Clone(c.values))
	c.allowance = c.Allowance + medianError/math.Sqrt(float64(len(c.values)))
}

// Settled reports whether the level is that of at least Reference values.
func (c *CUSUM) Settled() bool { return c.known && len(c.values) >= c.Reference }

// Add adds a value and returns an alarm, or nil. After an alarm the CUSUM goes on from the new
// level.
func (c *CUSUM) Add(x float64) *Alarm {
	if !c.known {
		if c.values = append(c.values, x); len(c.values) >= c.Reference {
			c.Learn(c.values)
		}
		return nil
	}
	z := max(-mostZ, min(mostZ, (x-c.level)/c.sigma))
	c.up.add(z-c.allowance, x)
	c.down.add(-z-c.allowance, x)
	for _, s := range []*side{&c.up, &c.down} {
		if s.sum > c.Threshold {
			alarm := c.locate(s)
			c.restart(s.recent[len(s.recent)-alarm.Values:])
			return alarm
		}
	}
	c.refine(x)
	return nil
}

// locate returns the alarm of a side: the change began where the values since then are furthest
// from the level, for their number. The sum itself may have left 0 long before.
func (c *CUSUM) locate(s *side) *Alarm {
	n := len(s.recent)
	start, best, sum := n-1, 0.0, 0.0
	for i := n - 1; i >= 0; i-- {
		sum += max(-mostZ, min(mostZ, (s.recent[i]-c.level)/c.sigma))
		if far := sum * sum / float64(n-i); far > best {
			start, best = i, far
		}
	}
	return &Alarm{Shift: median(slices.Clone(s.recent[start:])) - c.level, Values: n - start}
}

func (s *side) add(by, x float64) {
	if s.sum = max(0, s.sum+by); s.sum == 0 {
		s.recent = s.recent[:0]
		return
	}
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
