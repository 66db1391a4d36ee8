//go:build !unix

package main

// processorSeconds returns 0: the processor time is not known here.
func processorSeconds() float64 { return 0 }
