// Package watch tells from the live times of a training job whether its plan still fits:
// steady, drift of the load, or a slow device.
//
//	Lines            JSON lines -> Line, or a Fault with its line number (lines.go)
//	Watcher.Add      a Line -> the Events that it brings about (watch.go)
//	  windows        lines -> medians of windows of steps -> rows of all devices (windows.go)
//	  judge          rows -> the change that all devices share, and each device's own (judge.go)
//	  series         either of these -> a change of its level, by a CUSUM (series.go)
//	  season         the shared change, without what repeats every day (season.go)
//	  memories       the measured memory beside the plan's count (memory.go)
//	Watcher.End      the Summary
//	Explain          the found changes, beside those that live features predict (explain.go)
//
// The measure is a device's busy time, forward plus backward, over the plan's prediction of
// it, as a logarithm. Under synchronous training the whole step takes equally long on every
// device, and the wait for others hides who is slow; the busy time does not.
//
// Nothing here depends on clocks or chance: the same lines give the same events.
package watch

import (
	"cmp"
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/unit"
)

// Outcome is what a watch has found.
type Outcome string

// The outcomes.
const (
	Steady Outcome = "steady"
	Drift  Outcome = "drift"
	Slow   Outcome = "slow"
)

// Options are the parameters of a Watcher. The zero value of each field stands for its default.
type Options struct {
	// Window is the number of steps in a window, whose median counts: 100.
	Window int
	// Threshold is that of the CUSUM, in standard deviations: 10.
	Threshold float64
	// Lag is the number of windows by which a device may be behind the others before the
	// others go on without it: 10. With a large Lag the lines of the devices may come one
	// device after the other; all medians are then in memory.
	Lag int
	// Season is the number of steps after which the load repeats itself, a multiple of Window.
	// 0 means that no season is stated: it is then a day if the lines state times and span
	// two days. Below 0 there is no season.
	Season int
	// Counted is what the plan counts of each device's memory (CountedBy); without it, memory is not compared.
	Counted []Counted
}

// withDefaults returns the options with the defaults in place of zeros.
func (o Options) withDefaults() Options {
	o.Window = cmp.Or(o.Window, 100)
	o.Threshold = cmp.Or(o.Threshold, 10)
	o.Lag = cmp.Or(o.Lag, 10)
	return o
}

const (
	// mostWindow bounds Options.Window: a window's times are in memory.
	mostWindow = 100_000
	// reference is the number of windows that set the level and the noise of a series.
	reference = 30
	// floor is the least standard deviation that a series is taken to have, as a share of its
	// level. Without a floor, a series without noise would raise an alarm for nothing.
	floor = 0.005
	// least is the least change that is reported, as a share.
	least = 0.01
)

// check returns an error if a parameter is out of range.
func (o Options) check() error {
	switch {
	case o.Window < 1 || o.Window > mostWindow:
		return fmt.Errorf("a window of %d steps is not between 1 and %d", o.Window, mostWindow)
	case !(o.Threshold > 0) || o.Lag < 1:
		return fmt.Errorf("threshold %v and lag %d must be above 0", o.Threshold, o.Lag)
	case o.Season > 0 && (o.Season%o.Window != 0 || o.Season/o.Window < leastBins):
		return fmt.Errorf("a season of %d steps is not a multiple of the window's %d steps, at least %d times as long", o.Season, o.Window, leastBins)
	}
	return nil
}

// Topic is what an Event is about.
type Topic string

// The topics of events. TopicDrift and TopicSlow make the outcome; the others are stated.
const (
	// TopicReady: the level and noise of the series are known; from here on changes are found.
	TopicReady Topic = "ready"
	// TopicDrift: the load of all devices changed, or one device takes less time than before
	// beside the others.
	TopicDrift Topic = "drift"
	// TopicSlow: a device takes more time than before beside the others.
	TopicSlow Topic = "slow"
	// TopicEnded: a drift or a slow device is back within 1 % of its first level.
	TopicEnded Topic = "ended"
	// TopicUnusual: a short time that is unlike the same time of other seasons.
	TopicUnusual Topic = "unusual"
	// TopicSeason: a season is known and is removed from now on.
	TopicSeason Topic = "season"
	// TopicVanished and TopicAppeared: a device stops or begins to send lines.
	TopicVanished Topic = "vanished"
	TopicAppeared Topic = "appeared"
	// TopicRestart: the steps went back. The level and the noise stay.
	TopicRestart Topic = "restart"
	// TopicHole: no device has a line of some windows.
	TopicHole Topic = "hole"
	// TopicMemory: the memory that a device measured is not as the plan counts it (Differs).
	TopicMemory Topic = "memory"
	// TopicClock: the stated times went back; they are not used from here on.
	TopicClock Topic = "clock"
)

// NoDevice is the Device of an Event that is not about one device.
const NoDevice = -1

// Event is one thing that the watch has found.
type Event struct {
	Topic Topic `json:"event"`
	// Step is the last step that was looked at when the event was found.
	Step int64 `json:"step"`
	// Since is the first step of what was found: the estimated start of a change, or of a hole.
	Since int64 `json:"since"`
	// Device is the device that the event is about, or NoDevice.
	Device int `json:"device"`
	// Change is the change of the level since the reference, as a share: 0.05 is 5 % more time.
	// It is 0 for events that are not about a level.
	Change float64 `json:"change"`
	// Text is a sentence for people.
	Text string `json:"text"`
}

