//go:build !long

package fixedseed

// checks is the number of values that a property test draws. With the build tag long it is the
// library's own, 100.
const checks = "20"
