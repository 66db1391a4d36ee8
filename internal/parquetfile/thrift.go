package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// thrift.go reads Thrift's compact protocol, in which Parquet keeps the metadata
// of files and pages, without a schema: a struct becomes its fields by number.
// Every length is compared with the bytes that are left, so that a few bytes
// cannot ask for much memory; nesting is bounded.

// maxThriftDepth is more than the nesting of Parquet's structs.
const maxThriftDepth = 16

// thriftType is the protocol's number of a type.
type thriftType uint8

const (
	thriftStop   thriftType = 0
	thriftTrue   thriftType = 1
	thriftFalse  thriftType = 2
	thriftByte   thriftType = 3
	thriftI16    thriftType = 4
	thriftI32    thriftType = 5
	thriftI64    thriftType = 6
	thriftDouble thriftType = 7
	thriftBinary thriftType = 8
	thriftList   thriftType = 9
	thriftSet    thriftType = 10
	thriftStruct thriftType = 12
)

// Value is a value of the metadata. The zero value is no value.
type Value struct {
	wire   thriftType
	number int64 // a boolean is 0 or 1
	bytes  []byte
	list   []Value
	fields []field
}

type field struct {
	id    int16
	value Value
}

// Field returns the value of the struct's field id; the zero value if it has
// none.
func (v Value) Field(id int16) Value {
	for i := range v.fields {
		if v.fields[i].id == id {
			return v.fields[i].value
		}
	}
	return Value{}
}

// Integer returns the whole number in field id, a boolean as 0 or 1. If the field holds
// no number, it returns otherwise.
func (v Value) Integer(id int16, otherwise int64) int64 {
	if f := v.Field(id); f.wire >= thriftTrue && f.wire <= thriftI64 {
		return f.number
	}
	return otherwise
}

// Text returns the bytes in field id.
func (v Value) Text(id int16) string { return string(v.Field(id).bytes) }

// Items returns the elements of the list in field id. They must not be modified.
func (v Value) Items(id int16) []Value { return v.Field(id).list }

// Has reports whether the field id is a struct.
func (v Value) Has(id int16) bool { return v.Field(id).wire == thriftStruct }

// ErrEnd is the error of metadata that is longer than the data.
var ErrEnd = errors.New("metadata ends too early")

// Parse reads one struct from the beginning of data, and returns it with its
// length. It may hold at most most fields and list elements.
func Parse(data []byte, most int) (Value, int, error) {
	r := walker{data: data, left: most, most: most, build: true}
	v, err := r.fields(0)
	return v, r.at, err
}

// Skip checks one struct at the beginning of data as Parse does, and returns its
// length. It builds nothing.
func Skip(data []byte, most int) (int, error) {
	r := walker{data: data, left: most, most: most}
	_, err := r.fields(0)
	return r.at, err
}

// walker goes through one struct.
type walker struct {
	data []byte
	at   int
	// left is how many of most fields and elements may still follow.
	left, most int
	// build is true if values are kept.
	build bool
}

func (r *walker) byte() (byte, error) {
	if r.at >= len(r.data) {
		return 0, ErrEnd
	}
	r.at++
	return r.data[r.at-1], nil
}

func (r *walker) varint() (uint64, error) {
	v, n := binary.Uvarint(r.data[r.at:])
	if n <= 0 {
		return 0, ErrEnd
	}
	r.at += n
	return v, nil
}

// zigzag reads a signed number.
func (r *walker) zigzag() (int64, error) {
	v, err := r.varint()
	return int64(v>>1) ^ -int64(v&1), err
}

// take returns the next n bytes.
func (r *walker) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.data)-r.at) {
		return nil, ErrEnd
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at], nil
}

// count subtracts n fields or elements from the number that may still follow.
func (r *walker) count(n uint64) error {
	if n > uint64(r.left) {
		return fmt.Errorf("metadata holds more than %d values", r.most)
	}
	r.left -= int(n)
	return nil
}

// fields reads a struct.
func (r *walker) fields(depth int) (Value, error) {
	v := Value{wire: thriftStruct}
	if depth > maxThriftDepth {
		return v, fmt.Errorf("metadata is nested more than %d deep", maxThriftDepth)
	}
	id := int16(0)
	for {
		kind, err := r.head(&id)
		if err != nil || kind == thriftStop {
			return v, err
		}
		if err := r.count(1); err != nil {
			return v, err
		}
		one := Value{wire: kind}
		switch kind {
		case thriftTrue: // a field's boolean is in its type
			one.number = 1
		case thriftFalse:
		default:
			if one, err = r.value(kind, depth); err != nil {
				return v, err
			}
		}
		if r.build {
			v.fields = append(v.fields, field{id, one})
		}
	}
}

// head reads the type and the number of the next field. id is the number of the field
// before; head sets it to the next field's number.
func (r *walker) head(id *int16) (thriftType, error) {
	head, err := r.byte()
	if err != nil {
		return thriftStop, err
	}
	kind := thriftType(head & 15)
	if delta := int16(head >> 4); delta != 0 || kind == thriftStop {
		*id += delta
		return kind, nil
	}
	next, err := r.zigzag()
	*id = int16(next)
	return kind, err
}

// value reads a value, except a field's boolean, which is part of the field's type.
func (r *walker) value(kind thriftType, depth int) (Value, error) {
	v := Value{wire: kind}
	var err error
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		var b byte
		b, err = r.byte()
		v.number = int64(int8(b))
	case thriftI16, thriftI32, thriftI64:
		v.number, err = r.zigzag()
	case thriftDouble:
		_, err = r.take(8)
	case thriftBinary:
		var n uint64
		if n, err = r.varint(); err == nil {
			v.bytes, err = r.take(n)
		}
	case thriftList, thriftSet:
		v.list, err = r.elements(depth)
	case thriftStruct:
		return r.fields(depth + 1)
	default:
		// Maps do not occur in Parquet's metadata.
		err = fmt.Errorf("metadata holds a value of the unknown type %d", kind)
	}
	return v, err
}

// elements reads a list.
func (r *walker) elements(depth int) ([]Value, error) {
	if depth > maxThriftDepth {
		return nil, fmt.Errorf("metadata is nested more than %d deep", maxThriftDepth)
	}
	head, err := r.byte()
	if err != nil {
		return nil, err
	}
	n, kind := uint64(head>>4), thriftType(head&15)
	if n == 15 {
		if n, err = r.varint(); err != nil {
			return nil, err
		}
	}
	// Each element takes a byte or more.
	if n > uint64(len(r.data)-r.at) {
		return nil, ErrEnd
	}
	if err := r.count(n); err != nil {
		return nil, err
	}
	var list []Value
	if r.build {
		list = make([]Value, n)
	}
	for i := range n {
		one, err := r.value(kind, depth+1)
		if err != nil {
			return nil, err
		}
		if r.build {
			list[i] = one
		}
	}
	return list, nil
}
