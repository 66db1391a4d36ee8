package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
)

// A re-plan that is interrupted at once keeps an old plan that is still valid, and writes nothing
// if tables were added.
func TestReplanInterrupted(t *testing.T) {
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	const one = `{"format": "neuroshard-tables", "version": 1, "tables": [{"name": "a", "rows": 1000, "dim": 16, "pooling_factor": 2}`
	for name, text := range map[string]string{"tables.json": one + `]}`, "more.json": one + `, {"name": "b", "rows": 10, "dim": 16, "pooling_factor": 2}]}`} {
		must.Do(t, os.WriteFile(file(name), []byte(text), 0o666))
	}
	if r := runHere(t.Context(), quiet(), "plan", file("tables.json"), "--gpus", "2", "--gpu", "a100-80", "--set", "baselines=false", "-o", file("old.json")); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r := runHere(ended, quiet(), "replan", file("old.json"), file("tables.json"), "-o", file("kept.json"))
	if r.code != exitInterrupted || !strings.Contains(r.stdout, "keep the old plan") || !strings.Contains(r.stdout, "INTERRUPTED") {
		t.Errorf("got exit code %d: %s%s, want the old plan, marked as interrupted", r.code, r.stdout, r.stderr)
	}
	if pl, err := plan.Load(file("kept.json")); err != nil || pl.Provenance.Status != "interrupted" {
		t.Errorf("got %v, want a plan that is marked as interrupted", err)
	}
	r = runHere(ended, quiet(), "replan", file("old.json"), file("more.json"), "-o", file("new.json"))
	if _, err := os.Stat(file("new.json")); r.code != exitNothingFound || !os.IsNotExist(err) || r.stdout != "" {
		t.Errorf("got exit code %d: %s%s (%v), want nothing written", r.code, r.stdout, r.stderr, err)
	}
}
