//go:build long

package fixedseed

const checks, few = "50", "30"
