// Package worker is the CPU's measurement backend: a process that speaks package
// protocol on its stdin and stdout, runs package engine, and runs all-to-alls
// between goroutines over loopback.
//
// Serve answers requests (serve.go). It describes the machine (machine.go, kernel.go) and measures its highest
// rates (ceilings.go). It makes up the lookups of a table when it receives the
// table (tables.go). A request for the times of a group takes these steps
// (compute.go). The group's weights and optimizer state are windows of one large
// block of memory, which is filled once and reused by every group. The engine
// prepares an operation. Then, for each repeat, the caches are flushed, and forward
// and backward are timed (clock_linux.go, statistics.go). Meanwhile nothing is
// allocated and no garbage is collected. Requests for the times of an all-to-all
// (comm.go) go to the ranks (ranks.go), which exchange blocks of memory
// (exchange.go), in the precision of the request (half.go).
//
// docs/MEASURING.md describes the messages for authors of other workers.
package worker
