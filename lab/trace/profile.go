package trace

import (
	"fmt"

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
// factors, and its accesses as the reuse histogram and the distinct rows of a batch
// of t.Samples. The properties give the rest and are not checked here:
// problem.Problem.Validate checks the table.
//
// The warnings state the limits of the trace: the number of rows is only a lower
// bound, or there are no lookups to count. Profile fails if lookups use a row
// beyond the stated number of rows, or if t is not a Table of a Reader.
func Profile(t Table, p Properties) (problem.Table, []string, error) {
	if t.Samples < 1 || len(t.Features) < 1 || t.Bags.Len() != t.Samples*len(t.Features) {
		return problem.Table{}, nil, fmt.Errorf("table %q: %d bags of %d samples and %d features", t.Name, t.Bags.Len(), t.Samples, len(t.Features))
	}
	if p.Rows < 0 {
		return problem.Table{}, nil, fmt.Errorf("table %q: %d rows", t.Name, p.Rows)
	}
	if err := t.Bags.Check(p.Rows); err != nil {
		if p.Rows > 0 {
			err = fmt.Errorf("%w: the stated number of rows is %d", err, p.Rows)
		}
		return problem.Table{}, nil, fmt.Errorf("table %q: %w", t.Name, err)
	}
	out := problem.Table{Name: t.Name, Rows: p.Rows, Dim: p.Dim, Precision: p.Precision, Optimizer: p.Optimizer}
	for i, name := range t.Features {
		uses := t.Bags.Offsets[(i+1)*t.Samples] - t.Bags.Offsets[i*t.Samples]
		out.Features = append(out.Features, problem.Feature{Name: name, PoolingFactor: float64(uses) / float64(t.Samples)})
	}
	var warnings []string
	if out.Rows == 0 {
		for _, row := range t.Bags.Indices {
			out.Rows = max(out.Rows, row+1)
		}
		out.Rows = max(1, out.Rows)
		warnings = append(warnings, fmt.Sprintf("table %q: %d rows is the highest row used, plus one: the table may have more; state its rows", t.Name, out.Rows))
	}
	counted := lookups.Count(t.Bags.Indices)
	if counted.Lookups == 0 {
		return out, append(warnings, fmt.Sprintf("table %q: the trace has no lookups in it", t.Name)), nil
	}
	out.Access = access.Distribution{
		Kind:       access.Histogram,
		Reuse:      counted.Reuse,
		Batch:      t.Samples,
		UniqueRows: float64(counted.Unique),
	}
	return out, warnings, nil
}
