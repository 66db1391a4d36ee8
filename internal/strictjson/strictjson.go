// Package strictjson reads JSON value by value and reports every fault with its line.
//
//	New             a text -> Reader
//	Reader.Object   the keys of an object, each once, from a known list
//	Reader.Members  the keys of an object, as they come
//	Reader.List     the positions of a list
//	Reader.Text, Number, Bool, Skip, Next
//	Reader.End      checks that nothing follows
//
// A Reader holds at most one string of the text in memory. It reports two sorts of
// faults to its Reporter. After a value of the wrong type, an unknown key or a key
// that occurs twice, it skips the value and goes on, so that one reading finds all
// faults. After broken syntax it stops: Failed is then true, and every later call
// returns at once. The Reporter writes the messages.
package strictjson

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Type is the type of a value, which its first byte decides.
type Type byte

// The types of values.
const (
	// None means that there is no value: the end of the text, broken syntax, or a byte
	// with which no value begins.
	None   Type = 0
	Object Type = '{'
	List   Type = '['
	String Type = '"'
	// Number includes NaN, Infinity and -Infinity, which Python writes.
	Number Type = '0'
	Bool   Type = 't'
	Null   Type = 'n'
)

// Found is a value of the wrong type.
type Found struct {
	Type Type
	// Text is the string, the number as written, true or false; otherwise empty.
	Text string
	// Line is where the value begins, from 1.
	Line int
}

// SyntaxError is the error that stopped a Reader.
type SyntaxError struct {
	Line    int
	Message string
	// Hint says how to correct the text; it may be empty.
	Hint string
	// Ended is true if the text ends too early.
	Ended bool
	// Err is the error of the underlying reader, if that is what stopped it.
	Err error
}

// Reporter receives faults. During a call, Reader.Line returns the line of the fault,
// unless the fault states its own line.
type Reporter interface {
	// Broken is called once, when the Reader has stopped.
	Broken(SyntaxError)
	// Mistyped is called for a value of the wrong type, after it was skipped.
	Mistyped(what, wanted string, found Found)
	// Unknown is called for a key that is not a known key, and Twice for a key that
	// occurred before. The value is skipped next, unless the Reporter calls Stop.
	Unknown(o *ObjectReader, key string)
	Twice(o *ObjectReader, key string)
}

// Options bound what a Reader accepts. A limit of 0 means no limit, except for Depth.
type Options struct {
	// Line and Offset are where the text begins in its file; 0 means line 1 and byte 0.
	Line   int
	Offset int64
	// Text is the most bytes of a string, and Keys the most keys of an object.
	Text, Keys int
	// Depth is the deepest nesting of values that are skipped; 0 means 100.
	Depth int
}

// maxWord bounds a number or another word.
const maxWord = 1 << 10

// Reader reads one JSON text. See New.
type Reader struct {
	in       *bufio.Reader
	reporter Reporter
	limit    Options
	line     int
	offset   int64
	failed   bool
	// ended is set at the end of the text.
	ended bool
	buf   []byte
}

// New returns a Reader of a text.
func New(in *bufio.Reader, reporter Reporter, o Options) *Reader {
	if o.Depth == 0 {
		o.Depth = 100
	}
	return &Reader{in: in, reporter: reporter, limit: o, line: max(1, o.Line), offset: o.Offset}
}

// Line returns the line, from 1, of the last byte that was read.
func (r *Reader) Line() int { return r.line }

// Failed reports whether the Reader has stopped.
func (r *Reader) Failed() bool { return r.failed }

// Stop ends the reading without a report.
func (r *Reader) Stop() { r.failed = true }

// Next returns the type of the next value, without reading the value.
func (r *Reader) Next() Type {
	switch c := r.peek(); {
	case c == '{' || c == '[' || c == '"' || c == 'n':
		return Type(c)
	case c == 't' || c == 'f':
		return Bool
	case c == '-' || c >= '0' && c <= '9' || c == 'N' || c == 'I':
		return Number
	}
	return None
}

// Want reports whether the next value is of the type kind, without reading the value.
// If it is not, Want reports the fault and skips the value. what names the value in
// reports, and wanted names what belongs there.
func (r *Reader) Want(kind Type, what, wanted string) bool {
	if r.Next() == kind {
		return true
	}
	r.mistyped(what, wanted)
	return false
}

// Text reads a string. If the next value is not a string, ok is false and the fault is
// reported. what names the value in reports.
func (r *Reader) Text(what string) (value string, ok bool) {
	if !r.Want(String, what, "a string") {
		return "", false
	}
	return r.literal("a string")
}

