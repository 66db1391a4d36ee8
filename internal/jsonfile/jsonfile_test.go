package jsonfile

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

type items []int

func (l *items) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return List(d, 3, func(i int, v *struct{ N int }) error {
		if v.N != i {
			return fmt.Errorf("%d is not %d", v.N, i)
		}
		*l = append(*l, v.N)
		return nil
	})
}

type file struct {
	Items  items             `json:"items"`
	Names  map[string]string `json:"names"`
	Number float64           `json:"number"`
}

func TestUnmarshal(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"items": [{"N": 0}, {"N": 1}], "names": {"a b": "c"}, "number": 2}`, ""},
		{`{}`, ""},
		{"{\n\"items\": [\n{\"N\": 0},\n{\"N\": 2}]}", `line 4: items[1]: 2 is not 1`},
		{`{"items": [{"N": 0}, {"n": 1}]}`, `line 1: items[1]: key "n" is unknown`},
		{`{"items": [{"N": 0}, {"N": "1"}]}`, `line 1: items[1].N: a string is not a whole number`},
		{`{"items": [{"N":0}, {"N":1}, {"N":2}, {"N":3}]}`, `line 1: items: there are more than 3 elements`},
		{`{"items": 3}`, `line 1: items: a number is not a list`},
		{`{"names": {"a b": 1}}`, `line 1: names["a b"]: a number is not a string`},
		{"{\"number\": 1,\n\"number\": 2}", `line 2: key "number" is there twice`},
		{`{"number": 1e999}`, `line 1: number: "1e999" is not a finite number`},
		{`{"number": nan}`, `line 1: number: invalid character 'a' in literal null (expecting 'u')`},
		{"{}\n[]", `line 2: invalid character '[' after top-level value`},
		{"{\n\"number\": ", `line 2: the file ends in the middle: unexpected EOF`},
		{`{"items": [`, `line 1: the file ends in the middle: unexpected EOF`},
	} {
		var v file
		err := Unmarshal([]byte(c.text), &v)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
	if err := Unmarshal(nil, new(file)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("nothing: got %v, want %v", err, io.ErrUnexpectedEOF)
	}
}
