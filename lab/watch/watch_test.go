package watch_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/watch"
	"github.com/neuroshard/neuroshard/unit"
)

// job makes lines of a job: devices of different work, noise of 3 % a step, and one step in a
// hundred that takes five times as long.
type job struct {
	random    *rand.Rand
	predicted []unit.Millis
}

func newJob(devices int) *job {
	j := &job{random: rand.New(rand.NewPCG(1, uint64(devices)))}
	for d := range devices {
		j.predicted = append(j.predicted, unit.Millis(1+0.1*float64(d)))
	}
	return j
}

// line returns the line of a device in a step that takes factor times as long as usual.
func (j *job) line(step int64, device int, factor float64) watch.Line {
	busy := float64(j.predicted[device]) * 1.2 * factor * (1 + 0.03*j.random.NormFloat64())
	if j.random.IntN(100) == 0 {
		busy *= 5
	}
	return watch.Line{Step: step, Device: device, Forward: unit.Millis(busy / 3), Backward: unit.Millis(busy * 2 / 3), Wait: 0.1}
}

// steps returns the lines of steps from and before to, step by step.
func (j *job) steps(from, to int64, factor func(step int64, device int) float64) (lines []watch.Line) {
	for step := from; step < to; step++ {
		for d := range j.predicted {
			lines = append(lines, j.line(step, d, factor(step, d)))
		}
	}
	return lines
}

func usual(int64, int) float64 { return 1 }

// watched returns the events and the summary of lines.
func watched(t *testing.T, j *job, opt watch.Options, lines []watch.Line) ([]watch.Event, watch.Summary) {
	t.Helper()
	w := must.Get(watch.New(j.predicted, opt))(t)
	var events []watch.Event
	for _, l := range lines {
		events = append(events, w.Add(l)...)
	}
	events = append(events, w.End()...)
	return events, w.Summary()
}

