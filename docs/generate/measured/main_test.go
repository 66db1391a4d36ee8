package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/marks"
)

var update = flag.Bool("update", false, "write the tables into the document")

const (
	folder = "../../measured"
	page   = "../../RESULTS.md"
)

// docs/RESULTS.md has what the command prints, and names the command.
func TestDocument(t *testing.T) {
	want, err := tables(folder)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := marks.Replace(page, "measured", []string{want}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := marks.Part(string(text), "measured"); !ok || got != want || !strings.Contains(string(text), "go run ./docs/generate/measured") {
		t.Errorf("docs/RESULTS.md has other tables than\n%s\n(rewrite them: go test ./docs/generate/measured -update)", want)
	}
}
