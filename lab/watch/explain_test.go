package watch_test

import (
	"math"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/lab/watch"
	"github.com/neuroshard/neuroshard/unit"
)

func TestExplain(t *testing.T) {
	planned := []unit.Millis{1, 2, 0, 4, 5}
	for _, c := range []struct {
		name    string
		found   watch.Summary
		live    []unit.Millis
		shared  float64
		own3    float64
		drift   bool
		slow    []int
		loaded  []int
		outcome watch.Outcome
	}{
		{"the features are the same", summaryOf(0, 0, watch.Steady), planned, 0, 0, false, nil, nil, watch.Steady},
		{"a drift that they predict", summaryOf(0.2, 0, watch.Drift), []unit.Millis{1.1, 2.2, 0, 4.4, 5.5}, 0.1, 0, true, nil, nil, watch.Drift},
		{"a drift the other way", summaryOf(0.2, 0, watch.Drift), []unit.Millis{0.9, 1.8, 0, 3.6, 4.5}, -0.1, 0, false, nil, nil, watch.Drift},
		{"a slow device", summaryOf(0, 0.3, watch.Slow), planned, 0, 0, false, []int{3}, nil, watch.Slow},
		{"a device with more to do", summaryOf(0, 0.3, watch.Slow), []unit.Millis{1, 2, 0, 5, 5}, 0, 0.25, false, nil, []int{3}, watch.Drift},
		{"a slow device with a little more to do", summaryOf(0, 0.3, watch.Slow), []unit.Millis{1, 2, 0, 4.4, 5}, 0, 0.1, false, []int{3}, nil, watch.Slow},
	} {
		e, outcome := watch.Explain(&c.found, planned, c.live)
		if math.Abs(e.Shared-c.shared) > 1e-9 || math.Abs(e.Own[3]-c.own3) > 1e-9 || e.Own[2] != 0 || e.Drift != c.drift ||
			!slices.Equal(e.Slow, c.slow) || !slices.Equal(e.Loaded, c.loaded) || outcome != c.outcome {
			t.Errorf("%s: got %+v and outcome %s, want %+v", c.name, e, outcome, c)
		}
	}
}

// summaryOf returns the summary of 5 devices with a shared change, and an own change of device 3.
func summaryOf(shared, own3 float64, outcome watch.Outcome) watch.Summary {
	s := watch.Summary{Outcome: outcome, Change: shared, Devices: make([]watch.DeviceSummary, 5)}
	s.Devices[3].Change, s.Devices[3].Slow = own3, own3 > 0
	return s
}
