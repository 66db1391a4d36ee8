package main

import (
	"runtime"
	"runtime/debug"
	"sync"
)

const (
	// largeProblem is the number of tables and devices together from which planning takes enough
	// memory to save some, and largeGCPercent what garbage may then take, in percent of what is in
	// use: 10,000 tables on 1,024 devices took 130 MiB instead of 179 (docs/PERFORMANCE.md).
	largeProblem, largeGCPercent = 1000, 25
	// No garbage is collected before the process takes uncollected bytes. Most problems take less, and
	// are planned without a collection.
	uncollected = 64 << 20
)

// saveMemory sets when garbage is collected while a problem of the given size is planned: not before
// the process takes much memory, and then early if the problem is large. The environment variables GOGC
// and GOMEMLIMIT take precedence. The caller calls restore at the end.
func saveMemory(env environment, tables, devices int) (restore func()) {
	if env.getenv("GOGC") != "" || env.getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	limit := debug.SetMemoryLimit(uncollected)
	usual := debug.SetGCPercent(-1)
	then := usual
	if tables+devices >= largeProblem {
		then = largeGCPercent
	}
	var mu sync.Mutex
	over := false
	// The first collection finds first, which nothing refers to.
	first := &struct{ _ [64]byte }{}
	runtime.AddCleanup(first, func(int) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			debug.SetGCPercent(then)
			debug.SetMemoryLimit(limit)
		}
	}, 0)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		debug.SetGCPercent(usual)
		debug.SetMemoryLimit(limit)
	}
}
