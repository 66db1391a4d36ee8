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
	folder = "../measured"
	page   = "../RESULTS.md"
)

// docs/RESULTS.md has what the command prints, and names the command.
func TestDocument(t *testing.T) {
	want := parts(folder)
	if *update {
		if err := marks.Replace(page, mark, want); err != nil {
			t.Fatal(err)
		}
	}
	text := must(os.ReadFile(page))
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
