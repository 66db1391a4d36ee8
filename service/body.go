package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// maxDepth is the deepest nesting of a body.
const maxDepth = 64

// mostSmall is the largest number of bytes of all values that are not opaque, taken together, and
// mostFields the largest number of fields outside of opaque values. Without these limits, a body of
// unknown fields would need far more memory than its bytes.
const (
	mostSmall  = 64 << 10
	mostFields = 1000
)

// opaque reports whether the value of a key is a file's text, which package input or package plan
// reads, such as tables.
func opaque(key string) bool {
	return slices.Contains([]string{"tables", "topology", "plan", "before", "after", "old"}, key)
}

// decode reads a body. It reports every unknown, repeated, missing and mistyped field together. If
// only such faults are found, it also returns the fields that it could read, so that the caller can
// check them, too. It copies opaque values without reading them.
func decode[T any](schemas huma.Registry, body []byte) (*T, []fault, error) {
	if !utf8.Valid(body) { // decoding would put U+FFFD in place of the bytes
		return nil, nil, broken(badText(body))
	}
	if depth := depthOf(body); depth > maxDepth {
		return nil, nil, broken(fmt.Sprintf("the JSON is nested %d deep or more: at most %d is allowed", depth, maxDepth))
	}
	if !json.Valid(body) {
		return nil, nil, broken(syntax(body))
	}
	d := &decoder{}
	tree := d.tree(body, "")
	if d.fields > mostFields {
		return nil, nil, broken(fmt.Sprintf("the JSON has more than %d fields outside of its tables, topology and plans", mostFields))
	}
	var result huma.ValidateResult
	huma.Validate(schemas, schemas.Schema(reflect.TypeFor[T](), true, ""), huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, tree, &result)
	for _, err := range result.Errors {
		d.invalid(schemas, reflect.TypeFor[T](), err)
	}
	read := new(T)
	err := json.Unmarshal(body, read)
	if err != nil && len(d.faults) == 0 {
		f := fault{Location: "body", Message: err.Error()}
		if mistyped := (*json.UnmarshalTypeError)(nil); errors.As(err, &mistyped) {
			f = fault{Location: mistyped.Field, Message: fmt.Sprintf("a JSON %s is out of range or of the wrong type", mistyped.Value)}
		}
		d.faults = append(d.faults, f)
	}
	if err != nil {
		return nil, nil, refusal(d.faults...)
	}
	return read, d.faults, nil
}

// broken returns the refusal of a body that is not JSON.
func broken(detail string) *Refusal {
	r := refuse(http.StatusBadRequest, typeInput, detail, "send a JSON object in UTF-8")
	r.Errors = []fault{{Location: "body", Message: detail}}
	return r
}

// badText says where a body is not UTF-8.
func badText(body []byte) string {
	line := 1
	for rest := range bytes.Lines(body) {
		if !utf8.Valid(rest) {
			break
		}
		line++
	}
	return fmt.Sprintf("the body is not valid UTF-8: line %d", line)
}

// syntax says where the syntax of a body is broken.
func syntax(body []byte) string {
	if len(bytes.TrimSpace(body)) == 0 {
		return "the body is empty"
	}
	var any json.RawMessage
	err := json.Unmarshal(body, &any)
	if at := (*json.SyntaxError)(nil); errors.As(err, &at) {
		return fmt.Sprintf("the body is not JSON: line %d: %v", 1+bytes.Count(body[:min(int(at.Offset), len(body))], []byte("\n")), err)
	}
	return "the body is not JSON"
}

// depthOf returns the deepest nesting of a JSON text, up to one more than maxDepth.
func depthOf(body []byte) int {
	depth, most := 0, 0
	for i := 0; i < len(body) && most <= maxDepth; i++ {
		switch body[i] {
		case '{', '[':
			depth++
			most = max(most, depth)
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		}
	}
	return most
}

