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
}

// The limits that keep a hostile file from filling memory or the stack.
const (
	maxLiteral = 1 << 16
	maxDepth   = 64
	maxKeys    = 100
)

// newScanner returns a scanner of in, whose part before at has been read.
func newScanner(in *bufio.Reader, r *report, at start) *scanner {
	s := &scanner{report: r}
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
	shown, hint := "a number", ""
	switch found.Type {
	case strictjson.Number:
		if what == "pooling" {
			hint = "the mean number of lookups per sample is pooling_factor"
		}
	case strictjson.String:
		shown = "the string " + quote(found.Text)
	case strictjson.Object:
		shown = "an object"
	case strictjson.List:
		shown = "a list"
	case strictjson.Bool:
		shown = "true or false"
	case strictjson.Null:
		shown, hint = "null", "null says nothing: state a value, or leave out a key that is not required"
	}
	s.add(found.Line, fmt.Sprintf("%s: %s where %s belongs", what, shown, wanted), hint)
}

// Twice reports a key that occurs twice.
func (s *scanner) Twice(_ *strictjson.ObjectReader, key string) {
	s.add(s.Line(), fmt.Sprintf("the key %s is there twice", quote(key)), "keep one of them")
}

// Unknown reports a key that the object cannot have.
func (s *scanner) Unknown(o *strictjson.ObjectReader, key string) {
	hint := s.suggest(key, o.Known)
	if o.What == jsonFile && beginsScenario(key) && key != "name" {
		hint = "it belongs to a scenario, which begins with its name"
	}
	s.add(s.Line(), fmt.Sprintf("unknown key %s in %s", quote(key), o.What), hint)
}

// whole reads an integer. hint says what it is.
func (s *scanner) whole(what, hint string) (value int64, ok bool) {
	text, ok := s.Number(what, "a whole number")
	if !ok {
		return 0, false
	}
	value, complaint := number(text).whole()
	if complaint != "" {
		s.add(s.Line(), what+": "+complaint, hint)
	}
	return value, complaint == ""
}

// real reads a number. hint says what it is.
func (s *scanner) real(what, hint string) (value float64, ok bool) {
	text, ok := s.Number(what, "a number")
	if !ok {
		return 0, false
	}
	value, complaint := number(text).real()
	if complaint != "" {
		s.add(s.Line(), what+": "+complaint, hint)
	}
	return value, complaint == ""
}
