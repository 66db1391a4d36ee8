package watch

import (
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/unit"
)

// judge.go tells the load from the devices. With r(d) the logarithm of measured over predicted
// busy time of device d in a window, and base(d) its median in the first windows,
//
//	e(d)    = r(d) - base(d)
//	shared  = median of e over devices
//	own(d)  = e(d) - median of e over the other devices
//
// A change of shared is a drift of the load, or of whatever else acts on all devices alike:
// times alone cannot tell which. A rise of own(d) is a slow device, or a drift of the features
// of tables that only this device holds. With two devices shared is the smaller of both
// changes, so that one slow device does not count as half a drift; with one device there is
// nothing to compare with, and every change is a drift.

// judge looks at rows.
type judge struct {
	emit      func(Event)
	predicted []unit.Millis

	// learning holds the logarithms of the first rows; nil once they are learned.
	learning [][]float64
	ready    bool
	// base is by device: NaN until it is known. late collects the first values of a device
	// that came later.
	base   []float64
	late   [][]float64
	shared series
	own    []series
	// season is nil if no season is looked for. clock is the last stated time.
	season *season
	clock  float64

	found   map[Topic]bool
	windows int
	first   int64
	last    *row
}

func newJudge(predicted []unit.Millis, opt Options, emit func(Event)) *judge {
	n := len(predicted)
	j := &judge{predicted: predicted, base: make([]float64, n), late: make([][]float64, n), own: make([]series, n), shared: series{opt: opt}, found: map[Topic]bool{}}
	j.emit = func(e Event) {
		j.found[e.Topic] = true
		emit(e)
	}
	for d := range j.base {
		j.base[d], j.own[d] = math.NaN(), series{opt: opt}
	}
	if opt.Season >= 0 {
		j.season = newSeason(opt, j.emit)
	}
	return j
}

// row looks at one window of all devices.
func (j *judge) row(r *row) {
	logs := make([]float64, len(r.busy))
	any := false
	for d, busy := range r.busy {
		logs[d] = math.NaN()
		if j.predicted[d] > 0 {
			logs[d] = math.Log(busy / float64(j.predicted[d])) // NaN without a time
		}
		any = any || !math.IsNaN(logs[d])
	}
	if !any {
		return
	}
	if j.windows == 0 {
		j.first = r.first
	}
	j.windows++
	j.last = r
	if !j.ready {
		if j.learning = append(j.learning, logs); len(j.learning) >= reference {
			j.learn(r)
		}
		return
	}
	shared, own := split(logs, j.base)
	j.share(r, shared)
	j.devices(r, logs, shared, own)
}

// learn sets the bases and the noise from the first rows.
func (j *judge) learn(r *row) {
	for d := range j.base {
		var values []float64
		for _, logs := range j.learning {
			if !math.IsNaN(logs[d]) {
				values = append(values, logs[d])
			}
		}
		if 2*len(values) >= len(j.learning) {
			j.base[d] = stats.Median(values)
		}
	}
	var shared []float64
	own := make([][]float64, len(j.base))
	for _, logs := range j.learning {
		s, o := split(logs, j.base)
		if !math.IsNaN(s) {
			shared = append(shared, s)
		}
		for d, x := range o {
			if !math.IsNaN(x) {
				own[d] = append(own[d], x)
			}
		}
	}
	if len(shared) == 0 {
		j.learning = j.learning[1:] // no device has enough windows yet
		return
	}
	j.shared.learn(shared)
	for d, values := range own {
		if len(values) > 0 {
			j.own[d].learn(values)
		}
	}
	j.ready, j.learning = true, nil
	waits := ""
	if j.season != nil && j.season.stated {
		waits = "; a drift of the load is looked for after two seasons"
	}
	j.emit(Event{Topic: TopicReady, Step: r.last, Since: j.first, Device: NoDevice, Text: fmt.Sprintf(
		"ready: steps %d to %d are the reference, measured %.3g times the predicted time%s", j.first, r.last, j.level(), waits)})
}

// level returns measured over predicted in the median of devices, in the reference; 0 if no
// device has a reference.
func (j *judge) level() float64 {
	var known []float64
	for _, b := range j.base {
		if !math.IsNaN(b) {
			known = append(known, b)
		}
	}
	if len(known) == 0 {
		return 0
	}
	return math.Exp(stats.Median(known))
}

// split returns the change that devices share, and each device's own; NaN for a device without
// one. base holds the logarithms of the reference.
func split(logs, base []float64) (shared float64, own []float64) {
	own = make([]float64, len(logs))
	var all []float64
	for d, x := range logs {
		if own[d] = x - base[d]; !math.IsNaN(own[d]) {
			all = append(all, own[d])
		}
	}
	slices.Sort(all)
	switch len(all) {
	case 0:
		return math.NaN(), own
	case 1:
		for d := range own {
			own[d] = math.NaN()
		}
		return all[0], own
	case 2:
		shared = all[0]
		if math.Abs(all[1]) < math.Abs(all[0]) {
			shared = all[1]
		}
		for d := range own {
			own[d] -= shared
		}
		return shared, own
	}
	for d, e := range own {
		if !math.IsNaN(e) {
			own[d] = e - others(all, e)
		}
	}
	return stats.Median(all), own
}

