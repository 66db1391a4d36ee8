package watch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/neuroshard/neuroshard/internal/strictjson"
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
	text    bytes.Reader
	json    *bufio.Reader
	unknown []string
}

// NewLines returns a reader of the lines of a job on this number of devices.
func NewLines(r io.Reader, devices int) *Lines {
	return &Lines{in: bufio.NewReaderSize(r, mostLine), devices: devices, json: bufio.NewReaderSize(nil, 1<<10)}
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
	l.text.Reset(text)
	l.json.Reset(&l.text)
	p := lineParser{lines: l}
	r := strictjson.New(l.json, &p, strictjson.Options{Text: 1 << 10, Keys: 100})
	o := r.Object("the line", lineKeys)
	for key := range o.Keys() {
		value, ok := r.Number(strconv.Quote(key), "a number")
		if ok {
			p.set(&line, key, value)
		}
	}
	if !r.Failed() {
		r.End()
	}
	if p.fault == "" {
		for _, key := range lineKeys[:4] {
			if !o.Has(key) {
				return line, fmt.Sprintf("the key %q is missing", key)
			}
		}
		if line.Device >= l.devices {
			return line, fmt.Sprintf("device %d: the plan has %s, numbered from 0", line.Device, words.Plural(l.devices, "device"))
		}
		if line.Forward+line.Backward == 0 {
			return line, "forward_ms and backward_ms are both 0"
		}
	}
	return line, p.fault
}

// lineParser collects what is wrong with a line: the first fault counts.
type lineParser struct {
	lines *Lines
	fault string
}

func (p *lineParser) fail(format string, args ...any) {
	if p.fault == "" {
		p.fault = fmt.Sprintf(format, args...)
	}
}

// set puts a value into the line.
func (p *lineParser) set(line *Line, key, text string) {
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(value) || math.IsInf(value, 0):
		p.fail("%q is %s, which is not a finite number", key, text)
	case key == keyStep || key == keyDevice:
		if value != math.Trunc(value) || value < 0 || value > mostStep {
			p.fail("%q is %s, which is not a whole number from 0 on", key, text)
		} else if key == keyStep {
			line.Step = int64(value)
		} else {
			line.Device = int(value)
		}
	case value < 0:
		p.fail("%q is %s, which is below 0", key, text)
	case key == keyTime:
		line.Time = value
	case value > mostTime:
		p.fail("%q is %s, which is more than an hour", key, text)
	default:
		*line.duration(key) = unit.Millis(value)
	}
}

// duration returns the duration of a key.
func (l *Line) duration(key string) *unit.Millis {
	switch key {
	case keyForward:
		return &l.Forward
	case keyBackward:
		return &l.Backward
	}
	return &l.Wait
}

// Broken implements strictjson.Reporter.
func (p *lineParser) Broken(e strictjson.SyntaxError) {
	if e.Ended {
		p.fail("the line ends before its object does")
		return
	}
	p.fail("it is not a JSON object: %s", e.Message)
}

// Mistyped implements strictjson.Reporter.
func (p *lineParser) Mistyped(what, wanted string, _ strictjson.Found) {
	p.fail("%s is not %s", what, wanted)
}

// mostUnknown is the number of unknown keys that are kept for Unknown.
const mostUnknown = 10

// Unknown implements strictjson.Reporter.
func (p *lineParser) Unknown(_ *strictjson.ObjectReader, key string) {
	if len(p.lines.unknown) < mostUnknown && !slices.Contains(p.lines.unknown, key) {
		p.lines.unknown = append(p.lines.unknown, key)
	}
}

// Twice implements strictjson.Reporter.
func (p *lineParser) Twice(_ *strictjson.ObjectReader, key string) {
	p.fail("the key %q is there twice", key)
}
