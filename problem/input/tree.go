package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/neuroshard/neuroshard/internal/strictjson"
	"github.com/neuroshard/neuroshard/unit"
)

// tree.go reads YAML, and JSON values inside other values, as trees of yaml.Node: one form
// for both, with a line for each value.

// values reads the values of trees, and reports what is wrong with them.
type values struct{ *report }

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// document returns the root of the file's only YAML document; nil, and a report, if there
// is not exactly one. empty is the hint for an empty file.
func (r values) document(data []byte, empty string) *yaml.Node {
	in := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	err := in.Decode(&document)
	if err == nil {
		if more := in.Decode(&second); more == nil {
			r.add(second.Line, "the file holds a second YAML document", "keep one")
			return nil
		} else if !errors.Is(more, io.EOF) {
			err = more
		}
	}
	if errors.Is(err, io.EOF) {
		r.add(0, "the file is empty", empty)
		return nil
	}
	if err != nil {
		message, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
		if m := yamlLine.FindStringSubmatch(message); m != nil {
			line, _ = strconv.Atoi(m[1])
			message = message[len(m[0]):]
		}
		r.add(line, "this is not valid YAML: "+message, "write one \"key: value\" a line")
		return nil
	}
	return document.Content[0]
}

// plain refuses anchors and aliases, with which a short file can grow without
// bound.
func (r values) plain(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		r.add(n.Line, "YAML anchors and aliases are not allowed", "write the value itself")
		return false
	}
	for _, child := range n.Content {
		if !r.plain(child) {
			return false
		}
	}
	return true
}

func yamlType(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return "nothing"
		}
		return quote(n.Value)
	}
	return "an alias"
}

// isYAML reports whether a file whose first byte after space is first is read as YAML.
func isYAML(name string, first byte) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return first != '{' || ext == ".yaml" || ext == ".yml"
}

// maxTree is the deepest nesting of a tree that is read from JSON.
const maxTree = 8

// treeOf reads the next JSON value as a tree. what names the value in reports. It returns nil
// if the reading stopped.
func treeOf(s *scanner, what string, depth int) *yaml.Node {
	kind := s.Next()
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: s.Line()}
	switch kind {
	case strictjson.Object, strictjson.List:
		if depth == maxTree {
			s.fail(fmt.Sprintf("values are nested more than %d deep", maxTree), "")
			return nil
		}
	case strictjson.None:
		s.Skip() // reports what is there
		return nil
	}
	switch kind {
	case strictjson.Object:
		n.Kind = yaml.MappingNode
		for key := range s.Object(what, nil).Keys() {
			name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: s.Line()}
			value := treeOf(s, key, depth+1)
			if value == nil {
				return nil
			}
			n.Content = append(n.Content, name, value)
		}
	case strictjson.List:
		n.Kind = yaml.SequenceNode
		for range s.List(what) {
			value := treeOf(s, what, depth+1)
			if value == nil {
				return nil
			}
			n.Content = append(n.Content, value)
		}
	case strictjson.String:
		n.Tag = "!!str"
		n.Value, _ = s.Text(what)
	case strictjson.Number:
		n.Tag = "!!float"
		n.Value, _ = s.Number(what, "a number")
	case strictjson.Bool:
		n.Tag = "!!bool"
		value, _ := s.Bool(what)
		n.Value = strconv.FormatBool(value)
	default:
		n.Tag = "!!null"
		s.Skip()
	}
	if s.Failed() {
		return nil
	}
	return n
}

// fields yields the keys of a mapping and their values: of the known keys, each once. It
// reports other keys, and values that are no mapping. what names the mapping in reports.
func (r values) fields(n *yaml.Node, what string, known []string) func(yield func(key string, value *yaml.Node) bool) {
	return func(yield func(key string, value *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			r.add(n.Line, fmt.Sprintf("%s where %s belongs", yamlType(n), what), "write one \"key: value\" a line; known: "+strings.Join(known, ", "))
			return
		}
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch {
			case seen[key.Value]:
				r.add(key.Line, fmt.Sprintf("the key %s is there twice", quote(key.Value)), "keep one of them")
				continue
			case !slices.Contains(known, key.Value):
				r.add(key.Line, fmt.Sprintf("unknown key %s in %s", quote(key.Value), what), r.suggest(key.Value, known))
			default:
				if !yield(key.Value, value) {
					return
				}
			}
			seen[key.Value] = true
		}
	}
}

