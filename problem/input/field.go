package input

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// field.go has the one way in which all formats are read and written: as lists of fields. A field is a
// key, what may stand there (a kind), and where the value lies in T. Whoever adds a field to a list adds
// it to all formats that have the list.

// field is a key of an object, whose value lies in a T.
type field[T any] struct {
	id  int // its place in its list, for sets
	key string
	// column is its column in a CSV file; "-": it has none.
	column string
	// hint says what belongs there.
	hint string
	// byDefault says that a file may state the field for all tables.
	byDefault bool
	// schema is the JSON schema of the value as far as its kind knows. The key unit is that of a quantity.
	schema schema
	read   func(r *reading, n *node, hint string, into *T)
	// write returns the value to write, or nil if it states nothing.
	write func(from *T) any
	copy  func(into, from *T)
}

// at returns a field of a kind.
func at[T, V any](key string, of kind[V], hint string, where func(*T) *V) *field[T] {
	return &field[T]{
		key: key, column: key, hint: hint, schema: of.schema,
		read: func(r *reading, n *node, hint string, into *T) {
			if v, ok := of.read(r.report, n, hint); ok {
				*where(into) = v
			}
		},
		write: func(from *T) any { return of.write(*where(from)) },
		copy:  func(into, from *T) { *where(into) = *where(from) },
	}
}

// group returns a field whose value is an object with fields of the same T.
func group[T any](key string, of *shape[T]) *field[T] {
	return &field[T]{
		key: key, column: "-",
		read:  func(r *reading, n *node, _ string, into *T) { of.read(r, n, into) },
		write: func(from *T) any { return object(of.fields, from) },
		copy:  func(_, _ *T) {},
	}
}

// in gives a field another column of CSV files.
func (f *field[T]) in(column string) *field[T] {
	f.column = column
	return f
}

// forAll lets a file state the field for all tables.
func (f *field[T]) forAll() *field[T] {
	f.byDefault = true
	return f
}

// written replaces what is written.
func (f *field[T]) written(as func(from *T) any) *field[T] {
	f.write = as
	return f
}

// numbered numbers the fields of a list, at most 64.
func numbered[T any](fields []*field[T]) []*field[T] {
	for i, f := range fields {
		f.id = i
	}
	return fields
}

// listed returns the fields of a list of package problem, whose values lie in a part of a T.
func listed[T, P any](list []problem.Field[P], of func(*T) *P) []*field[T] {
	fields := make([]*field[T], len(list))
	for i := range list {
		fields[i] = fieldOf(&list[i], of)
	}
	return fields
}

// fieldOf returns a field with the kind of its type.
func fieldOf[T, P any](f *problem.Field[P], of func(*T) *P) (made *field[T]) {
	switch f.At(new(P)).(type) {
	case *string:
		made = as(f, of, word)
	case *bool:
		made = as(f, of, truth)
	case *int:
		made = as(f, of, anyWhole[int]())
	case *int64:
		made = as(f, of, anyWhole[int64]())
	case *float64:
		made = as(f, of, real[float64](func(v float64) string { return standsForNone(f, v) }))
	case *unit.Bytes:
		made = as(f, of, bytesOf(f))
	case *unit.Bandwidth:
		made = as(f, of, bandwidth)
	case *[access.Classes]float64:
		made = as(f, of, shares)
	case *[]int:
		made = as(f, of, listOf(anyWhole[int](), false))
	case *hardware.Profile, *[]unit.Bytes:
		made = &field[T]{key: f.Key, hint: f.About} // see clusterList
	default:
		made = namedOf(f, of)
	}
	made.column, made.byDefault = cmp.Or(f.Column, f.Key), f.ForAll
	if made.schema["type"] != "string" {
		made.schema = made.schema.within(f.Limits)
	}
	return made
}

