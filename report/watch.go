package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/neuroshard/neuroshard/lab/watch"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/unit"
)

// WatchEvent writes one event of a watch, as a line for people or as one JSON object.
func WatchEvent(w io.Writer, e watch.Event, asJSON bool) error {
	if asJSON {
		return oneLine(w, e)
	}
	_, err := fmt.Fprintf(w, "step %d: %s\n", e.Step, OneLine(e.Text))
	return err
}

// oneLine writes a value as JSON on one line.
func oneLine(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// WatchAdvice is what live features say of the changes that a watch found.
type WatchAdvice struct {
	watch.Explained
	// Replan is nil if the search was interrupted.
	Replan *WatchReplan `json:"replan"`
	// command is how to re-plan.
	command string
}

// WatchReplan is what re-planning for the live features would bring.
type WatchReplan struct {
	Verdict replan.Verdict `json:"verdict"`
	// OldCost is the predicted cost of the old plan; nil if it does not fit any more.
	OldCost *unit.Millis `json:"old_cost_ms"`
	Cost    unit.Millis  `json:"cost_ms"`
	// Saving is the share of the old cost that is saved; nil without an old cost.
	Saving *float64 `json:"saving"`
	// Moved is the number of bytes that move.
	Moved unit.Bytes `json:"moved_bytes"`
	// Simulated is true if a model of the simulated device predicted the costs.
	Simulated bool `json:"simulated"`
}

// NewWatchAdvice returns what live features say. found may be nil.
func NewWatchAdvice(e watch.Explained, found *replan.Outcome, planPath, livePath string) *WatchAdvice {
	a := &WatchAdvice{Explained: e, command: fmt.Sprintf("neuroshard replan %s %s", path(planPath), path(livePath))}
	if found == nil {
		return a
	}
	point := found.Point()
	a.Replan = &WatchReplan{
		Verdict: found.Verdict, OldCost: found.OldCost, Cost: point.Cost, Moved: point.Transfer.Bytes,
		Simulated: found.Result.Plan.Provenance.ModelSource == plan.Simulated,
	}
	if old := found.OldCost; old != nil {
		saving := 1 - float64(point.Cost / *old)
		a.Replan.Saving = &saving
	}
	return a
}

// worth is a sentence about re-planning.
func (a *WatchAdvice) worth() string {
	r := a.Replan
	predicted := "predicted"
	if r != nil && r.Simulated {
		predicted = "predicted, SIMULATED"
	}
	switch {
	case r == nil:
		return "re-planning: interrupted"
	case r.Saving == nil:
		return fmt.Sprintf("re-planning: the plan does not fit any more; another takes %v (%s) and moves %v: %s", r.Cost, predicted, r.Moved, a.command)
	case r.Verdict == replan.Keep:
		return fmt.Sprintf("re-planning: would save nothing for the live features (%v, %s)", *r.OldCost, predicted)
	}
	return fmt.Sprintf("re-planning: would save %.1f %% for %v moved (%v -> %v, %s): %s", 100**r.Saving, r.Moved, *r.OldCost, r.Cost, predicted, a.command)
}

// WatchExplained writes what live features say, as a line or as one JSON object.
func WatchExplained(w io.Writer, a *WatchAdvice, asJSON bool) error {
	if asJSON {
		return oneLine(w, struct {
			Event string `json:"event"` // "advice"
			*WatchAdvice
		}{"advice", a})
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", explanation(a), a.worth())
	return err
}

// noFeatures says how the causes of a change are separated, and what re-planning saves.
const noFeatures = "features: not stated; --tables and --features say what of this the features explain, and what re-planning would save"

// explanation is a sentence about live features.
func explanation(a *WatchAdvice) string {
	text := fmt.Sprintf("features: they predict %s for all devices", moreOrLess(a.Shared))
	if len(a.Loaded) > 0 {
		text += fmt.Sprintf("; device %s: the tables have more to do", numbers(a.Loaded))
	}
	if len(a.Slow) > 0 {
		text += fmt.Sprintf("; device %s: not explained by features, the hardware is slow", numbers(a.Slow))
	}
	return text
}

// Watched is the end of a watch: its Summary, and what re-planning would save.
type Watched struct {
	Event string `json:"event"` // "end"
	watch.Summary
	// Faults is the number of lines that were wrong and were passed over.
	Faults int `json:"faults"`
	// Advice is nil if the job was steady, or if no live features were stated.
	Advice *WatchAdvice `json:"advice,omitempty"`
}

// WatchEnd writes the end of a watch, as text or as one JSON object on one line.
func WatchEnd(w io.Writer, s Watched, opt Options, asJSON bool) error {
	s.Event = "end"
	if asJSON {
		return oneLine(w, s)
	}
	p := &printer{w: w, opt: opt}
	p.printf("%s\n", p.paint(bold, verdict(&s)))
	switch {
	case s.Advice != nil:
		p.printf("%s\n%s\n", explanation(s.Advice), s.Advice.worth())
	case s.Outcome != watch.Steady:
		p.printf("%s\n", noFeatures)
	}
	p.fact("looked at", fmt.Sprintf("steps %d to %d: %s", s.First, s.Last, plural(s.Windows, "window")))
	if s.Ready {
		p.fact("reference", fmt.Sprintf("measured %.3g times the predicted time; noise %.2f %%", s.Level, 100*s.Noise))
	}
	p.fact("lines", lineTally(&s))
	p.section("devices, times of the last window")
	var rows [][]string
	for _, d := range s.Devices {
		rows = append(rows, watchedDevice(&d))
	}
	p.grid([]string{"device", "predicted ms", "measured ms", "?wait ms", "?reference", "beside the others", "<state"}, rows)
	if len(s.Memory) > 0 {
		watchedMemory(p, s.Memory)
	}
	return p.err
}

// watchedMemory prints what devices measured of their memory.
func watchedMemory(p *printer, devices []watch.DeviceMemory) {
	p.section("memory, the most of a step; beside the tables: the dense part, and all else that the plan does not count")
	var rows [][]string
	for i := range devices {
		d := &devices[i]
		rows = append(rows, []string{
			fmt.Sprint(d.Device), d.Held.String(), d.Start.String(), d.Buffers.String(), (d.Peak - d.Start).String(), d.Beside().String(),
			percent(float64(d.Reserved-d.Peak), float64(d.Peak-d.Start)), strings.ReplaceAll(string(d.Differs), "_", " "),
		})
	}
	p.grid([]string{"device", "held, counted", "at the start", "buffers, counted", "above the start", "beside the tables", "allocator", "<differs"}, rows)
}

// verdict is the first line of the end of a watch.
func verdict(s *Watched) string {
	if !s.Ready {
		return "steady so far: there are too few windows to find a change"
	}
	if s.Outcome == watch.Slow {
		text := "slow: "
		for i, d := range slowDevices(&s.Summary) {
			if i > 0 {
				text += ", "
			}
			text += fmt.Sprintf("device %d takes %s", d.Device, moreOrLess(d.Change))
		}
		if text == "slow: " {
			return "slow: a device was slow for a while"
		}
		return text + " beside the others than in the reference"
	}
	if s.Outcome == watch.Drift && s.Advice != nil && len(s.Advice.Loaded) > 0 {
		return fmt.Sprintf("drift: the tables of device %s have more to do than in the reference", numbers(s.Advice.Loaded))
	}
	if s.Outcome == watch.Drift {
		if math.Abs(s.Change) > 0 {
			return "drift: the devices take " + moreOrLess(s.Change) + " than in the reference"
		}
		return "drift: the load changed for a while, or for single devices"
	}
	return "steady"
}

// moreOrLess words a change: "5.1 % more time".
func moreOrLess(change float64) string {
	if change < 0 {
		return fmt.Sprintf("%.1f %% less time", -100*change)
	}
	return fmt.Sprintf("%.1f %% more time", 100*change)
}

func slowDevices(s *watch.Summary) (slow []watch.DeviceSummary) {
	for _, d := range s.Devices {
		if d.Slow {
			slow = append(slow, d)
		}
	}
	return slow
}

func lineTally(s *Watched) string {
	text := count(int64(s.Tally.Lines))
	for _, of := range []struct {
		n    int
		what string
	}{
		{s.Faults, "wrong"},
		{s.Tally.Repeated, "repeated"},
		{s.Tally.Stray, "out of place"},
		{s.Tally.Idle, "of devices without work"},
	} {
		if of.n > 0 {
			text += fmt.Sprintf(", %s %s", count(int64(of.n)), of.what)
		}
	}
	if s.Tally.Thin > 0 {
		text += fmt.Sprintf("; %s with too few lines", plural(s.Tally.Thin, "window"))
	}
	return text
}

func watchedDevice(d *watch.DeviceSummary) []string {
	number := func(v float64, format string) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	state := ""
	switch {
	case d.Predicted == 0:
		state = "no work"
	case d.Slow:
		state = "slow"
	case d.Vanished:
		state = "sends no lines"
	}
	return []string{
		fmt.Sprint(d.Device), number(float64(d.Predicted), "%.3f"), number(float64(d.Measured), "%.3f"), number(float64(d.Wait), "%.3f"),
		number(d.Level, "%.3f"), unsigned(fmt.Sprintf("%+.1f", 100*d.Change)) + " %", state,
	}
}
