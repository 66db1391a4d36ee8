package train

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Scatter draws the report's points as an SVG: the predicted over the actual time
// of each test group, on two logarithmic axes, with the line of equal times. The
// axes state whether the times are simulated or measured.
func Scatter(w io.Writer, r *Report, title string) error {
	if len(r.Points) == 0 {
		return errors.New("scatter plot: the report has no points")
	}
	xys := make(plotter.XYs, len(r.Points))
	low, high := math.Inf(1), math.Inf(-1)
	for i, p := range r.Points {
		x, y := float64(p.Actual), float64(p.Predicted)
		if !(x > 0 && y > 0) || math.IsInf(x+y, 1) {
			return fmt.Errorf("scatter plot: point %d, predicted %v and actual %v, has no place on logarithmic axes", i, p.Predicted, p.Actual)
		}
		xys[i] = plotter.XY{X: x, Y: y}
		low, high = min(low, x, y), max(high, x, y)
	}
	low, high = low/1.2, high*1.2
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = strings.TrimSpace(strings.ToUpper(r.Source)) + " ms of a test group, forward and backward"
	p.Y.Label.Text = "predicted ms"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	equal, err := plotter.NewLine(plotter.XYs{{X: low, Y: low}, {X: high, Y: high}})
	if err != nil {
		return fmt.Errorf("scatter plot: %w", err)
	}
	equal.Dashes = []vg.Length{2, 2}
	points, err := plotter.NewScatter(xys)
	if err != nil {
		return fmt.Errorf("scatter plot: %w", err)
	}
	points.Color, points.Shape, points.Radius = color.RGBA{0, 114, 178, 255}, draw.CircleGlyph{}, 1.2
	p.Add(points, equal)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low, high, low, high
	canvas := vgsvg.New(6*vg.Inch, 6*vg.Inch)
	p.Draw(draw.Crop(draw.New(canvas), 4, -12, 4, -4))
	_, err = canvas.WriteTo(w)
	return err
}
