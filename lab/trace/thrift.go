package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// thrift.go looks through structs of Thrift's compact protocol, in which Parquet
// keeps the metadata of files and pages, without building them: it finds where
// they end, tells the whole numbers on the way, and holds every length against
// the bytes that are left and the structs against a limit. What passes here is
// safe to give to a library that trusts lengths.

const maxThriftDepth = 16

var errThrift = errors.New("metadata that end early or are damaged")

// skimmer looks through one struct.
type skimmer struct {
	data []byte
	at   int
	// structs is how many more structs and list elements there may be.
	structs int
	// number is told each whole number and each truth, as 1 or 0, that is a field of
	// a struct, by the fields that lead to it; lists do not count. It may be nil.
	number func(path []int16, value int64)
	path   []int16
}

// skim looks through a struct and returns its length.
func skim(data []byte, structs int, number func(path []int16, value int64)) (int, error) {
	s := &skimmer{data: data, structs: structs, number: number}
	err := s.fields()
	return s.at, err
}

func (s *skimmer) byte() (byte, error) {
	if s.at >= len(s.data) {
		return 0, errThrift
	}
	s.at++
	return s.data[s.at-1], nil
}

func (s *skimmer) varint() (uint64, error) {
	x, n := binary.Uvarint(s.data[s.at:])
	if n <= 0 {
		return 0, errThrift
	}
	s.at += n
	return x, nil
}

func (s *skimmer) skip(n uint64) error {
	if n > uint64(len(s.data)-s.at) {
		return errThrift
	}
	s.at += int(n)
	return nil
}

// fields passes over the fields of a struct.
func (s *skimmer) fields() error {
	if len(s.path) > maxThriftDepth {
		return fmt.Errorf("metadata nested deeper than %d", maxThriftDepth)
	}
	s.path = append(s.path, 0)
	last := len(s.path) - 1
	for {
		if s.structs--; s.structs < 0 {
			return errors.New("metadata of more fields than a log needs")
		}
		head, err := s.byte()
		if err != nil {
			return err
		}
		if head == 0 {
			s.path = s.path[:last]
			return nil
		}
		if step := head >> 4; step != 0 {
			s.path[last] += int16(step)
		} else {
			id, err := s.varint()
			if err != nil {
				return err
			}
			s.path[last] = int16(id>>1) ^ -int16(id&1)
		}
		if err := s.value(head&15, true); err != nil {
			return err
		}
	}
}

// value passes over a value of the given type: a field's, or a list's element.
func (s *skimmer) value(kind byte, field bool) error {
	switch kind {
	case 1, 2: // true, false: of an element it is a byte
		if !field {
			return s.skip(1)
		}
		if s.number != nil {
			s.number(s.path, int64(2-kind))
		}
		return nil
	case 3: // byte
		return s.skip(1)
	case 4, 5, 6: // i16, i32, i64
		x, err := s.varint()
		if err == nil && field && s.number != nil {
			s.number(s.path, int64(x>>1)^-int64(x&1))
		}
		return err
	case 7: // double
		return s.skip(8)
	case 8: // binary
		length, err := s.varint()
		if err != nil {
			return err
		}
		return s.skip(length)
	case 9, 10: // list, set
		return s.list()
	case 12:
		return s.fields()
	}
	return fmt.Errorf("metadata of the unknown type %d", kind)
}

// list passes over a list.
func (s *skimmer) list() error {
	head, err := s.byte()
	if err != nil {
		return err
	}
	count := uint64(head >> 4)
	if count == 15 {
		if count, err = s.varint(); err != nil {
			return err
		}
	}
	// Every element takes a byte or more.
	if count > uint64(len(s.data)-s.at) || count > uint64(s.structs) {
		return errThrift
	}
	s.structs -= int(count)
	if len(s.path) > maxThriftDepth {
		return fmt.Errorf("metadata nested deeper than %d", maxThriftDepth)
	}
	// Numbers inside lists are nobody's concern.
	number := s.number
	s.number = nil
	s.path = append(s.path, 0)
	for range count {
		if err := s.value(head&15, false); err != nil {
			return err
		}
	}
	s.path = s.path[:len(s.path)-1]
	s.number = number
	return nil
}
