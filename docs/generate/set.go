package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A set holds comparisons that are judged together.
type set struct {
	// what was compared, and which rows of it.
	what, rows string
	// ratios are predicted over measured.
	ratios []float64
}

// sets are those of one comparison.
type sets struct {
	what string
	list []*set
}

// of returns the set of some rows, and makes it where it is new.
func (s *sets) of(rows string) *set {
	at := slices.IndexFunc(s.list, func(one *set) bool { return one.rows == rows })
	if at < 0 {
		s.list = append(s.list, &set{what: s.what, rows: rows})
		at = len(s.list) - 1
	}
	return s.list[at]
}

// add adds one comparison.
func (s *set) add(predicted, measured float64) {
	s.ratios = append(s.ratios, predicted/measured)
}

// errors returns the errors with their signs, smallest first without them.
func (s *set) errors() []float64 {
	all := slices.Clone(s.ratios)
	for i := range all {
		all[i]--
	}
	slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	return all
}

// median returns the median error without its sign, as a share.
func (s *set) median() float64 {
	all := s.errors()
	n := len(all)
	return (math.Abs(all[(n-1)/2]) + math.Abs(all[n/2])) / 2
}

// bias returns the mean error with signs, as a share.
func (s *set) bias() (mean float64) {
	for _, r := range s.ratios {
		mean += (r - 1) / float64(len(s.ratios))
	}
	return mean
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