// Bool reads true or false.
func (r *Reader) Bool(what string) (value, ok bool) {
	if !r.Want(Bool, what, "true or false") {
		return false, false
	}
	word := r.word()
	return word == "true", word != ""
}

// Number reads a number and returns it as it is written; it may be NaN, Infinity or
// -Infinity. wanted says in reports which numbers belong there.
func (r *Reader) Number(what, wanted string) (text string, ok bool) {
	if !r.Want(Number, what, wanted) {
		return "", false
	}
	word := r.word()
	return word, word != ""
}

// End fails unless nothing but space is left.
func (r *Reader) End() {
	r.peek()
	if !r.failed && !r.ended {
		r.unexpected("the end of the file")
	}
}

// Skip moves past the next value, whatever it is.
func (r *Reader) Skip() { r.skip(0) }

// ObjectReader reads an object. See Reader.Object.
type ObjectReader struct {
	// What names the object in reports, and Known lists its keys; nil means any keys.
	What  string
	Known []string

	r      *Reader
	seen   uint64
	others keySet
	opened bool
}

// Object returns the next value, which must be an object with only the known keys, at
// most 64; nil allows any keys.
func (r *Reader) Object(what string, known []string) *ObjectReader {
	return &ObjectReader{What: what, Known: known, r: r}
}

// Opened reports whether the value has turned out to be an object.
func (o *ObjectReader) Opened() bool { return o.opened }

// Has reports whether the object has held the known key so far.
func (o *ObjectReader) Has(key string) bool {
	i := slices.Index(o.Known, key)
	return i >= 0 && o.seen&(1<<i) != 0
}

// Keys yields the keys of the object; the body must read or skip each value, or
// stop the Reader. Unknown keys and keys that occur twice are reported and skipped. A
// value that is not an object is reported and skipped, too.
func (o *ObjectReader) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		r := o.r
		if o.opened = r.Want(Object, o.What, "an object"); !o.opened {
			return
		}
		for range r.Members(o.What) {
			if key, ok := o.admit(); !ok {
				r.Skip()
			} else if !yield(key) {
				return
			}
		}
	}
}

// Members reads the next value, an object, and yields every key as it comes, also if it was there before.
// The body must read or skip each value, or stop the Reader; the key's bytes are valid until then. A value
// that is not an object is reported and skipped.
func (r *Reader) Members(what string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !r.opens('{', what, "an object") || r.take('}') {
			return
		}
		for n := 1; ; n++ {
			if !r.quoted("a key in double quotes") || !r.expect(':', `":"`) {
				return
			}
			if r.limit.Keys > 0 && n > r.limit.Keys {
				r.fail(fmt.Sprintf("%s has more than %d keys", what, r.limit.Keys), "")
				return
			}
			if !yield(r.buf) || !r.more('}') {
				return
			}
		}
	}
}

// admit returns the key that was read, if its value is wanted, and reports it
// otherwise.
func (o *ObjectReader) admit() (string, bool) {
	r := o.r
	for i, known := range o.Known {
		if known != string(r.buf) { // which copies nothing
			continue
		}
		if o.seen&(1<<i) != 0 {
			r.reporter.Twice(o, known)
			return known, false
		}
		o.seen |= 1 << i
		return known, true
	}
	key := string(r.buf)
	switch {
	case !o.others.add(key):
		r.reporter.Twice(o, key)
	case o.Known != nil:
		r.reporter.Unknown(o, key)
	default:
		return key, true
	}
	return key, false
}

// keySet is the keys of an object: a few in a list, more in a map, because a text
// may have a million objects of a few keys.
type keySet struct {
	few  []string
	many map[string]bool
}

// add adds a key and reports whether it is new.
func (s *keySet) add(key string) bool {
	if s.many == nil && len(s.few) == 8 {
		s.many = make(map[string]bool, 16)
		for _, k := range s.few {
			s.many[k] = true
		}
	}
	if s.many != nil {
		known := s.many[key]
		s.many[key] = true
		return !known
	}
	if slices.Contains(s.few, key) {
		return false
	}
	s.few = append(s.few, key)
	return true
}

// List reads the next value, a list, and yields the position of each element; the body
// must read or skip the element, or stop the Reader. A value that is not a list is
// reported and skipped.
func (r *Reader) List(what string) iter.Seq[int] {
	return func(yield func(int) bool) {
		if !r.opens('[', what, "a list") || r.take(']') {
			return
		}
		for i := 0; yield(i) && r.more(']'); i++ {
		}
	}
}

