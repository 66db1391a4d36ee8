package main

import (
	"runtime/debug"
	"testing"
)

// TestSaveMemory: the setting changes for large problems only, not if the user chose one, and
// comes back at the end.
func TestSaveMemory(t *testing.T) {
	const usual = 123
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	now := func() int {
		percent := debug.SetGCPercent(usual)
		debug.SetGCPercent(percent)
		return percent
	}
	for _, c := range []struct {
		tables, devices int
		gogc            string
		want            int
	}{
		{largeProblem - 9, 8, "", usual},
		{largeProblem - 8, 8, "", largeGCPercent},
		{8, 65536, "", largeGCPercent},
		{10 * largeProblem, 8, "200", usual},
	} {
		env := environment{getenv: func(name string) string {
			if name != "GOGC" {
				t.Errorf("got a look at %s, want GOGC", name)
			}
			return c.gogc
		}}
		restore := saveMemory(env, c.tables, c.devices)
		if got := now(); got != c.want {
			t.Errorf("%d tables, %d devices, GOGC %q: got %d %%, want %d", c.tables, c.devices, c.gogc, got, c.want)
		}
		restore()
		if got := now(); got != usual {
			t.Errorf("at the end: got %d %%, want %d", got, usual)
		}
	}
}
