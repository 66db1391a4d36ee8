package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	deep := bytes.Repeat([]byte{0x1c}, 100)
	lists := bytes.Repeat([]byte{0x19}, 100) // a list of one list of one list ...
	for _, test := range []struct {
		data []byte
		want string
	}{
		{nil, "metadata ends too early"},
		{[]byte{0x15}, "metadata ends too early"},
		{[]byte{0x18, 0xff, 0xff, 0xff, 0xff, 0x0f}, "metadata ends too early"},                      // a text of 4 GB
		{[]byte{0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00}, "metadata ends too early"},          // a list of 4 billion
		{[]byte{0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, "ends too early"}, // of truths
		{[]byte{0x1e, 0x00}, "unknown type 14"},
		{deep, "nested more than 16 deep"},
		{lists, "nested more than 16 deep"},
		{bytes.Repeat([]byte{0x11}, 2000), "more than 1000 values"},
	} {
		if _, err := Skip(test.data, 1000); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("% x: got %v, want %q", test.data, err, test.want)
		}
		if _, _, err := Parse(test.data, 1000); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("% x, built: got %v, want %q", test.data, err, test.want)
		}
	}
}

// FuzzParse compares the two walks, and wants each byte of a struct needed.
func FuzzParse(f *testing.F) {
	f.Add([]byte{0x15, 0x02, 0x19, 0x2c, 0x15, 0x04, 0x00, 0x00, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		length, err := Skip(data, 1000)
		if _, built, other := Parse(data, 1000); built != length || (other == nil) != (err == nil) {
			t.Fatalf("got %d, %v by Parse, and %d, %v by Skip", built, other, length, err)
		}
		if err != nil {
			return
		}
		if length < 1 || length > len(data) {
			t.Fatalf("length %d of %d", length, len(data))
		}
		if length > 1 {
			if _, err := Skip(data[:length-1], 1000); !errors.Is(err, ErrEnd) {
				t.Errorf("a byte less: got %v", err)
			}
		}
	})
}

func TestValues(t *testing.T) {
	// 1: -1; 2: true; 3: "ab"; 4: list of 2, 3; 5: {1: false}; 300: 7
	data := []byte{0x15, 1, 0x11, 0x18, 2, 'a', 'b', 0x19, 0x25, 4, 6, 0x1c, 0x12, 0, 0x05, 0xd8, 4, 14, 0, 9}
	v, n, err := Parse(data, 100)
	if err != nil || n != len(data)-1 {
		t.Fatalf("got %d and %v, want %d", n, err, len(data)-1)
	}
	if v.Integer(1, 5) != -1 || v.Integer(2, 5) != 1 || v.Integer(300, 5) != 7 || v.Integer(9, 5) != 5 || v.Integer(3, 5) != 5 {
		t.Errorf("got %+v, want the integers -1, 1 and 7", v)
	}
	if v.Text(3) != "ab" || v.Text(1) != "" || len(v.Items(4)) != 2 || v.Items(4)[1].number != 3 {
		t.Errorf("got %+v, want the text ab and the list 2, 3", v)
	}
	if !v.Has(5) || v.Has(4) || v.Field(5).Integer(1, 5) != 0 {
		t.Errorf("got %+v, want a struct of false in field 5", v)
	}
}

func TestFooter(t *testing.T) {
	file := func(footer string, length uint32) []byte {
		data := append([]byte(Magic), footer...)
		return append(binary.LittleEndian.AppendUint32(data, length), Magic...)
	}
	for _, c := range []struct {
		data []byte
		want string
	}{
		{nil, "0 bytes are not a Parquet file"},
		{file("", 0)[1:], "not a Parquet file"},
		{append(file("", 0), 'x'), "does not begin and end"},
		{append([]byte("x"), file("", 0)...), "does not begin and end"},
		{file("abc", 4), "a footer of 4 bytes in a file of 15: it is damaged"},
		{file("abcdef", 6), "a footer of 6 bytes, more than 5"},
	} {
		if _, err := Footer(bytes.NewReader(c.data), int64(len(c.data)), 5); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.data, err, c.want)
		}
	}
	good := file("abc", 3)
	if got, err := Footer(bytes.NewReader(good), int64(len(good)), 5); err != nil || string(got) != "abc" {
		t.Errorf("got %q and %v, want abc", got, err)
	}
}

func TestReadPage(t *testing.T) {
	numbers := func(h []byte, values ...int64) []byte {
		for _, x := range values {
			h = binary.AppendVarint(append(h, 1<<4|5), x)
		}
		return h
	}
	v2 := append(numbers(append(numbers(nil, DataPageV2, 100, 50), 5<<4|12), 7, 0, 7, 0, 3, 4), 0x12, 0, 0)
	page, n, err := ReadPage(append(v2, 9))
	if err != nil || n != len(v2) || page.Values != 7 || page.Levels != 7 || page.Compressed || page.Unpacked != 100 || page.Packed != 50 {
		t.Errorf("got %+v, %d, %v, want 7 values, 7 bytes of levels, not compressed", page, n, err)
	}
	v1 := append(numbers(append(numbers(nil, DataPage, 100, 50), 2<<4|12), 7), 0, 0)
	page, n, err = ReadPage(v1)
	if err != nil || n != len(v1) || page.Values != 7 || page.Levels != 0 || !page.Compressed {
		t.Errorf("got %+v, %d, %v, want 7 values, compressed", page, n, err)
	}
	for _, c := range []struct {
		data []byte
		want string
	}{
		{v1[:len(v1)-1], "ends too early"},
		{append(numbers(append(numbers(nil, DataPage, 100, 50), 5<<4|12), 7), 0, 0), "with the header of kind 3"},
		{append(numbers(append(numbers(nil, DataPageV2, 100, 50), 5<<4|12), 7, 0, 7, 0, -3), 0, 0), "negative length"},
	} {
		if _, _, err := ReadPage(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("% x: got %v, want %q", c.data, err, c.want)
		}
	}
}
