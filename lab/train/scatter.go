package train

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/neuroshard/neuroshard/internal/chart"
)

// Scatter draws the report's points as an SVG: the predicted over the actual time
// of each test group, on two logarithmic axes, with the line of equal times. The
// axes state whether the times are simulated or measured.
func Scatter(w io.Writer, r *Report, title string) error {
	if len(r.Points) == 0 {
		return errors.New("scatter plot: the report has no points")
	}
	points := make([]chart.Point, len(r.Points))
	low, high := math.Inf(1), math.Inf(-1)
	for i, p := range r.Points {
		x, y := float64(p.Actual), float64(p.Predicted)
		if !(x > 0 && y > 0) || math.IsInf(x+y, 1) {
			return fmt.Errorf("scatter plot: point %d, predicted %v and actual %v, has no place on logarithmic axes", i, p.Predicted, p.Actual)
		}
		points[i] = chart.Point{X: x, Y: y}
		low, high = min(low, x, y), max(high, x, y)
	}
	low, high = low/1.2, high*1.2
	axis := func(label string) chart.Axis { return chart.Axis{Label: label, Log: true, Min: low, Max: high} }
	return chart.Write(w, 580, 580, []chart.Panel{{
		Title: title,
		X:     axis(strings.TrimSpace(strings.ToUpper(r.Source)) + " ms of a test group, forward and backward"),
		Y:     axis("predicted ms"),
		Series: []chart.Series{
			{Colour: chart.Colour(0), Points: points, Mark: chart.Circle, Radius: 1.5},
			{Colour: "#000", Points: []chart.Point{{X: low, Y: low}, {X: high, Y: high}}, Line: true, Dashes: "3 3"},
		},
	}})
}
