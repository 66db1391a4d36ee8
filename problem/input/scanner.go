package input

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads JSON token by token, and reports every fault with its line. After a value of the wrong
// type, an unknown key or a key that occurs twice, it goes on, so that one reading finds all faults. After
// broken syntax it stops: Failed is then true, and every later call returns at once.
type scanner struct {
	*report
	json *jsontext.Decoder
	from *bufio.Reader
	// read is the number of bytes that json has taken, and offset where these begin in the file.
	read, offset int64
	// line is that of the next token once counted has passed the space before it.
	line    int
	counted int64
	failed  bool
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
	s := &scanner{report: r, from: in, offset: at.offset, line: at.line, names: map[string]string{}}
	s.json = jsontext.NewDecoder(literals{s}, jsontext.AllowDuplicateNames(true)) // reported by the scanner
	return s
}

// literals passes the file on until one token, with the space before it, is longer than maxLiteral.
type literals struct{ *scanner }

var errLiteral = fmt.Errorf("a string, or another value, is longer than %d bytes", maxLiteral)

func (l literals) Read(p []byte) (int, error) {
	if l.read-l.json.InputOffset() > maxLiteral {
		return 0, errLiteral
	}
	n, err := l.from.Read(p)
	l.read += int64(n)
	return n, err
}

// Line returns the line, from 1, of the token that Next has looked at, or else of the last one.
func (s *scanner) Line() int { return s.line }

// Failed reports whether the scanner has stopped.
func (s *scanner) Failed() bool { return s.failed }

// Stop ends the reading without a report.
func (s *scanner) Stop() { s.failed = true }

// Next returns the kind of the next token, without reading it; 0 if there is none.
func (s *scanner) Next() jsontext.Kind {
	if s.failed {
		return 0
	}
	next := s.json.PeekKind()
	at := s.json.InputOffset()
	for _, c := range s.json.UnreadBuffer() {
		if !strings.ContainsRune(" \t\r\n,:", rune(c)) {
			break
		}
		if at++; at > s.counted && c == '\n' {
			s.line++
		}
	}
	s.counted = max(s.counted, at)
	if next == 'f' {
		return aBool
	}
	return next
}

// token reads a bracket, or a whole string, number, true, false or null. The bytes are valid until the next
// call; nil after broken syntax.
func (s *scanner) token() (text jsontext.Value) {
	next := s.Next()
	if s.failed {
		return nil
	}
	var err error
	switch next {
	case '{', '}', '[', ']', 0:
		_, err = s.json.ReadToken()
	default:
		text, err = s.json.ReadValue()
	}
	if err != nil {
		s.broken(err)
		return nil
	}
	return text
}

// scalar reads a string without its quotes, or another scalar as written.
func (s *scanner) scalar() []byte {
	text := s.token()
	if len(text) < 2 || text[0] != '"' {
		return text
	}
	if !slices.Contains(text, '\\') {
		return text[1 : len(text)-1]
	}
	plain, _ := jsontext.AppendUnquote(nil, text) // the decoder has checked it
	return plain
}

// skip moves past the next value, whatever it is.
func (s *scanner) skip() {
	for depth := s.json.StackDepth(); ; {
		if s.token(); s.failed || s.json.StackDepth() <= depth {
			return
		}
	}
}

// End fails unless nothing but space is left.
func (s *scanner) End() {
	if s.Next(); s.failed {
		return
	}
	if _, err := s.json.ReadToken(); err == nil {
		s.fail("the file goes on behind its value", "keep one value")
	} else if err != io.EOF {
		s.broken(err)
	}
}

// Members reads the next value, an object, and yields every key as it comes, also if it was there before.
// The body must read or skip each value, or stop the scanner; the key's bytes are valid until then. A value
// that is not an object is reported and skipped.
func (s *scanner) Members(what string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !s.opens('{', what, "an object") {
			return
		}
		for n := 1; s.Next() != '}' && !s.failed; n++ {
			key := s.scalar()
			if n > maxKeys {
				s.fail(fmt.Sprintf("%s has more than %d keys", what, maxKeys), "")
			}
			if s.failed || !yield(key) {
				return
			}
		}
		s.token()
	}
}

