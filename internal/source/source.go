// Package source reads the Go code of a checkout without building it, and
// measures how it is laid out.
//
//	Read          every package of a module, its files parsed (source.go)
//	Functions     how many paths lead through each function (complexity.go)
//	Types         the methods of each type, by file (methods.go)
//	Names         the declared names, and the words they consist of (words.go)
//	Meanings      the words that have one meaning only (meanings.go)
//
// The tests in docs/ hold the figures against the rules of docs/ARCHITECTURE.md.
package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// A Module is the Go code of one checkout.
type Module struct {
	// Path is the module's import path, from go.mod.
	Path string
	// Packages lists the module's packages by folder, in alphabetical order.
	// Packages of nested modules and of folders named testdata are left out.
	Packages []*Package
	// Fset holds the positions of all files.
	Fset *token.FileSet
}

// A Package is one folder of Go files. Files for other systems and other build
// tags are part of it.
type Package struct {
	// Folder is the package's path below the module's root, with slashes; "." is
	// the root.
	Folder string
	// Name is the name in the package clause of the files that are no tests.
	Name string
	// Doc is the package comment; it is empty if there is none.
	Doc string
	// Files and Tests are the files that are no tests, and those that are, each
	// by name.
	Files, Tests []*File
}

// A File is one parsed Go file.
type File struct {
	// Path is the file's path below the module's root, with slashes.
	Path string
	// Syntax is the parsed file, with its comments.
	Syntax *ast.File
}

// Name returns the file's name without its folder.
func (f *File) Name() string { return path.Base(f.Path) }

// Read parses the Go files of the module whose go.mod lies at the root of
// checkout. A file that does not parse is an error.
func Read(checkout fs.FS) (*Module, error) {
	mod, err := fs.ReadFile(checkout, "go.mod")
	if err != nil {
		return nil, err
	}
	m := &Module{Fset: token.NewFileSet()}
	if m.Path, err = modulePath(mod); err != nil {
		return nil, err
	}
	err = fs.WalkDir(checkout, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		if skipped(checkout, name) {
			return fs.SkipDir
		}
		return m.readPackage(checkout, name)
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// modulePath returns the path in the module line of a go.mod.
func modulePath(mod []byte) (string, error) {
	lines := bufio.NewScanner(bytes.NewReader(mod))
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), "module "); found {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", errors.New("go.mod: no module line")
}

// skipped reports whether a folder holds no packages of the module.
func skipped(checkout fs.FS, folder string) bool {
	base := path.Base(folder)
	switch {
	case folder == ".":
		return false
	case base == "testdata", base == "bin", strings.HasPrefix(base, "."), strings.HasPrefix(base, "_"):
		return true
	}
	_, err := fs.Stat(checkout, folder+"/go.mod")
	return err == nil
}

// readPackage adds the package in a folder; a folder without Go files adds none.
func (m *Module) readPackage(checkout fs.FS, folder string) error {
	entries, err := fs.ReadDir(checkout, folder)
	if err != nil {
		return err
	}
	p := &Package{Folder: folder}
	for _, entry := range entries {
		if entry.IsDir() || path.Ext(entry.Name()) != ".go" {
			continue
		}
		f, err := m.readFile(checkout, path.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		if strings.HasSuffix(f.Path, "_test.go") {
			p.Tests = append(p.Tests, f)
			continue
		}
		p.Files = append(p.Files, f)
		p.Name = f.Syntax.Name.Name
		if f.Syntax.Doc != nil {
			p.Doc += f.Syntax.Doc.Text()
		}
	}
	if len(p.Files)+len(p.Tests) > 0 {
		m.Packages = append(m.Packages, p)
	}
	return nil
}

func (m *Module) readFile(checkout fs.FS, name string) (*File, error) {
	text, err := fs.ReadFile(checkout, name)
	if err != nil {
		return nil, err
	}
	syntax, err := parser.ParseFile(m.Fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	return &File{Path: name, Syntax: syntax}, nil
}

// Imports returns the folders of the module's packages that the package's
// files other than tests import, in alphabetical order.
func (m *Module) Imports(p *Package) []string {
	seen := map[string]bool{}
	for _, f := range p.Files {
		for _, spec := range f.Syntax.Imports {
			if folder, inside := m.Folder(strings.Trim(spec.Path.Value, `"`)); inside {
				seen[folder] = true
			}
		}
	}
	return sorted(seen)
}

// Folder returns the folder of an import path of this module, and false for an
// import path outside the module.
func (m *Module) Folder(imported string) (string, bool) {
	if imported == m.Path {
		return ".", true
	}
	return strings.CutPrefix(imported, m.Path+"/")
}
