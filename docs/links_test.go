package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/simulate"
)

// root is the repository's root.
const root = ".."

// files returns the paths of the repository's files with one of the extensions,
// with slashes, without test data and built things.
func files(t *testing.T, extensions ...string) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// Hidden folders hold the repository, and caches of tools that the Python tests leave.
		if d.IsDir() && (name == "bin" || d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")) {
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
	text := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
	return string(text)
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	link    = regexp.MustCompile(`(?:\]\(|<img src=")([^)\s"]+)[)"]`)
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
	if testing.Short() {
		t.Skip("left out with -short: it reads all pages")
	}
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
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
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
			if _, err := os.Stat(filepath.Join(root, mentioned)); err != nil {
				t.Errorf("%s mentions %s: %v", name, mentioned, err)
			}
		}
	}
}

// TestIndexListsDocuments wants every page of docs/ in README.md.
func TestIndexListsDocuments(t *testing.T) {
	readme := read(t, "README.md")
	pages, err := fs.Glob(os.DirFS(root), "docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("got pages %v and error %v", pages, err)
	}
	for _, p := range append(pages, "CHANGELOG.md", "LICENSE") {
		if !strings.Contains(readme, "]("+p+")") {
			t.Errorf("README.md has no link to %s: say in a line what a reader wants who needs it", p)
		}
	}
}

// TestVersions wants no page to name another version of the simulated device than today's: its numbers
// would be of that version.
func TestVersions(t *testing.T) {
	named := regexp.MustCompile(`(?i)"model_version": ?"(\d+)"|\bmodel version (\d+)|\bversion (\d+) of the simulated device|\bsimulated device,? version (\d+)|\bearlier (?:search|version)`)
	found := 0
	for _, name := range files(t, ".md") {
		for _, match := range named.FindAllStringSubmatch(read(t, name), -1) {
			found++
			if version := strings.Join(match[1:], ""); version != simulate.ModelVersion {
				t.Errorf("%s: %q is not of version %s: leave the number out, or make it again", name, match[0], simulate.ModelVersion)
			}
		}
	}
	if found == 0 {
		t.Error("got no version in any page, want that of docs/SIMULATED.md")
	}
}
