package docs_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/neuroshard/neuroshard/internal/source"
)

// packageRows returns the packages of the table in docs/ARCHITECTURE.md as
// folders, lowest first.
func packageRows(t *testing.T) []string {
	t.Helper()
	var rows []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(sectionOf(t, "Packages, lowest first"), -1) {
		row := match[1]
		if row == "neuroshard" {
			row = "."
		}
		rows = append(rows, row)
	}
	return rows
}

// inTable reports whether a package has to be in the table: it has files that
// are no tests.
func inTable(p *source.Package) bool { return len(p.Files) > 0 }

// TestArchitecture holds the table of packages against the code: every package
// has a row, every row a package, and imports go to rows above only.
func TestArchitecture(t *testing.T) {
	rows := packageRows(t)
	seen := map[string]bool{}
	for _, p := range module(t).Packages {
		if !inTable(p) {
			continue
		}
		seen[p.Folder] = true
		at := slices.Index(rows, p.Folder)
		if at < 0 {
			t.Errorf("package %q has no row in docs/ARCHITECTURE.md", p.Folder)
			continue
		}
		for _, imported := range module(t).Imports(p) {
			if !slices.Contains(rows[:at], imported) {
				t.Errorf("package %q imports %q, which is not in a row above", p.Folder, imported)
			}
		}
	}
	for _, row := range rows {
		if !seen[row] {
			t.Errorf("docs/ARCHITECTURE.md has a row for %q: got no such package", row)
		}
	}
}

// TestImportRules wants a rule of .golangci.yml for each package, in the order
// of the table in docs/ARCHITECTURE.md, that allows exactly the imports that the
// package's code has.
func TestImportRules(t *testing.T) {
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules yaml.Node
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".golangci.yml")), &config); err != nil {
		t.Fatal(err)
	}
	rules := config.Linters.Settings.Depguard.Rules.Content
	allowed := map[string][]string{}
	var order []string
	for i := 0; i+1 < len(rules); i += 2 {
		var rule struct{ Files, Allow []string }
		if err := rules[i+1].Decode(&rule); err != nil {
			t.Fatal(err)
		}
		name := rules[i].Value
		if name == "packages" {
			continue // the list of names
		}
		if name == "neuroshard" {
			name = "."
		}
		order = append(order, name)
		allowed[name] = rule.Allow
		want := []string{"${config-path}/" + strings.TrimPrefix(name+"/", "./") + "*.go", "!$test"}
		if !slices.Equal(rule.Files, want) {
			t.Errorf("rule %q: got files %q, want %q", name, rule.Files, want)
		}
	}
	if want := packageRows(t); !slices.Equal(order, want) {
		t.Errorf("got rules %q, want those of docs/ARCHITECTURE.md, in its order: %q", order, want)
	}
	for _, p := range module(t).Packages {
		if !inTable(p) {
			continue
		}
		var want, aliases []string
		for _, imported := range module(t).Imports(p) {
			want = append(want, strings.TrimSuffix(module(t).Path+"/"+imported, "/.")+"$")
			aliases = append(aliases, "*"+path.Base(strings.Replace(imported, ".", "neuroshard", 1)))
		}
		got := slices.Clone(allowed[p.Folder])
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("rule of %q: got allow %q, want what its code imports: allow: [%s]", p.Folder, got, strings.Join(aliases, ", "))
		}
	}
}
