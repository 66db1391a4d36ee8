//go:build !long

package fixedseed

// checks is the number of values that a property test draws, and few the number in tests that call
// Few. With the build tag long, both are larger.
const checks, few = "20", "10"
