package input

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// scanner reads JSON value by value without holding more than one string of
// it. It knows the line of everything, refuses duplicate and unknown keys, and
// tells two kinds of errors apart: after a value of the wrong type it goes on,
// after broken syntax it stops (failed), and every later call returns at once.
type scanner struct {
	*report
	in     *bufio.Reader
	line   int
	offset int64
	failed bool
	// ended is set at the end of the file.
	ended bool
	buf   []byte
}

// The limits that keep a hostile file from filling memory or the stack.
const (
	maxLiteral = 1 << 16
	maxDepth   = 64
	maxKeys    = 100
)

// newScanner returns a scanner of in, of which the part before at is read.
func newScanner(in *bufio.Reader, r *report, at start) *scanner {
	return &scanner{report: r, in: in, line: at.line, offset: at.offset}
}

// fail reports broken syntax and stops the scanner.
func (s *scanner) fail(message, hint string) {
	if !s.failed {
		s.failed = true
		s.fatal(s.line, message, hint)
	}
}

// unexpected fails at the next byte, which is not what had to be there.
func (s *scanner) unexpected(wanted string) {
	c := s.peek()
	switch {
	case s.failed:
	case s.ended:
		s.fail(fmt.Sprintf("the file ends at byte %d where %s belongs", s.offset, wanted), "it looks truncated: write or copy it again")
	default:
		hint := "this is not valid JSON"
		switch {
		case c == '}' || c == ']':
			hint = "is there a comma too many before it?"
		case c >= 'A' && c <= 'Z':
			hint = "JSON writes true, false and null, and text in double quotes"
		case c == '/' || c == '#':
			hint = "JSON has no comments"
		}
		s.fail(fmt.Sprintf("%q at byte %d where %s belongs", rune(c), s.offset, wanted), hint)
	}
}

// peek returns the next byte that is not space, without taking it; 0 where
// there is none.
func (s *scanner) peek() byte {
	for {
		c, ok := s.read()
		switch {
		case !ok:
			return 0
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		default:
			s.unread(c)
			return c
		}
	}
}

func (s *scanner) read() (byte, bool) {
	if s.failed || s.ended {
		return 0, false
	}
	c, err := s.in.ReadByte()
	if err == io.EOF {
		s.ended = true
		return 0, false
	}
	if err != nil {
		s.failed = true
		s.readError(s.line, err)
		return 0, false
	}
	s.offset++
	if c == '\n' {
		s.line++
	}
	return c, true
}

func (s *scanner) unread(c byte) {
	_ = s.in.UnreadByte()
	s.offset--
	if c == '\n' {
		s.line--
	}
}

// take takes the byte c if it comes next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.failed || s.ended {
		return false
	}
	s.read()
	return true
}

// end fails unless nothing but space is left.
func (s *scanner) end() {
	s.peek()
	if !s.failed && !s.ended {
		s.unexpected("the end of the file")
	}
}

// object is a JSON object being read.
type object struct {
	s     *scanner
	what  string
	known []string
	seen  uint32
	// opened is set once the value has turned out to be an object.
	opened bool
}

// object returns the object that comes next, which may hold the known keys
// only, at most 32. what names it in messages.
func (s *scanner) object(what string, known []string) *object {
	return &object{s: s, what: what, known: known}
}

// keys yields each known key of the object; the body must read its value. Other
// keys and duplicates are reported and skipped, and so is a value that is not
// an object.
func (o *object) keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		s := o.s
		o.opened = s.opens('{', o.what, "an object")
		if !o.opened || s.take('}') {
			return
		}
		var others []string
		for n := 1; ; n++ {
			key, ok := s.literal("a key in double quotes")
			if !ok || !s.expect(':', `":"`) {
				return
			}
			if n > maxKeys {
				s.fail(fmt.Sprintf("%s has more than %d keys", o.what, maxKeys), "")
				return
			}
			i := slices.Index(o.known, key)
			switch {
			case i >= 0 && o.seen&(1<<i) != 0, i < 0 && slices.Contains(others, key):
				s.add(s.line, fmt.Sprintf("the key %s is there twice", quote(key)), "keep one of them")
				s.skip(0)
			case i < 0:
				others = append(others, key)
				s.unknownKey(o, key)
				s.skip(0)
			default:
				o.seen |= 1 << i
				if !yield(o.known[i]) {
					return
				}
			}
			if !s.more('}') {
				return
			}
		}
	}
}

