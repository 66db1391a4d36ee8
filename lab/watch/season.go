package watch

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// season.go removes from the shared series what repeats itself after a season: a day, unless
// another season is stated. The series is cut into bins, whose medians are the values:
//
//	windows   . . . . . . . . . . . . . . . .      100 steps each
//	bins      |-----|-----|-----|-----|-----|      96 a season, or a window each
//	seasons   |--------- first ---------|---------- second ...
//
// Two whole seasons are learned first. The profile of a season is, by place in the season, the
// median distance of the bins from the mean of the season around them. The CUSUM goes on with
// what is left. Bins that are then far from the others are short times that are unlike the same
// time of other seasons. Each further season improves the profile; at most mostSeasons are in
// memory.

const (
	mostBins    = 96
	leastBins   = 8
	mostSeasons = 14
	day         = 86400.0
	// unusual is the distance, in standard deviations of what is left, from which a bin is unlike
	// those of other seasons.
	unusual = 4.5
	// material is the least range of a season's profile that is removed if no season was
	// stated, in standard deviations of what is left.
	material = 4
)

// season is the shared series under a season.
type season struct {
	opt  Options
	emit func(Event)
	// stated is true if the user stated the season. Otherwise the season is a day of stated
	// times, and is used only if it is there.
	stated bool
	// width is that of a bin, in steps or seconds; bins is the number of bins of a season.
	width float64
	bins  int

	// number and values are those of the open bin; any is false before the first. first and
	// last are its steps.
	any         bool
	number      int64
	values      []float64
	first, last int64
	// history holds the closed bins, and starts with bin begin. steps holds their first steps.
	history []float64
	steps   []int64
	begin   int64
	// profile is the seasonal part, by place in the season; nil until it is known.
	profile []float64
	// next is the number of bins at which the profile is learned again.
	next   int
	series series
}

// newSeason returns the season of the options.
func newSeason(opt Options, emit func(Event)) *season {
	s := &season{opt: opt, emit: emit, series: newSeries(opt)}
	if opt.Season > 0 {
		s.stated, s.bins = true, min(mostBins, opt.Season/opt.Window)
		s.width = float64(opt.Season) / float64(s.bins)
	} else {
		s.bins, s.width = mostBins, day/mostBins
	}
	s.next = 2 * s.bins
	return s
}

// place returns the place of a row in steps or seconds, and false if the row has none.
func (s *season) place(r *row) (float64, bool) {
	if s.stated {
		return float64(r.first), true
	}
	return r.time, r.time > 0
}

// active reports whether the season is removed.
func (s *season) active() bool { return s.profile != nil }

// add adds the shared change of a row, and returns what is to be reported.
func (s *season) add(at float64, r *row, x float64) {
	number := int64(math.Floor(at / s.width))
	if s.any && number != s.number {
		s.close()
		if gap := number - s.number; gap < 0 || gap > int64(s.bins) {
			s.forget(len(s.history)) // the places are torn: the profile stays
			s.next = 2 * s.bins
		} else if len(s.history) > 0 {
			s.bridge(int(gap)-1, x, r.first)
		}
	}
	if !s.any || number != s.number {
		s.any, s.number, s.values, s.first = true, number, s.values[:0], r.first
		if len(s.history) == 0 {
			s.begin = number
		}
	}
	s.values, s.last = append(s.values, x), r.last
}

// bridge fills n empty bins on a straight line to x.
func (s *season) bridge(n int, x float64, step int64) {
	from := s.history[len(s.history)-1]
	for i := range n {
		s.history = append(s.history, from+(x-from)*float64(i+1)/float64(n+1))
		s.steps = append(s.steps, step)
	}
}

// close closes the open bin.
func (s *season) close() {
	x := median(s.values)
	s.history, s.steps = append(s.history, x), append(s.steps, s.first)
	if s.active() {
		s.judge(x - s.profile[s.phase(s.number)])
	}
	if n := len(s.history); n >= s.next {
		s.complete()
		s.next = n + s.bins
	}
	if len(s.history) >= mostSeasons*s.bins {
		s.forget(s.bins)
	}
}

