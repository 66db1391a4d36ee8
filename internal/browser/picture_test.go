package browser_test

import (
	"image"
	"image/color"
	"image/draw"
	"testing"

	"github.com/neuroshard/neuroshard/internal/browser"
)

// drawn is a page of a heading, two panels with bars, and lines of text, each
// moved down by some pixels.
func drawn(down int, panels ...color.Gray) *image.Gray {
	p := image.NewGray(image.Rect(0, 0, 900, 1000))
	fill := func(r image.Rectangle, c color.Gray) { draw.Draw(p, r, image.NewUniform(c), image.Point{}, draw.Src) }
	fill(p.Rect, color.Gray{250})
	fill(image.Rect(30, 30, 300, 60), color.Gray{40})
	for i, c := range panels {
		fill(image.Rect(30+420*i, 100+down, 430+420*i, 400+down), c)
	}
	for line := range 30 {
		for word := range 40 {
			x, y := 30+word*20+line%7, 420+down+line*16
			fill(image.Rect(x, y, x+9+word%5, y+8), color.Gray{60})
		}
	}
	return p
}

func TestCompare(t *testing.T) {
	panel, other, page := color.Gray{150}, color.Gray{190}, color.Gray{250}
	golden := drawn(0, panel, panel)
	for _, c := range []struct {
		name string
		got  image.Image
		same bool
	}{
		{"the same", golden, true},
		{"letters moved by two pixels", drawn(2, panel, panel), true},
		{"a line more", drawn(16, panel, panel), true},
		{"a shorter page", golden.SubImage(image.Rect(0, 0, 900, 970)), true},
		{"a panel is missing", drawn(0, panel, page), false},
		{"another colour", drawn(0, panel, other), false},
		{"dark", drawn(0, color.Gray{20}, color.Gray{20}), false},
		{"everything elsewhere", drawn(200, panel, panel), false},
		{"half a page", golden.SubImage(image.Rect(0, 0, 900, 500)), false},
		{"narrower", golden.SubImage(image.Rect(0, 0, 880, 1000)), false},
		{"empty", image.NewGray(image.Rect(0, 0, 900, 1000)), false},
	} {
		if got := browser.Compare(c.got, golden); got.Same() != c.same {
			t.Errorf("%s: got %v (%v), want %v", c.name, got.Same(), got, c.same)
		}
	}
}
