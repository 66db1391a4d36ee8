package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// thrift.go reads Thrift's compact protocol, in which Parquet keeps the metadata
// of files and pages, without a schema: a struct becomes its fields by number.
// Every length is held against the bytes that are left, so that a few bytes
// cannot ask for much memory, and nesting is bounded.

// maxThriftDepth is beyond what Parquet's structs nest.
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

// thriftValue is any value: which field counts follows from the type.
type thriftValue struct {
	kind   thriftType
	number int64 // of booleans, too
	bytes  []byte
	list   []thriftValue
	fields []thriftField
}

type thriftField struct {
	id    int16
	value thriftValue
}

// field returns the value of field id; the zero value where there is none.
func (v thriftValue) field(id int16) thriftValue {
	for i := range v.fields {
		if v.fields[i].id == id {
			return v.fields[i].value
		}
	}
	return thriftValue{}
}

// integer returns the whole number in field id, or otherwise where there is
// none.
func (v thriftValue) integer(id int16, otherwise int64) int64 {
	if f := v.field(id); f.kind >= thriftTrue && f.kind <= thriftI64 {
		return f.number
	}
	return otherwise
}

// text returns the bytes in field id.
func (v thriftValue) text(id int16) string { return string(v.field(id).bytes) }

// items returns the elements of the list in field id.
func (v thriftValue) items(id int16) []thriftValue { return v.field(id).list }

// has reports whether field id is there as a struct.
func (v thriftValue) has(id int16) bool { return v.field(id).kind == thriftStruct }

// readThrift reads one struct from the beginning of data and returns it with
// the bytes that it takes.
func readThrift(data []byte) (thriftValue, int, error) {
	r := thriftReader{data: data}
	v, err := r.fields(0)
	return v, r.at, err
}

type thriftReader struct {
	data []byte
	at   int
}

var errThriftEnd = errors.New("metadata ends too early")

func (r *thriftReader) byte() (byte, error) {
	if r.at >= len(r.data) {
		return 0, errThriftEnd
	}
	r.at++
	return r.data[r.at-1], nil
}

func (r *thriftReader) varint() (uint64, error) {
	v, n := binary.Uvarint(r.data[r.at:])
	if n <= 0 {
		return 0, errThriftEnd
	}
	r.at += n
	return v, nil
}

// zigzag reads a signed number.
func (r *thriftReader) zigzag() (int64, error) {
	v, err := r.varint()
	return int64(v>>1) ^ -int64(v&1), err
}

// take returns the next n bytes.
func (r *thriftReader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.data)-r.at) {
		return nil, errThriftEnd
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at], nil
}

// fields reads a struct.
func (r *thriftReader) fields(depth int) (thriftValue, error) {
	v := thriftValue{kind: thriftStruct}
	if depth > maxThriftDepth {
		return v, fmt.Errorf("metadata is nested more than %d deep", maxThriftDepth)
	}
	id := int16(0)
	for {
		head, err := r.byte()
		if err != nil {
			return v, err
		}
		kind := thriftType(head & 15)
		if kind == thriftStop {
			return v, nil
		}
		if delta := int16(head >> 4); delta != 0 {
			id += delta
		} else {
			next, err := r.zigzag()
			if err != nil {
				return v, err
			}
			id = int16(next)
		}
		field := thriftValue{kind: kind}
		switch kind {
		case thriftTrue: // a field's boolean is in its type
			field.number = 1
		case thriftFalse:
		default:
			if field, err = r.value(kind, depth); err != nil {
				return v, err
			}
		}
		v.fields = append(v.fields, thriftField{id, field})
	}
}

// value reads a value that is no field's boolean.
func (r *thriftReader) value(kind thriftType, depth int) (thriftValue, error) {
	v := thriftValue{kind: kind}
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

func (r *thriftReader) elements(depth int) ([]thriftValue, error) {
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
	// Each element takes a byte at least.
	if n > uint64(len(r.data)-r.at) {
		return nil, errThriftEnd
	}
	list := make([]thriftValue, n)
	for i := range list {
		if list[i], err = r.value(kind, depth+1); err != nil {
			return nil, err
		}
	}
	return list, nil
}
