package main

import (
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/search"
)

func TestTable(t *testing.T) {
	of := func(method search.Method, setting string, ratio float64) bench.Summary {
		return bench.Summary{Setting: setting, Method: method, Against: &bench.Against{Reference: whole, Ratio: bench.Interval{Mean: ratio, Low: ratio - .1, High: ratio + .1}}}
	}
	var b strings.Builder
	err := print(&b, []bench.Summary{of(whole, "a", 1), of("5", "a", 1.25), of(whole, "b", 1), {Setting: "b", Method: "5"}}, map[search.Method]modelfile.Card{
		whole: {ComputeSamples: 1000, CommSamples: 80, Epochs: 30, Compute: modelfile.Errors{Mean: .5}},
		"5":   {ComputeSamples: 50, CommSamples: 10, Epochs: 300, Compute: modelfile.Errors{Mean: 2.25}},
	})
	want := `| samples, % | groups | all-to-alls | passes | errors, % | a | b |
|--:|--:|--:|--:|--:|--:|--:|
| 100 | 1000 | 80 | 30 | 0.50 | 1.000 (0.900-1.100) | 1.000 (0.900-1.100) |
| 5 | 50 | 10 | 300 | 2.25 | 1.250 (1.150-1.350) | none |
`
	if err != nil || b.String() != want {
		t.Errorf("got error %v and\n%s, want\n%s", err, b.String(), want)
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		shares, profile, want string
		count                 int
	}{
		{"100", "a100-80", `-shares: "100"`, 1},
		{"0.1", "a100-80", `-shares: "0.1"`, 1},
		{"10,x", "a100-80", `-shares: "x"`, 1},
		{"10", "a1000", "a1000", 1},
	} {
		if err := run(&strings.Builder{}, c.shares, c.profile, c.count, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got error %v, want %q in it", c, err, c.want)
		}
	}
}
