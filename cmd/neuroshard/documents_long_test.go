//go:build long

package main

import (
	"path/filepath"
	"testing"
)

// TestMeasuredDocuments also runs the commands that measure, each after those before it.
func TestMeasuredDocuments(t *testing.T) {
	for _, name := range documents {
		t.Run(filepath.Base(name), func(t *testing.T) { runDocument(t, name, always, long) })
	}
}