// brief writes events as words.
func brief(events []watch.Event) string {
	var all []string
	for _, e := range events {
		word := string(e.Topic)
		if e.Device != watch.NoDevice {
			word += fmt.Sprint(e.Device)
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

func TestOutcomes(t *testing.T) {
	const change = 5000
	after := func(factor float64, devices ...int) func(int64, int) float64 {
		return func(step int64, device int) float64 {
			if step >= change && (len(devices) == 0 || slices.Contains(devices, device)) {
				return factor
			}
			return 1
		}
	}
	for _, c := range []struct {
		name    string
		devices int
		factor  func(int64, int) float64
		events  string
		outcome watch.Outcome
		change  float64
	}{
		{"steady", 4, usual, "ready", watch.Steady, 0},
		{"2 % more", 4, after(1.02), "ready drift", watch.Drift, 0.02},
		{"5 % less", 4, after(0.95), "ready drift", watch.Drift, -0.05},
		{"10 % more", 8, after(1.10), "ready drift", watch.Drift, 0.10},
		{"device 2 slow", 4, after(1.05, 2), "ready slow2", watch.Slow, 0.05},
		{"device 0 of 2 slow", 2, after(1.05, 0), "ready slow0", watch.Slow, 0.05},
		{"device 1 of 3 faster", 3, after(0.9, 1), "ready drift1", watch.Drift, -0.1},
		{"one device", 1, after(1.05), "ready drift", watch.Drift, 0.05},
		{"devices 1 and 5 of 8 slow", 8, after(1.2, 1, 5), "ready slow1 slow5", watch.Slow, 0.2},
		{"less than is reported", 4, after(1.005), "ready", watch.Steady, 0},
	} {
		j := newJob(c.devices)
		events, s := watched(t, j, watch.Options{}, j.steps(0, 10_000, c.factor))
		if got := brief(events); got != c.events || s.Outcome != c.outcome {
			t.Errorf("%s: got %s, outcome %s, want %s, %s", c.name, got, s.Outcome, c.events, c.outcome)
			continue
		}
		for _, e := range events[1:] {
			if math.Abs(e.Change-c.change) > 0.01 || e.Since < change-300 || e.Since > change+300 || e.Step > change+2000 {
				t.Errorf("%s: got %+v, want a change of %v at step %d", c.name, e, c.change, change)
			}
		}
		if math.Abs(s.Level-1.2) > 0.01 || !s.Ready || s.Windows != 100 || s.Last != 9999 {
			t.Errorf("%s: got level %v, ready %v, %d windows to step %d, want 1.2, true, 100, 9999", c.name, s.Level, s.Ready, s.Windows, s.Last)
		}
	}
}

// TestEnded wants a device that recovers to be reported, and to count for the outcome.
func TestEnded(t *testing.T) {
	j := newJob(4)
	events, s := watched(t, j, watch.Options{}, j.steps(0, 16_000, func(step int64, device int) float64 {
		if device == 3 && step >= 5000 && step < 10_000 {
			return 1.3
		}
		return 1
	}))
	if got, want := brief(events), "ready slow3 ended3"; got != want || s.Outcome != watch.Slow || s.Devices[3].Slow {
		t.Errorf("got %s, outcome %s, want %s, slow, and device 3 not slow any more", got, s.Outcome, want)
	}
}

// TestNoise wants no alarm from noise alone, and each change of 2 % to be found within 15 windows.
func TestNoise(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	predicted := slices.Repeat([]unit.Millis{1}, 64)
	w := must.Get(watch.New(predicted, watch.Options{Window: 1}))(t)
	found := map[int]bool{}
	for step := range int64(1016) {
		for d := range predicted {
			busy := 1 + 0.004*random.NormFloat64()
			if step >= 1000 && d%8 == 0 {
				busy *= 1.02
			}
			for _, e := range w.Add(watch.Line{Step: step, Device: d, Forward: unit.Millis(busy)}) {
				if e.Topic == watch.TopicReady {
					continue
				}
				if found[e.Device] = true; e.Topic != watch.TopicSlow || e.Device%8 != 0 || step < 1000 {
					t.Errorf("got %+v", e)
				}
			}
		}
	}
	if len(found) != 8 {
		t.Errorf("found %d of 8 slow devices", len(found))
	}
}

// TestOrder wants the same events if the lines of windows are shuffled, and if they come one
// device after the other.
func TestOrder(t *testing.T) {
	j := newJob(3)
	lines := j.steps(0, 8000, func(step int64, device int) float64 {
		if step >= 5000 && device == 1 {
			return 1.1
		}
		return 1
	})
	want, _ := watched(t, j, watch.Options{}, lines)
	shuffled := slices.Clone(lines)
	for at := 0; at+300 <= len(shuffled); at += 300 { // 100 steps of 3 devices
		window := shuffled[at : at+300]
		j.random.Shuffle(300, func(a, b int) { window[a], window[b] = window[b], window[a] })
	}
	byDevice := slices.Clone(lines)
	slices.SortStableFunc(byDevice, func(a, b watch.Line) int { return a.Device - b.Device })
	for name, other := range map[string][]watch.Line{"shuffled": shuffled, "by device": byDevice} {
		got, _ := watched(t, j, watch.Options{Lag: 1000}, other)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestStreams is the conformance of streams: what is wrong with one, and what is said of it.
func TestStreams(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines func(j *job) []watch.Line
		// events is what is wanted, and tally the tally without Lines.
		events string
		tally  watch.Tally
	}{
		{"repeated lines", func(j *job) []watch.Line {
			lines := j.steps(0, 4000, usual)
			return append(lines[:len(lines):len(lines)], lines[len(lines)-30:]...)
		}, "ready", watch.Tally{Repeated: 30}},
		{"every tenth step", func(j *job) (lines []watch.Line) {
			for _, l := range j.steps(0, 4000, usual) {
				if l.Step%10 == 0 {
					lines = append(lines, l)
				}
			}
			return lines
		}, "ready", watch.Tally{}},
		{"a hole", func(j *job) []watch.Line {
			return append(j.steps(0, 4000, usual), j.steps(9000, 12_000, usual)...)
		}, "ready hole", watch.Tally{}},
		{"a thin window", func(j *job) []watch.Line {
			return append(j.steps(0, 4030, usual), j.steps(4100, 6000, usual)...)
		}, "ready", watch.Tally{Thin: 3}},
		{"a restart", func(j *job) []watch.Line {
			return append(j.steps(0, 4000, usual), j.steps(1000, 6000, usual)...)
		}, "ready restart", watch.Tally{}},
		{"damaged steps", func(j *job) []watch.Line {
			lines := j.steps(0, 5000, usual)
			for i := 700; i < 10_000; i += 1000 {
				lines[i].Step = int64(i) * 1_000_000_007 % (1 << 50)
			}
			return lines
		}, "ready", watch.Tally{Stray: 10}},
		{"a device that vanishes", func(j *job) (lines []watch.Line) {
			for _, l := range j.steps(0, 8000, usual) {
				if l.Device != 1 || l.Step < 4000 {
					lines = append(lines, l)
				}
			}
			return lines
		}, "ready vanished1", watch.Tally{}},
		{"a device that comes back", func(j *job) (lines []watch.Line) {
			for _, l := range j.steps(0, 9000, usual) {
				if l.Device != 1 || l.Step < 4000 || l.Step >= 7000 {
					lines = append(lines, l)
				}
			}
			return lines
		}, "ready vanished1 appeared1", watch.Tally{}},
		{"a device that comes late, and is slow at last", func(j *job) (lines []watch.Line) {
			for _, l := range j.steps(0, 15_000, func(step int64, device int) float64 {
				if device == 2 && step >= 12_000 {
					return 1.2
				}
				return 1
			}) {
				if l.Device != 2 || l.Step >= 4000 {
					lines = append(lines, l)
				}
			}
			return lines
		}, "vanished2 ready appeared2 slow2", watch.Tally{}},
		{"a device that is far behind", func(j *job) (lines []watch.Line) {
			lines = j.steps(0, 8000, usual)
			slices.SortStableFunc(lines, func(a, b watch.Line) int {
				when := func(l watch.Line) int64 {
					if l.Device == 0 {
						return l.Step + 900 // 9 windows
					}
					return l.Step
				}
				return int(when(a) - when(b))
			})
			return lines
		}, "ready", watch.Tally{}},
	} {
		j := newJob(3)
		events, s := watched(t, j, watch.Options{}, c.lines(j))
		got := s.Tally
		got.Lines = 0
		if brief(events) != c.events || got != c.tally || s.Outcome == watch.Drift {
			t.Errorf("%s: got %s, %+v, want %s, %+v", c.name, brief(events), got, c.events, c.tally)
		}
	}
}

// TestVanishes wants the first step without a line, also if the device's last windows are open.
func TestVanishes(t *testing.T) {
	j := newJob(3)
	lines := slices.DeleteFunc(j.steps(0, 8000, usual), func(l watch.Line) bool { return l.Device == 1 && l.Step >= 4000 })
	events, _ := watched(t, j, watch.Options{}, lines)
	last := events[len(events)-1]
	if last.Topic != watch.TopicVanished || last.Since != 4000 || last.Step != 4099 {
		t.Errorf("got %+v, want device 1 vanished since step 4000, found at step 4099", last)
	}
}

// TestIdle wants lines of a device without shards to be passed over.
func TestIdle(t *testing.T) {
	j := newJob(3)
	lines := j.steps(0, 4000, usual)
	j.predicted[1] = 0
	events, s := watched(t, j, watch.Options{}, lines)
	if brief(events) != "ready" || s.Tally.Idle != 4000 {
		t.Errorf("got %s and %d idle lines, want ready and 4000", brief(events), s.Tally.Idle)
	}
}

// daily is a load that varies by 20 % within a season of 4,800 steps.
func daily(step int64) float64 {
	return 1.1 + 0.1*math.Sin(2*math.Pi*float64(step)/4800)
}

func TestSeason(t *testing.T) {
	j := newJob(2)
	alike := func(step int64, _ int) float64 { return daily(step) }
	grown := func(step int64, _ int) float64 {
		if step >= 20_000 {
			return 1.1 * daily(step)
		}
		return daily(step)
	}
	short := func(step int64, _ int) float64 {
		if step >= 20_000 && step < 20_200 {
			return 1.2 * daily(step)
		}
		return daily(step)
	}
	for _, c := range []struct {
		name   string
		factor func(int64, int) float64
		events string
	}{
		{"season", alike, "ready season"},
		{"season and drift", grown, "ready season drift"},
		{"season and an unusual time", short, "ready season unusual"},
	} {
		events, s := watched(t, j, watch.Options{Season: 4800}, j.steps(0, 38_400, c.factor))
		if got := brief(events); got != c.events {
			t.Errorf("%s: got %s, want %s: %v", c.name, got, c.events, events)
		}
		if want := strings.HasSuffix(c.events, "drift"); (s.Outcome == watch.Drift) != want {
			t.Errorf("%s: got outcome %s", c.name, s.Outcome)
		}
	}
}

// TestSeasonByTime wants a day to be found in the stated times, and clocks that go back to be
// stated.
func TestSeasonByTime(t *testing.T) {
	j := newJob(2)
	const seconds = 18.0 // 4,800 steps a day
	lines := j.steps(0, 24_000, func(step int64, _ int) float64 { return daily(step) })
	for i := range lines {
		lines[i].Time = 1e9 + seconds*float64(lines[i].Step)
	}
	events, _ := watched(t, j, watch.Options{}, lines)
	seasons, after := 0, 0
	for _, e := range events {
		if e.Topic == watch.TopicSeason {
			seasons++
		} else if seasons > 0 {
			after++
		}
	}
	if seasons != 1 || after != 0 {
		t.Errorf("got %s, want one season, and nothing after it", brief(events))
	}
	for i := range lines {
		if lines[i].Step >= 4000 {
			lines[i].Time -= 1e6
		}
	}
	events, _ = watched(t, j, watch.Options{}, lines)
	clocks := 0
	for _, e := range events {
		if e.Topic == watch.TopicClock {
			clocks++
		}
		if e.Topic == watch.TopicSeason {
			t.Error("got a season by a clock that jumped")
		}
	}
	if clocks != 1 {
		t.Errorf("got %s, want one event of the clock", brief(events))
	}
}

func TestNewRefuses(t *testing.T) {
	one := []unit.Millis{1}
	for name, make := range map[string]func() (*watch.Watcher, error){
		"no work":  func() (*watch.Watcher, error) { return watch.New([]unit.Millis{0, 0}, watch.Options{}) },
		"negative": func() (*watch.Watcher, error) { return watch.New([]unit.Millis{-1}, watch.Options{}) },
		"NaN": func() (*watch.Watcher, error) {
			return watch.New([]unit.Millis{unit.Millis(math.NaN())}, watch.Options{})
		},
		"window":    func() (*watch.Watcher, error) { return watch.New(one, watch.Options{Window: -1}) },
		"threshold": func() (*watch.Watcher, error) { return watch.New(one, watch.Options{Threshold: math.NaN()}) },
		"season":    func() (*watch.Watcher, error) { return watch.New(one, watch.Options{Season: 150}) },
	} {
		if _, err := make(); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
