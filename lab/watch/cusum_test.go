package watch_test

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/lab/watch"
)

// TestCUSUM is computed by hand: of 7 values the median is 10 and the median distance 1. The
// standard deviation is 1.4826 (1 + 1/sqrt 7) = 2.0430, and the allowance 0.5 + 1.2533/sqrt 7 =
// 0.9737. Each value of 13 adds 3/2.0430 - 0.9737 = 0.4947 to the upper sum, which exceeds 5
// with the eleventh.
func TestCUSUM(t *testing.T) {
	for _, sign := range []float64{1, -1} {
		c := watch.CUSUM{Allowance: 0.5, Threshold: 5, Floor: 0.001, Reference: 7}
		c.Learn([]float64{9, 10, 11, 9, 11, 10, 12})
		if c.Level() != 10 || math.Abs(c.Sigma()-2.0430) > 1e-4 {
			t.Fatalf("got level %v and deviation %v, want 10 and 2.0430", c.Level(), c.Sigma())
		}
		for i := range 11 {
			alarm := c.Add(10 + 3*sign)
			if i < 10 && alarm != nil {
				t.Fatalf("value %d: got an alarm, want none before the eleventh", i)
			}
			if i == 10 && (alarm == nil || alarm.Shift != 3*sign || alarm.Values != 11) {
				t.Fatalf("got alarm %+v, want a shift of %v since 11 values", alarm, 3*sign)
			}
		}
		if want := 10 + 3*sign; c.Level() != want {
			t.Errorf("got level %v after an alarm, want %v", c.Level(), want)
		}
	}
}

// TestCUSUMAllowance wants no alarm from a change of exactly the allowance, and none from two
// wild values: each counts as 4 standard deviations, 3.5 after the allowance.
func TestCUSUMAllowance(t *testing.T) {
	c := watch.CUSUM{Allowance: 0.5, Threshold: 8, Floor: 1, Reference: 3}
	c.Learn([]float64{0, 0, 0})
	for range 1000 {
		if c.Add(0.5) != nil {
			t.Fatal("got an alarm from a change of the allowance")
		}
	}
	for i, want := range []bool{false, false, true} {
		if got := c.Add(1e9) != nil; got != want {
			t.Fatalf("wild value %d: got alarm %v, want %v", i+1, got, want)
		}
	}
}

// TestCUSUMGoesOn wants a second change that comes soon after the first to be found.
func TestCUSUMGoesOn(t *testing.T) {
	c := watch.CUSUM{Allowance: 0.5, Threshold: 10, Floor: 1, Reference: 30}
	var shifts []float64
	for i := range 60 {
		x := 0.0
		switch {
		case i >= 45:
			x = 30
		case i >= 40:
			x = 5
		}
		if alarm := c.Add(x); alarm != nil {
			shifts = append(shifts, alarm.Shift)
		}
	}
	if len(shifts) != 2 || shifts[0] != 5 || shifts[1] != 25 {
		t.Errorf("got shifts %v, want 5 and 25", shifts)
	}
}

// TestCUSUMLearns wants the level from the first values, and a new level after an alarm.
func TestCUSUMLearns(t *testing.T) {
	c := watch.CUSUM{Allowance: 0.5, Threshold: 4, Floor: 0.1, Reference: 4}
	alarms := 0
	for i := range 100 {
		x := float64(i % 2) // level 0.5, deviation 0.5
		if i >= 50 {
			x += 10
		}
		if c.Add(x) != nil {
			alarms++
		}
	}
	if alarms != 1 || c.Level() != 10.5 {
		t.Errorf("got %d alarms and level %v, want 1 and 10.5", alarms, c.Level())
	}
}
