package watch

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/unit"
)

// windows.go makes medians of windows from the lines of each device, and puts those of all devices
// side by side. Two windows of a device are open at a time, so that lines may come out of order:
//
//	steps   ... 200       300       400 ...
//	            |--open---|--open---|
//	 closed <---'                   '---> a line here closes the older open window
//
// A line far from the open windows is a stray: a damaged step, or the first line after a
// restart or a hole. Strays are held back until there are enough of them, close to each
// other, to be believed.
//
// A row is complete when every device that still sends lines has closed its window, or a later
// one. If a device is more than Options.Lag rows behind, the rows go on without it.

const (
	// reach is the number of windows by which a line may be ahead of the open ones.
	reach = 10
	// believed is the number of strays in a row that move the open windows.
	believed = 10
	// silent is the number of rows without a device after which the device has vanished.
	silent = 3
)

// key is the place of a window: the run, which a restart increases, and the number of the
// window.
type key struct {
	run    int
	window int64
}

func (k key) before(o key) bool { return k.compare(o) < 0 }

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.run, o.run), cmp.Compare(k.window, o.window))
}

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

// windows passes the rows of all devices on.
type windows struct {
	size    int64 // of a window, in steps
	lag     int
	pass    func(*row)
	emit    func(Event)
	tally   Tally
	devices []device
	// rows are those not complete, in order.
	rows []*row
	// done is the newest row that was passed on; any is false before the first.
	done key
	any  bool
	last int64
}

// device is what is known of the lines of one device.
type device struct {
	// watched is false without predicted work.
	watched, started bool
	run              int
	// open holds the windows head-1 and head.
	open [2]samples
	head int64
	// most is the largest number of lines of a window so far.
	most   int
	strays []Line

	// closed is the newest window that is closed; run -1 before the first.
	closed key
	// missed counts the rows in a row without the device, and gone says that it has vanished.
	missed int
	gone   bool
}

// samples are the lines of an open window.
type samples struct {
	seen       []uint64
	busy, wait []float64
	// time is when the first of the steps ended; 0 if it is not stated. last is the last step.
	time float64
	last int64
}

func newWindows(predicted []unit.Millis, opt Options, pass func(*row), emit func(Event)) *windows {
	w := &windows{size: int64(opt.Window), lag: opt.Lag, pass: pass, emit: emit, devices: make([]device, len(predicted))}
	for i := range w.devices {
		d := &w.devices[i]
		d.watched, d.closed.run = predicted[i] > 0, -1
		for k := range d.open {
			d.open[k].seen = make([]uint64, (w.size+63)/64)
		}
	}
	return w
}

// add adds a line.
func (w *windows) add(l Line) {
	if w.tally.Lines++; !w.devices[l.Device].watched {
		w.tally.Idle++
		return
	}
	w.take(l)
}

// take puts a line into its window, and closes the windows before.
func (w *windows) take(l Line) {
	d := &w.devices[l.Device]
	at := l.Step / w.size
	switch {
	case !d.started:
		d.started, d.head = true, at
	case at < d.head-1 || at > d.head+reach:
		w.stray(l)
		return
	}
	w.drop(d)
	for at > d.head {
		w.close(l.Device, 0)
		d.open[0], d.open[1] = d.open[1], d.open[0]
		d.head++
	}
	w.put(&d.open[at-d.head+1], l)
}

// drop gives up the strays that were held back.
func (w *windows) drop(d *device) {
	w.tally.Stray += len(d.strays)
	d.strays = d.strays[:0]
}

// put adds a line to its window.
func (w *windows) put(to *samples, l Line) {
	i := l.Step % w.size
	if to.seen[i/64]&(1<<(i%64)) != 0 {
		w.tally.Repeated++
		return
	}
	to.seen[i/64] |= 1 << (i % 64)
	to.busy, to.wait = append(to.busy, float64(l.Forward+l.Backward)), append(to.wait, float64(l.Wait))
	if to.time == 0 || l.Time < to.time {
		to.time = l.Time
	}
	to.last = max(to.last, l.Step)
}

// stray holds a line back, and moves the open windows of its device if there are enough of them.
func (w *windows) stray(l Line) {
	d := &w.devices[l.Device]
	if len(d.strays) > 0 {
		if away := l.Step/w.size - d.strays[0].Step/w.size; away < -1 || away > reach {
			w.drop(d)
		}
	}
	if d.strays = append(d.strays, l); len(d.strays) < believed {
		return
	}
	held := d.strays
	d.strays = nil
	w.endDevice(l.Device)
	first := held[0].Step / w.size
	if first < d.head {
		d.run++
	}
	d.head = first
	for _, l := range held {
		w.take(l)
	}
}

