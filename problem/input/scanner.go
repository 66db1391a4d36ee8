package input

import (
	"bufio"
	"fmt"

	"github.com/neuroshard/neuroshard/internal/strictjson"
)

// scanner reads JSON and words its faults: a strictjson.Reader that reports to the
// report of the file.
type scanner struct {
	*report
	*strictjson.Reader
	// values counts those of the tree that is being read. closed holds those of its objects and lists, and
	// open those of the ones that are not closed yet.
	values       int
	closed, open []node
	// names are keys that were read.
	names map[string]string
}

// The limits that keep a hostile file from filling memory or the stack.
const (
	maxLiteral = 1 << 16
	maxDepth   = 64
	maxKeys    = 100
)

// newScanner returns a scanner of in, whose part before at has been read.
func newScanner(in *bufio.Reader, r *report, at start) *scanner {
	s := &scanner{report: r, names: map[string]string{}}
	s.Reader = strictjson.New(in, s, strictjson.Options{Line: at.line, Offset: at.offset, Text: maxLiteral, Depth: maxDepth, Keys: maxKeys})
	return s
}

// fail reports what makes the rest of the file unreadable, and stops.
func (s *scanner) fail(message, hint string) {
	s.Stop()
	s.fatal(s.Line(), message, hint)
}

// Broken reports broken syntax.
func (s *scanner) Broken(e strictjson.SyntaxError) {
	if e.Err != nil {
		s.readError(e.Line, e.Err)
		return
	}
	s.fatal(e.Line, e.Message, e.Hint)
}

// Mistyped reports a value that is not what is wanted.
func (s *scanner) Mistyped(what, wanted string, found strictjson.Found) {
	s.mistyped(&node{key: what, kind: found.Type, text: found.Text, line: found.Line}, wanted, "")
}

// Twice reports a key that occurs twice.
func (s *scanner) Twice(_ *strictjson.ObjectReader, key string) {
	s.add(s.Line(), fmt.Sprintf("the key %s is there twice", quote(key)), "keep one of them")
}

// Unknown reports a key that the object cannot have.
func (s *scanner) Unknown(o *strictjson.ObjectReader, key string) {
	hint := s.suggest(key, o.Known)
	if o.What == fileShape.what && beginsScenario(key) && key != "name" {
		hint = "it belongs to a scenario, which begins with its name"
	}
	s.add(s.Line(), fmt.Sprintf("unknown key %s in %s", quote(key), o.What), hint)
}
