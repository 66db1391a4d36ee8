package sweep

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// mostCurves is the most curves that the legend names.
const mostCurves = 12

// curve is the outcomes with plans that differ in the number of devices alone.
type curve struct {
	label string
	cells []int
}

// Plot draws the samples a second against the number of devices, and the price of samples if
// prices are known, as an SVG with a panel for each. Both axes are logarithmic, so that doubling
// the devices is the same distance everywhere.
func Plot(w io.Writer, r *Results) error {
	curves := r.curves()
	speed, err := r.panel(curves, "samples a second (more is better)", func(p *Planned) float64 { return p.SamplesPerSecond })
	if err != nil {
		return err
	}
	panels := []*plot.Plot{speed}
	if r.Prices != "" {
		price, err := r.panel(curves, "price of 10^9 samples (less is better)", func(p *Planned) float64 { return p.PricePerBillion })
		if err != nil {
			return err
		}
		panels = append(panels, price)
	}
	canvas := vgsvg.New(8*vg.Inch, vg.Length(len(panels))*4.5*vg.Inch)
	dc := draw.New(canvas)
	height := dc.Size().Y / vg.Length(len(panels))
	for i, p := range panels {
		p.Draw(draw.Crop(dc, 4, -8, dc.Size().Y-height*vg.Length(i+1)+4, -height*vg.Length(i)-4))
	}
	_, err = canvas.WriteTo(w)
	return err
}

// curves returns the curves in the order of their first cells.
func (r *Results) curves() []curve {
	var all []curve
	for _, cells := range r.divided(r.series) {
		var words []string
		for _, x := range r.Varying() {
			if x.Name != axisDevices {
				words = append(words, r.Outcomes[cells[0]].Value(x.Name))
			}
		}
		all = append(all, curve{strings.Join(words, " "), cells})
	}
	return all
}

// panel draws one value of the plans; 0 is not known.
func (r *Results) panel(curves []curve, title string, value func(p *Planned) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title+", "+r.Judge(), "devices"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, r.counts()
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(steps)
	p.Legend.Top, p.Legend.TextStyle.Font.Size, p.Legend.Padding = true, 9, 3
	for i, c := range curves {
		var points plotter.XYs
		for _, at := range c.cells {
			o := &r.Outcomes[at]
			if v := value(o.Plan); v > 0 {
				points = append(points, plotter.XY{X: float64(o.Devices), Y: v})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("plot: %w", err)
		}
		line.Color, marks.Color = plotutil.Color(i), plotutil.Color(i)
		line.Dashes, marks.Shape = plotutil.Dashes(i/len(plotutil.DefaultColors)), plotutil.Shape(i)
		p.Add(line, marks)
		if i < mostCurves && c.label != "" {
			p.Legend.Add(c.label, line, marks)
		}
	}
	widened(&p.X)
	widened(&p.Y)
	p.X.Max *= math.Pow(p.X.Max/p.X.Min, .4) // room for the legend beside the curves
	return p, nil
}

// counts returns a tick for each number of devices.
func (r *Results) counts() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for i := range r.Outcomes {
		n := r.Outcomes[i].Devices
		tick := plot.Tick{Value: float64(n), Label: strconv.Itoa(n)}
		if n > 0 && !slices.Contains(ticks, tick) {
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// steps returns ticks at 1, 2 and 5 times the powers of ten between two numbers above 0.
func steps(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for exponent := math.Floor(math.Log10(low)); exponent <= math.Log10(high); exponent++ {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * math.Pow(10, exponent); v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
			}
		}
	}
	return ticks
}

// widened leaves room around the points of a logarithmic axis, also if there are none.
func widened(a *plot.Axis) {
	if !(a.Min > 0 && a.Max >= a.Min) || math.IsInf(a.Max, 1) {
		a.Min, a.Max = 1, 10
	}
	a.Min, a.Max = a.Min/1.25, a.Max*1.25
}
