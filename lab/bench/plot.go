package bench

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/neuroshard/neuroshard/search"
)

// palette holds the methods' colours: those of Okabe and Ito, which colour-blind readers
// can tell apart.
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255},
	color.RGBA{213, 94, 0, 255},
	color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255},
	color.RGBA{230, 159, 0, 255},
	color.RGBA{86, 180, 233, 255},
	color.RGBA{120, 120, 120, 255},
	color.RGBA{0, 0, 0, 255},
}

// Plot draws the summaries as an SVG of two panels: by setting and method, the
// cost as a ratio to the cost of the paper's search, or the mean cost if that search was
// not tried; and the median time to find a plan, on a logarithmic scale.
func Plot(w io.Writer, all []Summary) error {
	settings, methods := axes(all)
	cost, err := costPanel(all, settings, methods)
	if err != nil {
		return err
	}
	wall, err := wallPanel(all, settings, methods)
	if err != nil {
		return err
	}
	width := vg.Length(max(9, 2*len(settings))) * vg.Inch / 1.2
	canvas := vgsvg.New(width, 7*vg.Inch)
	dc := draw.New(canvas)
	half := dc.Size().Y / 2
	cost.Draw(draw.Crop(dc, 4, -8, half+4, -4))
	wall.Draw(draw.Crop(dc, 4, -8, 4, -half-4))
	_, err = canvas.WriteTo(w)
	return err
}

// PlotCurves draws the curves as an SVG with a panel for each setting: the cost as a ratio to
// the least cost found, against the median time to find a plan, on a logarithmic scale.
func PlotCurves(w io.Writer, all []Curve) error {
	var settings []string
	var methods []search.Method
	for _, c := range all {
		settings, methods = added(settings, c.Setting), added(methods, c.Contender)
	}
	canvas := vgsvg.New(7*vg.Inch, vg.Length(max(1, len(settings)))*4*vg.Inch)
	dc := draw.New(canvas)
	height := dc.Size().Y / vg.Length(max(1, len(settings)))
	for i, setting := range settings {
		p := plot.New()
		p.Title.Text = setting + ": cost against time, one thread (less is better)"
		p.X.Label.Text, p.Y.Label.Text = "ms to find a plan", "cost, ratio to the least one"
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Legend.Top = true
		for _, c := range all {
			if c.Setting != setting {
				continue
			}
			if err := c.draw(p, palette[slices.Index(methods, c.Contender)%len(palette)]); err != nil {
				return err
			}
		}
		logarithmic(&p.X)
		p.Draw(draw.Crop(dc, 4, -8, dc.Size().Y-height*vg.Length(i+1)+4, -height*vg.Length(i)-4))
	}
	_, err := canvas.WriteTo(w)
	return err
}

// draw adds the curve's points with plans to a panel.
func (c *Curve) draw(p *plot.Plot, colour color.Color) error {
	var points plotter.XYs
	for _, x := range c.Points {
		if x.Ratio != nil && x.WallMS > 0 {
			points = append(points, plotter.XY{X: x.WallMS, Y: x.Ratio.Mean})
		}
	}
	if len(points) == 0 {
		return nil
	}
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	line.Color, marks.Color, marks.Shape = colour, colour, draw.CircleGlyph{}
	p.Add(line, marks)
	p.Legend.Add(string(c.Contender), line)
	return nil
}

// added returns the list with the name, once.
func added[T comparable](list []T, name T) []T {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// logarithmic widens the range of a logarithmic axis, which must be above 0 and not empty.
func logarithmic(a *plot.Axis) {
	if a.Min, a.Max = a.Min/1.5, a.Max*1.5; !(a.Min > 0 && a.Max > a.Min) || math.IsInf(a.Min, 1) {
		a.Min, a.Max = .1, 1 // nothing was timed
	}
}

func axes(all []Summary) (settings []string, methods []search.Method) {
	for _, s := range all {
		settings, methods = added(settings, s.Setting), added(methods, s.Method)
	}
	return settings, methods
}

func costPanel(all []Summary, settings []string, methods []search.Method) (*plot.Plot, error) {
	p := plot.New()
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
	value := func(s Summary) float64 { return s.MeanMS }
	p.Y.Label.Text = "mean cost, ms, " + judge
	if ratio {
		value = func(s Summary) float64 { return s.Ratio }
		p.Y.Label.Text = "cost, ratio to paper, " + judge
		one := plotter.NewFunction(func(float64) float64 { return 1 })
		one.Dashes = []vg.Length{2, 2}
		p.Add(one)
	}
	p.Title.Text = "Cost of the plans (less is better)"
	if err := bars(p, all, settings, methods, value); err != nil {
		return nil, err
	}
	p.Y.Min = 0
	p.Legend.Top = true
	return p, nil
}

// bars draws one bar for each setting and method.
func bars(p *plot.Plot, all []Summary, settings []string, methods []search.Method, value func(Summary) float64) error {
	width := vg.Points(60 / float64(len(methods)))
	for m, method := range methods {
		values := make(plotter.Values, len(settings))
		for _, s := range all {
			if s.Method == method {
				values[slices.Index(settings, s.Setting)] = value(s)
			}
		}
		chart, err := plotter.NewBarChart(values, width)
		if err != nil {
			return fmt.Errorf("plot: %w", err)
		}
		chart.Color = palette[m%len(palette)]
		chart.LineStyle.Width = 0
		chart.Offset = width * vg.Length(float64(m)-float64(len(methods)-1)/2)
		p.Add(chart)
		p.Legend.Add(string(method), chart)
	}
	nominal(p, settings)
	return nil
}

// nominal labels the axis with the names of the settings, if there are any.
func nominal(p *plot.Plot, settings []string) {
	if len(settings) > 0 {
		p.NominalX(settings...)
	}
	// Room for the legend beside the last bars.
	n := float64(len(settings))
	p.X.Min, p.X.Max = -.5, n-.5+math.Max(.7, .14*n)
}

func wallPanel(all []Summary, settings []string, methods []search.Method) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "Time of a plan, one thread (median, and 95th percentile as a line)"
	p.Y.Label.Text = "ms"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	for m, method := range methods {
		var medians plotter.XYs
		for _, s := range all {
			if s.Method != method || s.WallMedianMS <= 0 {
				continue
			}
			x := float64(slices.Index(settings, s.Setting)) + .1*(float64(m)-float64(len(methods)-1)/2)
			medians = append(medians, plotter.XY{X: x, Y: s.WallMedianMS})
			spread, err := plotter.NewLine(plotter.XYs{{X: x, Y: s.WallMedianMS}, {X: x, Y: math.Max(s.WallP95MS, s.WallMedianMS)}})
			if err != nil {
				return nil, fmt.Errorf("plot: %w", err)
			}
			spread.Color = palette[m%len(palette)]
			p.Add(spread)
		}
		if len(medians) == 0 {
			continue
		}
		points, err := plotter.NewScatter(medians)
		if err != nil {
			return nil, fmt.Errorf("plot: %w", err)
		}
		points.Color, points.Shape, points.Radius = palette[m%len(palette)], draw.CircleGlyph{}, 3
		p.Add(points)
	}
	logarithmic(&p.Y)
	nominal(p, settings)
	return p, nil
}
