//go:build long

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMeasuredDocuments also runs the commands that measure, each after those before it. They
// start workers, processes of the same program, so the program is built.
func TestMeasuredDocuments(t *testing.T) {
	program := filepath.Join(t.TempDir(), "neuroshard")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	runBuilt := func(t *testing.T, args []string) (string, int) {
		command := exec.CommandContext(t.Context(), program, args...)
		out, err := command.CombinedOutput()
		if command.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), command.ProcessState.ExitCode()
	}
	for _, name := range documents {
		t.Run(filepath.Base(name), func(t *testing.T) { runDocument(t, name, runBuilt, always, long) })
	}
}
