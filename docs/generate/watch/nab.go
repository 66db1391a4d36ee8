package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/neuroshard/neuroshard/lab/watch"
)

// nab.go scores detectors on the labelled series of the Numenta Anomaly Benchmark, version 1.1,
// by the benchmark's formula (A. Lavin, S. Ahmad, Evaluating Real-time Anomaly Detection
// Algorithms, ICMLA 2015, section II). The series and labels are read from a copy of
// github.com/numenta/NAB; nothing of it is in this repository.
//
// A detection at place y relative to the end of a window of labels, in widths of the window
// (-1 is its start), is worth
//
//	s(y) = 2 / (1 + exp(5 y)) - 1
//
// Of each window the best detection counts, as a share of s(-1); a window without one costs the
// weight of a miss. Detections outside of windows cost the weight of a false alarm times -s of
// their distance from the last window before, in its widths, at most 1. The first 15 % of a
// series, at most 750 values, do not count. The score is normalised: 0 for a detector that
// finds nothing, 100 for a perfect one.

// profile holds the weights of one of the benchmark's profiles.
type profile struct {
	name             string
	alarm, miss      float64
	twitter, windows float64 // published normalised scores of S-H-ESD and the windowed Gaussian
}

var profiles = []profile{
	{"standard", 0.11, 1, 47.1, 39.6},
	{"reward low FP", 0.22, 1, 33.6, 20.9},
	{"reward low FN", 0.11, 2, 53.5, 47.4},
}

// labelled is one series with its windows of labels, as first and last index.
type labelled struct {
	name    string
	values  []float64
	windows [][2]int
}

const (
	probationShare = 0.15
	probationMost  = 750
)

// probation returns the number of values that do not count.
func (l *labelled) probation() int {
	return int(min(math.Floor(probationShare*float64(len(l.values))), probationMost))
}

// point is one value that counts: a detector's score of it, what a detection there is worth, and
// the window that it lies in, -1 outside.
type point struct {
	score, worth float64
	window       int
}

// sigmoid is the benchmark's s.
func sigmoid(y float64) float64 {
	if y > 3 {
		return -1
	}
	return 2/(1+math.Exp(5*y)) - 1
}

// points returns the values of a series that count. first is the number of its first window.
func (l *labelled) points(scores []float64, p *profile, first int) (all []point) {
	window, before := 0, -1
	for i := range l.values {
		for window < len(l.windows) && i > l.windows[window][1] {
			before, window = window, window+1
		}
		at := point{score: scores[i], window: -1}
		switch {
		case window < len(l.windows) && i >= l.windows[window][0]:
			w := l.windows[window]
			width := float64(w[1] - w[0] + 1)
			at.window = first + window
			at.worth = sigmoid(-float64(w[1]-i+1)/width) / sigmoid(-1)
		case before >= 0:
			w := l.windows[before]
			at.worth = p.alarm * sigmoid(float64(i-w[1])/float64(w[1]-w[0]))
		default:
			at.worth = -p.alarm
		}
		if i >= l.probation() {
			all = append(all, at)
		}
	}
	return all
}

// normalised returns the best normalised score of the points over all thresholds, as the
// benchmark chooses the threshold, and that threshold. A score of 0 is no detection.
func normalised(points []point, windows int, p *profile) (best, threshold float64) {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b point) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	reached := map[int]float64{}
	null := -p.miss * float64(windows)
	total, alarms := null, 0.0
	best, threshold = null, math.Inf(1)
	for i, at := range points {
		if at.score <= 0 {
			break
		}
		if at.window < 0 {
			alarms += at.worth
		} else if old, found := reached[at.window]; !found || at.worth > old {
			if !found {
				old = -p.miss
			}
			total += max(0, at.worth-old)
			reached[at.window] = max(old, at.worth)
		}
		if i+1 == len(points) || points[i+1].score != at.score {
			if score := total + alarms; score > best {
				best, threshold = score, at.score
			}
		}
	}
	return 100 * (best - null) / (float64(windows) - null), threshold
}

// readNAB reads the series and windows of a copy of the benchmark.
func readNAB(folder fs.FS) ([]labelled, error) {
	text, err := fs.ReadFile(folder, "labels/combined_windows.json")
	if err != nil {
		return nil, err
	}
	var windows map[string][][2]string
	if err := json.Unmarshal(text, &windows); err != nil {
		return nil, err
	}
	var all []labelled
	for _, name := range slices.Sorted(maps.Keys(windows)) {
		l := labelled{name: name}
		times, err := l.read(folder)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, w := range windows[name] {
			first, last := slices.Index(times, w[0]), slices.Index(times, w[1])
			if first < 0 || last < first {
				return nil, fmt.Errorf("%s: no values at the times of the window %v", name, w)
			}
			l.windows = append(l.windows, [2]int{first, last})
		}
		all = append(all, l)
	}
	return all, nil
}