// Predicted returns the predicted busy time of each device of a plan: its forward and its
// backward. The plan must be priced (plan.Plan.Priced).
func Predicted(pl *plan.Plan) []unit.Millis {
	busy := make([]unit.Millis, len(pl.Devices))
	for d := range busy {
		busy[d] = pl.Devices[d].Forward + pl.Devices[d].Backward
	}
	return busy
}

// Watcher finds changes in the lines of one job. It is made by New, and is not safe for
// concurrent use.
type Watcher struct {
	windows *windows
	judge   *judge
	memory  *memories
	events  []Event
}

// Tally counts lines.
type Tally struct {
	// Lines is the number of lines that were added.
	Lines int `json:"lines"`
	// Repeated is the number of lines whose device and step had a line already: they are
	// passed over.
	Repeated int `json:"repeated"`
	// Stray is the number of lines whose step was too far from the others of the device: they
	// are passed over.
	Stray int `json:"stray"`
	// Thin is the number of windows of single devices that had fewer than half of the
	// device's usual lines: they are passed over.
	Thin int `json:"thin_windows"`
	// Idle is the number of lines of devices that the plan gives no work: they are passed over.
	Idle int `json:"idle"`
}

// New returns a Watcher for a plan with these predicted busy times, one for each device. A
// device with predicted time 0 has no shards and is not watched.
func New(predicted []unit.Millis, opt Options) (*Watcher, error) {
	opt = opt.withDefaults()
	if err := opt.check(); err != nil {
		return nil, err
	}
	busy := 0
	for d, p := range predicted {
		if p < 0 || math.IsNaN(float64(p)) || math.IsInf(float64(p), 0) {
			return nil, fmt.Errorf("device %d: the predicted time %v ms is not a finite number of at least 0", d, float64(p))
		}
		if p > 0 {
			busy++
		}
	}
	if busy == 0 {
		return nil, fmt.Errorf("no device has a predicted time above 0: there is nothing to watch")
	}
	w := &Watcher{}
	w.judge = newJudge(predicted, opt, w.emit)
	w.windows = newWindows(predicted, opt, w.judge.row, w.emit)
	w.memory = newMemories(opt.Counted, opt.Window, w.emit)
	return w, nil
}

func (w *Watcher) emit(e Event) { w.events = append(w.events, e) }

// Add adds a line and returns the events that it brings about, in order. The device of the
// line must be one of the plan's; Lines checks that.
func (w *Watcher) Add(l Line) []Event {
	w.events = nil
	w.windows.add(l)
	w.memory.add(&l)
	return w.events
}

// End closes the windows that are open and returns the last events. No line may be added
// after it.
func (w *Watcher) End() []Event {
	w.events = nil
	w.windows.end()
	w.judge.end()
	w.memory.end()
	return w.events
}

// Summary is what a watch has found so far.
type Summary struct {
	Outcome Outcome `json:"outcome"`
	// Ready is true if the level and noise were known, so that a change could be found.
	Ready bool `json:"ready"`
	// First and Last are the first and the last step that was looked at; 0 if none was.
	First int64 `json:"first_step"`
	Last  int64 `json:"last_step"`
	// Windows is the number of windows that were looked at.
	Windows int `json:"windows"`
	// Level is measured over predicted busy time in the median of devices, in the reference; 0
	// if there is none. Change is the change since, as a share, without what was reported as
	// ended. Noise is the standard deviation of the shared series, as a share.
	Level  float64 `json:"level"`
	Change float64 `json:"change"`
	Noise  float64 `json:"noise"`
	// Devices has an entry for each device of the plan.
	Devices []DeviceSummary `json:"devices"`
	// Memory has an entry for each device that stated its memory.
	Memory []DeviceMemory `json:"memory,omitempty"`
	Tally  Tally          `json:"tally"`
}

// DeviceSummary is what a watch has found of one device.
type DeviceSummary struct {
	Device    int         `json:"device"`
	Predicted unit.Millis `json:"predicted_ms"`
	// Measured is the median busy time of the last window; 0 if there is none. Wait is the
	// median wait of that window.
	Measured unit.Millis `json:"measured_ms"`
	Wait     unit.Millis `json:"wait_ms"`
	// Level is measured over predicted in the reference; 0 if there is none.
	Level float64 `json:"level"`
	// Change is the device's own change beside the others, since the reference.
	Change float64 `json:"change"`
	// Slow is true if the device is reported as slow, and Vanished if it has stopped sending.
	Slow     bool `json:"slow"`
	Vanished bool `json:"vanished"`
}

// Summary returns what the watch has found so far. The outcome is Slow if a device was
// reported as slow, otherwise Drift if a drift was reported, ended or not.
func (w *Watcher) Summary() Summary {
	s := w.judge.summary()
	s.Tally, s.Memory = w.windows.tally, w.memory.summary()
	for d := range s.Devices {
		s.Devices[d].Vanished = w.windows.devices[d].gone
	}
	return s
}
