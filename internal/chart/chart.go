// Package chart draws panels of curves, points and bars as SVG: chart.go holds what is
// drawn and draws it, axis.go gives values their places and axes their ticks.
//
// The package replaces a plotting library that brought 4.3 MB of fonts and writers of PDF,
// TeX and PNG into the binary. A browser knows how wide a text is, so an SVG needs no fonts.
//
// The usual entry point is Write.
package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
)

// Panel is one plot: its axes, and what is drawn over them.
type Panel struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// Series is points that are drawn alike. Series with a label are in the legend.
type Series struct {
	Label  string
	Colour string // as CSS has it, such as "#0072b2"; Colour returns one for each index
	Points []Point
	Line   bool    // joins the points
	Dashes string  // dashes and gaps of the line in pixels, such as "4 3"; "" is a solid line
	Mark   Mark    // drawn at each point
	Radius float64 // of the marks, in pixels; 0 is 3
	Bar    float64 // width of the bars from 0 to each point, in units of the X axis; 0 draws no bars
}

// Point is a place in the units of the axes. A coordinate that is not finite, or not above 0 on
// a logarithmic axis, is an error of Write.
type Point struct{ X, Y float64 }

// Mark is the shape that stands at a point.
type Mark int

// The marks.
const (
	NoMark Mark = iota
	Circle
	Square
	Triangle
	Diamond
)

// marks holds the outline of each mark with the radius 1, around 0, 0.
var marks = map[Mark]string{
	Circle:   "m-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z",
	Square:   "m-.9-.9h1.8v1.8h-1.8z",
	Triangle: "m0-1.2l1.1 2h-2.2z",
	Diamond:  "m0-1.2l1.2 1.2-1.2 1.2-1.2-1.2z",
}

// palette is the colours of Okabe and Ito, which colour-blind readers can tell apart.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#787878", "#000000"}

// Colour returns the colour of the series with an index of 0 or more; colours repeat.
func Colour(i int) string { return palette[i%len(palette)] }

// Colours is the number of colours before they repeat.
func Colours() int { return len(palette) }

// Margins around the plot of a panel, in pixels.
const (
	left, right, top, bottom = 74., 18., 34., 52.
	lineHeight               = 16.
)

