package source

import (
	"go/ast"
	"go/token"
)

// A Function is a declared function or method with its complexity.
type Function struct {
	// Name is F, or T.F for a method of T or *T.
	Name string
	// File is the path of the file that declares the function.
	File string
	// Complexity is the cyclomatic complexity: see Complexity.
	Complexity int
}

// Functions returns the functions and methods that the package declares outside
// of tests, by file and in the order of the file.
func Functions(p *Package) []Function {
	var all []Function
	for _, f := range p.Files {
		for _, decl := range f.Syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			if receiver := receiverType(fn); receiver != "" {
				name = receiver + "." + name
			}
			all = append(all, Function{name, f.Path, Complexity(fn)})
		}
	}
	return all
}

// Complexity returns the cyclomatic complexity of a function as gocyclo and
// cyclop count it: 1, and 1 for each if, for, range, case of a switch or select
// that is not the default, && and ||. Function literals inside the function
// count as a part of it.
func Complexity(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
