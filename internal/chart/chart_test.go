package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
)

func sample() []Panel {
	return []Panel{
		{
			Title: `costs of "a" & <b>`,
			X:     Axis{Label: "devices", Log: true},
			Y:     Axis{Label: "ms", Room: .1},
			Series: []Series{
				{Label: "line", Colour: Colour(0), Points: []Point{{1, 4}, {10, 3}, {100, -1}}, Line: true, Dashes: "4 3"},
				{Label: "marks", Colour: Colour(1), Points: []Point{{2, 4}}, Mark: Diamond},
			},
		},
		{Title: "bars", X: Axis{Min: -.5, Max: 1.5, Ticks: []Tick{{0, "one"}, {1, "two"}}}, Series: []Series{
			{Label: "bars", Colour: Colour(9), Points: []Point{{0, 2}, {1, 4}}, Bar: .5},
		}},
		{Title: "nothing"},
	}
}

// elements parses an SVG and returns the texts that it shows and the outlines of its paths.
func elements(t *testing.T, svg []byte) (texts, paths []string) {
	t.Helper()
	type element struct {
		Text string `xml:",chardata"`
		D    string `xml:"d,attr"`
	}
	var root struct {
		Texts []element `xml:"text"`
		Paths []element `xml:"path"`
	}
	if err := xml.Unmarshal(svg, &root); err != nil {
		t.Fatalf("the SVG is no XML: %v", err)
	}
	for _, e := range root.Texts {
		texts = append(texts, e.Text)
	}
	for _, e := range root.Paths {
		paths = append(paths, e.D)
	}
	return texts, paths
}

func TestWrite(t *testing.T) {
	var svg, again bytes.Buffer
	must.Do(t, errors.Join(Write(&svg, 400, 300, sample()), Write(&again, 400, 300, sample())))
	if !bytes.Equal(svg.Bytes(), again.Bytes()) {
		t.Error("got other bytes the second time")
	}
	texts, paths := elements(t, svg.Bytes())
	for _, want := range []string{`costs of "a" & <b>`, "devices", "ms", "1", "10", "100", "line", "marks", "one", "two", "bars", "nothing"} {
		if !strings.Contains("\n"+strings.Join(texts, "\n")+"\n", "\n"+want+"\n") {
			t.Errorf("got texts %q, want one %q", texts, want)
		}
	}
	// The plots lie between x = 74 and 382. The first is 34 to 248 high, with 0.5 of room above 4
	// and below -1; the second 334 to 548, from 0 to 4.
	for _, want := range []string{"M74 51.83L228 87.5L382 230.17", "M112.5 548H189.5V441H112.5zM266.5 548H343.5V334H266.5z"} {
		found := false
		for _, d := range paths {
			found = found || d == want
		}
		if !found {
			t.Errorf("got no path %q in %q", want, paths)
		}
	}
	if strings.Contains(svg.String(), "NaN") || strings.Contains(svg.String(), "Inf") {
		t.Errorf("got coordinates that are no numbers: %s", svg.String())
	}
}

func TestWriteRefusesPointsWithoutAPlace(t *testing.T) {
	for _, p := range []Point{{0, 1}, {-1, 1}, {math.NaN(), 1}, {1, math.Inf(1)}} {
		err := Write(io.Discard, 400, 300, []Panel{{Title: "x", X: Axis{Log: true}, Series: []Series{{Points: []Point{p}}}}})
		if err == nil {
			t.Errorf("%v on a logarithmic axis: got no error", p)
		}
	}
}

// TestTicksBeyondTheEnds wants ticks without a place in the panel to be left out.
func TestTicksBeyondTheEnds(t *testing.T) {
	var svg bytes.Buffer
	must.Do(t, Write(&svg, 400, 300, []Panel{{X: Axis{Log: true, Ticks: []Tick{{4, "four"}, {8, "eight"}, {16, "sixteen"}}}, Series: []Series{{Points: []Point{{8, 1}, {12, 2}}, Mark: Circle}}}}))
	texts, _ := elements(t, svg.Bytes())
	if all := strings.Join(texts, " "); !strings.Contains(all, "eight") || strings.Contains(all, "four") || strings.Contains(all, "sixteen") {
		t.Errorf("got ticks %q, want eight alone of those of the devices", texts)
	}
}

func TestRoundTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		log       bool
		want      string
	}{
		{0, 1, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0, 7, false, "0 1 2 3 4 5 6 7"},
		{-1, 1, false, "-1.0 -0.5 0.0 0.5 1.0"},
		{0, 42, false, "0 10 20 30 40"},
		{.97, 1.031, false, "0.97 0.98 0.99 1.00 1.01 1.02 1.03"},
		{3, 40, true, "5 10 20"},
		{11, 19, true, "11 12 13 14 15 16 17 18 19"}, // no three powers
		{.45, 1.1, true, "0.5 0.6 0.7 0.8 0.9 1.0 1.1"},
		{.02, 1, true, "0.02 0.05 0.1 0.2 0.5 1"},
		{1, 1e6, true, "1 10 100 1000 10000 100000 1000000"},
		{1, 1e20, true, "1 1000 1000000 1000000000 1000000000000 1000000000000000 1000000000000000000"},
	} {
		var got []string
		for _, tick := range round(c.low, c.high, c.log) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v to %v: got %q, want %q", c.low, c.high, strings.Join(got, " "), c.want)
		}
	}
}