// Write draws the panels below each other, each with the given width and height in pixels. The
// same panels give the same bytes.
func Write(w io.Writer, width, height float64, panels []Panel) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%[1]s" height="%[2]s" viewBox="0 0 %[1]s %[2]s" font-family="sans-serif" font-size="12">`+"\n",
		px(width), px(height*float64(len(panels))))
	fmt.Fprintf(&b, `<path fill="#fff" d="M0 0h%sv%sH0z"/>`+"\n", px(width), px(height*float64(len(panels))))
	for i := range panels {
		if err := panels[i].draw(&b, height*float64(i), width, height); err != nil {
			return fmt.Errorf("chart %q: %w", panels[i].Title, err)
		}
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// draw draws a panel whose upper edge is at y.
func (p *Panel) draw(b *bytes.Buffer, y, width, height float64) error {
	x, err := p.X.scale(p.values(func(q Point) float64 { return q.X }), left, width-right)
	if err != nil {
		return err
	}
	v, err := p.Y.scale(p.values(func(q Point) float64 { return q.Y }), y+height-bottom, y+top)
	if err != nil {
		return err
	}
	text(b, (x.from+x.to)/2, y+20, `text-anchor="middle" font-weight="bold"`, p.Title)
	text(b, (x.from+x.to)/2, v.from+38, `text-anchor="middle"`, p.X.Label)
	middle := (v.from + v.to) / 2
	text(b, 16, middle, fmt.Sprintf(`text-anchor="middle" transform="rotate(-90 16 %s)"`, px(middle)), p.Y.Label)
	for _, t := range x.ticks {
		fmt.Fprintf(b, `<path stroke="#ddd" d="M%s %sV%s"/>`+"\n", px(x.at(t.At)), px(v.from), px(v.to))
		text(b, x.at(t.At), v.from+17, `text-anchor="middle"`, t.Label)
	}
	for _, t := range v.ticks {
		fmt.Fprintf(b, `<path stroke="#ddd" d="M%s %sH%s"/>`+"\n", px(x.from), px(v.at(t.At)), px(x.to))
		text(b, x.from-6, v.at(t.At)+4, `text-anchor="end"`, t.Label)
	}
	fmt.Fprintf(b, `<path fill="none" stroke="#000" d="M%s %sV%sH%s"/>`+"\n", px(x.from), px(v.to), px(v.from), px(x.to))
	for i := range p.Series {
		p.Series[i].draw(b, x, v)
	}
	p.legend(b, x.to, v.to)
	return nil
}

// values returns one coordinate of all points, with what bars need: their foot and their width.
func (p *Panel) values(of func(Point) float64) []float64 {
	var all []float64
	for i := range p.Series {
		s := &p.Series[i]
		for _, q := range s.Points {
			all = append(all, of(q))
			if s.Bar > 0 {
				all = append(all, of(Point{q.X - s.Bar/2, 0}), of(Point{q.X + s.Bar/2, 0}))
			}
		}
	}
	return all
}

// draw draws the bars, the line and the marks of a series.
func (s *Series) draw(b *bytes.Buffer, x, y scale) {
	var line, shapes, bars bytes.Buffer
	for i, p := range s.Points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&line, "%s%s %s", command, px(x.at(p.X)), px(y.at(p.Y)))
		if s.Bar > 0 {
			fmt.Fprintf(&bars, "M%s %sH%sV%sH%sz", px(x.at(p.X-s.Bar/2)), px(y.at(0)), px(x.at(p.X+s.Bar/2)), px(y.at(p.Y)), px(x.at(p.X-s.Bar/2)))
		}
		if s.Mark != NoMark {
			mark(&shapes, s, x.at(p.X), y.at(p.Y))
		}
	}
	if bars.Len() > 0 {
		fmt.Fprintf(b, `<path fill="%s" d="%s"/>`+"\n", s.Colour, bars.Bytes())
	}
	if s.Line && line.Len() > 0 {
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="1.5"%s d="%s"/>`+"\n", s.Colour, s.dashes(), line.Bytes())
	}
	b.Write(shapes.Bytes())
}

// dashes returns the attribute of the series' dashes.
func (s *Series) dashes() string {
	if s.Dashes == "" {
		return ""
	}
	return fmt.Sprintf(` stroke-dasharray="%s"`, s.Dashes)
}

// mark draws the mark of a series.
func mark(b *bytes.Buffer, s *Series, x, y float64) {
	radius := s.Radius
	if radius == 0 {
		radius = 3
	}
	fmt.Fprintf(b, `<path fill="%s" transform="translate(%s %s) scale(%s)" d="%s"/>`+"\n", s.Colour, px(x), px(y), px(radius), marks[s.Mark])
}

// legend lists the series with labels, below each other in the upper right corner.
func (p *Panel) legend(b *bytes.Buffer, right, y float64) {
	for i := range p.Series {
		s := &p.Series[i]
		if s.Label == "" {
			continue
		}
		y += lineHeight
		text(b, right-30, y, `text-anchor="end" stroke="#fff" stroke-width="3" paint-order="stroke"`, s.Label)
		if s.Bar > 0 {
			fmt.Fprintf(b, `<path fill="%s" d="M%s %sh20v9h-20z"/>`+"\n", s.Colour, px(right-24), px(y-9))
		}
		if s.Line {
			fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="1.5"%s d="M%s %sh20"/>`+"\n", s.Colour, s.dashes(), px(right-24), px(y-4))
		}
		if s.Mark != NoMark {
			mark(b, s, right-14, y-4)
		}
	}
}

// text draws a text, if there is one.
func text(b *bytes.Buffer, x, y float64, attributes, s string) {
	if s == "" {
		return
	}
	fmt.Fprintf(b, `<text x="%s" y="%s" %s>`, px(x), px(y), attributes)
	_ = xml.EscapeText(b, []byte(s)) // a buffer takes every byte
	b.WriteString("</text>\n")
}

// px formats a coordinate with two digits after the point at most.
func px(v float64) string {
	v = math.Round(v*100) / 100
	if v == 0 {
		v = 0 // not -0
	}
	return fmt.Sprintf("%g", v)
}