// namedOf returns a field whose values are names.
func namedOf[T, P any](f *problem.Field[P], of func(*T) *P) (made *field[T]) {
	switch f.At(new(P)).(type) {
	case *problem.Accounting:
		made = as(f, of, oneOf(problem.ChosenAccountings(), problem.ParseAccounting))
	case *problem.Engine:
		made = as(f, of, oneOf(problem.Engines(), problem.ParseEngine))
	case *problem.LaneRule:
		made = as(f, of, oneOf(problem.LaneRules(), problem.ParseLaneRule))
	case *problem.Pipeline:
		made = as(f, of, pipeline)
	case *problem.Precision:
		made = as(f, of, precision)
	case *problem.OutputPrecision:
		made = as(f, of, output)
	case *problem.Optimizer:
		made = as(f, of, optimizer)
	case *problem.Pooling:
		made = as(f, of, oneOf(problem.Poolings(), problem.ParsePooling))
	case *access.Law:
		made = as(f, of, oneOf(laws(), access.ParseLaw))
	case *[]problem.ShardingType:
		made = as(f, of, namesOf(problem.ShardingTypes()))
	case *[]problem.Tier:
		made = as(f, of, namesOf(problem.Tiers()))
	default:
		panic("input: no kind reads the field " + f.Key)
	}
	return made
}

// bytesOf is a size, which is not 0 if the field must be above that.
func bytesOf[P any](f *problem.Field[P]) kind[unit.Bytes] {
	of := size
	of.read = func(r *report, n *node, hint string) (unit.Bytes, bool) {
		b, ok := size.read(r, n, hint)
		if ok && b == 0 && f.Above {
			r.add(n.line, n.key+": 0 is no memory", "leave it out for the profile's own")
		}
		return b, ok && (b > 0 || !f.Above)
	}
	return of
}

// standsForNone returns what is wrong with a value that stands, for validation, for none stated.
func standsForNone[P any](f *problem.Field[P], v float64) string {
	if f.Above && v == f.Least {
		return f.Wrong(v)
	}
	return ""
}

func as[T, P, V any](f *problem.Field[P], of func(*T) *P, k kind[V]) *field[T] {
	return at(f.Key, k, f.About, func(t *T) *V { return f.At(of(t)).(*V) })
}

// schema is a part of a JSON schema.
type schema map[string]any

// within returns the schema of a number, or of a list of numbers, in limits.
func (s schema) within(l problem.Limits) schema {
	if (l == problem.Limits{}) {
		return s
	}
	s = maps.Clone(s)
	if items, ok := s["items"].(schema); ok {
		s["items"] = items.within(l)
		return s
	}
	least, most := "minimum", "maximum"
	if l.Above {
		least = "exclusiveMinimum"
	}
	if l.Below {
		most = "exclusiveMaximum"
	}
	s[least], s[most] = l.Least, l.Most
	return s
}

// set is a set of fields of one list.
type set uint64

func (s set) has(any set) bool { return s&any != 0 }

// setOf returns the set of the fields with the given keys.
func setOf[T any](fields []*field[T], keys ...string) (s set) {
	for _, f := range fields {
		if slices.Contains(keys, f.key) {
			s |= 1 << f.id
		}
	}
	return s
}

