package main

import (
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// pageData is the element with the data of a page.
var pageData = regexp.MustCompile(`(?s)<script type="application/json" id="document">(.*?)</script>`)

// document writes the data of a page to a file: document PAGE FILE.
func document(ts *testscript.TestScript, _ bool, args []string) {
	found := pageData.FindStringSubmatch(ts.ReadFile(args[0]))
	if found == nil {
		ts.Fatalf("%s: there is no data of a page", args[0])
	}
	ts.Check(writeFile(ts.MkAbs(args[1]), []byte(found[1])))
}

// A page is not for a terminal, and the hint says where it goes.
func TestReportRefusesTerminal(t *testing.T) {
	on := quiet()
	on.terminal = func(any) (int, bool) { return 100, true }
	r := runHere(t.Context(), on, "show", "plan.json", "-o", "-")
	if r.code != exitBad || !regexp.MustCompile(`(?m)error: show: a page is not for a terminal$`).MatchString(r.stderr) || r.stdout != "" {
		t.Errorf("got exit code %d, %q and %q, want %d and that a page is not for a terminal", r.code, r.stdout, r.stderr, exitBad)
	}
}
