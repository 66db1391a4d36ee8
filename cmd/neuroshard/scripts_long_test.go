//go:build long

package main

import "testing"

// TestLongScripts runs the scripts that take more time than the short tests
// have: the same promises as testdata/script, on larger problems.
func TestLongScripts(t *testing.T) { runScripts(t, "testdata/long") }
