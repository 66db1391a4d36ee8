package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// usualGC is a setting that no part of the program has.
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

// TestSaveMemory: nothing is collected before the process takes much memory; then garbage is collected
// early for large problems only. A user's setting stays, and the settings come back at the end.
func TestSaveMemory(t *testing.T) {
	setUsualGC(t)
	_, none := gcSettings()
	for _, c := range []struct {
		tables, devices int
		variable        string
		first, then     int
	}{
		{largeProblem - 9, 8, "", -1, usualGC},
		{largeProblem - 8, 8, "", -1, largeGCPercent},
		{8, 65536, "", -1, largeGCPercent},
		{10 * largeProblem, 8, "GOGC", usualGC, usualGC},
		{10 * largeProblem, 8, "GOMEMLIMIT", usualGC, usualGC},
	} {
		env := environment{getenv: func(name string) string {
			if name == c.variable {
				return "200"
			}
			return ""
		}}
		restore := saveMemory(env, c.tables, c.devices)
		if got, _ := gcSettings(); got != c.first {
			t.Errorf("%d tables, %d devices, %s: got %d %% at first, want %d", c.tables, c.devices, c.variable, got, c.first)
		}
		for range 1000 { // the collector calls its hooks later
			if runtime.GC(); c.first == c.then {
				break
			}
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

// TestSaveMemoryEnds: a collection after the end changes no setting.
func TestSaveMemoryEnds(t *testing.T) {
	setUsualGC(t)
	_, none := gcSettings()
	saveMemory(environment{getenv: func(string) string { return "" }}, largeProblem, 8)()
	for range 20 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if got, limit := gcSettings(); got != usualGC || limit != none {
		t.Errorf("got %d %% and a limit of %d, want %d %% and %d", got, limit, usualGC, none)
	}
}
