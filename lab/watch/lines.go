package watch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/unit"
)

// lines.go reads the lines of a job: one JSON object for each step of each device.
//
//	{"step":123,"device":4,"forward_ms":1.2,"backward_ms":2.3,"wait_ms":0.4}

// Line is the time of one device in one step.
type Line struct {
	Step   int64
	Device int
	// Forward and Backward are the times of the lookups and of their backward. Wait is the time
	// for which the device waited for others; 0 if the line does not state it.
	Forward, Backward, Wait unit.Millis
	// Time is when the step ended, in seconds since 1970; 0 if the line does not state it.
	Time float64
	// Start is the allocated bytes of device memory at the start of the step. Peak and Reserved are the most bytes that
	// were allocated and reserved in it. All are 0 if the line does not state them.
	Start, Peak, Reserved unit.Bytes
}

// Fault is what is wrong with one line.
type Fault struct {
	// Line is the number of the line, from 1.
	Line int
	// Message says what is wrong.
	Message string
	// Cut is true for a last line that does not end in a newline and is not complete: its
	// writer is still writing, or was stopped.
	Cut bool
}

func (f *Fault) Error() string { return fmt.Sprintf("line %d: %s", f.Line, f.Message) }

// The limits of what a line may state.
const (
	mostLine = 64 << 10  // bytes
	mostStep = 1 << 53   // and bytes
	mostTime = 3_600_000 // milliseconds: an hour
)

// Lines reads lines. It holds at most one line in memory.
type Lines struct {
	in      *bufio.Reader
	devices int
	line    int
	unknown []string
}

// NewLines returns a reader of the lines of a job on this number of devices.
func NewLines(r io.Reader, devices int) *Lines {
	return &Lines{in: bufio.NewReaderSize(r, mostLine), devices: devices}
}

// Line returns the number of the last line that was read, from 1.
func (l *Lines) Line() int { return l.line }

// Unknown returns the keys that lines had and that nothing reads, the first few of them.
func (l *Lines) Unknown() []string { return l.unknown }

// Next returns the next line that is not blank. The error is a *Fault for a line that is
// wrong, after which Next goes on with the line that follows; io.EOF after the last line; and
// otherwise that of the underlying reader.
func (l *Lines) Next() (Line, error) {
	for {
		text, ended, err := l.read()
		if err != nil {
			return Line{}, err
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		parsed, fault := l.parse(text)
		if fault != "" {
			if ended {
				return Line{}, &Fault{Line: l.line, Message: "the last line is cut: " + fault, Cut: true}
			}
			return Line{}, &Fault{Line: l.line, Message: fault}
		}
		return parsed, nil
	}
}

// read returns the next line, which is valid until the next call. ended is true for a last
// line without its newline.
func (l *Lines) read() (text []byte, ended bool, err error) {
	text, err = l.in.ReadSlice('\n')
	switch {
	case err == nil:
		l.line++
		return text, false, nil
	case errors.Is(err, io.EOF) && len(text) > 0:
		l.line++
		return text, true, nil
	case !errors.Is(err, bufio.ErrBufferFull):
		return nil, false, err
	}
	l.line++
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.in.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	return nil, false, &Fault{Line: l.line, Message: fmt.Sprintf("the line is longer than %d bytes", mostLine)}
}

// fields are the keys of a line: whether each is needed and a whole number, and its largest value.
var fields = []field{
	{"step", true, true, mostStep},
	{"device", true, true, mostStep},
	{"forward_ms", true, false, mostTime},
	{"backward_ms", true, false, mostTime},
	{"wait_ms", false, false, mostTime},
	{"time", false, false, math.MaxFloat64},
	{"start_bytes", false, true, mostStep},
	{"peak_bytes", false, true, mostStep},
	{"reserved_bytes", false, true, mostStep},
}

type field struct {
	key           string
	needed, whole bool
	most          float64
}

// number returns the value of a field, or what is wrong with it.
func (f *field) number(text string) (v float64, fault string) {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return v, "not a finite number"
	case f.whole && (v != math.Trunc(v) || v < 0 || v > f.most):
		return v, "not a whole number from 0 on"
	case v < 0:
		return v, "below 0"
	case v > f.most:
		return v, "more than an hour"
	}
	return v, ""
}

// parse returns a line, or what is wrong with it.
func (l *Lines) parse(text []byte) (line Line, fault string) {
	var values map[string]jsontext.Value
	if err := json.Unmarshal(text, &values, jsontext.AllowInvalidUTF8(true)); err != nil {
		return line, notObject(err)
	}
	numbers := make([]float64, len(fields))
	for i, f := range fields {
		text, stated := values[f.key]
		delete(values, f.key)
		if !stated && f.needed {
			return line, fmt.Sprintf("the key %q is missing", f.key)
		}
		if !stated {
			continue
		}
		if numbers[i], fault = f.number(string(text)); fault != "" {
			return line, fmt.Sprintf("%q is %s, which is %s", f.key, text, fault)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if len(l.unknown) < mostUnknown && !slices.Contains(l.unknown, key) {
			l.unknown = append(l.unknown, key)
		}
	}
	line = Line{
		Step: int64(numbers[0]), Device: int(numbers[1]), Forward: unit.Millis(numbers[2]), Backward: unit.Millis(numbers[3]),
		Wait: unit.Millis(numbers[4]), Time: numbers[5],
		Start: unit.Bytes(numbers[6]), Peak: unit.Bytes(numbers[7]), Reserved: unit.Bytes(numbers[8]),
	}
	if line.Device >= l.devices {
		return line, fmt.Sprintf("device %d: the plan has %s, numbered from 0", line.Device, words.Plural(l.devices, "device"))
	}
	if line.Forward+line.Backward == 0 {
		return line, "forward_ms and backward_ms are both 0"
	}
	if line.Start > line.Peak || line.Peak > line.Reserved {
		return line, "peak_bytes is not between start_bytes and reserved_bytes: state all three, or none"
	}
	return line, ""
}

// notObject says why a line is not an object in which each key is there once.
func notObject(err error) string {
	var syntax *jsontext.SyntacticError
	switch {
	case !errors.As(err, &syntax):
		return "it is not a JSON object"
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Sprintf("the key %.100q is there twice", syntax.JSONPointer.LastToken())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it is not a JSON object: it ends early"
	}
	return fmt.Sprintf("it is not a JSON object: %v", syntax.Err)
}

// mostUnknown is the number of unknown keys that are kept for Unknown.
const mostUnknown = 10
