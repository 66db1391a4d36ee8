// Package engine runs fused embedding lookups on this machine's CPU: the pooled
// forward, and the exact backward, which sums the gradients of each distinct row
// and updates the row once. The CPU's measurement backend times the engine. The
// engine computes real numbers, checked against a float64 reference.
//
//	NewOp        prepares a group of shards: all buffers, once (op.go)
//	Op.Forward   sums the rows of each bag into the bag's output (forward.go)
//	Op.Backward  sorts the lookups by row (sort.go), sums gradients, and updates
//	             rows and optimizer state (backward.go)
//
// A team of threads shares the work (team.go). An Arena gives its memory to one op
// after the other, so that thousands of groups are timed on the same pages
// (memory.go). MeasureCeilings measures the highest rates of the machine
// (ceilings.go).
//
// The same shards give the same bytes for any number of threads, because the order
// of a sum depends only on the lookups. Builds with and without assembly differ
// only in rounding, in row-wise Adagrad.
package engine
