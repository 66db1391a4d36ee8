package sweep

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/internal/chart"
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
	panels := []chart.Panel{r.panel(curves, "samples a second (more is better)", func(p *Planned) float64 { return p.SamplesPerSecond })}
	if r.Prices != "" {
		panels = append(panels, r.panel(curves, "price of 10^9 samples (less is better)", func(p *Planned) float64 { return p.PricePerBillion }))
	}
	return chart.Write(w, 770, 430, panels)
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
func (r *Results) panel(curves []curve, title string, value func(p *Planned) float64) chart.Panel {
	p := chart.Panel{
		Title: title + ", " + r.Judge(),
		X:     chart.Axis{Label: "devices", Log: true, Ticks: r.counts()},
		Y:     chart.Axis{Log: true, Room: .08},
	}
	low, high := math.Inf(1), math.Inf(-1)
	dashes := []string{"", "6 3", "2 2", "8 3 2 3"}
	for i, c := range curves {
		s := chart.Series{Colour: chart.Colour(i), Line: true, Dashes: dashes[i/chart.Colours()%len(dashes)], Mark: chart.Circle + chart.Mark(i%4)}
		for _, at := range c.cells {
			o := &r.Outcomes[at]
			if v := value(o.Plan); v > 0 {
				s.Points = append(s.Points, chart.Point{X: float64(o.Devices), Y: v})
			}
		}
		if len(s.Points) == 0 {
			continue
		}
		if i < mostCurves {
			s.Label = c.label
		}
		p.Series = append(p.Series, s)
		for _, at := range s.Points {
			low, high = min(low, at.X), max(high, at.X)
		}
	}
	if low <= high { // room for the legend beside the curves
		p.X.Min, p.X.Max = low/1.15, high*1.15*math.Pow(1.3*high/low, .25)
	}
	return p
}

// counts returns a tick for each number of devices.
func (r *Results) counts() []chart.Tick {
	var ticks []chart.Tick
	for i := range r.Outcomes {
		n := r.Outcomes[i].Devices
		tick := chart.Tick{At: float64(n), Label: strconv.Itoa(n)}
		if n > 0 && !slices.Contains(ticks, tick) {
			ticks = append(ticks, tick)
		}
	}
	return ticks
}
