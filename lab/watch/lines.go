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
	mostLine = 64 << 10 // bytes
	mostStep = 1 << 53
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

// The keys of a line.
const (
	keyStep     = "step"
	keyDevice   = "device"
	keyForward  = "forward_ms"
	keyBackward = "backward_ms"
	keyWait     = "wait_ms"
	keyTime     = "time"
)

var lineKeys = []string{keyStep, keyDevice, keyForward, keyBackward, keyWait, keyTime}

// parse returns a line, or what is wrong with it.
func (l *Lines) parse(text []byte) (line Line, fault string) {
	var values map[string]jsontext.Value
	if err := json.Unmarshal(text, &values, jsontext.AllowInvalidUTF8(true)); err != nil {
		return line, notObject(err)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(lineKeys, key) && len(l.unknown) < mostUnknown && !slices.Contains(l.unknown, key) {
			l.unknown = append(l.unknown, key)
		}
	}
	for i, key := range lineKeys {
		text, stated := values[key]
		if !stated && i < 4 {
			return line, fmt.Sprintf("the key %q is missing", key)
		}
		if stated {
			if fault := line.set(key, string(text)); fault != "" {
				return line, fmt.Sprintf("%q is %s, which is %s", key, text, fault)
			}
		}
	}
	if line.Device >= l.devices {
		return line, fmt.Sprintf("device %d: the plan has %s, numbered from 0", line.Device, words.Plural(l.devices, "device"))
	}
	if line.Forward+line.Backward == 0 {
		return line, "forward_ms and backward_ms are both 0"
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

// inRange returns what is wrong with the value of a key.
func inRange(key string, value float64) (fault string) {
	whole := key == keyStep || key == keyDevice
	switch {
	case whole && (value != math.Trunc(value) || value < 0 || value > mostStep):
		return "not a whole number from 0 on"
	case value < 0:
		return "below 0"
	case !whole && key != keyTime && value > mostTime:
		return "more than an hour"
	}
	return ""
}

// set puts a value into the line, and returns what is wrong with it.
func (l *Line) set(key, text string) (fault string) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "not a finite number"
	}
	if fault := inRange(key, value); fault != "" {
		return fault
	}
	switch key {
	case keyStep:
		l.Step = int64(value)
	case keyDevice:
		l.Device = int(value)
	case keyForward:
		l.Forward = unit.Millis(value)
	case keyBackward:
		l.Backward = unit.Millis(value)
	case keyWait:
		l.Wait = unit.Millis(value)
	case keyTime:
		l.Time = value
	}
	return ""
}
