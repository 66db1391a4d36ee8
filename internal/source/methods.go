package source

import (
	"cmp"
	"go/ast"
	"slices"
)

// A Type is a declared type with the places of its methods.
type Type struct {
	// Name is the type's name.
	Name string
	// Methods is the number of methods of the type and of pointers to it.
	Methods int
	// Files lists the files that declare these methods, in alphabetical order.
	// The variants of one file for several systems count as one file.
	Files []string
}

// Types returns the package's types that have methods, the type with the most
// methods first and types with equal numbers by name.
func Types(p *Package) []Type {
	files := map[string]map[string]bool{}
	count := map[string]int{}
	for _, f := range p.Files {
		for _, decl := range f.Syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			name := receiverType(fn)
			if files[name] == nil {
				files[name] = map[string]bool{}
			}
			files[name][Stem(f.Name())] = true
			if variant(f.Name()) {
				continue // the same methods again
			}
			count[name]++
		}
	}
	var all []Type
	for name, in := range files {
		all = append(all, Type{name, count[name], sorted(in)})
	}
	slices.SortFunc(all, func(a, b Type) int {
		return cmp.Or(cmp.Compare(b.Methods, a.Methods), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// receiverType returns the name of the type that a method belongs to; it is ""
// for a function.
func receiverType(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	expr := fn.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.Ident:
			return e.Name
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		default:
			return ""
		}
	}
}
