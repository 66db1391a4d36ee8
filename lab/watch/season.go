package watch

import (
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/stats"
)

// season.go removes from the shared series what repeats itself after a season: a day, unless
// another season is stated. The series is cut into bins, whose medians are the values:
//
//	windows   . . . . . . . . . . . . . . . .      100 steps each
//	bins      |-----|-----|-----|-----|-----|      96 a season, or a window each
//	seasons   |--------- first ---------|---------- second ...
//
// Two whole seasons are learned first. What is usual at a place of the season is the median of its
// bins, and a series goes on with the distance from that. As long as nothing has changed, each
// further season is learned, too; at most mostSeasons of each place are in memory.

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
	emit func(Event)
	// stated is true if the user stated the season. Otherwise the season is a day of stated
	// times, and is used only if it is there.
	stated bool
	// width is that of a bin, in steps or seconds; bins is the number of bins of a season.
	width float64
	bins  int

	// open is the bin that is not complete; its values are empty before the first.
	open bin
	// begin is the number of the first bin. places holds the values of each place of the season.
	begin  int64
	places [][]float64
	// active is true once the season is removed.
	active bool
	series series
	// odd are the bins since the last usual one, each with what is left of it.
	odd []bin
}

type bin struct {
	number      int64
	values      []float64
	first, last int64
}

// newSeason returns the season of the options.
func newSeason(opt Options, emit func(Event)) *season {
	s := &season{emit: emit, series: series{opt: opt}, bins: mostBins, width: day / mostBins}
	if opt.Season > 0 {
		s.stated, s.bins = true, min(mostBins, opt.Season/opt.Window)
		s.width = float64(opt.Season) / float64(s.bins)
	}
	s.places = make([][]float64, s.bins)
	return s
}

// place returns the place of a row in steps or seconds, and false if the row has none.
func (s *season) place(r *row) (float64, bool) {
	if s.stated {
		return float64(r.first), true
	}
	return r.time, r.time > 0
}

// add adds the shared change of a row.
func (s *season) add(at float64, r *row, x float64) {
	number := int64(math.Floor(at / s.width))
	if len(s.open.values) == 0 {
		s.begin, s.open = number, bin{number: number, first: r.first}
	}
	if number != s.open.number {
		s.close()
		s.open = bin{number: number, first: r.first}
	}
	s.open.values, s.open.last = append(s.open.values, x), r.last
}

// close takes the open bin as complete.
func (s *season) close() {
	b := s.open
	if !s.active && b.number-s.begin >= 2*int64(s.bins) && (b.number-s.begin)%int64(s.bins) == 0 {
		s.fit(&b)
	}
	x, at := stats.Median(b.values), &s.places[b.number%int64(s.bins)]
	if s.active && len(*at) > 0 {
		s.judge(b, x-stats.Median(*at))
	}
	if s.series.said != 0 || len(s.odd) > 0 {
		return // neither a change nor an unusual time is learned
	}
	if *at = append(*at, x); len(*at) > mostSeasons {
		*at = slices.Delete(*at, 0, 1)
	}
}

// fit begins to remove the season, if there is one in what was learned before a bin.
func (s *season) fit(b *bin) {
	var profile, rest []float64
	for _, values := range s.places {
		if len(values) == 0 {
			continue
		}
		usual := stats.Median(values)
		profile = append(profile, usual)
		for _, x := range values {
			rest = append(rest, x-usual)
		}
	}
	s.series.learn(rest)
	swing := slices.Max(profile) - slices.Min(profile)
	if !s.stated && swing < max(material*s.series.sigma, least) {
		return
	}
	s.active = true
	s.emit(Event{Topic: TopicSeason, Step: b.first - 1, Device: NoDevice, Change: math.Expm1(swing), Text: fmt.Sprintf(
		"season: the load varies by %.1f %% within a season; from step %d on this is removed", 100*math.Expm1(swing), b.first)})
}

// judge looks at what is left of a bin.
func (s *season) judge(b bin, rest float64) {
	if found := s.series.add(rest, b.first); found != nil {
		s.odd = nil
		s.emit(sharedEvent(found, b.last))
		return
	}
	if math.Abs(rest-s.series.level) > unusual*s.series.sigma {
		b.values = []float64{rest}
		s.odd = append(s.odd, b)
		return
	}
	if len(s.odd) == 0 {
		return
	}
	var rests []float64
	for _, o := range s.odd {
		rests = append(rests, o.values[0])
	}
	first, last := s.odd[0].first, s.odd[len(s.odd)-1].last
	s.odd = nil
	if change := math.Expm1(stats.Median(rests) - s.series.level); math.Abs(change) >= least {
		s.emit(Event{Topic: TopicUnusual, Step: b.last, Since: first, Device: NoDevice, Change: change, Text: fmt.Sprintf(
			"unusual: steps %d to %d took %s than the same time of other seasons", first, last, moreOrLess(change))})
	}
}

// end closes the open bin.
func (s *season) end() {
	if len(s.open.values) > 0 {
		s.close()
	}
}
