package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// usualGC is a percentage that the program never sets.
const usualGC = 123

// gcSettings returns the settings of the garbage collector.
func gcSettings() (percent int, limit int64) {
	percent = debug.SetGCPercent(usualGC)
	debug.SetGCPercent(percent)
	return percent, debug.SetMemoryLimit(-1)
}

// setUsualGC sets usualGC for a test.
func setUsualGC(t *testing.T) {
	t.Helper()
	percent := debug.SetGCPercent(usualGC)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

// TestSaveMemory: for a large problem, garbage is collected early; for another one, not before the process
// takes much memory, and then as usual. A user's setting stays, and the settings come back at the end.
func TestSaveMemory(t *testing.T) {
	setUsualGC(t)
	_, none := gcSettings()
	for _, c := range []struct {
		tables, devices int
		variable        string
		first, then     int
		limit           int64
	}{
		{largeProblem - 9, 8, "", -1, usualGC, uncollected},
		{largeProblem - 8, 8, "", largeGCPercent, largeGCPercent, none},
		{8, 65536, "", largeGCPercent, largeGCPercent, none},
		{10 * largeProblem, 8, "GOGC", usualGC, usualGC, none},
		{8, 8, "GOMEMLIMIT", usualGC, usualGC, none},
	} {
		env := environment{getenv: func(name string) string {
			if name == c.variable {
				return "200"
			}
			return ""
		}}
		restore := saveMemory(env, c.tables, c.devices)
		if got, limit := gcSettings(); got != c.first || limit != c.limit {
			t.Errorf("%d tables, %d devices, %s: got %d %% and a limit of %d at first, want %d %% and %d", c.tables, c.devices, c.variable, got, limit, c.first, c.limit)
		}
		for range 1000 { // cleanups run some time after a collection
			runtime.GC()
			if got, limit := gcSettings(); got == c.then && limit == none {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if got, limit := gcSettings(); got != c.then || limit != none {
			t.Errorf("%d tables, %d devices, %s: got %d %% and a limit of %d after a collection, want %d %% and %d", c.tables, c.devices, c.variable, got, limit, c.then, none)
		}
		restore()
		if got, limit := gcSettings(); got != usualGC || limit != none {
			t.Errorf("at the end: got %d %% and a limit of %d, want %d %% and %d", got, limit, usualGC, none)
		}
	}
}
