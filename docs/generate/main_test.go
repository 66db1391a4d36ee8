package main

import (
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/marks"
)

var update = flag.Bool("update", false, "write the tables into the document")

const (
	folder = "../measured"
	page   = "../RESULTS.md"
)

// docs/RESULTS.md has what the command prints, and names the command.
func TestDocument(t *testing.T) {
	want, err := parts(folder)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := marks.Replace(page, mark, want); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range want {
		if !strings.Contains(string(text), "<!-- "+mark+" -->\n\n"+part+"\n\n<!-- end -->") {
			t.Errorf("docs/RESULTS.md lacks the table\n%s\n(rewrite it: go test ./docs/generate -update)", part)
		}
	}
	if !strings.Contains(string(text), "go run ./docs/generate\n") {
		t.Error("docs/RESULTS.md does not name the command")
	}
}

// mark is the name of the generated parts in the document.
const mark = "generated"

// Errors are those of the ratios: by size for the median, with their sign for the worst.
func TestSet(t *testing.T) {
	one := &set{}
	for _, predicted := range []float64{90, 104, 101, 70} {
		one.add(predicted, 100)
	}
	if got := one.median(); math.Abs(got-.07) > 1e-12 {
		t.Errorf("median: got %v, want the mean of 0.04 and 0.1", got)
	}
	if got := one.worst(); math.Abs(got+.3) > 1e-12 {
		t.Errorf("worst: got %v, want -0.3", got)
	}
}

// A value that is no number is reported with its file, line and column.
func TestFact(t *testing.T) {
	f := &fact{where: "x.csv:2", values: map[string]string{"a": "fast", "b": "", "c": "NaN", "d": "4"}}
	if got := f.number("b") + f.number("d"); got != 4 || f.err != nil {
		t.Errorf("got %v and error %v, want 4", got, f.err)
	}
	f.number("c")
	f.number("a")
	if want := `x.csv:2: c: "NaN" is not a number`; f.err == nil || f.err.Error() != want {
		t.Errorf("got error %v, want %q", f.err, want)
	}
}