// others returns the median of sorted values, at least three, without one of value e. Of two
// other values it is the one nearer to the median of all: of three devices, two that are alike
// say what is usual.
func others(sorted []float64, e float64) float64 {
	at, _ := slices.BinarySearch(sorted, e)
	get := func(i int) float64 {
		if i >= at {
			i++
		}
		return sorted[i]
	}
	n := len(sorted) - 1
	low, high := get((n-1)/2), get(n/2)
	if n > 2 {
		return (low + high) / 2
	}
	if middle := sorted[1]; middle-low <= high-middle {
		return low
	}
	return high
}

// share looks at the shared change.
func (j *judge) share(r *row, x float64) {
	if math.IsNaN(x) {
		return
	}
	if j.season != nil && j.seasonal(r, x) {
		return
	}
	if c := j.shared.add(x, r.first); c != nil {
		e := sharedEvent(c, r.last)
		if e.Topic == TopicDrift && len(j.predicted) == 1 {
			e.Text += "; with one device, nothing separates the load from the device"
		}
		j.emit(e)
	}
}

// seasonal gives the shared change to the season, and reports whether the season alone judges
// it.
func (j *judge) seasonal(r *row, x float64) bool {
	s := j.season
	at, placed := s.place(r)
	if placed && !s.stated && at < j.clock {
		j.emit(Event{Topic: TopicClock, Step: r.last, Since: r.first, Device: NoDevice, Text: fmt.Sprintf(
			"clock: the stated time went back by %.0f s at step %d: no season is looked for by time from here on", j.clock-at, r.first)})
		j.season = nil
		return false
	}
	if placed {
		j.clock = at
		s.add(at, r, x)
	}
	return s.stated || s.active
}

// sharedEvent returns the event of a shared change.
func sharedEvent(c *change, step int64) Event {
	e := Event{Topic: TopicDrift, Step: step, Since: c.since, Device: NoDevice, Change: c.total}
	if c.ended {
		e.Topic = TopicEnded
		e.Text = fmt.Sprintf("ended: from step %d on, the devices take the time of the reference again (%s)", c.since, percent(c.total))
		return e
	}
	e.Text = fmt.Sprintf("drift: from step %d on, the devices take %s than in the reference", c.since, moreOrLess(c.total))
	return e
}

// devices looks at each device's own change.
func (j *judge) devices(r *row, logs []float64, shared float64, own []float64) {
	for d, x := range own {
		switch {
		case math.IsNaN(logs[d]):
		case math.IsNaN(j.base[d]):
			j.arrive(d, logs[d]-shared)
		case math.IsNaN(x):
		default:
			if c := j.own[d].add(x, r.first); c != nil {
				j.emit(ownEvent(d, c, r.last))
			}
		}
	}
}

// arrive learns the base of a device that came after the reference.
func (j *judge) arrive(d int, x float64) {
	if math.IsNaN(x) {
		return
	}
	if j.late[d] = append(j.late[d], x); len(j.late[d]) >= reference {
		j.base[d], j.late[d] = stats.Median(j.late[d]), nil
	}
}

// ownEvent returns the event of a device's own change.
func ownEvent(d int, c *change, step int64) Event {
	e := Event{Topic: TopicSlow, Step: step, Since: c.since, Device: d, Change: c.total}
	switch {
	case c.ended:
		e.Topic = TopicEnded
		e.Text = fmt.Sprintf("ended: from step %d on, device %d is beside the others as in the reference (%s)", c.since, d, percent(c.total))
	case c.total > 0:
		e.Text = fmt.Sprintf("slow: from step %d on, device %d takes %s beside the others than in the reference", c.since, d, moreOrLess(c.total))
	default:
		e.Topic = TopicDrift
		e.Text = fmt.Sprintf("drift: from step %d on, device %d takes %s beside the others than in the reference: its tables have less to do", c.since, d, moreOrLess(c.total))
	}
	return e
}

// moreOrLess words a change: "5.1 % more time".
func moreOrLess(change float64) string {
	if change < 0 {
		return fmt.Sprintf("%.1f %% less time", -100*change)
	}
	return fmt.Sprintf("%.1f %% more time", 100*change)
}

func percent(change float64) string { return fmt.Sprintf("%+.1f %%", 100*change) }

// end closes the last bin of a season.
func (j *judge) end() {
	if j.season != nil {
		j.season.end()
	}
}

// summary returns what was found.
func (j *judge) summary() Summary {
	s := Summary{Outcome: Steady, Ready: j.ready, Windows: j.windows, First: j.first}
	switch {
	case j.found[TopicSlow]:
		s.Outcome = Slow
	case j.found[TopicDrift]:
		s.Outcome = Drift
	}
	if j.ready {
		current := &j.shared
		if j.season != nil && (j.season.stated || j.season.active) {
			current = &j.season.series
		}
		s.Level, s.Change, s.Noise = j.level(), math.Expm1(current.current()), current.sigma
	}
	for d, p := range j.predicted {
		one := DeviceSummary{Device: d, Predicted: p, Change: math.Expm1(j.own[d].current()), Slow: j.own[d].said > 0}
		if !math.IsNaN(j.base[d]) {
			one.Level = math.Exp(j.base[d])
		}
		if j.last != nil && !math.IsNaN(j.last.busy[d]) {
			one.Measured, one.Wait = unit.Millis(j.last.busy[d]), unit.Millis(j.last.wait[d])
		}
		s.Devices = append(s.Devices, one)
	}
	if j.last != nil {
		s.Last = j.last.last
	}
	return s
}
