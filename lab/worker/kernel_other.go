//go:build !amd64 || noasm

package worker

// assembly says that the engine's inner loops run as assembly; there is none.
const assembly = false
