package watch

import (
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/unit"
)

// joiner.go puts the windows of all devices side by side. A row is complete when every device
// that still sends lines has closed its window, or a later one. If a device is more than
// Options.Lag rows behind, the rows go on without it.

// row is one window of all devices.
type row struct {
	key
	// busy and wait are medians by device; NaN for a device without one.
	busy, wait []float64
	// time is the earliest stated time of the window's first step; 0 if none is stated.
	time float64
	// first and last are the window's first step and the last one with a line.
	first, last int64
}

// silent is the number of rows without a device after which the device has vanished.
const silent = 3

type joiner struct {
	opt  Options
	pass func(*row)
	emit func(Event)
	// heard returns the last step of a device's open windows.
	heard func(d int) int64
	// rows are those not complete, in order.
	rows []*row
	// at holds for each device the newest window that it has closed; run -1 before its first.
	at []key
	// watched is false for devices without predicted work.
	watched []bool
	// missed counts the rows in a row without the device.
	missed []int
	gone   []bool
	// done is the newest row that was passed on; any is false before the first.
	done key
	any  bool
	last int64
}

func newJoiner(predicted []unit.Millis, opt Options, pass func(*row), emit func(Event)) joiner {
	n := len(predicted)
	j := joiner{opt: opt, pass: pass, emit: emit, at: make([]key, n), watched: make([]bool, n), missed: make([]int, n), gone: make([]bool, n)}
	for d := range n {
		j.at[d].run = -1
		j.watched[d] = predicted[d] > 0
	}
	return j
}

// vanished reports whether a device has stopped sending lines.
func (j *joiner) vanished(d int) bool { return j.gone[d] }

// add adds a window of a device.
func (j *joiner) add(d int, c closed) {
	j.at[d] = c.key
	if j.any && !j.done.before(c.key) { // the others went on without it
		if j.gone[d] && c.run == j.done.run && j.done.window-c.window <= int64(j.opt.Lag) {
			j.appear(d, c.window*int64(j.opt.Window), c.last) // and wait for it from here on
		}
		return
	}
	r := j.rowOf(c.key)
	if !c.thin {
		r.busy[d], r.wait[d] = float64(c.busy), float64(c.wait)
	}
	if r.time == 0 || c.time != 0 && c.time < r.time {
		r.time = c.time
	}
	r.last = max(r.last, c.last)
	for len(j.rows) > 0 && (len(j.rows) > j.opt.Lag || j.complete(j.rows[0].key)) {
		j.next()
	}
}

// rowOf returns the row of a window, and makes it if it is not there.
func (j *joiner) rowOf(k key) *row {
	at, found := slices.BinarySearchFunc(j.rows, k, func(r *row, k key) int {
		switch {
		case r.before(k):
			return -1
		case k.before(r.key):
			return 1
		}
		return 0
	})
	if !found {
		j.rows = slices.Insert(j.rows, at, j.newRow(k))
	}
	return j.rows[at]
}

func (j *joiner) newRow(k key) *row {
	r := &row{key: k, busy: make([]float64, len(j.at)), wait: make([]float64, len(j.at)), first: k.window * int64(j.opt.Window)}
	for d := range r.busy {
		r.busy[d], r.wait[d] = math.NaN(), math.NaN()
	}
	return r
}

// complete reports whether no device will add to a row.
func (j *joiner) complete(k key) bool {
	for d, at := range j.at {
		if j.watched[d] && !j.gone[d] && at.before(k) {
			return false
		}
	}
	return true
}

// next passes the first row on.
func (j *joiner) next() {
	r := j.rows[0]
	j.rows = slices.Delete(j.rows, 0, 1)
	switch {
	case j.any && r.run > j.done.run:
		j.emit(Event{Topic: TopicRestart, Step: r.first, Since: r.first, Device: NoDevice, Text: fmt.Sprintf(
			"restart: the steps went back from %d to %d; the level that was learned stays", j.last, r.first)})
	case j.any && r.window > j.done.window+1:
		since := (j.done.window + 1) * int64(j.opt.Window)
		j.emit(Event{Topic: TopicHole, Step: r.first, Since: since, Device: NoDevice, Text: fmt.Sprintf(
			"hole: no device has lines of steps %d to %d", since, r.first-1)})
	}
	j.any, j.done, j.last = true, r.key, r.last
	for d := range j.at {
		j.presence(d, r)
	}
	j.pass(r)
}

// presence says whether a device vanishes or appears with a row.
func (j *joiner) presence(d int, r *row) {
	present := !math.IsNaN(r.busy[d]) || j.at[d].run >= 0 && !j.at[d].before(r.key)
	switch {
	case !j.watched[d]:
	case present && j.gone[d]:
		j.appear(d, r.first, r.last)
	case present:
		j.missed[d] = 0
	case !j.gone[d]:
		if j.missed[d]++; j.missed[d] >= silent {
			since := max(0, r.first-(silent-1)*int64(j.opt.Window))
			if next := j.heard(d) + 1; next <= r.last {
				since = max(since, next) // windows that are open still have lines
			}
			j.gone[d] = true
			j.emit(Event{Topic: TopicVanished, Step: r.last, Since: since, Device: d, Text: fmt.Sprintf("device %d has sent no line from step %d on: it is watched again when lines come", d, since)})
		}
	}
}

// appear says that a device that had vanished sends lines.
func (j *joiner) appear(d int, since, step int64) {
	j.gone[d], j.missed[d] = false, 0
	j.emit(Event{Topic: TopicAppeared, Step: step, Since: since, Device: d, Text: fmt.Sprintf("device %d sends lines from step %d on", d, since)})
}

// end passes all rows on.
func (j *joiner) end() {
	for len(j.rows) > 0 {
		j.next()
	}
}