// close takes an open window of a device as complete, if it has lines, and clears it.
func (w *windows) close(number, which int) {
	d := &w.devices[number]
	s := &d.open[which]
	n := len(s.busy)
	if n == 0 {
		return
	}
	thin := 2*n < d.most
	d.most = max(d.most, n)
	if thin {
		w.tally.Thin++
	}
	w.join(number, key{d.run, d.head - 1 + int64(which)}, s, thin)
	clear(s.seen)
	s.busy, s.wait, s.time, s.last = s.busy[:0], s.wait[:0], 0, 0
}

// join adds a window of a device to its row. The medians of a thin one mean nothing.
func (w *windows) join(number int, k key, s *samples, thin bool) {
	d := &w.devices[number]
	d.closed = k
	if w.any && !w.done.before(k) { // the others went on without it
		if d.gone && k.run == w.done.run && w.done.window-k.window <= int64(w.lag) {
			w.appear(number, k.window*w.size, s.last) // and wait for it from here on
		}
		return
	}
	at, found := slices.BinarySearchFunc(w.rows, k, func(r *row, k key) int { return r.compare(k) })
	if !found {
		nan := []float64{math.NaN()}
		w.rows = slices.Insert(w.rows, at, &row{key: k, busy: slices.Repeat(nan, len(w.devices)), wait: slices.Repeat(nan, len(w.devices)), first: k.window * w.size})
	}
	r := w.rows[at]
	if !thin {
		r.busy[number], r.wait[number] = stats.Median(s.busy), stats.Median(s.wait)
	}
	if r.time == 0 || s.time != 0 && s.time < r.time {
		r.time = s.time
	}
	r.last = max(r.last, s.last)
	for len(w.rows) > 0 && (len(w.rows) > w.lag || w.complete(w.rows[0].key)) {
		w.next()
	}
}

// complete reports whether no device will add to a row.
func (w *windows) complete(k key) bool {
	return !slices.ContainsFunc(w.devices, func(d device) bool { return d.watched && !d.gone && d.closed.before(k) })
}

// next passes the first row on.
func (w *windows) next() {
	r := w.rows[0]
	w.rows = slices.Delete(w.rows, 0, 1)
	switch {
	case w.any && r.run > w.done.run:
		w.emit(Event{Topic: TopicRestart, Step: r.first, Since: r.first, Device: NoDevice, Text: fmt.Sprintf(
			"restart: the steps went back from %d to %d; the level that was learned stays", w.last, r.first)})
	case w.any && r.window > w.done.window+1:
		since := (w.done.window + 1) * w.size
		w.emit(Event{Topic: TopicHole, Step: r.first, Since: since, Device: NoDevice, Text: fmt.Sprintf(
			"hole: no device has lines of steps %d to %d", since, r.first-1)})
	}
	w.any, w.done, w.last = true, r.key, r.last
	for number := range w.devices {
		w.presence(number, r)
	}
	w.pass(r)
}

// presence says whether a device vanishes or appears with a row.
func (w *windows) presence(number int, r *row) {
	d := &w.devices[number]
	present := !math.IsNaN(r.busy[number]) || d.closed.run >= 0 && !d.closed.before(r.key)
	switch {
	case !d.watched:
	case present && d.gone:
		w.appear(number, r.first, r.last)
	case present:
		d.missed = 0
	case !d.gone:
		if d.missed++; d.missed >= silent {
			since := max(0, r.first-(silent-1)*w.size)
			if next := max(d.open[0].last, d.open[1].last) + 1; next <= r.last {
				since = max(since, next) // windows that are open still have lines
			}
			d.gone = true
			w.emit(Event{Topic: TopicVanished, Step: r.last, Since: since, Device: number, Text: fmt.Sprintf("device %d has sent no line from step %d on: it is watched again when lines come", number, since)})
		}
	}
}

// appear says that a device that had vanished sends lines.
func (w *windows) appear(number int, since, step int64) {
	w.devices[number].gone, w.devices[number].missed = false, 0
	w.emit(Event{Topic: TopicAppeared, Step: step, Since: since, Device: number, Text: fmt.Sprintf("device %d sends lines from step %d on", number, since)})
}

// endDevice closes the open windows of a device.
func (w *windows) endDevice(number int) {
	w.drop(&w.devices[number])
	w.close(number, 0)
	w.close(number, 1)
}

// end closes all windows, and passes all rows on.
func (w *windows) end() {
	for number := range w.devices {
		w.endDevice(number)
	}
	for len(w.rows) > 0 {
		w.next()
	}
}
