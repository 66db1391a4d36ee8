package trace

import (
	"fmt"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// Properties are the facts about a table that a trace does not hold.
type Properties struct {
	// Rows is the table's height; 0 takes the highest row used, plus one.
	Rows int64
	// Dim is the number of columns.
	Dim       int
	Precision problem.Precision
	Optimizer problem.Optimizer
}

// Profile returns the table that a trace describes: its features with their pooling
// factors, and its accesses as the reuse histogram and the distinct rows of a
// batch of t.Samples. The rest is from the properties, which are taken as they
// are: problem.Problem.Validate judges the table.
//
// The warnings say where the trace falls short: a height that is only known to
// be no smaller, or no lookups to count. It is an error where lookups use a row
// that a table of the stated height does not have, or where t is no Table of a
// Reader.
func Profile(t Table, p Properties) (problem.Table, []string, error) {
	if t.Samples < 1 || len(t.Features) < 1 || t.Bags.Len() != t.Samples*len(t.Features) {
		return problem.Table{}, nil, fmt.Errorf("table %q: %d bags of %d samples and %d features", t.Name, t.Bags.Len(), t.Samples, len(t.Features))
	}
	if p.Rows < 0 {
		return problem.Table{}, nil, fmt.Errorf("table %q: %d rows", t.Name, p.Rows)
	}
	if err := t.Bags.Check(p.Rows); err != nil {
		if p.Rows > 0 {
			err = fmt.Errorf("%w: its height is said to be %d rows", err, p.Rows)
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
