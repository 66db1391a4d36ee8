// Package jsonfile reads JSON that a program wrote.
//
//	Unmarshal   a text -> tagged structs; fails at the first fault, with its line and place
//	List        the elements of a long list, one by one, for a method UnmarshalJSONFrom
//
// Keys that no struct has, keys that occur twice, and text after the value are faults.
package jsonfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
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
	err := json.Unmarshal(data, v, append(options, json.RejectUnknownMembers(true))...)
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
	err := e.Err
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		err, at = fmt.Errorf("key %s is there twice", Brief(at.LastToken())), at.Parent()
	case errors.Is(err, io.ErrUnexpectedEOF):
		err, at = fmt.Errorf("the file ends in the middle: %w", io.ErrUnexpectedEOF), ""
	}
	return &Error{Line: lineOf(data, e.ByteOffset), Place: place(at), Err: err}
}

func semanticError(data []byte, e *json.SemanticError) error {
	at, err := e.JSONPointer, e.Err
	switch {
	case errors.Is(err, json.ErrUnknownName):
		err, at = fmt.Errorf("key %s is unknown", Brief(at.LastToken())), at.Parent()
	case err == nil || errors.Is(err, strconv.ErrRange) || errors.Is(err, strconv.ErrSyntax):
		err = fmt.Errorf("%s is not %s", shown(e), wanted(e.GoType))
	}
	return &Error{Line: lineOf(data, e.ByteOffset), Place: place(at), Err: err}
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

// place writes a pointer as an expression: an index in brackets, and a key that is no word quoted in
// brackets.
func place(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		_, err := strconv.Atoi(token)
		switch {
		case err == nil:
			b.WriteString("[" + token + "]")
		case !strings.ContainsFunc(token, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }):
			b.WriteString("." + token)
		default:
			b.WriteString("[" + Brief(token) + "]")
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// Brief quotes a text from a file, cut to what fits an error message.
func Brief(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "..."
	}
	return strconv.Quote(s)
}

// List reads a list of at most the given number of elements. It calls add with each, which must not
// keep the pointer.
func List[T any](d *jsontext.Decoder, most int, add func(i int, element *T) error) error {
	if kind := d.PeekKind(); kind != '[' {
		if kind == 0 {
			_, err := d.ReadToken()
			return err
		}
		return &json.SemanticError{JSONKind: kind}
	}
	_, err := d.ReadToken()
	for i := 0; err == nil && d.PeekKind() != ']'; i++ {
		var element T
		switch {
		case i == most:
			err = fmt.Errorf("there are more than %d elements", most)
		default:
			if err = json.UnmarshalDecode(d, &element); err != nil {
				return err
			}
			if err = add(i, &element); err != nil {
				err = &json.SemanticError{ByteOffset: d.InputOffset(), JSONPointer: d.StackPointer(), Err: err}
			}
		}
	}
	if err != nil {
		return err
	}
	_, err = d.ReadToken()
	return err
}