// opens takes the bracket c, or reports and skips another value.
func (r *Reader) opens(c byte, what, wanted string) bool {
	return r.Want(Type(c), what, wanted) && r.take(c)
}

// more moves past an element: true at a comma, false at the closing bracket.
func (r *Reader) more(closing byte) bool {
	if r.take(',') {
		return true
	}
	r.expect(closing, fmt.Sprintf(`"," or "%c"`, closing))
	return false
}

func (r *Reader) expect(c byte, wanted string) bool {
	if r.take(c) {
		return true
	}
	r.unexpected(wanted)
	return false
}

// take takes the byte c if it comes next.
func (r *Reader) take(c byte) bool {
	if r.peek() != c || r.failed || r.ended {
		return false
	}
	r.read()
	return true
}

// mistyped skips the next value and reports that it has the wrong type.
func (r *Reader) mistyped(what, wanted string) {
	found := Found{Type: r.Next(), Line: r.line}
	ok := true
	switch found.Type {
	case None:
		r.unexpected(wanted)
		return
	case String:
		found.Text, ok = r.literal("a string")
	case Number, Bool:
		found.Text = r.word()
	default:
		r.Skip()
	}
	if ok && !r.failed {
		r.reporter.Mistyped(what, wanted, found)
	}
}

// skip moves past the next value, which is at the given depth.
func (r *Reader) skip(depth int) {
	if depth > r.limit.Depth {
		r.fail(fmt.Sprintf("values are nested more than %d deep", r.limit.Depth), "")
		return
	}
	switch c := r.peek(); {
	case c == '{':
		r.skipInside('{', '}', func() bool { return r.quoted("a key in double quotes") && r.expect(':', `":"`) }, depth)
	case c == '[':
		r.skipInside('[', ']', func() bool { return true }, depth)
	case c == '"':
		r.quoted("a string")
	case r.Next() != None || c >= 'a' && c <= 'z':
		r.word()
	default:
		r.unexpected("a value")
	}
}

// skipInside moves past an object or a list. key reads what comes before each value: the
// key in an object, nothing in a list.
func (r *Reader) skipInside(opening, closing byte, key func() bool, depth int) {
	r.take(opening)
	if r.take(closing) {
		return
	}
	for key() {
		r.skip(depth + 1)
		if !r.more(closing) {
			return
		}
	}
}

// peek returns the next byte that is not space, without taking it; 0 where there
// is none.
func (r *Reader) peek() byte {
	for {
		c, ok := r.read()
		switch {
		case !ok:
			return 0
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		default:
			r.unread(c)
			return c
		}
	}
}

func (r *Reader) read() (byte, bool) {
	if r.failed || r.ended {
		return 0, false
	}
	c, err := r.in.ReadByte()
	if err == io.EOF {
		r.ended = true
		return 0, false
	}
	if err != nil {
		r.failed = true
		r.reporter.Broken(SyntaxError{Line: r.line, Message: err.Error(), Err: err})
		return 0, false
	}
	r.offset++
	if c == '\n' {
		r.line++
	}
	return c, true
}

func (r *Reader) unread(c byte) {
	_ = r.in.UnreadByte()
	r.offset--
	if c == '\n' {
		r.line--
	}
}

// literal reads a string in double quotes.
func (r *Reader) literal(wanted string) (string, bool) {
	if !r.quoted(wanted) {
		return "", false
	}
	return string(r.buf), true
}

// quoted reads a string in double quotes into the buffer, without the quotes.
func (r *Reader) quoted(wanted string) bool {
	if !r.take('"') {
		r.unexpected(wanted)
		return false
	}
	r.buf = append(r.buf[:0], '"')
	plain := true
	for closed := false; !closed; {
		c, ok := r.read()
		switch {
		case !ok:
			r.unexpected("the closing quote of a string")
			return false
		case c < ' ':
			r.unread(c)
			r.fail(fmt.Sprintf("a string is not closed on its line, at byte %d", r.offset), `close it with "`)
			return false
		case r.limit.Text > 0 && len(r.buf) > r.limit.Text:
			r.fail(fmt.Sprintf("a string is longer than %d bytes", r.limit.Text), "")
			return false
		}
		r.buf = append(r.buf, c)
		closed = c == '"'
		if c == '\\' {
			plain = false
			if c, ok = r.read(); ok {
				r.buf = append(r.buf, c)
			}
		}
	}
	return r.unquote(plain)
}

