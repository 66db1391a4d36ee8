package source

import (
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"slices"
)

// References are the uses of one file's declarations by other files of the
// same package.
type References struct {
	// Pairs is the number of ordered pairs of files whose first file uses the
	// second.
	Pairs int
	// Circular is the number of these pairs that lie on a circle: the second file
	// uses the first one too, at one remove or more. In a package whose files are
	// layered it is 0.
	Circular int
	// Uses and CircularUses count, for the same pairs, the different declarations
	// that the first file uses of the second.
	Uses, CircularUses int
}

// A Checker finds references by type-checking packages of one module. It reads
// the module's own packages from the Module and the standard library from
// source; it treats imports from other modules as unknown.
type Checker struct {
	module *Module
	done   map[string]*types.Package
	std    types.Importer
}

// NewChecker returns a Checker of a module's packages.
func NewChecker(m *Module) *Checker {
	return &Checker{m, map[string]*types.Package{}, importer.ForCompiler(m.Fset, "source", nil)}
}

// Import implements types.Importer.
func (c *Checker) Import(imported string) (*types.Package, error) {
	if done := c.done[imported]; done != nil {
		return done, nil
	}
	folder, inside := c.module.Folder(imported)
	if !inside {
		p, err := c.std.Import(imported)
		if err != nil {
			p = types.NewPackage(imported, "unknown")
			p.MarkComplete()
		}
		c.done[imported] = p
		return p, nil
	}
	at := slices.IndexFunc(c.module.Packages, func(p *Package) bool { return p.Folder == folder })
	if at < 0 {
		p := types.NewPackage(imported, "unknown")
		p.MarkComplete()
		return p, nil
	}
	p := c.check(c.module.Packages[at], nil)
	c.done[imported] = p
	return p, nil
}

// check type-checks a package's files. Errors are ignored: what is unknown
// stays unresolved.
func (c *Checker) check(p *Package, info *types.Info) *types.Package {
	var files []*ast.File
	for _, f := range p.Files {
		if !variant(f.Name()) {
			files = append(files, f.Syntax)
		}
	}
	config := types.Config{Importer: c, Error: func(error) {}, FakeImportC: true}
	checked, _ := config.Check(c.module.Path+"/"+p.Folder, c.module.Fset, files, info)
	return checked
}

// References counts the references between the files of a package, without
// tests.
func (c *Checker) References(p *Package) References {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	checked := c.check(p, info)
	file := func(pos token.Pos) string { return c.module.Fset.Position(pos).Filename }
	edges := map[[2]string]map[types.Object]bool{}
	for ident, object := range info.Uses {
		if object.Pkg() != checked {
			continue
		}
		edge := [2]string{file(ident.Pos()), file(object.Pos())}
		if edge[0] == edge[1] || edge[1] == "" {
			continue
		}
		if edges[edge] == nil {
			edges[edge] = map[types.Object]bool{}
		}
		edges[edge][object] = true
	}
	next := map[string][]string{}
	for edge := range edges {
		next[edge[0]] = append(next[edge[0]], edge[1])
	}
	var r References
	for edge, objects := range edges {
		r.Pairs++
		r.Uses += len(objects)
		if reaches(next, edge[1], edge[0]) {
			r.Circular++
			r.CircularUses += len(objects)
		}
	}
	return r
}

// reaches reports whether a path leads from one file to another.
func reaches(next map[string][]string, from, to string) bool {
	seen := map[string]bool{from: true}
	for open := []string{from}; len(open) > 0; {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		if at == to {
			return true
		}
		for _, file := range next[at] {
			if !seen[file] {
				seen[file] = true
				open = append(open, file)
			}
		}
	}
	return false
}
