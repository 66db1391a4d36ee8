package browser

import (
	"fmt"
	"image"
	"math"
)

// picture.go compares what people see: where a page is dark and where it is
// bright. Each picture becomes a grid of cells. A cell is the mean luminance of
// its pixels:
//
//	picture          cells
//	|Title.......|   | 7 9 9 |
//	|####  ##....|   | 3 6 9 |
//	|............|   | 9 9 9 |
//
// A font of another version moves letters by a pixel and leaves the mean of a
// cell nearly as it was. A panel that is missing, that has another colour, or
// that lies over another one changes whole cells. A page that grew by a line
// moves everything below the line, so each row of cells is compared with the
// rows nearby as well, and the nearest counts.

// Tolerances of Same, in levels of luminance from 0 to 255.
const (
	// cell is the side of a cell in pixels.
	cell = 20
	// shift is how many rows of cells a part of the page may have moved.
	shift = 2
	// far is the difference from which on a cell counts as another one.
	far = 24
	// farShare is the share of cells that may be another one.
	farShare = .03
	// meanLimit is the largest mean difference of all cells.
	meanLimit = 3
	// heightLimit is the largest relative difference of heights.
	heightLimit = .05
)

// Difference is how far two pictures are apart.
type Difference struct {
	// Got and Want are the sizes in pixels.
	Got, Want image.Point
	// Mean is the mean difference of cells, in levels of luminance from 0 to 255.
	Mean float64
	// Far is the share of cells that differ by 24 levels or more.
	Far float64
}

// Same is whether a person would take the pictures as the same page: equal widths, heights within
// 5 %, a mean difference of at most 3 levels of 255, and at most 3 % of the cells far apart.
func (d Difference) Same() bool {
	high := math.Abs(float64(d.Got.Y)/float64(d.Want.Y) - 1)
	return d.Got.X == d.Want.X && high <= heightLimit && d.Mean <= meanLimit && d.Far <= farShare
}

// String says the difference in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%d x %d pixels against %d x %d; cells differ by %.2f of 255 levels on average (limit %d), %.2f %% of them by %d or more (limit %.0f %%)",
		d.Got.X, d.Got.Y, d.Want.X, d.Want.Y, d.Mean, meanLimit, 100*d.Far, far, 100*farShare)
}

// Compare compares two pictures of at least one pixel each. Of pictures of different heights, it
// compares what both have.
func Compare(got, want image.Image) Difference {
	d := Difference{Got: got.Bounds().Size(), Want: want.Bounds().Size()}
	a, b := cells(got), cells(want)
	n := 0
	for y := range min(len(a), len(b)) {
		for x := range min(len(a[y]), len(b[y])) {
			e := math.Min(nearest(a[y][x], b, x, y), 255)
			d.Mean += e
			if e >= far {
				d.Far++
			}
			n++
		}
	}
	d.Mean /= float64(n)
	d.Far /= float64(n)
	return d
}

// nearest returns the least difference of a level from the cells of a column near row y.
func nearest(level float64, in [][]float64, x, y int) float64 {
	least := math.Inf(1)
	for at := max(0, y-shift); at <= min(len(in)-1, y+shift); at++ {
		least = math.Min(least, math.Abs(level-in[at][x]))
	}
	return least
}

// cells returns the mean luminance of each cell, row by row. Cells at the right and lower edge
// may be smaller.
func cells(p image.Image) [][]float64 {
	b := p.Bounds()
	rows := make([][]float64, 0, b.Dy()/cell+1)
	for y := b.Min.Y; y < b.Max.Y; y += cell {
		var row []float64
		for x := b.Min.X; x < b.Max.X; x += cell {
			row = append(row, luminance(p, image.Rect(x, y, x+cell, y+cell).Intersect(b)))
		}
		rows = append(rows, row)
	}
	return rows
}

// luminance is the mean of Rec. 709's luma in a part of a picture, from 0 to 255.
func luminance(p image.Image, part image.Rectangle) float64 {
	var sum float64
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			r, g, b, _ := p.At(x, y).RGBA()
			sum += .2126*float64(r) + .7152*float64(g) + .0722*float64(b)
		}
	}
	return sum / 257 / float64(part.Dx()*part.Dy())
}