// unquote replaces the literal in the buffer by its value.
func (r *Reader) unquote(plain bool) bool {
	if !utf8.Valid(r.buf) {
		r.fail(fmt.Sprintf("a string that ends at byte %d is not valid UTF-8", r.offset), "save the file as UTF-8")
		return false
	}
	if plain {
		r.buf = append(r.buf[:0], r.buf[1:len(r.buf)-1]...)
		return true
	}
	var value string
	if err := json.Unmarshal(r.buf, &value); err != nil {
		r.fail(fmt.Sprintf("the string %s has an escape that JSON does not know", clip(string(r.buf))), `write a backslash as \\`)
		return false
	}
	if loneSurrogate(r.buf) {
		r.fail(fmt.Sprintf("the string %s has half a character: a surrogate without the other", clip(string(r.buf))), "write the character itself, or both halves")
		return false
	}
	r.buf = append(r.buf[:0], value...)
	return true
}

// loneSurrogate reports whether a literal of valid escapes has a surrogate that is not one of a
// pair. json.Unmarshal would read it as U+FFFD, and different names as the same one.
func loneSurrogate(literal []byte) bool {
	high := rune(-1) // a surrogate that the escape before was
	for i := 0; i < len(literal); i++ {
		next := rune(-1)
		if literal[i] == '\\' {
			i++
			if literal[i] == 'u' {
				code, _ := strconv.ParseUint(string(literal[i+1:i+5]), 16, 16)
				next, i = rune(code), i+4
			}
		}
		switch {
		case high >= 0:
			if utf16.DecodeRune(high, next) == utf8.RuneError {
				return true
			}
			high = -1
		case utf16.IsSurrogate(next):
			high = next
		}
	}
	return false
}

// word reads a number, true, false, null, NaN or an infinity, and fails at any
// other word; it then returns "".
func (r *Reader) word() string {
	r.peek()
	r.buf = r.buf[:0]
	for {
		c, ok := r.read()
		if !ok {
			break
		}
		if !inWord(c) {
			r.unread(c)
			break
		}
		if r.buf = append(r.buf, c); len(r.buf) > maxWord {
			r.fail(fmt.Sprintf("a number is longer than %d bytes", maxWord), "")
			return ""
		}
	}
	if r.failed {
		return ""
	}
	word := string(r.buf)
	switch word {
	case "true", "false", "null", "NaN", "Infinity", "-Infinity":
		return word
	}
	if ValidNumber(word) {
		return word
	}
	r.badWord(word)
	return ""
}

func inWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.' || c == '_'
}

func (r *Reader) badWord(word string) {
	if r.ended {
		r.unexpected("the rest of " + quote(word))
		return
	}
	hint := "this is not valid JSON"
	if strings.EqualFold(word, "none") || strings.EqualFold(word, "true") || strings.EqualFold(word, "false") {
		hint = wordsHint
	}
	r.fail(fmt.Sprintf("%s at byte %d is not a JSON value", quote(word), r.offset-int64(len(word))), hint)
}

const wordsHint = "JSON writes true, false and null, and text in double quotes"

// unexpected fails at the next byte, which is not the byte that is wanted there.
func (r *Reader) unexpected(wanted string) {
	c := r.peek()
	switch {
	case r.failed:
	case r.ended:
		r.failed = true
		r.reporter.Broken(SyntaxError{
			Line: r.line, Ended: true,
			Message: fmt.Sprintf("the file ends at byte %d where %s belongs", r.offset, wanted),
			Hint:    "it looks truncated: write or copy it again",
		})
	default:
		hint := "this is not valid JSON"
		switch {
		case c == '}' || c == ']':
			hint = "is there an extra comma before it?"
		case c >= 'A' && c <= 'Z':
			hint = wordsHint
		case c == '/' || c == '#':
			hint = "JSON has no comments"
		}
		r.fail(fmt.Sprintf("%q at byte %d where %s belongs", rune(c), r.offset, wanted), hint)
	}
}

// fail reports broken syntax and stops.
func (r *Reader) fail(message, hint string) {
	if !r.failed {
		r.failed = true
		r.reporter.Broken(SyntaxError{Line: r.line, Message: message, Hint: hint})
	}
}

// quote quotes s as Go does, and shortens what is too long to read.
func quote(s string) string { return fmt.Sprintf("%q", clip(s)) }

// clip shortens s to a length that fits a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
