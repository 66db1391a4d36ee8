package watch

import (
	"fmt"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/unit"
)

// memory.go compares what the devices measured of their memory with what the plan counts. What is measured has more
// than the plan counts: the dense part, whose weights live at the start of a step and whose activations come and go, and
// whatever else the job holds. It is the reserve's to hold them. So two findings only are sure:
//
//	start < weights + optimizer + cache, or peak < these + buffers      the plan counts bytes that are not there
//	peak > all lines of the plan with the reserve                       the reserve does not hold the rest
//
// The inputs of the next batches live at the start of a step, too, if the job has a pipeline. So a peak is compared as a
// whole, and the start only with what never goes.

// Counted is the bytes of a device that a plan counts, in the fullest phase of the step.
type Counted struct {
	// Held is weights, optimizer state and cache, Buffers what comes and goes, and Total all lines with the reserve.
	Held, Buffers, Total unit.Bytes
}

// CountedBy returns what a plan counts for each device.
func CountedBy(pl *plan.Plan) []Counted {
	all := make([]Counted, len(pl.Devices))
	for d := range all {
		m := &pl.Devices[d].Memory
		all[d] = Counted{m.Held(), m.Buffers(), m.Total()}
	}
	return all
}

// Differs says by which part what a device measured is unlike the count.
type Differs string

// The ways to differ.
const (
	// HeldLess: what lives at the start of a step is less than 95 % of Counted.Held.
	HeldLess Differs = "held_less"
	// PeakLess: the peak is less than 95 % of Counted.Held and Counted.Buffers.
	PeakLess Differs = "peak_less"
	// HeldMore and BuffersMore: the peak is above Counted.Total. More of the difference lives at the start of a step,
	// or comes and goes.
	HeldMore    Differs = "held_more"
	BuffersMore Differs = "buffers_more"
)

// leastCounted is the share of the counted bytes below which what is measured differs.
const leastCounted = 0.95

// DeviceMemory is what a device measured of its memory, beside the plan's count.
type DeviceMemory struct {
	Device int `json:"device"`
	// Held, Buffers and Total are those of Counted.
	Held    unit.Bytes `json:"held_bytes"`
	Buffers unit.Bytes `json:"buffers_bytes"`
	Total   unit.Bytes `json:"total_bytes"`
	// Start, Peak and Reserved are the most of all lines that state them.
	Start    unit.Bytes `json:"start_bytes"`
	Peak     unit.Bytes `json:"peak_bytes"`
	Reserved unit.Bytes `json:"reserved_bytes"`
	// Differs is empty if the measured bytes agree with the count, or are not judged yet.
	Differs Differs `json:"differs,omitempty"`
}

// Beside returns the bytes at the peak beside what the plan counts of tables; negative if the peak is less.
func (m *DeviceMemory) Beside() unit.Bytes { return m.Peak - m.Held - m.Buffers }

// compare returns how the measured bytes differ from the count.
func (m *DeviceMemory) compare() Differs {
	less := func(measured, counted unit.Bytes) bool {
		return float64(measured) < leastCounted*float64(counted)
	}
	switch {
	case less(m.Start, m.Held):
		return HeldLess
	case less(m.Peak, m.Held+m.Buffers):
		return PeakLess
	case m.Peak <= m.Total:
		return ""
	case 2*(m.Start-m.Held) > m.Beside():
		return HeldMore
	}
	return BuffersMore
}

// text says in words how the measured bytes differ.
func (m *DeviceMemory) text() string {
	short := func(measured, counted unit.Bytes) string {
		return fmt.Sprintf("%.0f %% less than the %v", 100*(1-float64(measured)/float64(counted)), counted)
	}
	begin := fmt.Sprintf("device %d: the peak of %v, with the dense part, is", m.Device, m.Peak)
	switch m.Differs {
	case HeldLess:
		return fmt.Sprintf("device %d: the %v at the start of a step are %s of weights, optimizer states and cache that the plan counts", m.Device, m.Start, short(m.Start, m.Held))
	case PeakLess:
		return fmt.Sprintf("%s %s that the plan counts: it counts buffers of %v, and steps take %v above their start", begin, short(m.Peak, m.Held+m.Buffers), m.Buffers, m.Peak-m.Start)
	case HeldMore:
		return fmt.Sprintf("%s more than the %v that the plan counts with the reserve: at the start of a step there are %v beside weights, optimizer states and cache", begin, m.Total, m.Start-m.Held)
	}
	return fmt.Sprintf("%s more than the %v that the plan counts with the reserve: steps take %v above their start, and the plan counts buffers of %v", begin, m.Total, m.Peak-m.Start, m.Buffers)
}

// memories compares the memory of all devices.
type memories struct {
	// window is the number of lines after which a device is judged, again and again: the first steps may hold less.
	window  int
	devices []measuredMemory
	emit    func(Event)
}

type measuredMemory struct {
	DeviceMemory
	lines       int
	first, last int64
}

func newMemories(counted []Counted, window int, emit func(Event)) *memories {
	m := &memories{window: window, devices: make([]measuredMemory, len(counted)), emit: emit}
	for d, c := range counted {
		m.devices[d].DeviceMemory = DeviceMemory{Device: d, Held: c.Held, Buffers: c.Buffers, Total: c.Total}
	}
	return m
}

// add looks at a line.
func (m *memories) add(l *Line) {
	if l.Peak == 0 || l.Device >= len(m.devices) {
		return
	}
	d := &m.devices[l.Device]
	if d.lines == 0 {
		d.first = l.Step
	}
	d.lines++
	d.last = l.Step
	d.Start, d.Peak, d.Reserved = max(d.Start, l.Start), max(d.Peak, l.Peak), max(d.Reserved, l.Reserved)
	if d.lines%m.window == 0 {
		m.judge(d)
	}
}

// judge reports how a device differs, once for each way.
func (m *memories) judge(d *measuredMemory) {
	before := d.Differs
	if d.Differs = d.compare(); d.Differs != "" && d.Differs != before {
		m.emit(Event{Topic: TopicMemory, Step: d.last, Since: d.first, Device: d.Device, Text: d.text()})
	}
}

// end judges the devices by the lines after their last window.
func (m *memories) end() {
	for i := range m.devices {
		if d := &m.devices[i]; d.lines%m.window != 0 {
			m.judge(d)
		}
	}
}

// summary returns the devices that stated their memory.
func (m *memories) summary() (all []DeviceMemory) {
	for i := range m.devices {
		if d := &m.devices[i]; d.lines > 0 {
			all = append(all, d.DeviceMemory)
		}
	}
	return all
}