// Object reads the next value, an object, and yields each of the known keys once. Others are reported and
// skipped.
func (s *scanner) Object(what string, known []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for bytes := range s.Members(what) {
			key := string(bytes)
			switch {
			case seen[key]:
				s.twice(key)
			case !slices.Contains(known, key):
				s.unknown(what, key, known)
			case !yield(key):
				return
			}
			seen[key] = true
		}
	}
}

// List reads the next value, a list, and yields the position of each element; the body must read or skip
// the element, or stop the scanner. A value that is not a list is reported and skipped.
func (s *scanner) List(what string) iter.Seq[int] {
	return func(yield func(int) bool) {
		if !s.opens('[', what, "a list") {
			return
		}
		for i := 0; ; i++ {
			if next := s.Next(); next == ']' || next == 0 {
				s.token()
				return
			}
			if !yield(i) {
				return
			}
		}
	}
}

// opens takes the bracket, or reports and skips another value.
func (s *scanner) opens(bracket jsontext.Kind, what, wanted string) bool {
	n := node{key: what, kind: s.Next(), line: s.line}
	switch n.kind {
	case bracket, 0:
		s.token()
		return !s.failed
	case aString, aNumber, aBool:
		n.text = string(s.scalar())
	default:
		s.skip()
	}
	if !s.failed {
		s.mistyped(&n, wanted, "")
	}
	return false
}

// twice reports a key that the object has had, and skips its value.
func (s *scanner) twice(key string) {
	s.add(s.line, fmt.Sprintf("the key %s is there twice", quote(key)), "keep one of them")
	s.skip()
}

// unknown reports a key that the object cannot have, and skips its value.
func (s *scanner) unknown(what, key string, known []string) {
	hint := s.suggest(key, known)
	if what == fileShape.what && beginsScenario(key) && key != "name" {
		hint = "it belongs to a scenario, which begins with its name"
	}
	s.add(s.line, fmt.Sprintf("unknown key %s in %s", quote(key), what), hint)
	s.skip()
}

// fail reports what makes the rest of the file unreadable, and stops.
func (s *scanner) fail(message, hint string) {
	s.Stop()
	s.fatal(s.line, message, hint)
}

// broken reports broken syntax, or a failing reader, and stops.
func (s *scanner) broken(err error) {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && errors.As(err, &syntax):
		s.fail(fmt.Sprintf("the file ends at byte %d, inside a value", s.offset+s.read), "it looks truncated: write or copy it again")
	case errors.Is(err, errLiteral):
		s.fail(errLiteral.Error(), "")
	case errors.As(err, &syntax):
		what := syntax.Err.Error()
		s.fail(fmt.Sprintf("this is not valid JSON: %s, at byte %d", what, s.offset+syntax.ByteOffset), hintOfSyntax(what))
	default:
		s.Stop()
		s.readError(s.line, err)
	}
}

// hintOfSyntax returns what to do about broken syntax.
func hintOfSyntax(what string) string {
	for _, h := range []struct{ in, hint string }{
		{"character '}'", "is there an extra comma before it?"},
		{"character ']'", "is there an extra comma before it?"},
		{"character ','", "is there an extra comma?"},
		{"character '/'", "JSON has no comments"},
		{"character '#'", "JSON has no comments"},
		{"character 'N'", "JSON has no NaN: leave a number out that is not known"},
		{"character 'I'", "JSON has no infinity: leave a number out that is not known"},
		{"expecting ','", "is there a comma missing before it?"},
		{"surrogate", "write the character itself, or both halves"},
		{"UTF-8", "save the file as UTF-8"},
		{"escape", `write a backslash as \\`},
		{"in string", `close a string with " on its line`},
	} {
		if strings.Contains(what, h.in) {
			return h.hint
		}
	}
	return "JSON writes true, false and null, and text in double quotes"
}
