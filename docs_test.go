package neuroshard_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/neuroshard/neuroshard"

// files returns the paths of the repository's files with one of the extensions,
// with slashes, without test data and built things.
func files(t *testing.T, extensions ...string) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == ".git" || name == "bin" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() && slices.Contains(extensions, path.Ext(name)) {
			all = append(all, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	page    = regexp.MustCompile(`\bdocs/[A-Za-z_-]+\.md\b`)
)

// anchors returns the fragments that a document's headings make.
func anchors(text string) []string {
	var all []string
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
				return r
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.ToLower(h[1]))
		all = append(all, slug)
	}
	return all
}

// TestLinks follows every link between the documents, and every mention of a
// page of docs/ in documents and code.
func TestLinks(t *testing.T) {
	followed := 0
	for _, name := range files(t, ".md") {
		text := fence.ReplaceAllString(read(t, name), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, fragment, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			followed++
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.FromSlash(file)); err != nil {
				t.Errorf("%s: link to %s: %v", name, match[1], err)
				continue
			}
			if fragment != "" && !slices.Contains(anchors(read(t, file)), fragment) {
				t.Errorf("%s: link to %s: got no such heading in %s", name, match[1], file)
			}
		}
	}
	if followed == 0 {
		t.Error("got no links, want some")
	}
	for _, name := range files(t, ".md", ".go", ".yml") {
		for _, mentioned := range page.FindAllString(read(t, name), -1) {
			if _, err := os.Stat(filepath.FromSlash(mentioned)); err != nil {
				t.Errorf("%s mentions %s: %v", name, mentioned, err)
			}
		}
	}
}

// TestReadmeListsDocuments wants every page of docs/ in README.md.
func TestReadmeListsDocuments(t *testing.T) {
	readme := read(t, "README.md")
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("got pages %v and error %v", pages, err)
	}
	for _, p := range append(pages, "CHANGELOG.md", "LICENSE") {
		if p = filepath.ToSlash(p); !strings.Contains(readme, "]("+p+")") {
			t.Errorf("README.md has no link to %s", p)
		}
	}
}

// packageRows returns the packages of the table in docs/ARCHITECTURE.md as
// folders, lowest first.
func packageRows(t *testing.T) []string {
	t.Helper()
	_, section, found := strings.Cut(read(t, "docs/ARCHITECTURE.md"), "\n## Packages, lowest first\n")
	if !found {
		t.Fatal("docs/ARCHITECTURE.md has no section of packages")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(section, -1) {
		row := match[1]
		if row == "neuroshard" {
			row = "."
		}
		rows = append(rows, row)
	}
	return rows
}

// TestArchitecture holds the table of packages against the code: every package
// has a row, every row a package, and imports go to rows above only.
func TestArchitecture(t *testing.T) {
	rows := packageRows(t)
	seen := map[string]bool{}
	for _, name := range files(t, ".go") {
		folder := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(folder, "internal/f32/gen") {
			continue // the generator is a module of its own
		}
		seen[folder] = true
		at := slices.Index(rows, folder)
		if at < 0 {
			t.Errorf("package %q has no row in docs/ARCHITECTURE.md", folder)
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if imported == module {
				imported = "."
			} else if rest, inside := strings.CutPrefix(imported, module+"/"); inside {
				imported = rest
			} else {
				continue
			}
			if !slices.Contains(rows[:at], imported) {
				t.Errorf("%s imports %q, which is not in a row above %q", name, imported, folder)
			}
		}
	}
	for _, row := range rows {
		if !seen[row] {
			t.Errorf("docs/ARCHITECTURE.md has a row for %q: got no such package", row)
		}
	}
}
