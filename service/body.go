package service

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
)

// decode reads a body. It fails at the first field that is unknown, stated twice or of the wrong type,
// and else with all values that the schema refuses.
func decode[T any](schemas huma.Registry, body []byte) (*T, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, broken("the body is empty")
	}
	read, schema := new(T), schemas.Schema(reflect.TypeFor[T](), true, "")
	limited := json.WithUnmarshalers(json.JoinUnmarshalers(jsonfile.Bounded[int](mostElements), jsonfile.Bounded[string](mostElements)))
	if err := jsonfile.Unmarshal(body, read, limited); err != nil {
		var wrong *jsonfile.Error
		switch {
		case !errors.As(err, &wrong):
			return nil, broken(err.Error())
		case wrong.Syntax:
			return nil, broken(fmt.Sprintf("the body is not JSON: %v", wrong))
		case wrong.Unknown != "":
			known := fieldsAt(schemas, schema, wrong.Place)
			return nil, refusal(fault{Location: clip(strings.TrimPrefix(wrong.Place+"."+wrong.Unknown, ".")), Line: wrong.Line, Message: fmt.Sprintf("field %q is unknown", clip(wrong.Unknown)), Hint: meant(wrong.Unknown, known)})
		}
		return nil, refusal(fault{Location: cmp.Or(clip(wrong.Place), "body"), Line: wrong.Line, Message: wrong.Err.Error()})
	}
	// The files inside the body, such as its tables, have readers of their own.
	files := json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, value *any) error {
		if !slices.Contains(filesOfBodies, d.StackPointer().LastToken()) {
			return errors.ErrUnsupported
		}
		*value = map[string]any{}
		return d.SkipValue()
	}))
	var tree any
	if err := json.Unmarshal(body, &tree, files); err != nil { // a number that no float holds
		at, wrong := "", (*json.SemanticError)(nil)
		if errors.As(err, &wrong) {
			at, err = strings.ReplaceAll(strings.TrimPrefix(string(wrong.JSONPointer), "/"), "/", "."), cmp.Or(wrong.Err, err)
		}
		return nil, refusal(fault{Location: cmp.Or(clip(at), "body"), Message: clip(err.Error())})
	}
	var result huma.ValidateResult
	huma.Validate(schemas, schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, tree, &result)
	if len(result.Errors) == 0 {
		return read, nil
	}
	var faults []fault
	for _, err := range result.Errors {
		f := fault{Location: "body", Message: err.Error()}
		if detail := (*huma.ErrorDetail)(nil); errors.As(err, &detail) {
			f = fault{Location: cmp.Or(clip(detail.Location), "body"), Message: detail.Message, Value: shortly(detail.Value)}
			if i := strings.LastIndexByte(detail.Location, '.'); i >= 0 && detail.Message == validation.MsgUnexpectedProperty {
				key := detail.Location[i+1:]
				f.Message, f.Value, f.Hint = fmt.Sprintf("field %q is unknown", clip(key)), nil, meant(key, fieldsAt(schemas, schema, detail.Location[:i]))
			}
		}
		faults = append(faults, f)
	}
	return nil, refusal(faults...)
}

// filesOfBodies are the fields of bodies whose type is Value.
var filesOfBodies = []string{"tables", "topology", "plan", "before", "after", "old"}

// mostElements is the largest number of elements of a list outside of tables, topology and plans: a
// list takes far more memory than its bytes.
const mostElements = 1 << 16

// broken returns the refusal of a body that is not JSON.
func broken(detail string) *Refusal {
	r := refuse(http.StatusBadRequest, typeInput, detail, "send a JSON object in UTF-8")
	r.Errors = []fault{{Location: "body", Message: detail}}
	return r
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
