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

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/neuroshard/neuroshard/unit"
)

// node.go reads JSON and YAML as trees of one form.

// node is a value of a file.
type node struct {
	kind jsontext.Kind
	// line is where the value begins, from 1.
	line int
	// key is the key of the value, or that of the list that it is an element of.
	key string
	// text is a string, a number as written, true or false, or a cell of a CSV file.
	text string
	// list holds the values of an object, or the elements of a list.
	list []node
}

// The kinds of values.
const (
	anObject = jsontext.Kind('{')
	aList    = jsontext.Kind('[')
	aString  = jsontext.Kind('"')
	aNumber  = jsontext.Kind('0')
	aBool    = jsontext.Kind('t')
	null     = jsontext.Kind('n')
	// cell is a value of a CSV file. Its text may stand for a value of any kind but an object.
	cell = jsontext.Kind(',')
)

// get returns the value of a key of an object, or nil.
func (n *node) get(key string) *node {
	if n.kind == anObject {
		for i := range n.list {
			if n.list[i].key == key {
				return &n.list[i]
			}
		}
	}
	return nil
}

// shown says what a value is.
func (n *node) shown() string {
	switch n.kind {
	case anObject:
		return "an object"
	case aList:
		return "a list"
	case aString:
		return "the string " + quote(n.text)
	case aNumber:
		return "the number " + clip(n.text)
	case null:
		return "null"
	case aBool:
		return n.text
	}
	return quote(n.text)
}

// maxValues bounds the values in one tree, so that a table cannot fill memory.
const maxValues = 1 << 18

// tree reads the next value, which messages call what; the next tree takes its memory. Where the syntax
// breaks off, s.Failed is true, and the tree ends there.
func (s *scanner) tree(what string) *node {
	s.values, s.closed = 0, s.closed[:0]
	n := s.value(what, 0)
	return &n
}

func (s *scanner) value(key string, depth int) node {
	n := node{kind: s.Next(), key: key}
	n.line = s.Line()
	if s.values++; s.values > maxValues {
		s.fail(fmt.Sprintf("%s has more than %d values", key, maxValues), "")
	} else if depth > maxDepth {
		s.fail(fmt.Sprintf("values are nested more than %d deep", maxDepth), "")
	}
	if s.Failed() {
		return n
	}
	from := len(s.open)
	switch n.kind {
	case anObject:
		for bytes := range s.Members(key) {
			member := s.once(bytes)
			if slices.ContainsFunc(s.open[from:], func(n node) bool { return n.key == member }) {
				s.twice(member)
				continue
			}
			value := s.value(member, depth+1)
			s.open = append(s.open, value)
		}
	case aList:
		for range s.List(key) {
			value := s.value(key, depth+1)
			s.open = append(s.open, value)
		}
	case null:
		s.token()
	default:
		n.text = string(s.scalar())
	}
	if len(s.open) > from {
		at := len(s.closed)
		s.closed = append(s.closed, s.open[from:]...)
		n.list, s.open = s.closed[at:], s.open[:from]
	}
	return n
}

// once returns a key, the same string for the same one.
func (s *scanner) once(key []byte) string {
	if name, ok := s.names[string(key)]; ok { // which copies nothing
		return name
	}
	name := string(key)
	if len(s.names) < maxKeys {
		s.names[name] = name
	}
	return name
}

// maxTreeBytes is the size above which a file that is read as one tree is refused.
const maxTreeBytes = unit.MiB

// root reads a file of one value, JSON or YAML, which messages call what. It returns nil after a report.
func (r *report) root(name, what string, from io.Reader) *node {
	data, err := io.ReadAll(io.LimitReader(from, int64(maxTreeBytes)+1))
	switch {
	case err != nil:
		r.readError(0, err)
		return nil
	case len(data) > int(maxTreeBytes):
		r.add(0, fmt.Sprintf("the file is over %v", maxTreeBytes), what+" takes a few lines: is this the right file?")
		return nil
	}
	in := bufio.NewReader(bytes.NewReader(data))
	first, err := skipSpace(in)
	ext := strings.ToLower(filepath.Ext(name))
	switch {
	case err != nil:
		r.add(0, "the file is empty", "docs/FORMATS.md draws "+what)
		return nil
	case first.char == '{' && ext != ".yaml" && ext != ".yml":
		s := newScanner(in, r, first)
		root := s.tree(what)
		if s.End(); s.Failed() {
			return nil
		}
		return root
	}
	root := node{key: what}
	if document := r.document(data, what); document == nil || !r.convert(document, &root) {
		return nil
	}
	return &root
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// document returns the root of the file's only YAML document, or nil after a report.
func (r *report) document(data []byte, what string) *yaml.Node {
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
		r.add(0, "the file is empty", "docs/FORMATS.md draws "+what)
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

// convert turns YAML into a node. It refuses anchors and aliases, with which a short file can grow
// without bound.
func (r *report) convert(y *yaml.Node, n *node) bool {
	n.line = y.Line
	switch {
	case y.Kind == yaml.AliasNode || y.Anchor != "":
		r.add(y.Line, "YAML anchors and aliases are not allowed", "write the value itself")
		return false
	case y.Kind == yaml.MappingNode:
		n.kind = anObject
		seen := map[string]bool{}
		for i := 0; i+1 < len(y.Content); i += 2 {
			key := y.Content[i]
			if seen[key.Value] {
				r.add(key.Line, fmt.Sprintf("the key %s is there twice", quote(key.Value)), "keep one of them")
				continue
			}
			seen[key.Value] = true
			n.list = append(n.list, node{key: key.Value})
			if !r.convert(key, &node{}) || !r.convert(y.Content[i+1], &n.list[len(n.list)-1]) {
				return false
			}
		}
	case y.Kind == yaml.SequenceNode:
		n.kind = aList
		n.list = make([]node, len(y.Content))
		for i, element := range y.Content {
			n.list[i].key = n.key
			if !r.convert(element, &n.list[i]) {
				return false
			}
		}
	default:
		n.scalar(y)
	}
	return true
}

func (n *node) scalar(y *yaml.Node) {
	n.kind, n.text = aString, y.Value
	switch y.ShortTag() {
	case "!!null":
		n.kind = null
	case "!!bool":
		n.kind, n.text = aBool, strings.ToLower(y.Value)
	case "!!int":
		n.kind = aNumber
	case "!!float":
		n.kind = aNumber
		// YAML has more ways to write a number than JSON: .15, 1., .nan.
		var v float64
		if err := y.Decode(&v); err == nil {
			n.text = strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
}
