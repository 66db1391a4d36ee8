//go:build long

package fixedseed

const checks, few = "100", "100"
