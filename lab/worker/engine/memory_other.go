//go:build !linux

package engine

// advise does nothing: this system has no huge pages to ask for.
func advise([]byte) {}
