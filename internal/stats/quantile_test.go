package stats_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/internal/stats"
)

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for share, want := range map[float64]float64{0: 1, .25: 1.75, .5: 2.5, 1: 4} {
		if got := stats.Quantile(values, share); got != want {
			t.Errorf("%v: got %v, want %v", share, got, want)
		}
	}
	if got := stats.Median([]float64{7}); got != 7 {
		t.Errorf("one value: got %v, want 7", got)
	}
	if values[0] != 4 {
		t.Errorf("got %v: the values are sorted, want them as they were", values)
	}
}
