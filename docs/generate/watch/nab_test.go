package main

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/neuroshard/neuroshard/lab/watch"
)

// TestNormalised scores one window by hand: of 10 values, the first does not count, and the
// window is the fourth to the seventh. A detection at its start has y = -1 and is worth 1. One
// at its end has y = -1/4: s(-1/4) / s(-1) = 0.55460 / 0.98661 = 0.56213. One at the value after
// it has y = 1/3, and costs 0.11 x 0.68227 = 0.07505.
func TestNormalised(t *testing.T) {
	series := labelled{values: make([]float64, 10), windows: [][2]int{{3, 6}}}
	for _, c := range []struct {
		name     string
		detected []int
		want     float64
	}{
		{"nothing", nil, 0},
		{"perfect", []int{3}, 100},
		{"late", []int{6}, 100 * (0.56213 + 1) / 2},
		{"early and late", []int{3, 6}, 100},
		{"perfect, and a false alarm after it", []int{3, 7}, 100 * (2 - 0.07505) / 2},
		{"perfect, and a false alarm before it", []int{2, 3}, 100 * (2 - 0.11) / 2},
		{"in the values that do not count", []int{0}, 0},
	} {
		scores := make([]float64, 10)
		for _, i := range c.detected {
			scores[i] = 1
		}
		got, _ := normalised(series.points(scores, &profiles[0], 0), 1, &profiles[0])
		if math.Abs(got-c.want) > 0.001 {
			t.Errorf("%s: got %.4f, want %.4f", c.name, got, c.want)
		}
	}
}

// TestReadNAB reads series and windows in the benchmark's form.
func TestReadNAB(t *testing.T) {
	folder := fstest.MapFS{
		"labels/combined_windows.json": {Data: []byte(`{"a/b.csv": [["2014-04-10 07:15:00.000000", "2014-04-10 07:20:00.000000"]]}`)},
		"data/a/b.csv":                 {Data: []byte("timestamp,value\n2014-04-10 07:10:00,1\n2014-04-10 07:15:00,2.5\n2014-04-10 07:20:00,3\n")},
	}
	all, err := readNAB(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || len(all[0].values) != 3 || all[0].values[1] != 2.5 || len(all[0].windows) != 1 || all[0].windows[0] != [2]int{1, 2} {
		t.Errorf("got %+v, want 3 values and a window of the last two", all)
	}
}

// TestStream wants a stream's change to be found, and a quiet stream to stay quiet.
func TestStream(t *testing.T) {
	s := stream{noise: noises[1], devices: 4, steps: 8000, change: 6050, factor: 1.1, slow: 1}
	if got := s.delay(2, watch.TopicSlow, watch.Options{}); got != "250 / 250" {
		t.Errorf("got a delay of %s, want 250 / 250", got)
	}
	s.slow = 0
	if drifts, slow := s.falseAlarms(2, watch.Options{}); drifts != 0 || slow != 0 {
		t.Errorf("got %v and %v false alarms, want none", drifts, slow)
	}
}
