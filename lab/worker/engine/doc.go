// Package engine runs fused embedding lookups on this machine's CPU: the pooled
// forward, and the exact backward that sums each distinct row's gradients and
// updates it once. It is what the CPU meter times, and it computes real
// numbers, checked against a float64 reference.
//
//	NewOp        prepares a group of shards: buffers for everything, once
//	Op.Forward   sums the rows of each bag into its output
//	Op.Backward  sorts the lookups by row, sums gradients, updates rows and state
//
// An Arena lends its memory to one op after the other, so that thousands of groups
// are timed on the same pages. MeasureCeilings says what the machine could reach
// at best.
//
// The same shards give the same bytes for any number of threads: a sum's order
// depends on nothing but the lookups. Builds with and without assembly differ by
// rounding in rowwise Adagrad only.
package engine
