package main

import (
	"github.com/neuroshard/neuroshard/report"
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
