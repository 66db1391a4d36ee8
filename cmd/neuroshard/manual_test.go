package main

import (
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
)

// TestCommandsPage wants docs/COMMANDS.md to be what the commands say of themselves.
func TestCommandsPage(t *testing.T) {
	const page = "../../docs/COMMANDS.md"
	made := runHere(t.Context(), quiet(), "manual", "--markdown", "-")
	if made.code != exitOK {
		t.Fatalf("got exit code %d: %s", made.code, made.stderr)
	}
	must.Match(t, page, []byte(made.stdout))
	if !strings.Contains(made.stdout, "write the plan to this file") || !strings.Contains(made.stdout, "0  done, whatever") {
		t.Error("docs/COMMANDS.md lacks a flag of plan, or the exit codes")
	}
}