func (s *scanner) unknownKey(o *object, key string) {
	hint := suggest(key, o.known)
	if o.what == prototypeTable && slices.Contains(tableKeys, key) {
		hint = `a list is read as the prototype's table_configs.json; the project's own format is {"format": "neuroshard-tables", "version": 1, "tables": [...]}`
	}
	if o.what == jsonFile && beginsScenario(key) && key != "name" {
		hint = "it belongs to a scenario, which begins with its name"
	}
	s.add(s.line, fmt.Sprintf("unknown key %s in %s", quote(key), o.what), hint)
}

// has reports whether the object held a key of known.
func (o *object) has(key string) bool {
	i := slices.Index(o.known, key)
	return i >= 0 && o.seen&(1<<i) != 0
}

// list yields the position of each element of the list that comes next; the
// body must read it. A value that is not a list is reported and skipped.
func (s *scanner) list(what string) iter.Seq[int] {
	return func(yield func(int) bool) {
		if !s.opens('[', what, "a list") || s.take(']') {
			return
		}
		for i := 0; yield(i) && s.more(']'); i++ {
		}
	}
}

// opens takes the bracket c, or reports and skips another value.
func (s *scanner) opens(c byte, what, wanted string) bool {
	if s.take(c) {
		return true
	}
	s.wrongType(what, wanted)
	return false
}

// more moves past an element: true at a comma, false at the closing bracket.
func (s *scanner) more(closing byte) bool {
	if s.take(',') {
		return true
	}
	s.expect(closing, fmt.Sprintf(`"," or "%c"`, closing))
	return false
}

func (s *scanner) expect(c byte, wanted string) bool {
	if s.take(c) {
		return true
	}
	s.unexpected(wanted)
	return false
}

// text reads a string. ok is false, and the error reported, where another value
// is there.
func (s *scanner) text(what string) (value string, ok bool) {
	if s.peek() != '"' {
		s.wrongType(what, "a string")
		return "", false
	}
	return s.literal("a string")
}

// boolean reads true or false.
func (s *scanner) boolean(what string) (value, ok bool) {
	switch s.peek() {
	case 't':
		return true, s.word() == "true"
	case 'f':
		return false, s.word() == "false"
	}
	s.wrongType(what, "true or false")
	return false, false
}

// whole reads an integer of at most most. hint says what it is.
func (s *scanner) whole(what, hint string) (value int64, ok bool) {
	n, ok := s.number(what, "a whole number")
	if !ok {
		return 0, false
	}
	value, complaint := n.whole()
	if complaint != "" {
		s.add(s.line, what+": "+complaint, hint)
	}
	return value, complaint == ""
}

// real reads a number.
func (s *scanner) real(what, hint string) (value float64, ok bool) {
	n, ok := s.number(what, "a number")
	if !ok {
		return 0, false
	}
	value, complaint := n.real()
	if complaint != "" {
		s.add(s.line, what+": "+complaint, hint)
	}
	return value, complaint == ""
}

// number reads a number, or NaN or an infinity as Python writes them.
func (s *scanner) number(what, wanted string) (number, bool) {
	switch c := s.peek(); {
	case c == '-' || c >= '0' && c <= '9' || c == 'N' || c == 'I':
		word := s.word()
		return number(word), word != ""
	}
	s.wrongType(what, wanted)
	return "", false
}

// wrongType reports the next value as not what is wanted, and skips it.
func (s *scanner) wrongType(what, wanted string) {
	c := s.peek()
	if s.failed || s.ended {
		s.unexpected(wanted)
		return
	}
	line, found, hint := s.line, "", ""
	switch {
	case c == '"':
		text, ok := s.literal("a string")
		if !ok {
			return
		}
		s.add(line, fmt.Sprintf("%s: the string %s where %s belongs", what, quote(text), wanted), "")
		return
	case c == '{':
		found = "an object"
	case c == '[':
		found = "a list"
	case c == 'n':
		found, hint = "null", "null says nothing: state a value, or leave out a key that is not required"
	case c == 't' || c == 'f':
		found = "true or false"
	case c == '-' || c >= '0' && c <= '9' || c == 'N' || c == 'I':
		found = "a number"
	default:
		s.unexpected(wanted)
		return
	}
	s.skip(0)
	if !s.failed {
		s.add(line, fmt.Sprintf("%s: %s where %s belongs", what, found, wanted), hint)
	}
}