// object returns the fields that state something as an object of JSON, or nil if none does.
func object[T any](fields []*field[T], from *T) any {
	text := []byte{'{'}
	for _, f := range fields {
		value := f.write(from)
		if value == nil {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(append(append(text, '"'), f.key...), `":`...)
		text = append(text, jsonOf(value)...)
	}
	if len(text) == 1 {
		return nil
	}
	return json.RawMessage(append(text, '}'))
}

// jsonOf returns a value as JSON on one line.
func jsonOf(value any) []byte {
	if raw, ok := value.(json.RawMessage); ok {
		return raw
	}
	var line bytes.Buffer
	encode := json.NewEncoder(&line)
	encode.SetEscapeHTML(false)
	if err := encode.Encode(value); err != nil {
		panic("input: " + err.Error()) // what is written has been checked
	}
	return bytes.TrimSpace(line.Bytes())
}

// reading is the reading of an object.
type reading struct {
	*report
	// stated are the fields that are there, and bad those that could not be read.
	stated, bad set
	// lines has the lines of keys, unless it is nil.
	lines map[string]int
	// explained counts the errors that are about the value of a known key.
	explained int
}

// shape is what an object may hold.
type shape[T any] struct {
	what string
	// keys are the keys of the fields.
	keys   []string
	fields []*field[T]
	// required are the keys that must be there, and aliases other words for keys.
	required []string
	aliases  map[string]string
}

// shaped returns an object of the given fields, under their own keys.
func shaped[T any](what string, fields []*field[T], required ...string) *shape[T] {
	s := &shape[T]{what: what, fields: fields, required: required}
	for _, f := range fields {
		s.keys = append(s.keys, f.key)
	}
	return s
}

// read reads an object into a T, and reports whether the value is one.
func (s *shape[T]) read(r *reading, n *node, into *T) bool {
	if n.kind != anObject {
		r.mistyped(n, "an object", "its keys are "+strings.Join(s.keys, ", "))
		return false
	}
	var here set
	for i := range n.list {
		m := &n.list[i]
		if same, ok := s.aliases[m.key]; ok {
			m.key = same
		}
		k := slices.Index(s.keys, m.key)
		switch {
		case k < 0:
			r.add(m.line, fmt.Sprintf("unknown key %s in %s", quote(m.key), s.what), r.suggest(m.key, s.keys))
			continue
		case here.has(1 << k):
			r.add(m.line, fmt.Sprintf("the key %s is there twice", quote(m.key)), "keep one of them")
			continue
		}
		here |= 1 << k
		s.fields[k].value(r, m, into)
	}
	s.require(r, n, here)
	return true
}

// value reads the value of the field.
func (f *field[T]) value(r *reading, n *node, into *T) {
	before := r.count()
	f.read(r, n, f.hint, into)
	r.stated |= 1 << f.id
	if r.lines != nil {
		r.lines[f.key] = n.line
	}
	if faults := r.count() - before; faults > 0 {
		r.bad |= 1 << f.id
		r.explained += faults
	}
}

// require reports the required keys that are not here.
func (s *shape[T]) require(r *reading, n *node, here set) {
	var missing []string
	for i, key := range s.keys {
		if !here.has(1<<i) && slices.Contains(s.required, key) {
			missing = append(missing, key)
			r.bad |= 1 << s.fields[i].id
		}
	}
	switch {
	case len(missing) == 1:
		r.add(n.line, fmt.Sprintf("%s is missing in %s", missing[0], s.what), "")
	case len(missing) > 1:
		r.add(n.line, fmt.Sprintf("%s are missing in %s", strings.Join(missing, ", "), s.what), "")
	}
}

// mistyped reports a value that is not what is wanted.
func (r *report) mistyped(n *node, wanted, hint string) {
	if n.kind == null {
		hint = "null says nothing: state a value, or leave out a key that is not required"
	}
	r.add(n.line, fmt.Sprintf("%s: %s where %s belongs", n.key, n.shown(), wanted), hint)
}

// kind is what values of a type look like.
type kind[V any] struct {
	read  func(r *report, n *node, hint string) (V, bool)
	write func(V) any
	// schema is that of the values, nil if that is not known.
	schema schema
}

// unlessZero writes values but the zero value.
func unlessZero[V comparable](v V) any {
	if v == *new(V) {
		return nil
	}
	return v
}

// number returns a number as written. wanted names what belongs there.
func (r *report) number(n *node, wanted, hint string) (number, bool) {
	switch {
	case n.kind == cell && n.text == "":
		r.add(n.line, n.key+" is empty", hint)
		return "", false
	case n.kind == cell && n.text[0] == '.':
		return number("0" + n.text), true
	case n.kind == aNumber || n.kind == cell:
		return number(n.text), true
	}
	r.mistyped(n, wanted, hint)
	return "", false
}

// whole is a whole number, from least to most.
func whole[V ~int | ~int64](least, most int64) kind[V] {
	return kind[V]{func(r *report, n *node, hint string) (V, bool) {
		text, ok := r.number(n, "a whole number", hint)
		if !ok {
			return 0, false
		}
		value, complaint := text.whole()
		switch {
		case complaint != "":
		case value < least && most == mostWhole:
			complaint = fmt.Sprintf("%d is below %d", value, least)
		case value < least || value > most:
			complaint = fmt.Sprintf("%d is not between %d and %d", value, least, most)
		}
		if complaint != "" {
			r.add(n.line, n.key+": "+complaint, hint)
		}
		return V(value), complaint == ""
	}, unlessZero[V], schema{"type": "integer"}}
}

// anyWhole is a whole number that validation judges.
func anyWhole[V ~int | ~int64]() kind[V] { return whole[V](-mostWhole, mostWhole) }

const mostWhole = 1e18

// real is a number that wrong, which may be nil, finds nothing wrong with.
func real[V ~float64](wrong func(float64) string) kind[V] {
	return kind[V]{func(r *report, n *node, hint string) (V, bool) {
		text, ok := r.number(n, "a number", hint)
		if !ok {
			return 0, false
		}
		value, complaint := text.real()
		if complaint == "" && wrong != nil {
			complaint = wrong(value)
		}
		if complaint != "" {
			r.add(n.line, n.key+": "+complaint, hint)
		}
		return V(value), complaint == ""
	}, unlessZero[V], schema{"type": "number"}}
}

// text returns a string. hint says what belongs there.
func (r *report) text(n *node, hint string) (string, bool) { return r.textOf(n, "a string", hint) }

// textOf returns a string. wanted names what belongs there.
func (r *report) textOf(n *node, wanted, hint string) (string, bool) {
	switch {
	case n.kind == cell && !utf8.ValidString(n.text):
		r.add(n.line, n.key+" is not valid UTF-8", "save the file as UTF-8")
	case n.kind == cell:
		return n.text, true
	case n.kind == aString:
		return n.text, true
	default:
		r.mistyped(n, wanted, hint)
	}
	return "", false
}

// word is any string.
var word = kind[string]{func(r *report, n *node, hint string) (string, bool) {
	text, ok := r.text(n, hint)
	return strings.Clone(text), ok // and not all of a line
}, unlessZero[string], schema{"type": "string"}}

// truth is true or false.
var truth = kind[bool]{func(r *report, n *node, hint string) (bool, bool) {
	if n.kind == aBool {
		return n.text == "true", true
	}
	if n.kind == cell {
		switch strings.ToLower(n.text) {
		case "true", "1", "yes":
			return true, true
		case "false", "0", "no":
			return false, true
		}
	}
	r.mistyped(n, "true or false", hint)
	return false, false
}, unlessZero[bool], schema{"type": "boolean"}}

// quantity is a string that parse reads. wanted names what it is, and inUnits its unit.
func quantity[V comparable](wanted, inUnits string, parse func(string) (V, error)) kind[V] {
	return kind[V]{schema: schema{"type": "string", "unit": inUnits}, read: func(r *report, n *node, hint string) (v V, ok bool) {
		if n.kind == aNumber {
			_, err := parse(n.text)
			r.add(n.line, fmt.Sprintf("%s: %s has no unit", n.key, clip(n.text)), next(err, hint))
			return v, false
		}
		text, ok := r.textOf(n, wanted, hint)
		if !ok {
			return v, false
		}
		v, err := parse(text)
		if err != nil {
			r.add(n.line, n.key+": "+what(err), next(err, hint))
		}
		return v, err == nil
	}, write: func(v V) any { return nil }}
}

// size is a number of bytes with its unit.
var size = quantity("a size with its unit", "B", unit.ParseSize)

// bandwidth is a number of bytes a second with its unit.
var bandwidth = quantity("a bandwidth with its unit", "B/s", unit.ParseBandwidth)

// what returns an error's first part: what is wrong, without what to do next.
func what(err error) string {
	message, _, _ := strings.Cut(err.Error(), ": ")
	return clip(message)
}

// next returns an error's second part: what to do next. It is hint if the error has none.
func next(err error, hint string) string {
	if err != nil {
		if _, remedy, ok := strings.Cut(err.Error(), ": "); ok {
			return remedy
		}
	}
	return hint
}

// oneOf is a name that parse knows, in capitals or not. known lists the names.
func oneOf[V comparable](known []string, parse func(string) (V, error)) kind[V] {
	names := "write one of " + strings.Join(known, ", ")
	return kind[V]{func(r *report, n *node, _ string) (v V, ok bool) {
		text, ok := r.text(n, names)
		if !ok {
			return v, false
		}
		v, err := parse(strings.ToLower(text))
		if err != nil {
			r.add(n.line, fmt.Sprintf("%s: %s is unknown", n.key, quote(text)), r.suggest(text, known))
		}
		return v, err == nil
	}, func(v V) any {
		if v == *new(V) {
			return nil
		}
		return fmt.Sprint(v)
	}, schema{"enum": known}}
}

// among is oneOf for names that are strings.
func among[V ~string](known []V) kind[V] {
	return oneOf(texts(known), func(text string) (V, error) {
		if slices.Contains(known, V(text)) {
			return V(text), nil
		}
		return "", fmt.Errorf("%q is unknown", text)
	})
}

// pipeline is a kind of pipeline with its options, in capitals or not.
var pipeline = kind[problem.Pipeline]{func(r *report, n *node, hint string) (problem.Pipeline, bool) {
	text, ok := r.text(n, hint)
	if !ok {
		return "", false
	}
	known := problem.Pipelines()
	for word := range strings.SplitSeq(text, "+") {
		if !slices.Contains(known, strings.ToLower(word)) {
			r.add(n.line, fmt.Sprintf("%s: %s is unknown", n.key, quote(word)), r.suggest(word, known))
			return "", false
		}
		known = problem.PipelineOptions()
	}
	p, err := problem.ParsePipeline(strings.ToLower(text))
	if err != nil {
		r.add(n.line, what(err), next(err, hint))
	}
	return p, err == nil
}, unlessZero[problem.Pipeline], schema{"type": "string", "pattern": fmt.Sprintf(`^(%s|%s(\+(%s))+)$`,
	strings.Join(problem.Pipelines(), "|"), problem.SparseDistPipeline, strings.Join(problem.PipelineOptions(), "|"))}}

func texts[T ~string](names []T) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = string(name)
	}
	return list
}

