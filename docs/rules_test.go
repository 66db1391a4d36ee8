package docs_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sectionOf returns the part of docs/ARCHITECTURE.md under a heading.
func sectionOf(t *testing.T, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(read(t, "docs/ARCHITECTURE.md"), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/ARCHITECTURE.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// TestGlossary wants each word once in the glossary.
func TestGlossary(t *testing.T) {
	seen := map[string]bool{}
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(sectionOf(t, "Words"), -1)
	for _, row := range rows[1:] {
		for word := range strings.SplitSeq(row[1], ", ") {
			if seen[word] {
				t.Errorf("the glossary has %q twice", word)
			}
			seen[word] = true
		}
	}
	if len(seen) < 20 {
		t.Errorf("got %d words, want the glossary", len(seen))
	}
}

// TestArchitecture wants a row of docs/ARCHITECTURE.md and an import rule of .golangci.yml for
// each package with files that are no tests, no other rows, and at most 14 folders with Go code at the root.
func TestArchitecture(t *testing.T) {
	var rows, packages []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(sectionOf(t, "Packages, lowest first"), -1) {
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

// forbidden are the words that Plain English does without. The key of each pattern is a string that
// all of its matches contain, so that only lines with this string are searched. Lines are in lower case.
var forbidden = map[string]*regexp.Regexp{
	"dear":          regexp.MustCompile(`\bdear(er|est|ly)?\b|\bdearest`),
	" many":         regexp.MustCompile(`\b(so|as) many\b`),
	"at the begin":  regexp.MustCompile(`\bat the begin\b`),
	"in no way":     regexp.MustCompile(`\bin no way\b`),
	" told":         regexp.MustCompile(`\b(is|are|was|were|be) told\b`),
	"of which":      regexp.MustCompile(`[,;:] (\w+ )?of which\b|\bof which there\b`),
	"what there is": regexp.MustCompile(`\bwhat there is\b`),
	"where there ":  regexp.MustCompile(`\bwhere there (is|are)\b`),
	"besides":       regexp.MustCompile(`\bbesides\b`),
	"may nothing":   regexp.MustCompile(`\bmay nothing\b`),
	" indeed":       regexp.MustCompile(`\bprice(s|d)? indeed\b`),
}

// TestProse looks for these words in code, documents and scripts.
func TestProse(t *testing.T) {
	for _, name := range files(t, ".go", ".md", ".yml", ".py", ".json") {
		if name == "docs/rules_test.go" || name == "CHANGELOG.md" || path.Base(name) == "LICENSE" {
			continue // these lists; and what was written at the time
		}
		for line := range strings.Lines(strings.ToLower(read(t, name))) {
			for words, pattern := range forbidden {
				if strings.Contains(line, words) && pattern.MatchString(line) {
					t.Errorf("%s: %q has words that Plain English does without: %v", name, line, pattern)
				}
			}
		}
	}
}