// text returns a string of a tree. hint says what belongs there.
func (r values) text(n *yaml.Node, key, hint string) (string, bool) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		return n.Value, true
	}
	r.add(n.Line, fmt.Sprintf("%s: %s where a string belongs", key, yamlType(n)), hint)
	return "", false
}

// real returns a number of a tree. hint says what belongs there.
func (r values) real(n *yaml.Node, key, hint string) (float64, bool) {
	text, ok := r.number(n, key, "a number", hint)
	if !ok {
		return 0, false
	}
	value, complaint := text.real()
	if complaint != "" {
		r.add(n.Line, key+": "+complaint, hint)
	}
	return value, complaint == ""
}

// whole returns a whole number of a tree. hint says what belongs there.
func (r values) whole(n *yaml.Node, key, hint string) (int, bool) {
	text, ok := r.number(n, key, "a whole number", hint)
	if !ok {
		return 0, false
	}
	value, complaint := text.whole()
	if complaint != "" {
		r.add(n.Line, key+": "+complaint, hint)
	}
	return int(value), complaint == ""
}

// number returns a number of a tree as written. wanted names what belongs there.
func (r values) number(n *yaml.Node, key, wanted, hint string) (number, bool) {
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!int":
			return number(n.Value), true
		case "!!float":
			// YAML has more ways to write a number than JSON: .15, 1., .nan.
			var v float64
			if err := n.Decode(&v); err == nil {
				return number(strconv.FormatFloat(v, 'g', -1, 64)), true
			}
			return number(n.Value), true
		}
	}
	r.add(n.Line, fmt.Sprintf("%s: %s where %s belongs", key, yamlType(n), wanted), hint)
	return "", false
}

// oneOf returns the known name that a value is, or otherwise after a report.
func oneOf[T ~string](r values, n *yaml.Node, key string, known []T, otherwise T) T {
	text, ok := r.text(n, key, stringHint)
	if !ok {
		return otherwise
	}
	if slices.Contains(known, T(text)) {
		return T(text)
	}
	var names []string
	for _, name := range known {
		names = append(names, string(name))
	}
	r.add(n.Line, fmt.Sprintf("%s %s is unknown", key, quote(text)), r.suggest(text, names))
	return otherwise
}

// presetOf returns the value of the key preset of a mapping, or nil: the base of all other
// keys, wherever it stands.
func presetOf(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "preset" {
				return n.Content[i+1]
			}
		}
	}
	return nil
}

// preset returns the hint for the name of a preset that is not known.
func preset(name string, known []string) string {
	if near := closest(strings.ReplaceAll(name, "_", "-"), known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "name a preset, or a file"
}

// maxTreeBytes is the size above which a file that is read as a tree is refused.
const maxTreeBytes = unit.MiB

// root reads a file of one value as a tree. what names the value in reports. It returns nil
// after a report.
func (r values) root(name, what string, from io.Reader) *yaml.Node {
	data, err := io.ReadAll(io.LimitReader(from, int64(maxTreeBytes)+1))
	switch {
	case err != nil:
		r.readError(0, err)
		return nil
	case len(data) > int(maxTreeBytes):
		r.add(0, fmt.Sprintf("the file is over %v", maxTreeBytes), what+" takes a few lines: is this the right file?")
		return nil
	}
	empty := "docs/FORMATS.md draws " + what
	in := bufio.NewReader(bytes.NewReader(data))
	first, err := skipSpace(in)
	if err != nil {
		r.add(0, "the file is empty", empty)
		return nil
	}
	if !isYAML(name, first.char) {
		s := newScanner(in, r.report, first)
		root := treeOf(s, what, 0)
		if s.End(); s.Failed() {
			return nil
		}
		return root
	}
	root := r.document(data, empty)
	if root == nil || !r.plain(root) {
		return nil
	}
	return root
}
