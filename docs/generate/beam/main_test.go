//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestWaysAreCompared(t *testing.T) {
	var b strings.Builder
	if err := run(&b, "8x2", 2, "50", 1, false, false); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`\| [\d.]+ \|`).ReplaceAllString(b.String(), "| ms |")
	for _, want := range []string{
		"| default | ms | 1.0000 | 1.0000 to 1.0000 |\n",
		"| greedy by lookups | ms |",
		"| default, 50 evaluations | ms |",
	} {
		if !strings.Contains(b.String(), want) && !strings.Contains(got, want) {
			t.Errorf("got %q, want it to contain %q", b.String(), want)
		}
	}
}

func TestMemoryIsCompared(t *testing.T) {
	var b strings.Builder
	if err := run(&b, "8x2", 2, "", 1, true, false); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`\| [\d.]+ \|`).ReplaceAllString(b.String(), "| ms |")
	ratios := regexp.MustCompile(`published(?: without memory)? \| ms \|(.*)\n`).FindAllStringSubmatch(got, -1)
	if !strings.Contains(got, "| default without memory | ms | 1.0000 | 1.0000 to 1.0000 |\n") || len(ratios) != 2 || ratios[0][1] != ratios[1][1] {
		t.Errorf("got %q, want two searches with and without memory, of the same plans", b.String())
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		size, budgets     string
		problems, repeats int
		want              string
	}{
		{"8", "", 1, 1, "-size"},
		{"8x2", "1,none", 1, 1, `"none"`},
		{"8x2", "0", 1, 1, `"0"`},
		{"8x2", "", 0, 1, "-problems 0"},
		{"8x2", "", 1, 0, "-repeats 0"},
		{"0x2", "", 1, 1, "table"},
	} {
		if err := run(&strings.Builder{}, c.size, c.problems, c.budgets, c.repeats, false, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got error %v", c, err)
		}
	}
}

func TestIntervalHoldsTheMean(t *testing.T) {
	if low, high := interval([]float64{1, 1, 1}); low != 1 || high != 1 {
		t.Errorf("got %v to %v, want 1 to 1", low, high)
	}
	if low, high := interval([]float64{0.9, 1, 1.1}); low >= 1 || high <= 1 || low < 0.9 || high > 1.1 {
		t.Errorf("got %v to %v, want an interval around 1 in 0.9 to 1.1", low, high)
	}
}
