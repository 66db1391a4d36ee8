package strictjson

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// log keeps what a Reader reports, one fault a line.
type log struct{ lines []string }

func (l *log) Broken(e SyntaxError) {
	l.lines = append(l.lines, fmt.Sprintf("%d: broken: %s (%s)", e.Line, e.Message, e.Hint))
}

func (l *log) Mistyped(what, wanted string, f Found) {
	l.lines = append(l.lines, fmt.Sprintf("%d: %s: %c %s, want %s", f.Line, what, f.Type, f.Text, wanted))
}
func (l *log) Unknown(_ *ObjectReader, key string) { l.lines = append(l.lines, "unknown "+key) }
func (l *log) Twice(_ *ObjectReader, key string)   { l.lines = append(l.lines, "twice "+key) }

func open(text string, o Options) (*Reader, *log) {
	l := &log{}
	return New(bufio.NewReader(strings.NewReader(text)), l, o), l
}

// value reads any value, as encoding/json builds it.
func value(r *Reader) any {
	switch r.Next() {
	case Object:
		m := map[string]any{}
		for key := range r.Object("an object", nil).Keys() {
			m[key] = value(r)
		}
		return m
	case List:
		list := []any{}
		for range r.List("a list") {
			list = append(list, value(r))
		}
		return list
	case String:
		text, _ := r.Text("a text")
		return text
	case Number:
		text, _ := r.Number("a number", "a number")
		return json.Number(text)
	case Bool:
		b, _ := r.Bool("a truth")
		return b
	}
	r.Skip()
	return nil
}

func TestReader(t *testing.T) {
	text := `{"a": [1, -2.5e3, "x\n\u00e9\\"], "": {}, "b": {"c": [], "d": null}, "t": [true, false]}`
	r, l := open(text, Options{})
	got := value(r)
	if r.End(); r.Failed() || l.lines != nil {
		t.Fatalf("got %q, want no faults", l.lines)
	}
	var want any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v, %v", got, want, err)
	}
}

// TestFaults reads {"a": whole, "b": text} with several faults at once.
func TestFaults(t *testing.T) {
	r, l := open("{\"a\": [1,\n2],\n\"x\": {\"y\": [1]}, \"a\": 5, \"x\": 1, \"b\": 7,\n \"c\": null}", Options{})
	o := r.Object("the file", []string{"a", "b", "c"})
	for key := range o.Keys() {
		switch key {
		case "a", "c":
			if _, ok := r.Number(key, "a number"); ok {
				t.Errorf("%s: got a number", key)
			}
		case "b":
			if _, ok := r.Text(key); ok {
				t.Error("b: got a text")
			}
		}
	}
	r.End()
	want := []string{"1: a: [ , want a number", "unknown x", "twice a", "twice x", "3: b: 0 7, want a string", "4: c: n , want a number"}
	if !reflect.DeepEqual(l.lines, want) || r.Failed() {
		t.Errorf("got %q, want %q", l.lines, want)
	}
	if !o.Opened() || !o.Has("a") || o.Has("x") {
		t.Error("want an object that has a, and not x")
	}
}

func TestBroken(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "1: broken: the file ends at byte 0 where a value belongs"},
		{"[1,", "the file ends at byte 3 where a value belongs"},
		{"[1,\n]", "2: broken: ']' at byte 4 where a value belongs (is there an extra comma before it?)"},
		{"[1 2]", `'2' at byte 3 where "," or "]" belongs`},
		{`{"a" 1}`, `'1' at byte 5 where ":" belongs`},
		{`{a: 1}`, `'a' at byte 1 where a key in double quotes belongs`},
		{`{"a": True}`, `'T' at byte 6 where a value belongs (JSON writes`},
		{"// x", "JSON has no comments"},
		{"01 ", `"01" at byte 0 is not a JSON value`},
		{"1.e5 ", `"1.e5" at byte 0 is not a JSON value`},
		{"tru", `the file ends at byte 3 where the rest of "tru" belongs`},
		{"none ", "JSON writes true, false and null"},
		{`"a` + "\n", "a string is not closed on its line, at byte 2"},
		{`"a`, "where the closing quote of a string belongs"},
		{`"\x"`, `has an escape that JSON does not know`},
		{`"a\ud800"`, `has half a character`},
		{`"\udc00"`, `has half a character`},
		{`"\ud83dA"`, `has half a character`},
		{"\"\xff\"", "is not valid UTF-8"},
		{`"12345678901"`, "a string is longer than 10 bytes"},
		{"[" + strings.Repeat("1", 2000), "a number is longer than 1024 bytes"},
		{"1 1", "'1' at byte 2 where the end of the file belongs"},
		{`{"a":1,"b":1,"c":1}`, "an object has more than 2 keys"},
	} {
		r, l := open(c.text, Options{Text: 10, Keys: 2})
		value(r)
		r.End()
		if len(l.lines) != 1 || !strings.Contains(l.lines[0], c.want) || !r.Failed() {
			t.Errorf("%.40q: got %q, want one fault with %q", c.text, l.lines, c.want)
		}
		// A Reader that has stopped says nothing more.
		r.Skip()
		if _, ok := r.Text("x"); ok || len(l.lines) != 1 {
			t.Errorf("%.40q: got %q after it stopped", c.text, l.lines)
		}
	}
	for _, open1 := range []string{"[", `{"a":`} {
		r, l := open(strings.Repeat(open1, 100_000), Options{})
		if r.Skip(); len(l.lines) != 1 || !strings.Contains(l.lines[0], "nested more than 100 deep") {
			t.Errorf("%q: got %q, want that it is nested too deep", open1, l.lines)
		}
	}
	l := &log{}
	r := New(bufio.NewReader(iotest.ErrReader(errors.New("no disk"))), l, Options{Line: 7})
	if r.Skip(); len(l.lines) != 1 || l.lines[0] != "7: broken: no disk ()" {
		t.Errorf("got %q, want the reader's error", l.lines)
	}
}

// FuzzReader compares with encoding/json, which accepts the same texts but for keys
// that occur twice, half surrogates, long numbers, deep nesting and Python's words for numbers.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{`{"a": [1, -2.5e3, "x\né"], "b": {"c": [], "d": null}}`, "[1 2]", `"\ud800"`, "[NaN]", "1e", "-", `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &log{}
		r := New(bufio.NewReader(bytes.NewReader(data)), l, Options{})
		got := value(r)
		r.End()
		lines := bytes.Count(data, []byte("\n")) + 1
		if r.Line() > lines {
			t.Fatalf("%q: line %d of %d", data, r.Line(), lines)
		}
		var want any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		err := d.Decode(&want)
		if err == nil && d.More() {
			err = errors.New("more")
		}
		text := strings.Join(l.lines, "\n")
		switch {
		case !r.Failed() && len(l.lines) == 0 && err == nil && !reflect.DeepEqual(got, want):
			t.Fatalf("%q: got %v, want %v", data, got, want)
		case !r.Failed() && err != nil && !bytes.Contains(data, []byte("N")) && !bytes.Contains(data, []byte("Infinity")) && !strings.Contains(err.Error(), "more"):
			t.Fatalf("%q: got no fault, want %v", data, err)
		case r.Failed() && json.Valid(data) && !strings.Contains(text, "deep") && !strings.Contains(text, "longer") && !strings.Contains(text, "UTF-8") && !strings.Contains(text, "surrogate"):
			t.Fatalf("%q: got %s, and it is valid", data, text)
		}
	})
}
