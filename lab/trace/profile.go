package trace

import (
	"fmt"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

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

// profile returns the table that a trace describes: its features, and its accesses as the reuse
// histogram and the distinct rows of a batch of t.Samples. Without stated rows, the table ends
// with the highest row used.
func profile(t Table, rows int64, dim int) (problem.Table, doubts, error) {
	if t.Samples < 1 || len(t.Features) < 1 || t.Bags.Len() != t.Samples*len(t.Features) {
		return problem.Table{}, sure, fmt.Errorf("table %q: %d bags of %d samples and %d features", t.Name, t.Bags.Len(), t.Samples, len(t.Features))
	}
	if err := t.Bags.Check(rows); err != nil {
		if rows > 0 {
			err = fmt.Errorf("%w: the stated number of rows is %d", err, rows)
		}
		return problem.Table{}, sure, fmt.Errorf("table %q: %w", t.Name, err)
	}
	out := problem.Table{Name: t.Name, Rows: rows, Dim: dim}
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
