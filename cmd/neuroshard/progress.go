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

// progressBar shows the progress of a long run on stderr: on a terminal as one line that changes, and
// elsewhere as a line every minute.
type progressBar struct {
	to       io.Writer
	terminal bool
	now      func() time.Time
	// told is when the last line was written that is not for a terminal, or the start.
	told time.Time
	of   int64
	bar  *progressbar.ProgressBar
	// eager draws every change, not only one in 50 ms.
	eager bool
}

// phase shows the name of work whose steps cannot be counted.
func (p *progressBar) phase(what string) { p.at(0, -1, what) }

// at shows that done of all steps are finished.
func (p *progressBar) at(done, all int, what string) { p.show(int64(done), int64(all), what) }

func (p *progressBar) show(done, all int64, what string) {
	if !p.due() {
		return
	}
	if !p.terminal {
		if p.told = p.now(); all > 0 {
			what += fmt.Sprintf(" (%d %%)", 100*done/all)
		}
		fmt.Fprintf(p.to, "neuroshard: %s\n", what)
		return
	}
	if p.bar == nil || p.of != all {
		p.clear()
		p.of = all
		every := 50 * time.Millisecond
		if p.eager {
			every = 0
		}
		p.bar = progressbar.NewOptions64(all,
			progressbar.OptionSetWriter(p.to),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(all > 0),
			progressbar.OptionThrottle(every),
			progressbar.OptionClearOnFinish(),
			// The library would turn its spinner in a goroutine that no call ends, and that
			// writes beside every other call.
			progressbar.OptionSetSpinnerChangeInterval(0),
		)
	}
	p.bar.Describe(what)
	_ = p.bar.Set64(done)
}

// due reports whether progress is shown at this time.
func (p *progressBar) due() bool { return p.terminal || p.now().Sub(p.told) >= time.Minute }

// clear wipes the line.
func (p *progressBar) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// planProgress shows the progress of Plan on the bar, from patience after its start. The bar
// never falls back, although some phases of the search count their work from 0 again, and
// other phases find more work.
type planProgress struct {
	now   func() time.Time
	start time.Time
	bar   *progressBar
	// share is the largest share of the work, and step the largest step, that was shown.
	share float64
	step  int
}

func newPlanProgress(a *app, bar *progressBar) *planProgress {
	return &planProgress{now: a.env.now, start: a.env.now(), bar: bar}
}

// shown reports whether progress is shown yet.
func (p *planProgress) shown() bool { return p.now().Sub(p.start) >= patience && p.bar.due() }

// barUnits is the length of the bar of a search. A bar at its end clears itself, so the last
// unit is never shown as done.
const barUnits = 1000

// event shows an event of the search.
func (p *planProgress) event(e search.Event) {
	done, all := float64(e.Level), float64(max(1, e.Levels))
	if e.Limit > 0 {
		done, all = float64(e.Evaluations), float64(e.Limit)
	}
	p.share, p.step = max(p.share, done/all), max(p.step, e.Level)
	if !p.shown() {
		return
	}
	best := "no plan yet"
	if !math.IsInf(e.Best, 1) {
		best = fmt.Sprintf("best %v", unit.Millis(e.Best))
	}
	what := "searching, " + best
	if e.Levels > 0 {
		what = fmt.Sprintf("searching, step %d of %d, %s", p.step, max(p.step, e.Levels), best)
	}
	p.bar.show(min(int64(p.share*barUnits), barUnits-1), barUnits, what)
}

// next shows what runs after the search.
func (p *planProgress) next(step string) {
	if p.shown() {
		p.bar.clear()
		p.bar.phase("the plan is found; now " + step)
	}
}

// showStep shows on the bar which plan is looked for.
func showStep(a *app, bar *progressBar) func(step string) {
	progress := newPlanProgress(a, bar)
	return func(step string) {
		if progress.shown() {
			bar.clear()
			bar.phase("looking for " + step)
		}
	}
}
