package source

import (
	"slices"
	"testing"
	"testing/fstest"
)

// house is a module with two packages of two layers, a nested module and
// folders that are no packages.
var house = fstest.MapFS{
	"go.mod": {Data: []byte("module example.org/house\n\ngo 1.26\n")},
	"house.go": {Data: []byte(`// Package house is the line (house.go).
package house

import (
	"strings"

	"example.org/house/low"
)

var _ = low.X + len(strings.Fields(""))
`)},
	"low/low.go": {Data: []byte(`package low

// X is used above.
const X = 1

type Upper struct{ HBMBytes, left int }

func (u *Upper) Twice() int { return u.helper() * X }

func (u Upper) helper() int { return below(u.left) }
`)},
	"low/below.go": {Data: []byte(`package low

func below(n int) int {
	if n > 0 && n < 9 || n == 11 {
		return 1
	}
	for range n {
		switch n {
		case 1, 2:
		case 3:
		default:
		}
	}
	func() {
		if n > 0 {
			n--
		}
	}()
	return n
}

func (u Upper) late() {}
`)},
	"low/memory_linux.go":     {Data: []byte("package low\n\nfunc (u Upper) memory() {}\n")},
	"low/memory_other.go":     {Data: []byte("//go:build !linux\n\npackage low\n\nfunc (u Upper) memory() {}\n")},
	"low/low_test.go":         {Data: []byte("package low\n\nimport _ \"example.org/house\"\n\nfunc inTest() {}\n")},
	"low/testdata/bad.go":     {Data: []byte("not Go")},
	"nested/go.mod":           {Data: []byte("module example.org/nested\n")},
	"nested/nested.go":        {Data: []byte("package nested\n")},
	"documents/readme.md":     {Data: []byte("no package")},
	".hidden/hidden.go":       {Data: []byte("package hidden\n")},
	"only/tests/some_test.go": {Data: []byte("package tests_test\n")},
}

func readHouse(t *testing.T) (root, low *Package, m *Module) {
	t.Helper()
	m, err := Read(house)
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, p := range m.Packages {
		folders = append(folders, p.Folder)
	}
	if want := []string{".", "low", "only/tests"}; !slices.Equal(folders, want) {
		t.Fatalf("got packages %q, want %q", folders, want)
	}
	return m.Packages[0], m.Packages[1], m
}

func TestRead(t *testing.T) {
	root, low, m := readHouse(t)
	if got, want := root.Doc, "Package house is the line (house.go).\n"; got != want || root.Name != "house" {
		t.Errorf("got package %q with comment %q, want %q", root.Name, got, want)
	}
	if got := m.Imports(root); !slices.Equal(got, []string{"low"}) {
		t.Errorf("got imports %q of the root, want low", got)
	}
	if got := m.Imports(low); len(got) > 0 {
		t.Errorf("got imports %q of low, want none: a test's do not count", got)
	}
	if got := len(low.Files); got != 4 || len(low.Tests) != 1 {
		t.Errorf("got %d files and %d tests, want 4 and 1", got, len(low.Tests))
	}
	bad := fstest.MapFS{"go.mod": house["go.mod"], "bad.go": {Data: []byte("not Go")}}
	if _, err := Read(bad); err == nil {
		t.Error("got no error for a file that does not parse")
	}
	if _, err := Read(fstest.MapFS{}); err == nil {
		t.Error("got no error without a go.mod")
	}
}

func TestFunctions(t *testing.T) {
	_, low, _ := readHouse(t)
	want := Function{"below", "low/below.go", 8}
	if got := Functions(low); !slices.Contains(got, want) {
		t.Errorf("got %v, want %v in it", got, want)
	}
}

func TestTypes(t *testing.T) {
	_, low, _ := readHouse(t)
	got := Types(low)
	if len(got) != 1 || got[0].Name != "Upper" || got[0].Methods != 4 || !slices.Equal(got[0].Files, []string{"below", "low", "memory"}) {
		t.Errorf("got %v, want Upper with 4 methods in below, low and memory", got)
	}
}

func TestNames(t *testing.T) {
	_, low, _ := readHouse(t)
	var got []string
	for _, name := range Names(low) {
		got = append(got, name.Text)
	}
	if want := []string{"below", "late", "X", "Upper", "HBMBytes", "left", "Twice", "helper", "memory", "memory"}; !slices.Equal(got, want) {
		t.Errorf("got names %q, want %q", got, want)
	}
	if got := Uses(low, "byte"); len(got) != 1 || !got[0].Field || got[0].Owner != "Upper" {
		t.Errorf("got %v, want the field HBMBytes of Upper", got)
	}
}

func TestWords(t *testing.T) {
	for name, want := range map[string][]string{
		"HBMBytes":     {"hbm", "bytes"},
		"latencyMS":    {"latency", "ms"},
		"spread":       {"spread"},
		"OfHBM_2x":     {"of", "hbm", "2x"},
		"readJSONList": {"read", "json", "list"},
	} {
		if got := Words(name); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestMeanings(t *testing.T) {
	before := ""
	for _, meaning := range Meanings() {
		if meaning.Word <= before || meaning.Means == "" {
			t.Errorf("got word %q after %q, want alphabetical order, each with a meaning", meaning.Word, before)
		}
		before = meaning.Word
	}
}
