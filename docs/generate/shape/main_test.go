package main

import (
	"strings"
	"testing"
)

// TestRun prints the figures of this checkout.
func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(&b, []string{"../../.."}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| | ../../.. |\n|---|---|\n", "\n| packages | ", "\n| pairs of files of `search`", "\n| tests of `search` | "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %q, want %q in it", b.String(), want)
		}
	}
	if err := run(&b, []string{"testdata"}); err == nil {
		t.Error("got no error for a folder that is no checkout")
	}
}
