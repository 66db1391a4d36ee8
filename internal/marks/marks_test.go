package marks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
)

// Parts take the place of those between their marks, and nothing else changes.
func TestReplace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.md")
	const before = "a\n\n<!-- sharding x -->\n\nold\n\n<!-- end -->\n\nb\n\n<!-- sharding x -->\n\nold\n\n<!-- end -->\n\n<!-- sharding y -->\n\nold\n\n<!-- end -->\n"
	must.Do(t, os.WriteFile(file, []byte(before), 0o600))
	if err := Replace(file, "sharding x", []string{"one"}); err == nil || !strings.Contains(err.Error(), "2 times") {
		t.Errorf("one part for two marks: got %v, want an error", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != before {
		t.Errorf("after an error: got %q, %v, want the text as it was", got, err)
	}
	must.Do(t, Replace(file, "sharding x", []string{"one", "two"}))
	got := must.Get(os.ReadFile(file))(t)
	want := strings.Replace(strings.Replace(before, "old", "one", 1), "old", "two", 1)
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, want := range map[string]string{"sharding x": "one", "sharding y": "old"} {
		if part, ok := Part(string(got), name); part != want || !ok {
			t.Errorf("part %s: got %q, %v, want %q", name, part, ok, want)
		}
	}
}

// A mark without an end, and a name without a mark, are reported.
func TestNoMarks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.md")
	const text = "<!-- x -->\n\nold\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	if err := Replace(file, "x", []string{"new"}); err == nil || !strings.Contains(err.Error(), "has no end") {
		t.Errorf("a mark without an end: got %v, want an error", err)
	}
	if part, ok := Part(text, "x"); ok {
		t.Errorf("a mark without an end: got the part %q", part)
	}
	if part, ok := Part(text, "y"); ok {
		t.Errorf("no mark: got the part %q", part)
	}
}
