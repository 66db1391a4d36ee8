package docs_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/neuroshard/neuroshard/internal/source"
)

var update = flag.Bool("update", false, "shorten the lists of exceptions in testdata; it never adds one")

// checkout is the repository's Go code, parsed once for all tests.
var checkout = sync.OnceValues(func() (*source.Module, error) { return source.Read(os.DirFS(root)) })

func module(t *testing.T) *source.Module {
	t.Helper()
	m, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// compareExceptions compares what a rule finds with the exceptions to it in
// testdata/NAME.txt. Both say how far a key is beyond the rule. Lists only
// shrink: a finding that is not listed, or is larger than listed, fails, and so
// does an exception that is larger than the finding.
func compareExceptions(t *testing.T, name string, found map[string]int, rule string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	var comments []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			comments = append(comments, line)
			continue
		}
		number, key, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("%s: got line %q, want a number and a key", file, line)
		}
		allowed[key] = n
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if found[key] > allowed[key] {
			t.Errorf("%s: got %d, want at most %d: %s", key, found[key], allowed[key], rule)
		}
	}
	shrunk := false
	for _, key := range slices.Sorted(maps.Keys(allowed)) {
		if allowed[key] <= found[key] {
			continue
		}
		shrunk = true
		if !*update {
			t.Errorf("%s: got %d, and docs/%s still allows %d: run go test ./docs -update", key, found[key], filepath.ToSlash(file), allowed[key])
		}
		allowed[key] = found[key]
	}
	if *update && shrunk {
		var b strings.Builder
		for _, comment := range comments {
			fmt.Fprintln(&b, comment)
		}
		for _, key := range slices.Sorted(maps.Keys(allowed)) {
			if allowed[key] > 0 {
				fmt.Fprintf(&b, "%d %s\n", allowed[key], key)
			}
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