// skip moves past the next value, whatever it is.
func (s *scanner) skip(depth int) {
	if depth > maxDepth {
		s.fail(fmt.Sprintf("values are nested more than %d deep", maxDepth), "")
		return
	}
	switch c := s.peek(); {
	case c == '{':
		s.take('{')
		if s.take('}') {
			return
		}
		for {
			if _, ok := s.literal("a key in double quotes"); !ok || !s.expect(':', `":"`) {
				return
			}
			s.skip(depth + 1)
			if !s.more('}') {
				return
			}
		}
	case c == '[':
		s.take('[')
		if s.take(']') {
			return
		}
		for {
			s.skip(depth + 1)
			if !s.more(']') {
				return
			}
		}
	case c == '"':
		s.literal("a string")
	case c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == 'N' || c == 'I':
		s.word()
	default:
		s.unexpected("a value")
	}
}

// literal reads a string in double quotes.
func (s *scanner) literal(wanted string) (string, bool) {
	if !s.take('"') {
		s.unexpected(wanted)
		return "", false
	}
	s.buf = append(s.buf[:0], '"')
	plain := true
	for {
		c, ok := s.read()
		switch {
		case !ok:
			s.unexpected("the closing quote of a string")
			return "", false
		case c < ' ':
			s.unread(c)
			s.fail(fmt.Sprintf("a string is not closed on its line, at byte %d", s.offset), `close it with "`)
			return "", false
		case len(s.buf) > maxLiteral:
			s.fail(fmt.Sprintf("a string is longer than %d bytes", maxLiteral), "")
			return "", false
		}
		s.buf = append(s.buf, c)
		if c == '"' {
			break
		}
		if c == '\\' {
			plain = false
			if c, ok = s.read(); ok {
				s.buf = append(s.buf, c)
			}
		}
	}
	if !utf8.Valid(s.buf) {
		s.fail(fmt.Sprintf("a string that ends at byte %d is not valid UTF-8", s.offset), "save the file as UTF-8")
		return "", false
	}
	if plain {
		return string(s.buf[1 : len(s.buf)-1]), true
	}
	var value string
	if err := json.Unmarshal(s.buf, &value); err != nil {
		s.fail(fmt.Sprintf("the string %s has an escape that JSON does not know", clip(string(s.buf))), `write a backslash as \\`)
		return "", false
	}
	return value, true
}

// word reads a number, true, false, null, NaN or an infinity, and fails at any
// other word.
func (s *scanner) word() string {
	s.peek()
	s.buf = s.buf[:0]
	for {
		c, ok := s.read()
		if !ok {
			break
		}
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.' || c == '_') {
			s.unread(c)
			break
		}
		s.buf = append(s.buf, c)
		if len(s.buf) > maxLiteral/64 {
			s.fail(fmt.Sprintf("a number is longer than %d bytes", maxLiteral/64), "")
			return ""
		}
	}
	word := string(s.buf)
	switch word {
	case "true", "false", "null", "NaN", "Infinity", "-Infinity":
		return word
	}
	if complaint := number(word).malformed(); complaint != "" && !s.failed {
		if s.ended {
			s.unexpected("the rest of " + quote(word))
			return ""
		}
		hint := "this is not valid JSON"
		if strings.EqualFold(word, "none") || strings.EqualFold(word, "true") || strings.EqualFold(word, "false") {
			hint = "JSON writes true, false and null, and text in double quotes"
		}
		s.fail(fmt.Sprintf("%s at byte %d is no value of JSON", quote(word), s.offset-int64(len(word))), hint)
		return ""
	}
	if s.failed {
		return ""
	}
	return word
}