func (s *season) phase(bin int64) int {
	n := int64(s.bins)
	return int(((bin % n) + n) % n)
}

// judge gives the CUSUM a value without its seasonal part.
func (s *season) judge(x float64) {
	found := s.series.add(x)
	if found == nil {
		return
	}
	keep := min(found.values, len(s.history))
	since := s.steps[len(s.steps)-max(1, keep)]
	s.emit(sharedEvent(found, since, s.last))
	// What was before the change is no guide for what comes.
	s.forget(len(s.history) - keep)
	s.next = 2 * s.bins
}

// forget drops the first n bins of the history.
func (s *season) forget(n int) {
	s.history, s.steps = slices.Delete(s.history, 0, n), slices.Delete(s.steps, 0, n)
	s.begin += int64(n)
	s.next -= n
}

// complete looks at the history once a season is complete: for unusual times, and for a better
// profile.
func (s *season) complete() {
	if s.active() {
		s.outliers(s.rest(), len(s.history)-s.bins)
	}
	s.fit()
}

// rest returns the history without the profile.
func (s *season) rest() []float64 {
	rest := make([]float64, len(s.history))
	for i, x := range s.history {
		rest[i] = x - s.profile[s.phase(s.begin+int64(i))]
	}
	return rest
}

// fit learns the profile from the history.
func (s *season) fit() {
	profile := make([]float64, s.bins)
	for place := range profile {
		var away []float64
		for i := place; i < len(s.history); i += s.bins {
			first := max(0, min(i-s.bins/2, len(s.history)-s.bins))
			away = append(away, s.history[i]-stat.Mean(s.history[first:first+s.bins], nil))
		}
		profile[s.phase(s.begin+int64(place))] = median(away)
	}
	if s.active() {
		s.profile = profile
		return
	}
	s.profile = profile
	rest := s.rest()
	_, noise := s.spread(rest)
	swing := slices.Max(profile) - slices.Min(profile)
	if !s.stated && swing < max(material*noise, s.opt.Least) {
		s.profile = nil
		return
	}
	s.emit(Event{Topic: TopicSeason, Step: s.last, Since: s.steps[0], Device: NoDevice, Change: math.Expm1(swing), Text: fmt.Sprintf(
		"season: the load varies by %.1f %% within a season; from step %d on this is removed", 100*math.Expm1(swing), s.last+1)})
	s.series.learn(rest)
	s.outliers(rest, 0)
}

// outliers reports what is unusual among what is left of the bins, from the given bin on, and
// puts what is usual in its place, so that no later profile follows it.
func (s *season) outliers(rest []float64, from int) {
	center, sigma := s.spread(rest)
	for i := 0; i < len(rest); i++ {
		at := i
		for i < len(rest) && math.Abs(rest[i]-center) > unusual*sigma {
			i++
		}
		if i > at {
			s.unlike(at, i, from, rest, center)
		}
	}
}

// spread returns the median of what is left of the history, and its standard deviation.
func (s *season) spread(rest []float64) (center, sigma float64) {
	center = median(slices.Clone(rest))
	return center, max(s.opt.Floor, toSigma*deviation(rest, center))
}

// unlike reports a run of bins, from at to before end.
func (s *season) unlike(at, end, from int, rest []float64, center float64) {
	for bin := at; bin < end; bin++ {
		s.history[bin] += center - rest[bin]
	}
	change := math.Expm1(median(slices.Clone(rest[at:end])) - center)
	if end <= from || math.Abs(change) < s.opt.Least {
		return
	}
	step := s.last
	if end < len(s.steps) {
		step = s.steps[end] - 1
	}
	s.emit(Event{Topic: TopicUnusual, Step: s.last, Since: s.steps[at], Device: NoDevice, Change: change, Text: fmt.Sprintf(
		"unusual: steps %d to %d took %s than the same time of other seasons", s.steps[at], step, moreOrLess(change))})
}

// end closes the open bin if it is the last of its season.
func (s *season) end() {
	if s.any && len(s.values) > 0 {
		s.close()
		s.any = false
	}
}