// decoder makes the tree of a body that a schema checks.
type decoder struct {
	faults []fault
	// fields counts the fields of the tree, and small the bytes of its values that are not opaque.
	fields, small int
}

func (d *decoder) add(location, message, hint string) {
	d.faults = append(d.faults, fault{Location: location, Message: message, Hint: hint})
}

// tree returns a valid JSON text as a tree. Opaque values are left empty.
func (d *decoder) tree(text []byte, at string) any {
	text = bytes.TrimSpace(text)
	if text[0] != '{' {
		return d.value(text, at)
	}
	object := map[string]any{}
	in := json.NewDecoder(bytes.NewReader(text))
	_, _ = in.Token()
	for in.More() {
		token, err := in.Token()
		if err != nil {
			break
		}
		if d.fields++; d.fields > mostFields {
			break
		}
		key := token.(string)
		var value json.RawMessage
		if in.Decode(&value) != nil {
			break
		}
		place := strings.TrimPrefix(at+"."+key, ".")
		if _, twice := object[key]; twice {
			d.add(clip(place), fmt.Sprintf("field %q is stated twice", clip(key)), "leave one of them out")
		}
		if key != strings.ToLower(key) { // the decoder would take it for a field in lower case
			d.add(clip(place), fmt.Sprintf("field %q is unknown", clip(key)), "write fields in lower case")
			continue
		}
		switch begins := value[0]; {
		case opaque(key) && (begins == '{' || begins == '['):
			object[key] = map[string]any{}
		case begins == '"':
			var written string
			_ = json.Unmarshal(value, &written)
			object[key] = written
		case begins == '{' && strings.Count(place, ".") < 2:
			object[key] = d.tree(value, place)
		default:
			object[key] = d.value(value, place)
		}
	}
	return object
}

// value returns a value that is not opaque.
func (d *decoder) value(text []byte, at string) (value any) {
	if d.small += len(text); d.small > mostSmall {
		d.add(clip(at), fmt.Sprintf("the values outside of tables, topology and plans have %d bytes up to this one: at most %d are allowed", d.small, mostSmall), "")
		return nil
	}
	_ = json.Unmarshal(text, &value)
	if value == nil && strings.HasPrefix(at, "problem.overrides.") { // the schema takes null for a field that is left out
		d.add(clip(at), "it is null", "state a value, or leave the field out")
	}
	return value
}

// invalid adds an error of the schema.
func (d *decoder) invalid(schemas huma.Registry, root reflect.Type, err error) {
	var detail *huma.ErrorDetail
	if !errors.As(err, &detail) {
		d.add("body", err.Error(), "")
		return
	}
	f := fault{Location: clip(detail.Location), Message: detail.Message, Value: shortly(detail.Value)}
	if f.Location == "" {
		f.Location = "body"
	}
	if detail.Message == "unexpected property" {
		parent, key := "", detail.Location
		if i := strings.LastIndexByte(detail.Location, '.'); i >= 0 {
			parent, key = detail.Location[:i], detail.Location[i+1:]
		}
		f.Message, f.Value = fmt.Sprintf("field %q is unknown", clip(key)), nil
		if known := fieldsAt(schemas, schemas.Schema(root, true, ""), parent); len(known) > 0 {
			f.Hint = meant(key, known)
		}
	}
	d.faults = append(d.faults, f)
}

// fieldsAt returns the fields of the object at a path of a schema.
func fieldsAt(schemas huma.Registry, s *huma.Schema, path string) []string {
	for {
		for s != nil && s.Ref != "" {
			s = schemas.SchemaFromRef(s.Ref)
		}
		if s == nil || path == "" {
			break
		}
		var key string
		key, path, _ = strings.Cut(path, ".")
		s = s.Properties[key]
	}
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// shortly returns a value that is short enough to be sent back, or nil.
func shortly(value any) any {
	switch v := value.(type) {
	case string:
		return clip(v)
	case float64, bool, int, int64:
		return v
	}
	return nil
}

// clip shortens a text to what fits an answer.
func clip(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
