package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// A sheet is the content of one table: rows for the reader, comparisons for the summary.
type sheet struct {
	// columns are the heads of the rows, those of numbers with a leading ">".
	columns []string
	rows    [][]string
	// folded keeps the rows out of the document, for long tables: rowsFile has them.
	folded bool
	// sets are the comparisons by what they are used for, in the order of the summary.
	sets []*set
	// notes are paragraphs after the summary.
	notes []string
}

// A set holds comparisons that are judged together.
type set struct {
	name string
	// target is the limit that the project set itself before it looked.
	target goal
	// ratios are predicted over measured, and differences predicted less measured.
	ratios, differences []float64
}

// A goal is limits of errors in percent; a limit of 0 is none.
type goal struct {
	median, geomean, worst float64
	// points limits the differences of changes, in points.
	points float64
}

// A limited is an error that has a limit, both in percent.
type limited struct {
	name          string
	error, atMost float64
}

// limits returns the errors of the set that have a limit.
func (s *set) limits() (errors []limited) {
	add := func(name string, error, atMost float64) {
		if atMost > 0 {
			errors = append(errors, limited{name, error, atMost})
		}
	}
	add("median", 100*s.median(), s.target.median)
	add("geometric mean", 100*s.geomean(), s.target.geomean)
	add("worst", 100*math.Abs(s.worst()), s.target.worst)
	add("points", 100*math.Abs(s.worst()), s.target.points)
	return errors
}

// targets returns the limits in words: "median 4 %, worst 9 %", or "none".
func (s *set) targets() string {
	var words []string
	for _, e := range s.limits() {
		if e.name == "points" {
			words = append(words, fmt.Sprintf("within %v points", e.atMost))
			continue
		}
		words = append(words, fmt.Sprintf("%s %v %%", e.name, e.atMost))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// verdict returns "met", or what is missed: "missed: worst 14 %".
func (s *set) verdict() string {
	var missed []string
	for _, e := range s.limits() {
		if e.error > e.atMost {
			missed = append(missed, fmt.Sprintf("%s %s", e.name, percent(e.error/100)))
		}
	}
	if len(missed) == 0 {
		return "met"
	}
	return "missed: " + strings.Join(missed, ", ")
}

// set returns the set of a name, and makes it where it is new.
func (s *sheet) set(name string, target goal) *set {
	at := slices.IndexFunc(s.sets, func(one *set) bool { return one.name == name })
	if at < 0 {
		s.sets = append(s.sets, &set{name: name, target: target})
		at = len(s.sets) - 1
	}
	return s.sets[at]
}

// outside is 1 for a set out of the sample, whose name says so, and else 0.
func (s *set) outside() int {
	if strings.HasPrefix(s.name, "out of sample") {
		return 1
	}
	return 0
}

// add adds one comparison.
func (s *set) add(predicted, measured float64) {
	s.ratios = append(s.ratios, predicted/measured)
	s.differences = append(s.differences, predicted-measured)
}

// inPoints reports that the set has differences of changes, in points, and not ratios.
func (s *set) inPoints() bool { return s.target.points > 0 }

// unit is what 100 times an error is in: "%" or "points".
func (s *set) unit() string {
	if s.inPoints() {
		return "points"
	}
	return "%"
}

// deviations returns the errors with their signs: differences if the set is in points, else
// ratios less 1.
func (s *set) deviations() []float64 {
	if s.inPoints() {
		return s.differences
	}
	var all []float64
	for _, r := range s.ratios {
		all = append(all, r-1)
	}
	return all
}

// errors returns the errors without their signs, smallest first.
func (s *set) errors() []float64 {
	var all []float64
	for _, d := range s.deviations() {
		all = append(all, math.Abs(d))
	}
	slices.Sort(all)
	return all
}

// median returns the median error, as a share.
func (s *set) median() float64 {
	all := s.errors()
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

// worst returns the largest error, with its sign.
func (s *set) worst() float64 {
	worst := 0.0
	for _, d := range s.deviations() {
		if math.Abs(d) > math.Abs(worst) {
			worst = d
		}
	}
	return worst
}

// geomean returns the geometric mean of the errors, as HiPC 2022 reports it. An error
// below 0.1 % counts as 0.1 %, so that one exact row does not make the mean 0.
func (s *set) geomean() float64 {
	sum := 0.0
	for _, e := range s.errors() {
		sum += math.Log(max(e, .001))
	}
	return math.Exp(sum / float64(len(s.ratios)))
}

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

// rowsFile is the document of the rows that a document leaves out.
func rowsFile(doc string) string {
	return filepath.Join(filepath.Dir(doc), "evidence", filepath.Base(doc))
}

// rowsText returns all rows in Markdown.
func (s *sheet) rowsText() string { return grid(s.columns, s.rows) }

// String returns the sheet in Markdown: rows, or a link to them, then summary, notes.
func (s *sheet) String() string {
	parts := []string{s.rowsText()}
	if s.folded {
		parts[0] = fmt.Sprintf("[All %d rows](evidence/REALITY.md)", len(s.rows))
	}
	var rows [][]string
	unit := "%"
	slices.SortStableFunc(s.sets, func(a, b *set) int { return cmp.Compare(a.outside(), b.outside()) })
	for _, one := range s.sets {
		unit = one.unit() // the same of all sets of a table
		rows = append(rows, []string{one.name, fmt.Sprint(len(one.ratios)), percent(one.median()), percent(one.geomean()), signed(one.worst()), one.targets()})
	}
	if len(rows) > 0 {
		summary := grid([]string{"rows", ">number", ">median error, " + unit, ">geometric mean, " + unit, ">worst, " + unit, "target"}, rows)
		if s.folded {
			parts = []string{summary, parts[0]}
		} else {
			parts = append(parts, summary)
		}
	}
	return strings.Join(append(parts, s.notes...), "\n\n")
}

// grid returns a table in Markdown.
func grid(columns []string, rows [][]string) string {
	var b strings.Builder
	rule := "|"
	heads := slices.Clone(columns)
	for i, c := range heads {
		name, right := strings.CutPrefix(c, ">")
		heads[i] = name
		if right {
			rule += "--:|"
		} else {
			rule += "---|"
		}
	}
	fmt.Fprintf(&b, "| %s |\n%s", strings.Join(heads, " | "), rule)
	for _, row := range rows {
		fmt.Fprintf(&b, "\n| %s |", strings.Join(row, " | "))
	}
	return b.String()
}
