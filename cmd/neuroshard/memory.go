package main

import (
	"runtime"
	"runtime/debug"
	"sync"
)

const (
	// largeProblem is the number of tables and devices together from which planning takes enough
	// memory to save some, and largeGCPercent what garbage may then take, in percent of what is in
	// use.
	largeProblem, largeGCPercent = 1000, 25
	// Smaller problems are planned without a collection of garbage until the process takes uncollected
	// bytes. Most never do.
	uncollected = 64 << 20
)

// saveMemory sets when garbage is collected while a problem of the given size is planned: early if the
// problem is large, and otherwise not before the process takes uncollected bytes. The environment
// variable GOGC takes precedence, and GOMEMLIMIT unless the problem is large. The caller calls restore at
// the end. Settings are those of the process, so calls must not overlap.
func saveMemory(env environment, tables, devices int) (restore func()) {
	if env.getenv("GOGC") != "" {
		return func() {}
	}
	if tables+devices >= largeProblem {
		usual := debug.SetGCPercent(largeGCPercent)
		return func() { debug.SetGCPercent(usual) }
	}
	if env.getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	limit, usual := debug.SetMemoryLimit(uncollected), debug.SetGCPercent(-1)
	back := sync.OnceFunc(func() {
		debug.SetGCPercent(usual)
		debug.SetMemoryLimit(limit)
	})
	// Nothing refers to first, so the first collection frees it, and the cleanup runs.
	first := &struct{ _ [64]byte }{}
	runtime.AddCleanup(first, func(int) { back() }, 0)
	return back
}
