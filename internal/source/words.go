package source

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// A Name is a name that a package declares outside of tests: a type, function,
// method, constant, variable, field or method of an interface. Names inside
// functions are not part of it.
type Name struct {
	// Text is the name; Owner is the type of a method or field, or "".
	Text, Owner string
	// Field says that the name is a field of a struct or a method of an interface.
	Field bool
	// File is the path of the file that declares the name.
	File string
}

// Names returns the names that the package declares, by file and in the order
// of the file.
func Names(p *Package) []Name {
	var all []Name
	for _, f := range p.Files {
		add := func(owner, text string, field bool) {
			all = append(all, Name{text, owner, field, f.Path})
		}
		for _, decl := range f.Syntax.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				add(receiverType(decl), decl.Name.Name, false)
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					specNames(spec, add)
				}
			}
		}
	}
	return all
}

func specNames(spec ast.Spec, add func(owner, text string, field bool)) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			add("", name.Name, false)
		}
	case *ast.TypeSpec:
		add("", spec.Name.Name, false)
		var fields *ast.FieldList
		switch t := spec.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				add(spec.Name.Name, name.Name, true)
			}
		}
	}
}

// Words splits a name in mixed caps into its words, in lower case:
// "HBMBytes" is "hbm" and "bytes".
func Words(name string) []string {
	var words []string
	runes := []rune(name)
	start := 0
	cut := func(end int) {
		if end > start {
			words = append(words, strings.ToLower(string(runes[start:end])))
		}
		start = end
	}
	for i := 1; i < len(runes); i++ {
		before, at := runes[i-1], runes[i]
		switch {
		case at == '_':
			cut(i)
			start = i + 1
		case unicode.IsUpper(at) && !unicode.IsUpper(before):
			cut(i)
		case unicode.IsUpper(at) && i+1 < len(runes) && unicode.IsLower(runes[i+1]):
			cut(i)
		}
	}
	cut(len(runes))
	return words
}

// systems are the endings by which the files of this repository name a system
// or an architecture.
var systems = []string{"_linux", "_unix", "_other", "_amd64", "_arm64", "_windows", "_darwin"}

// Stem returns a file's name without ".go" and without the ending that names a
// system: "memory" for memory_linux.go and for memory_other.go.
func Stem(name string) string {
	name = strings.TrimSuffix(name, ".go")
	for _, system := range systems {
		name = strings.TrimSuffix(name, system)
	}
	return name
}

// variant reports whether a file repeats, for the remaining systems, what
// another file declares.
func variant(name string) bool { return strings.HasSuffix(name, "_other.go") }

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
