package jsonfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

// Writer writes JSON piece by piece, so that a text can be laid out by hand. Flush returns the first error.
type Writer struct {
	*bufio.Writer
	line bytes.Buffer
	err  error
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{Writer: bufio.NewWriterSize(w, 1<<16)} }

// Print writes texts as they are and values as JSON on one line, by turns.
func (w *Writer) Print(parts ...any) {
	for i, part := range parts {
		if i%2 == 0 {
			w.WriteString(part.(string))
		} else {
			w.value(part, "")
		}
	}
}

// Open writes an object without its last brace, for keys to follow.
func (w *Writer) Open(object any) { w.value(object, "}") }

// Item starts the i-th element of a list, or key of an object.
func (w *Writer) Item(i int, indent string) {
	if i > 0 {
		w.WriteByte(',')
	}
	w.WriteString(indent)
}

func (w *Writer) value(v any, end string) {
	w.line.Reset()
	encoder := json.NewEncoder(&w.line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil && w.err == nil {
		w.err = err
	}
	w.Write(bytes.TrimSuffix(w.line.Bytes(), []byte(end+"\n")))
}

// Flush writes what is left, and returns the first error.
func (w *Writer) Flush() error {
	if w.err != nil {
		return w.err
	}
	return w.Writer.Flush()
}
