// Command shape prints how the Go code of a checkout is laid out, as a table
// for docs/ARCHITECTURE.md: one column for each checkout.
//
//	go run ./docs/generate/shape OLD .
//
// The rows that name packages of this repository (the references inside
// search, its three largest structs, the words with several meanings) mean
// nothing for other code.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/source"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: shape CHECKOUT...")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shape: error:", err)
		os.Exit(1)
	}
}

// run writes the table of the checkouts in these folders.
func run(w io.Writer, folders []string) error {
	var tables [][]row
	for _, folder := range folders {
		m, err := source.Read(os.DirFS(folder))
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		tables = append(tables, append(figures(m), testsByPackage(m)...))
	}
	var names []string
	for _, table := range tables {
		for _, row := range table {
			if !slices.Contains(names, row.name) {
				names = append(names, row.name)
			}
		}
	}
	fmt.Fprintf(w, "| | %s |\n|---%s|\n", strings.Join(folders, " | "), strings.Repeat("|---", len(folders)))
	for _, name := range names {
		fmt.Fprintf(w, "| %s |", name)
		for _, table := range tables {
			fmt.Fprintf(w, " %s |", value(table, name))
		}
		fmt.Fprintln(w)
	}
	return nil
}

// A row is one figure of one checkout.
type row struct{ name, value string }

// value returns the figure of a name; it is "" if the checkout has none.
func value(table []row, name string) string {
	for _, row := range table {
		if row.name == name {
			return row.value
		}
	}
	return ""
}

// figures returns the rows that describe the whole checkout.
func figures(m *source.Module) []row {
	var code, tests, packages, over, exported, types int
	top := map[string]bool{}
	atRoot := map[string]bool{}
	for _, p := range m.Packages {
		for _, f := range p.Files {
			code += f.Lines
		}
		for _, f := range p.Tests {
			tests += f.Lines
		}
		if len(p.Files) > 0 {
			packages++
		}
		first, below, _ := strings.Cut(p.Folder, "/")
		if first != "." {
			top[first] = true
			atRoot[first] = atRoot[first] || below == ""
		}
		over += complex(p)
		for _, typ := range source.Types(p) {
			if len(typ.Files) > 2 {
				types++
			}
		}
		if strings.HasPrefix(p.Folder, "cmd/") || strings.HasPrefix(p.Folder, "docs/") {
			continue // nobody imports these
		}
		for _, name := range source.Names(p) {
			if name.Exported {
				exported++
			}
		}
	}
	rows := []row{
		{"lines of Go, without tests", fmt.Sprint(code)},
		{"lines of tests", fmt.Sprint(tests)},
		{"packages", fmt.Sprint(packages)},
		{"folders with Go code at the root", fmt.Sprint(len(top))},
		{"functions of a cyclomatic complexity above 15", fmt.Sprint(over)},
		{"types with methods in more than two files", fmt.Sprint(types)},
		{"exported names", fmt.Sprint(exported)},
	}
	return append(append(rows, searchRows(m)...), words(m)...)
}

// complex returns the number of functions of a complexity above 15.
func complex(p *source.Package) int {
	n := 0
	for _, fn := range source.Functions(p) {
		if fn.Complexity > 15 {
			n++
		}
	}
	return n
}

// searchRows describe package search: the references between its files, and its
// types with most methods.
func searchRows(m *source.Module) []row {
	at := slices.IndexFunc(m.Packages, func(p *source.Package) bool { return p.Folder == "search" })
	if at < 0 {
		return nil
	}
	p := m.Packages[at]
	references := source.NewChecker(m).References(p)
	rows := []row{
		{"pairs of files of `search`, one using the other", fmt.Sprint(references.Pairs)},
		{"of these, back up in the best order found", fmt.Sprint(references.Up)},
		{"declarations of `search` that other files use", fmt.Sprint(references.Uses)},
		{"of these, back up", fmt.Sprint(references.UpUses)},
	}
	numbers := []string{"most", "second most", "third most"}
	for i, typ := range source.Types(p)[:min(3, len(source.Types(p)))] {
		rows = append(rows, row{
			"type of `search` with the " + numbers[i] + " methods",
			fmt.Sprintf("`%s`: %d in %d files", typ.Name, typ.Methods, len(typ.Files)),
		})
	}
	return rows
}

// words counts the words that have a second meaning: a package declares names
// with the word in which the word does not have its one meaning.
func words(m *source.Module) []row {
	var outside []string
	names := 0
	for _, meaning := range source.Meanings() {
		n := 0
		for _, p := range m.Packages {
			if !slices.Contains(meaning.Packages, p.Name) {
				n += len(source.Uses(p, meaning.Word))
			}
		}
		if n > 0 {
			outside = append(outside, fmt.Sprintf("%s %d", meaning.Word, n))
		}
		names += n
	}
	return []row{{"names that use a word outside its one meaning", fmt.Sprintf("%d (%s)", names, strings.Join(outside, ", "))}}
}

// renamed maps the names of packages before the folders of the line and of the
// lab to their names since.
var renamed = map[string]string{
	"cmd/kinds": "docs/generate/sharding", "experiment": "design", "indices": "lookups", "pretrain": "lab",
}

// testsByPackage counts the tests, benchmarks, examples and fuzz targets by
// package name.
func testsByPackage(m *source.Module) []row {
	var rows []row
	sum := 0
	for _, p := range m.Packages {
		n := source.Tests(p)
		sum += n
		if n > 0 {
			name := p.Name
			if name == "" || name == "main" {
				name = p.Folder
			}
			if now, moved := renamed[name]; moved {
				name = now
			}
			rows = append(rows, row{"tests of `" + name + "`", fmt.Sprint(n)})
		}
	}
	return append([]row{{"tests, examples, fuzz targets and benchmarks", fmt.Sprint(sum)}}, rows...)
}
