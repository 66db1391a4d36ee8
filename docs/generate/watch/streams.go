package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/neuroshard/neuroshard/lab/watch"
	"github.com/neuroshard/neuroshard/unit"
)

// streams.go makes streams of lines with changes whose place and size are known, and counts how
// soon a watch finds them and how often it finds what is not there.

// noise is how the steps of a job vary.
type noise struct {
	name string
	// step is the standard deviation of single steps, as a share. tail is the share of steps
	// that take tailTimes as long: garbage collection. save is the number of steps, of each
	// thousand, that take ten times as long on all devices: a checkpoint.
	step, tail float64
	save       int
	// wander is the standard deviation of a slow change of each device's speed, which forgets
	// itself within about ten windows.
	wander float64
}

const tailTimes = 5

var noises = []noise{
	{name: "normal, 3 % a step", step: 0.03},
	{name: "the same, 1 % of steps take 5 x, 20 steps in 1,000 take 10 x", step: 0.03, tail: 0.01, save: 20},
	{name: "normal, 20 % a step, with these tails", step: 0.2, tail: 0.01, save: 20},
	{name: "normal, 3 % a step, and each device wanders by 0.3 %", step: 0.03, wander: 0.003},
}

// stream is a job with one change.
type stream struct {
	noise
	devices int
	steps   int64
	// From step change on, the devices whose number is below slow take factor times as long.
	change int64
	factor float64
	slow   int
	// season is the number of steps of a season, and swing its range, as a share.
	season int64
	swing  float64
}

// watched returns the events of a stream, watched with its season.
func (s *stream) watched(seed uint64, opt watch.Options) []watch.Event {
	return s.run(seed, opt, int(s.season))
}

// run returns the events of a stream, watched with the given season.
func (s *stream) run(seed uint64, opt watch.Options, season int) []watch.Event {
	random := rand.New(rand.NewPCG(seed, 17))
	predicted := make([]unit.Millis, s.devices)
	for d := range predicted {
		predicted[d] = 1
	}
	opt.Season = season
	w, err := watch.New(predicted, opt)
	if err != nil {
		panic("watch: " + err.Error())
	}
	var events []watch.Event
	speed := make([]float64, s.devices)
	for step := range s.steps {
		if s.wander > 0 && step%100 == 0 {
			const keep = 0.9
			for d := range speed {
				speed[d] = keep*speed[d] + math.Sqrt(1-keep*keep)*s.wander*random.NormFloat64()
			}
		}
		load := 1.0
		if s.season > 0 {
			load += s.swing / 2 * math.Sin(2*math.Pi*float64(step)/float64(s.season))
		}
		if step%1000 < int64(s.save) {
			load *= 10
		}
		for d := range predicted {
			busy := load * (1 + speed[d]) * math.Max(0.1, 1+s.step*random.NormFloat64())
			if s.tail > 0 && random.Float64() < s.tail {
				busy *= tailTimes
			}
			if step >= s.change && d < s.slow {
				busy *= s.factor
			}
			events = append(events, w.Add(watch.Line{Step: step, Device: d, Forward: unit.Millis(busy)})...)
		}
	}
	return append(events, w.End()...)
}

// each runs a function for seeds 1 to n, two at a time.
func each(n int, run func(seed uint64)) {
	var wait sync.WaitGroup
	for first := range 2 {
		wait.Go(func() {
			for i := first; i < n; i += 2 {
				run(uint64(i + 1))
			}
		})
	}
	wait.Wait()
}

// falseAlarms returns the alarms for each million steps of a stream without a change.
func (s stream) falseAlarms(streams int, opt watch.Options) (drifts, slow float64) {
	found := make([][2]int, streams)
	each(streams, func(seed uint64) {
		for _, e := range s.watched(seed, opt) {
			switch e.Topic {
			case watch.TopicDrift:
				found[seed-1][0]++
			case watch.TopicSlow:
				found[seed-1][1]++
			}
		}
	})
	for _, f := range found {
		drifts, slow = drifts+float64(f[0]), slow+float64(f[1])
	}
	millions := float64(s.steps) * float64(streams) / 1e6
	return drifts / millions, slow / millions
}

