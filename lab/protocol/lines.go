package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrLong is the error of a message above MaxLine bytes. It ends the conversation,
// because the end of the message, and the start of the next one, are unknown.
var ErrLong = fmt.Errorf("message is longer than %d bytes", MaxLine)

// Reader reads the messages of one side, each of at most MaxLine bytes.
type Reader struct {
	lines *bufio.Scanner
	err   error // that ended it
}

// NewReader returns a Reader of r. Nothing else may read r after that.
func NewReader(r io.Reader) *Reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLine)
	return &Reader{lines: lines}
}

// Line returns the next line that is not blank, without its end. The line is valid
// until the next call. The error is io.EOF after the last line, ErrLong for a line
// that is too long, and otherwise that of the underlying reader. Later calls return
// the same error.
func (r *Reader) Line() ([]byte, error) {
	for r.err == nil && r.lines.Scan() {
		if line := bytes.TrimSpace(r.lines.Bytes()); len(line) > 0 {
			return line, nil
		}
	}
	if r.err == nil {
		switch r.err = r.lines.Err(); {
		case r.err == nil:
			r.err = io.EOF
		case errors.Is(r.err, bufio.ErrTooLong):
			r.err = ErrLong
		}
	}
	return nil, r.err
}

// Write writes v to w as one line. If JSON cannot express the message, for example
// a time that is not a number, or if it is too long, Write returns an error and
// writes nothing.
func Write(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	if len(line) >= MaxLine {
		return ErrLong
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
