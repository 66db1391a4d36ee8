package trace

import (
	"fmt"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// profile returns the table that a trace describes: its features, and its accesses as the reuse
// histogram and the distinct rows of a batch of t.Samples. Without stated rows, the table ends
// with the highest row used.
func profile(t Table, rows int64, dim int) (problem.Table, error) {
	if t.Samples < 1 || len(t.Features) < 1 || t.Bags.Len() != t.Samples*len(t.Features) {
		return problem.Table{}, fmt.Errorf("table %q: %d bags of %d samples and %d features", t.Name, t.Bags.Len(), t.Samples, len(t.Features))
	}
	if err := t.Bags.Check(rows); err != nil {
		if rows > 0 {
			err = fmt.Errorf("%w: the stated number of rows is %d", err, rows)
		}
		return problem.Table{}, fmt.Errorf("table %q: %w", t.Name, err)
	}
	out := problem.Table{Name: t.Name, Rows: rows, Dim: dim}
	for i, name := range t.Features {
		offsets := t.Bags.Offsets[i*t.Samples : (i+1)*t.Samples+1]
		out.Features = append(out.Features, problem.Feature{
			Name: name, PoolingFactor: float64(offsets[t.Samples]-offsets[0]) / float64(t.Samples),
			LengthCV: min(problem.MaxLengthCV, lookups.LengthCV(offsets)),
		})
	}
	if out.Rows == 0 {
		for _, row := range t.Bags.Indices {
			out.Rows = max(out.Rows, row+1)
		}
		out.Rows = max(1, out.Rows)
	}
	counted := lookups.Count(t.Bags.Indices)
	if counted.Lookups == 0 {
		return out, nil
	}
	out.Access = access.Distribution{
		Kind:       access.Histogram,
		Reuse:      counted.Reuse,
		Batch:      t.Samples,
		UniqueRows: float64(counted.Unique),
	}
	return out, nil
}
