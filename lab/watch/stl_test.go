package watch_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/neuroshard/neuroshard/lab/watch"
)

// TestDecompose compares decompositions with those of statsmodels (testdata/stl.py).
func TestDecompose(t *testing.T) {
	text, err := os.ReadFile("testdata/stl.json")
	if err != nil {
		t.Fatal(err)
	}
	var known struct {
		Period int
		Series []float64
		Cases  []struct {
			Name          string
			Window        int `json:"seasonal_window"`
			Trend         int `json:"trend_window"`
			LowPass       int `json:"low_pass_window"`
			Degree, Outer int
			Seasonal      []float64
			TrendPart     []float64 `json:"trend"`
		}
	}
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	if len(known.Cases) != 4 {
		t.Fatalf("got %d cases, want 4", len(known.Cases))
	}
	for _, c := range known.Cases {
		stl := watch.STL{Period: known.Period, Seasonal: c.Window, Trend: c.Trend, LowPass: c.LowPass, SeasonalDegree: c.Degree, Outer: c.Outer}
		seasonal, trend, err := stl.Decompose(known.Series)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for i := range known.Series {
			if math.Abs(seasonal[i]-c.Seasonal[i]) > 1e-8 || math.Abs(trend[i]-c.TrendPart[i]) > 1e-8 {
				t.Errorf("%s: value %d: got seasonal %v and trend %v, want %v and %v", c.Name, i, seasonal[i], trend[i], c.Seasonal[i], c.TrendPart[i])
				break
			}
		}
	}
}

// TestDecomposePeriodic wants a profile that repeats itself out of a line plus such a profile.
func TestDecomposePeriodic(t *testing.T) {
	profile := []float64{3, -1, 0, -2}
	var y []float64
	for i := range 40 {
		y = append(y, 5+0.1*float64(i)+profile[i%4])
	}
	seasonal, trend, err := watch.STL{Period: 4, Periodic: true, Outer: 2}.Decompose(y)
	if err != nil {
		t.Fatal(err)
	}
	for i := range y {
		if math.Abs(seasonal[i]-profile[i%4]) > 0.05 || math.Abs(trend[i]-5-0.1*float64(i)) > 0.05 {
			t.Errorf("value %d: got seasonal %.3f and trend %.3f, want %v and %.3f", i, seasonal[i], trend[i], profile[i%4], 5+0.1*float64(i))
		}
		if i >= 4 && seasonal[i] != seasonal[i-4] {
			t.Errorf("value %d: got seasonal %v, want that of the period before, %v", i, seasonal[i], seasonal[i-4])
		}
	}
}

func TestDecomposeRefuses(t *testing.T) {
	for name, stl := range map[string]watch.STL{"period": {Period: 1}, "short": {Period: 11}, "even": {Period: 5, Trend: 4}} {
		if _, _, err := stl.Decompose(make([]float64, 20)); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