// delay returns, in words, the median and the 95th percentile of the steps from a change to the
// event that reports it.
func (s stream) delay(streams int, topic watch.Topic, opt watch.Options) string {
	found := make([]int64, streams)
	each(streams, func(seed uint64) {
		found[seed-1] = math.MaxInt64
		for _, e := range s.watched(seed, opt) {
			if e.Topic == topic && e.Step >= s.change {
				found[seed-1] = e.Step + 1 - s.change
				return
			}
		}
	})
	slices.Sort(found)
	words := func(share float64) string {
		at := found[min(streams-1, int(share*float64(streams)))]
		if at == math.MaxInt64 {
			return "not found"
		}
		return thousands(at)
	}
	return words(0.5) + " / " + words(0.95)
}

// thousands writes a number with commas.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// changes are the sizes of the changes.
var changes = []float64{1.02, 1.05, 1.10}

// effort is how much is simulated.
type effort struct {
	// alarms streams of alarmSteps steps count false alarms; delays streams count delays.
	alarms     int
	alarmSteps int64
	delays     int
}

// table returns the tables of the streams.
func table(of effort) string {
	const devices = 8
	var b strings.Builder
	fmt.Fprintf(&b, "%d devices. False alarms: %d streams of %s steps without a change. Delays: median / 95th percentile of %d streams, in steps; a change at step 6,050.\n\n", devices, of.alarms, thousands(of.alarmSteps), of.delays)
	b.WriteString("| noise | threshold | false drifts, of 1 M steps | false slow devices, of 1 M steps | drift 2 % | drift 5 % | drift 10 % | slow 2 % | slow 5 % | slow 10 % |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, n := range noises {
		for _, threshold := range []float64{8, 10} {
			opt := watch.Options{Threshold: threshold}
			quiet := stream{noise: n, devices: devices, steps: of.alarmSteps}
			drifts, slow := quiet.falseAlarms(of.alarms, opt)
			fmt.Fprintf(&b, "| %s | %v | %.2f | %.2f |", n.name, threshold, drifts, slow)
			for _, of2 := range []struct {
				slow  int
				topic watch.Topic
			}{{devices, watch.TopicDrift}, {1, watch.TopicSlow}} {
				for _, factor := range changes {
					s := stream{noise: n, devices: devices, steps: 16_000, change: 6050, factor: factor, slow: of2.slow}
					fmt.Fprintf(&b, " %s |", s.delay(of.delays, of2.topic, opt))
				}
			}
			b.WriteString("\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// seasons returns the table of streams with seasons.
func seasons(of effort) string {
	const devices, season = 4, 86_400
	var b strings.Builder
	fmt.Fprintf(&b, "%d devices, steps of one second, a day of 86,400 steps, noise of 3 %% a step with tails as above; threshold 10. False alarms: %d streams of 8 days, after the first two. Delays: %d streams, a change in the fourth day.\n\n", devices, of.delays/5, of.delays/5)
	b.WriteString("| range of the day | watched with | false drifts, of 1 M steps | unusual, of 1 M steps | drift 2 % | drift 5 % | drift 10 % |\n|---|---|--:|--:|--:|--:|--:|\n")
	for _, swing := range []float64{0.1, 0.3} {
		for _, name := range []string{"`--season 86400`", "`--season -1`"} {
			s := stream{noise: noises[1], devices: devices, season: season, swing: swing, steps: 8 * season}
			opt := watch.Options{}
			run := s.watched
			if name == "`--season -1`" {
				run = s.without
			}
			drifts, unusual := 0.0, 0.0
			found := make([][2]float64, of.delays/5)
			each(len(found), func(seed uint64) {
				for _, e := range run(seed, opt) {
					switch {
					case e.Step < 2*season:
					case e.Topic == watch.TopicDrift || e.Topic == watch.TopicEnded:
						found[seed-1][0]++
					case e.Topic == watch.TopicUnusual:
						found[seed-1][1]++
					}
				}
			})
			for _, f := range found {
				drifts, unusual = drifts+f[0], unusual+f[1]
			}
			millions := float64(len(found)) * 6 * season / 1e6
			fmt.Fprintf(&b, "| %.0f %% | %s | %.2f | %.2f |", 100*swing, name, drifts/millions, unusual/millions)
			for _, factor := range changes {
				if name == "`--season -1`" {
					b.WriteString(" - |")
					continue
				}
				changed := s
				changed.steps, changed.change, changed.factor, changed.slow = 4*season, 3*season+20_000, factor, devices
				fmt.Fprintf(&b, " %s |", changed.delay(len(found), watch.TopicDrift, opt))
			}
			b.WriteString("\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// without is watched without removing the season.
func (s *stream) without(seed uint64, opt watch.Options) []watch.Event {
	return s.run(seed, opt, -1)
}
