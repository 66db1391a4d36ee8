package docs_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitecture wants a row of docs/ARCHITECTURE.md and an import rule of .golangci.yml for
// each package with files that are no tests, no other rows, and at most 14 folders with Go code at the root.
func TestArchitecture(t *testing.T) {
	var rows, packages []string
	_, section, _ := strings.Cut(read(t, "docs/ARCHITECTURE.md"), "\n## Packages, lowest first\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(section, -1) {
		rows = append(rows, strings.Replace("./"+match[1], "./neuroshard", ".", 1))
	}
	rules := read(t, ".golangci.yml")
	for _, name := range files(t, ".go") {
		folder := "./" + path.Dir(name)
		if folder == "./." {
			folder = "."
		}
		generator := strings.HasPrefix(folder, "./internal/f32/gen") // a module of its own
		if generator || strings.HasSuffix(name, "_test.go") || slices.Contains(packages, folder) {
			continue
		}
		packages = append(packages, folder)
		if !slices.Contains(rows, folder) {
			t.Errorf("package %q has no row in docs/ARCHITECTURE.md", folder)
		}
		if rule := `["${config-path}` + strings.TrimPrefix(folder, ".") + `/*.go", "!$test"]`; !strings.Contains(rules, rule) {
			t.Errorf(".golangci.yml has no rule of depguard with files: %s", rule)
		}
	}
	for _, row := range rows {
		if !slices.Contains(packages, row) {
			t.Errorf("docs/ARCHITECTURE.md has a row for %q: got no such package", row)
		}
	}
	var tops []string
	for _, p := range packages {
		if top, _, _ := strings.Cut(strings.TrimPrefix(p, "./"), "/"); top != "." && !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	if len(tops) > 14 {
		t.Errorf("got %d folders with Go code at the root, want at most 14: %v", len(tops), tops)
	}
}
