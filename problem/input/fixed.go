package input

import (
	"fmt"
	"strconv"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// fixed.go reads and writes the fixed loads of a file of tables: tables of the model that somebody
// else places, by the bytes and the time that they take on devices.

// fixedKeys are the keys of a fixed load.
var fixedKeys = []string{"name", "devices", "bytes", "ms"}

// The hints of fixed loads.
const (
	fixedBytesHint = "write a number and its unit, such as 12GiB"
	fixedTimeHint  = "ms is the compute of the load in a step on each of its devices, forward and backward"
)

// fixed reads the list of fixed loads.
func (r jsonReader) fixed() {
	for i := range r.s.List("fixed") {
		r.s.Next()
		if i >= hardware.MaxFixed {
			r.s.fail(fmt.Sprintf("more than %d fixed loads", hardware.MaxFixed), "state loads of the same devices together")
			return
		}
		line, before := r.s.Line(), r.s.count()
		o := r.s.Object("a fixed load", fixedKeys)
		var l hardware.FixedLoad
		for key := range o.Keys() {
			fixedKey(r.s, key, &l)
		}
		if o.Opened() && !r.s.Failed() {
			r.s.require(o, line, "name")
		}
		if r.s.count() == before {
			r.Fixed = append(r.Fixed, l)
		}
	}
}

// fixedKey reads the value of a key of a fixed load.
func fixedKey(s *scanner, key string, l *hardware.FixedLoad) {
	switch key {
	case "name":
		l.Name, _ = s.Text("name")
	case "devices":
		l.Devices = s.devices()
	case "bytes":
		text, ok := s.Text("bytes")
		if !ok {
			return
		}
		size, err := unit.ParseSize(text)
		if err != nil {
			s.add(s.Line(), "bytes: "+what(err), fixedBytesHint)
		}
		l.Bytes = size
	case "ms":
		ms, _ := s.real("ms", fixedTimeHint)
		l.Time = unit.Millis(ms)
	}
}

// jsonFixed is a fixed load as it is written.
type jsonFixed struct {
	Name    string  `json:"name"`
	Devices []int   `json:"devices,omitempty"`
	Bytes   string  `json:"bytes,omitempty"`
	Time    float64 `json:"ms,omitempty"`
}

func fixedOf(l *hardware.FixedLoad) jsonFixed {
	out := jsonFixed{Name: l.Name, Devices: l.Devices, Time: float64(l.Time)}
	if l.Bytes > 0 {
		out.Bytes = strconv.FormatInt(int64(l.Bytes), 10) + "B"
	}
	return out
}