// read reads the values, and returns their times in the form of the windows.
func (l *labelled) read(folder fs.FS) (times []string, err error) {
	f, err := folder.Open("data/" + l.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) < 2 || len(rows[0]) != 2 {
		return nil, errors.New("want the columns timestamp and value")
	}
	for _, row := range rows[1:] {
		v, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			return nil, err
		}
		at, err := time.Parse("2006-01-02 15:04:05", strings.TrimSpace(row[0]))
		if err != nil {
			return nil, err
		}
		times = append(times, at.Format("2006-01-02 15:04:05.000000"))
		l.values = append(l.values, v)
	}
	return times, nil
}

// detector gives each value of a series a score: the higher, the more unusual.
type detector struct {
	name   string
	scores func(l *labelled) []float64
}

var detectors = []detector{
	{"S-H-ESD of `lab/watch`, period 150, at most 0.2 % of values, alpha 0.05", seasonalHybrid},
	{"CUSUM of `lab/watch` on single values, z cut at 4, threshold 10, after the probation", cumulative},
	{"windowed Gaussian, written again from its description", gaussian},
}

// The parameters with which the benchmark ran S-H-ESD (its detectors/twitter/README).
const (
	nabPeriod = 150
	nabMost   = 0.002
	nabAlpha  = 0.05
)

// seasonalHybrid is S-H-ESD over a whole series: it looks ahead, as the published one does.
func seasonalHybrid(l *labelled) []float64 {
	scores := make([]float64, len(l.values))
	seasonal, _, err := watch.STL{Period: nabPeriod, Periodic: true, Outer: 15, Inner: 1}.Decompose(l.values)
	if err != nil {
		return scores
	}
	rest := make([]float64, len(l.values))
	for i, v := range l.values {
		rest[i] = v - seasonal[i]
	}
	// The published one looks in both directions: half of alpha for each.
	outliers, _, _ := watch.ESD{Most: int(nabMost * float64(len(rest))), Alpha: nabAlpha / 2}.Outliers(rest)
	for _, i := range outliers {
		scores[i] = 1
	}
	return scores
}

// cumulative is the CUSUM of a watch, which looks at each value once.
func cumulative(l *labelled) []float64 {
	scores := make([]float64, len(l.values))
	c := watch.CUSUM{Allowance: 0.5, Threshold: 10, Floor: 1e-9, Reference: max(4, l.probation())}
	for i, v := range l.values {
		if c.Add(v) != nil {
			scores[i] = 1
		}
	}
	return scores
}

// gaussian scores a value by the tail of a normal distribution of 6,400 values before it, moved
// by 100 values at a time.
func gaussian(l *labelled) []float64 {
	const window, step = 6400, 100
	scores := make([]float64, len(l.values))
	var seen, next []float64
	mean, deviation := 0.0, 1.0
	for i, v := range l.values {
		if len(seen) > 0 {
			scores[i] = 1 - 0.5*math.Erfc(math.Abs(v-mean)/deviation/math.Sqrt2)
		}
		if len(seen) < window {
			seen = append(seen, v)
		} else if next = append(next, v); len(next) < step {
			continue
		} else {
			seen, next = append(seen[step:], next...), nil
		}
		mean, deviation = stat.PopMeanStdDev(seen, nil)
		if deviation == 0 {
			deviation = 1e-6
		}
	}
	return scores
}

// stored returns a detector whose scores the benchmark's copy holds, which checks the scoring.
func stored(folder fs.FS, name string) detector {
	return detector{"the detections that the benchmark stores of `" + name + "`, scored here", func(l *labelled) []float64 {
		scores := make([]float64, len(l.values))
		category, file, _ := strings.Cut(l.name, "/")
		f, err := folder.Open("results/" + name + "/" + category + "/" + name + "_" + file)
		if err != nil {
			panic("watch: " + err.Error())
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil {
			panic("watch: " + err.Error())
		}
		for i := range scores {
			scores[i], _ = strconv.ParseFloat(rows[i+1][slices.Index(rows[0], "anomaly_score")], 64)
		}
		return scores
	}}
}

// scoreNAB returns a table of normalised scores.
func scoreNAB(all []labelled, detectors []detector) string {
	windows, values := 0, 0
	for i := range all {
		windows += len(all[i].windows)
		values += len(all[i].values)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d series, %d values, %d windows of labels. Scores are normalised.\n\n", len(all), values, windows)
	b.WriteString("| detector | standard | reward low FP | reward low FN |\n|---|--:|--:|--:|\n")
	for _, d := range detectors {
		fmt.Fprintf(&b, "| %s |", d.name)
		scores := make([][]float64, len(all))
		for i := range all {
			scores[i] = d.scores(&all[i])
		}
		for k := range profiles {
			var points []point
			first := 0
			for i := range all {
				points = append(points, all[i].points(scores[i], &profiles[k], first)...)
				first += len(all[i].windows)
			}
			score, _ := normalised(points, windows, &profiles[k])
			fmt.Fprintf(&b, " %.1f |", score)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "| published: Twitter ADVec v1.0.0, which is S-H-ESD |")
	for _, p := range profiles {
		fmt.Fprintf(&b, " %.1f |", p.twitter)
	}
	fmt.Fprintf(&b, "\n| published: windowed Gaussian |")
	for _, p := range profiles {
		fmt.Fprintf(&b, " %.1f |", p.windows)
	}
	return b.String()
}
