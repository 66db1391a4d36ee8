package trace

import (
	"fmt"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// Properties are the facts about a table that a trace does not hold.
type Properties struct {
	// Rows is the table's number of rows; 0 means the highest row used, plus one.
	Rows int64
	// Dim is the number of columns.
	Dim       int
	Precision problem.Precision
	Optimizer problem.Optimizer
}

// Profile returns the table that a trace describes: its features with their pooling
// factors and the coefficients of variation of their bags' lengths, and its accesses as
// the reuse histogram and the distinct rows of a batch of t.Samples. The properties give
// the rest and are not checked here: problem.Problem.Validate checks the table.
//
// The warnings state the limits of the trace: the number of rows is only a lower
// bound, or there are no lookups to count. Profile fails if lookups use a row
// beyond the stated number of rows, or if t is not a Table of a Reader.
func Profile(t Table, p Properties) (problem.Table, []string, error) {
	out, doubt, err := profile(t, p)
	if err != nil || doubt == sure {
		return out, nil, err
	}
	return out, doubt.sentences([]string{t.Name}, []int64{out.Rows}, 1), nil
}

// doubts are the limits of a trace, for one table.
type doubts uint8

const (
	sure doubts = 0
	// guessedRows: the number of rows follows from the highest row used.
	guessedRows doubts = 1 << (iota - 1)
	// noLookups: no lookup of the table is in the trace.
	noLookups
)

// sentences returns the warnings about some of all tables, which have the same doubts.
func (d doubts) sentences(names []string, rows []int64, all int) (list []string) {
	what := fmt.Sprintf("%d of %d tables (%s)", len(names), all, words.Quoted(names, 3))
	one := len(names) == 1
	if one {
		what = fmt.Sprintf("table %q", names[0])
	}
	switch {
	case d&guessedRows == 0:
	case one:
		list = append(list, fmt.Sprintf("%s: %d rows is the highest row used, plus one: the table may have more; state its rows", what, rows[0]))
	default:
		list = append(list, what+": the number of rows is the highest row used, plus one: the tables may have more; state their rows")
	}
	if d&noLookups != 0 {
		list = append(list, what+": the trace has no lookups in "+map[bool]string{true: "it", false: "them"}[one])
	}
	return list
}

// profile is Profile, with the doubts instead of their sentences.
func profile(t Table, p Properties) (problem.Table, doubts, error) {
	if t.Samples < 1 || len(t.Features) < 1 || t.Bags.Len() != t.Samples*len(t.Features) {
		return problem.Table{}, sure, fmt.Errorf("table %q: %d bags of %d samples and %d features", t.Name, t.Bags.Len(), t.Samples, len(t.Features))
	}
	if p.Rows < 0 {
		return problem.Table{}, sure, fmt.Errorf("table %q: %d rows", t.Name, p.Rows)
	}
	if err := t.Bags.Check(p.Rows); err != nil {
		if p.Rows > 0 {
			err = fmt.Errorf("%w: the stated number of rows is %d", err, p.Rows)
		}
		return problem.Table{}, sure, fmt.Errorf("table %q: %w", t.Name, err)
	}
	out := problem.Table{Name: t.Name, Rows: p.Rows, Dim: p.Dim, Precision: p.Precision, Optimizer: p.Optimizer}
	for i, name := range t.Features {
		offsets := t.Bags.Offsets[i*t.Samples : (i+1)*t.Samples+1]
		out.Features = append(out.Features, problem.Feature{
			Name: name, PoolingFactor: float64(offsets[t.Samples]-offsets[0]) / float64(t.Samples),
			LengthCV: min(problem.MaxLengthCV, lookups.LengthCV(offsets)),
		})
	}
	doubt := sure
	if out.Rows == 0 {
		for _, row := range t.Bags.Indices {
			out.Rows = max(out.Rows, row+1)
		}
		out.Rows = max(1, out.Rows)
		doubt |= guessedRows
	}
	counted := lookups.Count(t.Bags.Indices)
	if counted.Lookups == 0 {
		return out, doubt | noLookups, nil
	}
	out.Access = access.Distribution{
		Kind:       access.Histogram,
		Reuse:      counted.Reuse,
		Batch:      t.Samples,
		UniqueRows: float64(counted.Unique),
	}
	return out, doubt, nil
}
