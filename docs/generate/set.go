package main

import (
	"fmt"
	"math"
	"slices"
)

// A set holds comparisons that are judged together.
type set struct {
	// what was compared, and which rows of it.
	what, rows string
	// points says that errors are differences of changes, in points.
	points bool
	// ratios are predicted over measured, and differences predicted less measured.
	ratios, differences []float64
}

// sets are those of one comparison.
type sets struct {
	what   string
	points bool
	list   []*set
}

// of returns the set of some rows, and makes it where it is new.
func (s *sets) of(rows string) *set {
	at := slices.IndexFunc(s.list, func(one *set) bool { return one.rows == rows })
	if at < 0 {
		s.list = append(s.list, &set{what: s.what, rows: rows, points: s.points})
		at = len(s.list) - 1
	}
	return s.list[at]
}

// add adds one comparison.
func (s *set) add(predicted, measured float64) {
	s.ratios = append(s.ratios, predicted/measured)
	s.differences = append(s.differences, predicted-measured)
}

// unit is what 100 times an error is in.
func (s *set) unit() string {
	if s.points {
		return "points"
	}
	return "%"
}

// errors returns the errors with their signs, smallest first without them.
func (s *set) errors() []float64 {
	all := slices.Clone(s.differences)
	if !s.points {
		for i, r := range s.ratios {
			all[i] = r - 1
		}
	}
	slices.SortFunc(all, func(a, b float64) int {
		switch {
		case math.Abs(a) < math.Abs(b):
			return -1
		case math.Abs(a) > math.Abs(b):
			return 1
		}
		return 0
	})
	return all
}

// median returns the median error without its sign, as a share.
func (s *set) median() float64 {
	all := s.errors()
	n := len(all)
	return (math.Abs(all[(n-1)/2]) + math.Abs(all[n/2])) / 2
}

// worst returns the largest error, with its sign.
func (s *set) worst() float64 { return s.errors()[len(s.ratios)-1] }

// percent prints a share as a percentage: two digits below 10 %.
func percent(share float64) string {
	if p := 100 * share; math.Abs(p) < 9.95 {
		return fmt.Sprintf("%.1f", p)
	}
	return fmt.Sprintf("%.0f", 100*share)
}

// signed prints a share as a percentage with its sign.
func signed(share float64) string {
	if share < 0 {
		return percent(share)
	}
	return "+" + percent(share)
}
