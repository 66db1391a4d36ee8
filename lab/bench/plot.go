package bench

import (
	"cmp"
	"io"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/chart"
	"github.com/neuroshard/neuroshard/search"
)

// Plot draws the summaries as an SVG of two panels: by setting and method, the
// cost as a ratio to the cost of the paper's search, or the mean cost if that search was
// not tried; and the median time to find a plan, on a logarithmic scale.
func Plot(w io.Writer, all []Summary) error {
	settings, methods := axes(all)
	width := float64(max(9, 2*len(settings))) * 80
	return chart.Write(w, width, 340, []chart.Panel{costPanel(all, settings, methods), wallPanel(all, settings, methods)})
}

// PlotCurves draws the curves as an SVG with a panel for each setting: the cost as a ratio to
// the least cost found, against the median processor time to find a plan, or the median time of a
// point whose processor time is not known, on a logarithmic scale.
func PlotCurves(w io.Writer, all []Curve) error {
	var settings []string
	var methods []search.Method
	label := "ms to find a plan"
	for _, c := range all {
		settings, methods = added(settings, c.Setting), added(methods, c.Contender)
		if slices.ContainsFunc(c.Points, func(p Point) bool { return p.CPUMS > 0 }) {
			label = "processor ms to find a plan"
		}
	}
	var panels []chart.Panel
	for _, setting := range settings {
		p := chart.Panel{
			Title: setting + ": cost against time, one thread (less is better)",
			X:     chart.Axis{Label: label, Log: true, Room: .06},
			Y:     chart.Axis{Label: "cost, ratio to the least one", Room: .05},
		}
		for _, c := range all {
			if c.Setting == setting {
				p.Series = append(p.Series, c.series(slices.Index(methods, c.Contender)))
			}
		}
		panels = append(panels, p)
	}
	return chart.Write(w, 670, 380, panels)
}

// series returns the points with plans of the curve of the method with an index. Where colours
// repeat, the marks differ.
func (c *Curve) series(i int) chart.Series {
	marks := []chart.Mark{chart.Circle, chart.Square, chart.Triangle, chart.Diamond}
	s := chart.Series{Label: string(c.Contender), Colour: chart.Colour(i), Line: true, Mark: marks[i/chart.Colours()%len(marks)]}
	for _, x := range c.Points {
		time := cmp.Or(x.CPUMS, x.WallMS)
		if x.Ratio != nil && time > 0 {
			s.Points = append(s.Points, chart.Point{X: time, Y: x.Ratio.Mean})
		}
	}
	if len(s.Points) == 0 {
		s.Label = ""
	}
	return s
}

// added returns the list with the name, once.
func added[T comparable](list []T, name T) []T {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

func axes(all []Summary) (settings []string, methods []search.Method) {
	for _, s := range all {
		settings, methods = added(settings, s.Setting), added(methods, s.Method)
	}
	return settings, methods
}

// nominal returns an axis with the names of the settings, with room for the legend beside the
// last one.
func nominal(settings []string) chart.Axis {
	n := float64(len(settings))
	a := chart.Axis{Min: -.5, Max: n - .5 + math.Max(.7, .14*n), Ticks: []chart.Tick{}}
	for i, name := range settings {
		a.Ticks = append(a.Ticks, chart.Tick{At: float64(i), Label: name})
	}
	return a
}

// costPanel draws a bar for each setting and method.
func costPanel(all []Summary, settings []string, methods []search.Method) chart.Panel {
	judge, ratio := Predicted, false
	for _, s := range all {
		switch s.Judge {
		case Simulated:
			judge = "SIMULATED"
		case Measured:
			judge = Measured
		}
		ratio = ratio || s.Ratio > 0
	}
	p := chart.Panel{Title: "Cost of the plans (less is better)", X: nominal(settings), Y: chart.Axis{Label: "mean cost, ms, " + judge}}
	value := func(s Summary) float64 { return s.MeanMS }
	if ratio {
		value = func(s Summary) float64 { return s.Ratio }
		p.Y.Label, p.Y.Max = "cost, ratio to paper, "+judge, 1.05
		p.Series = []chart.Series{{Colour: "#000", Line: true, Dashes: "3 3", Points: []chart.Point{{X: p.X.Min, Y: 1}, {X: p.X.Max, Y: 1}}}}
	}
	width := .8 / float64(max(1, len(methods)))
	for m, method := range methods {
		bars := chart.Series{Label: string(method), Colour: chart.Colour(m), Bar: width}
		for _, s := range all {
			if s.Method == method {
				bars.Points = append(bars.Points, chart.Point{X: place(s, settings, m, methods, width), Y: value(s)})
				p.Y.Max = math.Max(p.Y.Max, value(s)*1.05)
			}
		}
		p.Series = append(p.Series, bars)
	}
	if p.Y.Max == 0 {
		p.Y.Max = 1 // no plan has a cost
	}
	return p
}

// place returns the place of a summary on the axis: the methods of a setting stand side by side.
func place(s Summary, settings []string, method int, methods []search.Method, step float64) float64 {
	return float64(slices.Index(settings, s.Setting)) + step*(float64(method)-float64(len(methods)-1)/2)
}

// wallPanel draws the times to find a plan of each setting and method: a mark at the median, and
// a line to the 95th percentile.
func wallPanel(all []Summary, settings []string, methods []search.Method) chart.Panel {
	p := chart.Panel{
		Title: "Time of a plan, one thread (median, and 95th percentile as a line)",
		X:     nominal(settings),
		Y:     chart.Axis{Label: "ms", Log: true, Room: .08},
	}
	for m, method := range methods {
		medians := chart.Series{Colour: chart.Colour(m), Mark: chart.Circle}
		for _, s := range all {
			if s.Method != method || s.WallMedianMS <= 0 {
				continue
			}
			at := chart.Point{X: place(s, settings, m, methods, .8/float64(len(methods))), Y: s.WallMedianMS}
			medians.Points = append(medians.Points, at)
			p.Series = append(p.Series, chart.Series{Colour: chart.Colour(m), Line: true, Points: []chart.Point{at, {X: at.X, Y: math.Max(s.WallP95MS, at.Y)}}})
		}
		p.Series = append(p.Series, medians)
	}
	return p
}
