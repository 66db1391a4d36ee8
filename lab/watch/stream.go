package watch

import (
	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/unit"
)

// stream.go makes medians of windows from the lines of one device. Two windows are open at a
// time, so that lines may come out of order:
//
//	steps   ... 200       300       400 ...
//	            |--open---|--open---|
//	 closed <---'                   '---> a line here closes the older open window
//
// A line far from the open windows is a stray: a damaged step, or the first line after a
// restart or a hole. Strays are held back until there are enough of them, close to each
// other, to be believed.

// The rules of strays.
const (
	// reach is the number of windows by which a line may be ahead of the open ones.
	reach = 10
	// believed is the number of strays in a row that move the open windows.
	believed = 10
)

// key is the place of a window: the run, which a restart increases, and the number of the
// window.
type key struct {
	run    int
	window int64
}

func (k key) before(o key) bool { return k.run < o.run || k.run == o.run && k.window < o.window }

// closed is a window of one device that is complete.
type closed struct {
	key
	// busy and wait are medians. thin is true if the window has too few lines; the medians
	// then mean nothing.
	busy, wait unit.Millis
	thin       bool
	// time is when the window's first step ended; 0 if it is not stated.
	time float64
	// last is the last step.
	last int64
}

// stream is one device's lines.
type stream struct {
	window int64
	tally  *Tally

	started bool
	run     int
	// open holds the windows head-1 and head.
	open [2]samples
	head int64
	// most is the largest number of lines of a window so far.
	most   int
	strays []Line
}

// samples are the lines of an open window.
type samples struct {
	seen       []uint64
	busy, wait []float64
	time       float64
	last       int64
}

func (s *samples) clear() {
	clear(s.seen)
	s.busy, s.wait, s.time, s.last = s.busy[:0], s.wait[:0], 0, 0
}

// add adds a line and yields the windows that it closes.
func (s *stream) add(l Line, yield func(closed)) {
	at := l.Step / s.window
	switch {
	case !s.started:
		s.started, s.head = true, at
		for i := range s.open {
			s.open[i].seen = make([]uint64, (s.window+63)/64)
		}
	case at < s.head-1 || at > s.head+reach:
		s.stray(l, yield)
		return
	}
	s.drop()
	for at > s.head {
		s.advance(yield)
	}
	s.put(&s.open[at-s.head+1], l)
}

// drop gives up the strays that were held back.
func (s *stream) drop() {
	s.tally.Stray += len(s.strays)
	s.strays = s.strays[:0]
}

// put adds a line to its window.
func (s *stream) put(w *samples, l Line) {
	i := l.Step % s.window
	if w.seen[i/64]&(1<<(i%64)) != 0 {
		s.tally.Repeated++
		return
	}
	w.seen[i/64] |= 1 << (i % 64)
	w.busy, w.wait = append(w.busy, float64(l.Forward+l.Backward)), append(w.wait, float64(l.Wait))
	if w.time == 0 || l.Time < w.time {
		w.time = l.Time
	}
	w.last = max(w.last, l.Step)
}

// advance closes the older open window.
func (s *stream) advance(yield func(closed)) {
	s.close(&s.open[0], key{s.run, s.head - 1}, yield)
	s.open[0], s.open[1] = s.open[1], s.open[0]
	s.head++
}

// close yields a window, if it has lines, and clears it.
func (s *stream) close(w *samples, k key, yield func(closed)) {
	n := len(w.busy)
	if n == 0 {
		return
	}
	c := closed{key: k, time: w.time, last: w.last, thin: 2*n < s.most}
	s.most = max(s.most, n)
	if c.thin {
		s.tally.Thin++
	} else {
		c.busy, c.wait = unit.Millis(stats.Median(w.busy)), unit.Millis(stats.Median(w.wait))
	}
	w.clear()
	yield(c)
}

// stray holds a line back, and moves the open windows if there are enough of them.
func (s *stream) stray(l Line, yield func(closed)) {
	if len(s.strays) > 0 {
		if away := l.Step/s.window - s.strays[0].Step/s.window; away < -1 || away > reach {
			s.drop()
		}
	}
	if s.strays = append(s.strays, l); len(s.strays) < believed {
		return
	}
	held := s.strays
	s.strays = nil
	s.end(yield)
	first := held[0].Step / s.window
	if first < s.head {
		s.run++
	}
	s.head = first
	for _, l := range held {
		s.add(l, yield)
	}
}

// end closes the open windows.
func (s *stream) end(yield func(closed)) {
	if !s.started {
		return
	}
	s.drop()
	s.close(&s.open[0], key{s.run, s.head - 1}, yield)
	s.close(&s.open[1], key{s.run, s.head}, yield)
}
