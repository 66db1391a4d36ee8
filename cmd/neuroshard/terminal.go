package main

import (
	"fmt"
	"math"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// plainWidth is the width of reports that do not go to a terminal.
const plainWidth = 120

// reportOptions returns the width of stdout, and whether it takes colours: where
// it is a terminal and NO_COLOR (no-color.org) is not set.
func (a *app) reportOptions() report.Options {
	width, ok := a.env.terminal(a.stdout.to)
	if !ok {
		return report.Options{Width: plainWidth}
	}
	return report.Options{Width: width, Colour: a.env.getenv("NO_COLOR") == "" && a.env.getenv("TERM") != "dumb"}
}

// patience is how long a search runs before its progress is shown.
const patience = 300 * time.Millisecond

// progress draws a search's events as one line on stderr, if that is a terminal.
type progress struct {
	app   *app
	on    bool
	start time.Time
	bar   *progressbar.ProgressBar
}

func (a *app) newProgress() *progress {
	_, on := a.env.terminal(a.stderr)
	return &progress{app: a, on: on, start: a.env.now()}
}

// show draws an event.
func (p *progress) show(e search.Event) {
	if !p.on || p.app.env.now().Sub(p.start) < patience {
		return
	}
	done, all := int64(e.Level), int64(max(1, e.Levels))
	if e.Limit > 0 {
		done, all = min(e.Evaluations, e.Limit), e.Limit
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(all,
			progressbar.OptionSetWriter(p.app.stderr),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionThrottle(50*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	best := "no plan yet"
	if !math.IsInf(e.Best, 1) {
		best = fmt.Sprintf("best %v", unit.Millis(e.Best))
	}
	p.bar.Describe(fmt.Sprintf("searching, step %d of %d, %s", e.Level, e.Levels, best))
	// The bar is finished by clear alone, so it never reaches its end here.
	_ = p.bar.Set64(min(done, all-1))
}

// clear wipes the line.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
