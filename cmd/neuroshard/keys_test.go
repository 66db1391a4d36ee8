package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/internal/manual"
)

// TestFlagsAreFew wants a help of plan for one screen, and few names of flags to know.
func TestFlagsAreFew(t *testing.T) {
	const mostFlags, mostLines = 90, 40
	names := map[string]bool{}
	var count func(c *cobra.Command)
	count = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !manual.IsKey(f) {
				names[f.Name] = true
			}
		})
		for _, sub := range c.Commands() {
			count(sub)
		}
	}
	count(newRootCommand(&app{env: quiet()}))
	if len(names) > mostFlags {
		t.Errorf("got %d flags, want at most %d", len(names), mostFlags)
	}
	r := runHere(t.Context(), quiet(), "plan", "--help")
	if lines := strings.Count(r.stdout, "\n"); lines > mostLines || strings.Contains(r.stdout, "reserve_share") {
		t.Errorf("got %d lines, want at most %d without keys", lines, mostLines)
	}
	if r := runHere(t.Context(), quiet(), "plan", "--help-all"); !strings.Contains(r.stdout, "\n  reserve_share number ") {
		t.Errorf("got no key reserve_share in\n%s", r.stdout)
	}
}
