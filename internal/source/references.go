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
	// uses the first one too, at one remove or more.
	Circular int
	// Up is the number of pairs that run back up: in the best order of the files
	// that a search by single moves finds, the second file stands above the first
	// one. In a package whose files are layered, Circular and Up are 0.
	Up int
	// Uses is the number of different declarations that files use of other files,
	// and UpUses the number of those in pairs that run back up.
	Uses, UpUses int
	// Order is that order: a file uses files that stand below it.
	Order []string
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
	r := References{Order: layered(edges)}
	for edge, objects := range edges {
		r.Pairs++
		r.Uses += len(objects)
		if reaches(next, edge[1], edge[0]) {
			r.Circular++
		}
		if slices.Index(r.Order, edge[0]) > slices.Index(r.Order, edge[1]) {
			r.Up++
			r.UpUses += len(objects)
		}
	}
	return r
}

// layered returns the files in an order in which few edges run back up. It starts
// from the alphabetical order and moves single files to their best places until no
// move helps, so that equal edges give equal orders. Finding the best order of all
// is NP-hard (minimum feedback arc set); n files take O(n^3) for each round.
func layered(edges map[[2]string]map[types.Object]bool) []string {
	files := map[string]bool{}
	for edge := range edges {
		files[edge[0]], files[edge[1]] = true, true
	}
	order := sorted(files)
	weight := func(from, to string) int {
		if edges[[2]string{from, to}] != nil {
			return 1
		}
		return 0
	}
	for improved := true; improved; {
		improved = false
		for _, file := range slices.Clone(order) {
			at := slices.Index(order, file)
			rest := slices.Delete(slices.Clone(order), at, at+1)
			// up is how many edges of the file run back up at each place.
			up := 0
			for _, other := range rest {
				up += weight(other, file) // the file stands first: all uses of it run up
			}
			best, least, now := 0, up, up
			for i, other := range rest {
				up += weight(file, other) - weight(other, file)
				if i+1 == at {
					now = up
				}
				if up < least {
					best, least = i+1, up
				}
			}
			if least < now {
				order = slices.Insert(rest, best, file)
				improved = true
			}
		}
	}
	return order
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
