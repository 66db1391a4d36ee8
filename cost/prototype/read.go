package prototype

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxFaults is the number of errors of one file that are listed; the others are
// counted.
const maxFaults = 20

// faults collects the errors of one file.
type faults struct {
	file string
	list []error
	more int
}

// add reports an error in a line; line 0 means the whole file.
func (f *faults) add(line int, format string, args ...any) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	place := f.file
	if line > 0 {
		place = fmt.Sprintf("%s:%d", f.file, line)
	}
	f.list = append(f.list, fmt.Errorf("%s: %w", place, fmt.Errorf(format, args...)))
}

// err returns all errors joined; nil if there are none.
func (f *faults) err() error {
	list := f.list
	if f.more > 0 {
		list = append(list, fmt.Errorf("%s: and %d more errors", f.file, f.more))
	}
	return join(list)
}

func join(list []error) error { return errors.Join(list...) }

// readAll reads a whole file of at most MaxFileBytes, and decompresses it if it is
// gzipped.
func readAll(name string, r io.Reader) ([]byte, error) {
	data, err := readLimited(name, r)
	if err != nil || !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return readLimited(name, z)
}

func readLimited(name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(MaxFileBytes)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > int(MaxFileBytes) {
		return nil, fmt.Errorf("%s: larger than %v: is it one of the prototype's files?", name, MaxFileBytes)
	}
	return data, nil
}

// lineAt returns the line, from 1, of the first non-blank byte at or after
// offset.
func lineAt(data []byte, offset int64) int {
	offset = max(0, min(offset, int64(len(data))))
	for offset < int64(len(data)) && bytes.IndexByte([]byte(" \t\r\n,"), data[offset]) >= 0 {
		offset++
	}
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}

// decode reads one JSON value, after which nothing may follow. Errors name the
// line, counted from first.
func decode(f *faults, data []byte, first int, into any) bool {
	err := json.Unmarshal(data, into)
	if err == nil {
		return true
	}
	line := first
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		line += lineAt(data, syntax.Offset-1) - 1
	case errors.As(err, &kind):
		line += lineAt(data, kind.Offset-1) - 1
	}
	f.add(line, "%w", err)
	return false
}

// element is one element of a JSON list, and the line in which it begins.
type element struct {
	json.RawMessage
	line int
}

// elements splits a JSON list that begins in line first.
func elements(f *faults, data []byte, first, most int) []element {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		f.add(first, "want a JSON list")
		return nil
	}
	var list []element
	line, counted := first, int64(0)
	for d.More() {
		at := d.InputOffset()
		for at < int64(len(data)) && bytes.IndexByte([]byte(" \t\r\n,"), data[at]) >= 0 {
			at++
		}
		line += bytes.Count(data[counted:at], []byte{'\n'})
		counted = at
		var e element
		e.line = line
		if err := d.Decode(&e.RawMessage); err != nil {
			f.add(line, "%w", err)
			return nil
		}
		if list = append(list, e); len(list) > most {
			f.add(line, "more than %d elements", most)
			return nil
		}
	}
	if _, err := d.Token(); err != nil {
		f.add(1+bytes.Count(data, []byte{'\n'}), "%w", err)
		return nil
	}
	if rest := bytes.TrimSpace(data[d.InputOffset():]); len(rest) > 0 {
		f.add(lineAt(data, d.InputOffset()), "want nothing after the JSON list")
		return nil
	}
	return list
}
