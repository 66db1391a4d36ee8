package problem_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// A hierarchical exchange names each number that is out of range, and a flat one has none.
func TestHierarchy(t *testing.T) {
	if h := (problem.Hierarchy{}); h.On() || h.Check() != nil {
		t.Errorf("got %v, %v, want a flat exchange without a fault", h.On(), h.Check())
	}
	if h := (problem.Hierarchy{Sent: .2, Inside: 1, Between: 2, Latency: .06}); !h.On() || h.Check() != nil {
		t.Errorf("got %v, %v, want a hierarchical exchange without a fault", h.On(), h.Check())
	}
	for _, h := range []problem.Hierarchy{
		{Sent: 1, Inside: 1e-320, Between: 1}, {Sent: 1, Inside: 1, Between: 1e308}, {Sent: 1, Inside: 1, Between: 1, Latency: 1e308},
	} {
		if h.Check() == nil {
			t.Errorf("got no fault of %+v, whose exchanges take no finite time", h)
		}
	}
	p := problem.Problem{Hierarchy: problem.Hierarchy{Sent: 1.5, Between: math.NaN(), Latency: unit.Millis(math.Inf(1))}}
	err := p.Validate()
	var invalid *problem.Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want an invalid problem", err)
	}
	for _, want := range []string{"travel: 1.5", "inside hosts: 0 is", "between hosts: NaN", "latency: +Inf"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
