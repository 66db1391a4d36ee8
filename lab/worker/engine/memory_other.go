//go:build !linux

package engine

// advise does nothing: this system has no huge pages to request.
func advise([]byte) {}
