package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/search"
)

// texts parses an SVG and returns its texts, and how many shapes it draws.
func texts(t *testing.T, svg []byte) (all []string, shapes int) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for depth := 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if depth != 0 {
				t.Errorf("got %d elements open at the end", depth)
			}
			return all, shapes
		}
		if err != nil {
			t.Fatalf("the SVG is no XML: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			if depth == 0 && e.Name.Local != "svg" {
				t.Errorf("got root element %q, want svg", e.Name.Local)
			}
			depth++
			inText = e.Name.Local == "text"
			if e.Name.Local == "path" {
				shapes++
			}
		case xml.EndElement:
			depth--
			inText = false
		case xml.CharData:
			if inText {
				all = append(all, strings.TrimSpace(string(e)))
			}
		}
	}
}

func TestPlot(t *testing.T) {
	two := []Summary{
		{Setting: "d4_m16", Method: search.Paper, Tasks: 3, Solved: 3, Judge: Simulated, MeanMS: 4, Ratio: 1, WallMedianMS: 5, WallP95MS: 9},
		{Setting: "d4_m16", Method: search.Dim, Tasks: 3, Solved: 2, Judge: Simulated, MeanMS: 6, Ratio: 1.5, WallMedianMS: .5, WallP95MS: .9},
		{Setting: "a<b>&\"c\"", Method: search.Paper, Tasks: 1, Solved: 1, Judge: Simulated, MeanMS: 4, Ratio: 1, WallMedianMS: 5, WallP95MS: 9},
		{Setting: "a<b>&\"c\"", Method: search.Dim, Tasks: 1, Judge: Predicted, WallMedianMS: 1, WallP95MS: 1},
	}
	strip := func(all []Summary, change func(*Summary)) []Summary {
		out := append([]Summary(nil), all...)
		for i := range out {
			change(&out[i])
		}
		return out
	}
	for _, c := range []struct {
		name string
		all  []Summary
		want []string
	}{
		{"empty", nil, []string{"Cost of the plans (less is better)"}},
		{"two settings", two, []string{"d4_m16", `a<b>&"c"`, "paper", "dim", "cost, ratio to paper, SIMULATED"}},
		{"one setting", two[:2], []string{"d4_m16", "paper", "dim"}},
		{"one method", two[:1], []string{"d4_m16", "paper"}},
		{"no wall times", strip(two, func(s *Summary) { s.WallMedianMS, s.WallP95MS = 0, 0 }), []string{"d4_m16", "paper", "dim"}},
		{"not compared with paper", strip(two, func(s *Summary) { s.Ratio = 0 }), []string{"mean cost, ms, SIMULATED"}},
		{"predicted", strip(two, func(s *Summary) { s.Judge = Predicted }), []string{"cost, ratio to paper, predicted"}},
		{"nothing solved", strip(two, func(s *Summary) { *s = Summary{Setting: s.Setting, Method: s.Method, Tasks: 1} }), []string{"d4_m16", "paper"}},
		{"all at one time", strip(two[:2], func(s *Summary) { s.WallMedianMS, s.WallP95MS = 1, 1 }), []string{"d4_m16", "paper"}},
	} {
		var svg, again bytes.Buffer
		if err := Plot(&svg, c.all); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, _ := texts(t, svg.Bytes())
		for _, want := range c.want {
			if !strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+want+"\n") {
				t.Errorf("%s: got texts %q, want one %q", c.name, got, want)
			}
		}
		if strings.Contains(svg.String(), "NaN") || strings.Contains(svg.String(), "Inf") {
			t.Errorf("%s: got numbers that are none", c.name)
		}
		if err := Plot(&again, c.all); err != nil || !bytes.Equal(svg.Bytes(), again.Bytes()) {
			t.Errorf("%s: got other bytes the second time, error %v", c.name, err)
		}
	}
	var one, both bytes.Buffer
	if err := errors.Join(Plot(&one, two[:1]), Plot(&both, two[:2])); err != nil {
		t.Fatal(err)
	}
	_, fewer := texts(t, one.Bytes())
	if _, more := texts(t, both.Bytes()); more <= fewer {
		t.Errorf("got %d shapes of two methods and %d of one, want more", more, fewer)
	}
	broken := errors.New("broken")
	if err := Plot(failing{broken}, two); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: got error %v, want %v", err, broken)
	}
}

func TestSavePlot(t *testing.T) {
	here := t.TempDir()
	path := filepath.Join(here, "out.svg")
	for range 2 { // the second replaces the first
		if err := SavePlot(path, &Results{}); err != nil {
			t.Fatal(err)
		}
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	texts(t, svg)
	if err := SavePlot(filepath.Join(here, "none", "out.svg"), &Results{}); err == nil {
		t.Error("a folder that is not there: got no error")
	}
	if left, err := os.ReadDir(here); err != nil || len(left) != 1 {
		t.Errorf("got %d files and error %v, want the plot alone", len(left), err)
	}
}
