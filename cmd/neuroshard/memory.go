package main

import "runtime/debug"

// largeProblem is the number of tables and devices together from which planning takes enough
// memory to save some, and largeGCPercent what garbage may then take, in percent of what is in
// use. Planning makes little garbage, so this costs no time that could be measured: 10,000 tables
// on 1,024 devices took 130 MiB instead of 179 (docs/PERFORMANCE.md).
const largeProblem, largeGCPercent = 1000, 25

// saveMemory has the garbage collector keep less garbage while a problem of the given size is
// planned, unless the environment variable GOGC says how much to keep. The caller calls restore
// at the end.
func saveMemory(env environment, tables, devices int) (restore func()) {
	if tables+devices < largeProblem || env.getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(largeGCPercent)
	return func() { debug.SetGCPercent(before) }
}
