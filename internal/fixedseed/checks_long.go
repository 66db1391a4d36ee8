//go:build long

package fixedseed

const checks = "100"
