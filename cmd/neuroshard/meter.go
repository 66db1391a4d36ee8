package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// meter draws how far a long run is as one line on stderr, if that is a
// terminal. It serves commands that count steps; a search has progress.
type meter struct {
	app *app
	on  bool
	of  int
	bar *progressbar.ProgressBar
}

func (a *app) newMeter() *meter {
	_, on := a.env.terminal(a.stderr)
	return &meter{app: a, on: on}
}

// phase says what is going on while nothing can be counted.
func (m *meter) phase(what string) { m.at(0, -1, what) }

// at says that done of so many steps are done.
func (m *meter) at(done, of int, what string) {
	if !m.on {
		return
	}
	if m.bar == nil || m.of != of {
		m.clear()
		m.of = of
		m.bar = progressbar.NewOptions(of,
			progressbar.OptionSetWriter(m.app.stderr),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(of > 0),
			progressbar.OptionThrottle(50*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	m.bar.Describe(what)
	_ = m.bar.Set(done)
}

// clear wipes the line.
func (m *meter) clear() {
	if m.bar != nil {
		_ = m.bar.Clear()
		m.bar = nil
	}
}
