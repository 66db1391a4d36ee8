// Package jsonfile reads and writes JSON of programs.
//
//	Unmarshal   a text -> tagged structs; fails at the first fault, with its line and place
//	List, Each  the elements of a long list, one by one, for a method UnmarshalJSONFrom
//	Bounded     a limit on the elements of other lists, which take far more memory than their bytes
//	Object      the keys of an object in their order, for such a method
//	Ignored     a value that is skipped
//
// A Writer writes JSON piece by piece.
//
// Keys that no struct has, keys that occur twice, and text after the value are faults, unless options allow them.
package jsonfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error is the first fault of a text.
type Error struct {
	Line int
	// Place is where the fault is, such as tables[3].rows; empty for the text as a whole.
	Place string
	Err   error
	// Syntax is true if the text is not JSON, and Unknown is the key if no struct has it.
	Syntax  bool
	Unknown string
}

func (e *Error) Error() string {
	if e.Place == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: %s: %v", e.Line, e.Place, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Unmarshal reads a value into v, a pointer. It fails with an *Error.
func Unmarshal(data []byte, v any, options ...json.Options) error {
	err := json.Unmarshal(data, v, append([]json.Options{json.RejectUnknownMembers(true)}, options...)...)
	if err == nil {
		return nil
	}
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return syntaxError(data, syntax)
	case errors.As(err, &semantic):
		return semanticError(data, semantic)
	}
	return &Error{Line: lineOf(data, int64(len(data))), Err: err}
}

// lineOf returns the line of the first byte from offset on that is not space.
func lineOf(data []byte, offset int64) int {
	head := data[:min(offset, int64(len(data)))]
	space := data[len(head):]
	space = space[:len(space)-len(bytes.TrimLeft(space, " \t\r\n"))]
	return 1 + bytes.Count(head, []byte("\n")) + bytes.Count(space, []byte("\n"))
}

func syntaxError(data []byte, e *jsontext.SyntacticError) error {
	at := e.JSONPointer
	err, syntax := e.Err, true
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		err, at, syntax = fmt.Errorf("key %s is there twice", Brief(at.LastToken())), at.Parent(), false
	case errors.Is(err, io.ErrUnexpectedEOF):
		err, at = fmt.Errorf("the file ends in the middle: %w", io.ErrUnexpectedEOF), ""
	}
	return &Error{Line: lineOf(data, e.ByteOffset), Place: place(at), Err: err, Syntax: syntax}
}

func semanticError(data []byte, e *json.SemanticError) error {
	at, err, unknown := e.JSONPointer, e.Err, ""
	switch {
	case errors.Is(err, json.ErrUnknownName):
		unknown, at = at.LastToken(), at.Parent()
		err = fmt.Errorf("key %s is unknown", Brief(unknown))
	case err == nil || errors.Is(err, strconv.ErrRange) || errors.Is(err, strconv.ErrSyntax):
		err = fmt.Errorf("%s is not %s", shown(e), wanted(e.GoType))
	}
	return &Error{Line: lineOf(data, e.ByteOffset), Place: place(at), Err: err, Unknown: unknown}
}

// shown is what an error shows of a value of the wrong type.
func shown(e *json.SemanticError) string {
	switch kind := e.JSONKind; {
	case len(e.JSONValue) > 0:
		return Brief(string(e.JSONValue))
	case kind == '{':
		return "an object"
	case kind == '[':
		return "a list"
	case kind != 0:
		return "a " + kind.String()
	}
	return "the value"
}

// wanted names the values of a type.
func wanted(t reflect.Type) string {
	if t == nil {
		return "what belongs here"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a finite number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Uint8, reflect.Uint64:
		return fmt.Sprintf("a whole number between 0 and 2^%d-1", t.Bits())
	}
	return "a whole number"
}

// Place writes a path as an expression: an index in brackets, and a key that is no word quoted in
// brackets.
func Place(path ...string) string {
	var b strings.Builder
	for _, step := range path {
		_, err := strconv.Atoi(step)
		switch {
		case err == nil:
			b.WriteString("[" + step + "]")
		case step != "" && !strings.ContainsFunc(step, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }):
			b.WriteString("." + step)
		default:
			b.WriteString("[" + Brief(step) + "]")
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// deepest is the number of steps that are shown of a path.
const deepest = 8

func place(p jsontext.Pointer) string {
	steps := slices.Collect(p.Tokens())
	if more := len(steps) - deepest; more > 0 {
		return "..." + Place(steps[more:]...)
	}
	return Place(steps...)
}

// Brief quotes a text from a file, cut to what fits an error message.
func Brief(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "..."
	}
	return strconv.Quote(s)
}

// List reads a list of at most the given number of elements, none of them null. It calls add with
// each, which must not keep the pointer. null is an empty list.
func List[T any](d *jsontext.Decoder, most int, add func(i int, element *T) error) error {
	return Each(d, most, func(i int) error {
		var element T
		if d.PeekKind() == 'n' {
			return &json.SemanticError{JSONPointer: d.StackPointer(), JSONKind: 'n', ByteOffset: d.InputOffset(), Err: fmt.Errorf("null is not %s", wanted(reflect.TypeFor[T]()))}
		}
		if err := json.UnmarshalDecode(d, &element); err != nil {
			return err
		}
		return add(i, &element)
	})
}

// Each reads a list of at most the given number of elements. It calls read for each, which must read
// the element from the decoder. null is an empty list.
func Each(d *jsontext.Decoder, most int, read func(i int) error) error {
	opened, err := open(d, '[')
	if !opened {
		return err
	}
	for i := 0; d.PeekKind() != ']'; i++ {
		if i == most {
			return fmt.Errorf("there are more than %d elements", most)
		}
		if err := read(i); err != nil {
			return at(d, err)
		}
	}
	_, err = d.ReadToken()
	return err
}

// Bounded reads lists of T of at most the given number of elements, as List does.
func Bounded[T any](most int) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, all *[]T) error {
		if *all = nil; d.PeekKind() == '[' {
			*all = []T{}
		}
		return List(d, most, func(_ int, one *T) error {
			*all = append(*all, *one)
			return nil
		})
	})
}

// Object reads an object in the order of its keys. It calls value with each, which must read the
// key's value from the decoder. null is an empty object.
func Object(d *jsontext.Decoder, value func(key string) error) error {
	opened, err := open(d, '{')
	if !opened {
		return err
	}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := value(key.String()); err != nil {
			return at(d, err)
		}
	}
	_, err = d.ReadToken()
	return err
}

// open reads the bracket that begins a value, or null.
func open(d *jsontext.Decoder, bracket jsontext.Kind) (opened bool, err error) {
	kind := d.PeekKind()
	if kind != bracket && kind != 'n' && kind != 0 {
		return false, &json.SemanticError{JSONKind: kind}
	}
	_, err = d.ReadToken()
	return err == nil && kind == bracket, err
}

// at places an error at the value that was read last, unless it has a place.
func at(d *jsontext.Decoder, err error) error {
	switch err.(type) {
	case *json.SemanticError, *jsontext.SyntacticError:
		return err
	}
	return &json.SemanticError{ByteOffset: d.InputOffset() - 1, JSONPointer: d.StackPointer(), Err: err}
}

// Ignored is a value of any form that is skipped.
type Ignored struct{}

// UnmarshalJSONFrom skips the value.
func (*Ignored) UnmarshalJSONFrom(d *jsontext.Decoder) error { return d.SkipValue() }