// elements returns the elements of a list, or the parts of a cell between semicolons.
func (r *report) elements(n *node, hint string) (list []node, ok bool) {
	switch n.kind {
	case aList:
		return n.list, true
	case cell:
		list = make([]node, 0, 1+strings.Count(n.text, ";"))
		for part := range strings.SplitSeq(n.text, ";") {
			list = append(list, node{kind: cell, line: n.line, key: n.key, text: strings.TrimSpace(part)})
		}
		return list, true
	}
	r.mistyped(n, "a list", hint)
	return nil, false
}

// listOf is a list of values of a kind, at least one unless it may be empty.
func listOf[V any](of kind[V], mayBeEmpty bool) kind[[]V] {
	return kind[[]V]{func(r *report, n *node, hint string) ([]V, bool) {
		elements, ok := r.elements(n, hint)
		if n.kind == cell {
			hint = "semicolons separate them, as in 0;1;2"
		}
		if ok && len(elements) == 0 && !mayBeEmpty {
			r.add(n.line, n.key+" is an empty list", "leave it out to allow all")
		}
		list := make([]V, 0, len(elements))
		for i := range elements {
			if v, ok := of.read(r, &elements[i], hint); ok {
				list = append(list, v)
			}
		}
		return list, ok && (mayBeEmpty || len(list) > 0)
	}, func(list []V) any {
		if len(list) == 0 {
			return nil
		}
		return list
	}, schema{"type": "array", "items": of.schema}}
}

// namesOf is a list of some of the known names. If one name is wrong, the whole list is not read.
func namesOf[V ~string](known []V) kind[[]V] {
	all := listOf(among(known), false)
	return kind[[]V]{func(r *report, n *node, hint string) ([]V, bool) {
		before := r.count()
		if elements, ok := r.elements(n, hint); ok && len(elements) > len(known) {
			r.add(n.line, fmt.Sprintf("%s has more than the %d entries that there are", n.key, len(known)), "name each at most once")
			return nil, false
		}
		list, _ := all.read(r, n, hint)
		return list, r.count() == before
	}, all.write, all.schema}
}
