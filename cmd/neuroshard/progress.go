package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// patience is how long a search runs before its progress is shown.
const patience = 300 * time.Millisecond

// progressBar shows the progress of a long run as one line on stderr. It shows nothing
// if stderr is not a terminal.
type progressBar struct {
	to  io.Writer
	on  bool
	of  int64
	bar *progressbar.ProgressBar
}

// phase shows the name of work whose steps cannot be counted.
func (p *progressBar) phase(what string) { p.at(0, -1, what) }

// at shows that done of all steps are finished.
func (p *progressBar) at(done, all int, what string) { p.show(int64(done), int64(all), what) }

func (p *progressBar) show(done, all int64, what string) {
	if !p.on {
		return
	}
	if p.bar == nil || p.of != all {
		p.clear()
		p.of = all
		p.bar = progressbar.NewOptions64(all,
			progressbar.OptionSetWriter(p.to),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(all > 0),
			progressbar.OptionThrottle(50*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	p.bar.Describe(what)
	_ = p.bar.Set64(done)
}

// clear wipes the line.
func (p *progressBar) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// searchProgress returns a function that shows the events of a search on the bar, from
// patience after now.
func searchProgress(a *app, bar *progressBar) func(search.Event) {
	start := a.env.now()
	return func(e search.Event) {
		if !bar.on || a.env.now().Sub(start) < patience {
			return
		}
		done, all := int64(e.Level), int64(max(1, e.Levels))
		if e.Limit > 0 {
			done, all = min(e.Evaluations, e.Limit), e.Limit
		}
		best := "no plan yet"
		if !math.IsInf(e.Best, 1) {
			best = fmt.Sprintf("best %v", unit.Millis(e.Best))
		}
		// A bar at its end clears itself: the last step is never shown as done.
		bar.show(min(done, all-1), all, fmt.Sprintf("searching, step %d of %d, %s", e.Level, e.Levels, best))
	}
}
