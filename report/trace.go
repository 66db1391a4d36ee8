package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
)

// TraceInfo is what neuroshard lab profile found in a trace.
type TraceInfo struct {
	Trace  string `json:"trace"`
	Output string `json:"output"`
	Tables int    `json:"tables"`
	Batch  int    `json:"batch"`
	// Rows and Lookups are sums over all tables; Unique is the number of distinct rows
	// that the batch looks up.
	Rows    int64   `json:"rows"`
	Lookups float64 `json:"lookups"`
	Unique  float64 `json:"unique_rows"`
	// Busiest are the tables with most lookups, at most five.
	Busiest  []TraceTable `json:"busiest"`
	Warnings []string     `json:"warnings"`
}

// TraceTable is one table of a trace.
type TraceTable struct {
	Name          string  `json:"name"`
	Rows          int64   `json:"rows"`
	PoolingFactor float64 `json:"pooling_factor"`
	// LengthCV is the mean of the features' coefficients of variation of bag lengths, each
	// weighted by the feature's pooling factor.
	LengthCV float64 `json:"length_cv"`
	Unique   float64 `json:"unique_rows"`
	// UsedOnce is the share of the distinct rows that are used once in the batch.
	UsedOnce float64 `json:"used_once"`
}

// NewTraceInfo sums up the tables of a trace. The access of each table must be a histogram of
// the batch. The result keeps no reference to the tables.
func NewTraceInfo(trace, output string, tables []problem.Table, batch int, warnings []string) TraceInfo {
	info := TraceInfo{Trace: trace, Output: output, Tables: len(tables), Batch: batch, Busiest: []TraceTable{}, Warnings: append([]string{}, warnings...)}
	for i := range tables {
		t := &tables[i]
		info.Rows += t.Rows
		info.Lookups += t.PoolingFactor() * float64(batch)
		info.Unique += t.Access.UniqueRows
		info.Busiest = append(info.Busiest, TraceTable{t.Name, t.Rows, t.PoolingFactor(), t.LengthCV(), t.Access.UniqueRows, t.Access.Reuse[0]})
	}
	slices.SortStableFunc(info.Busiest, func(a, b TraceTable) int { return cmp.Compare(b.PoolingFactor, a.PoolingFactor) })
	const most = 5
	info.Busiest = info.Busiest[:min(most, len(info.Busiest))]
	return info
}

// Trace writes what neuroshard lab profile found in a trace.
func Trace(w io.Writer, t TraceInfo, opt Options) error {
	p := &printer{w: w, opt: opt}
	p.printf("%s  %s, %s: %s lookups, %s distinct rows of %s\n", p.paint(bold, name(t.Trace)),
		plural(t.Tables, "table"), plural(t.Batch, "sample"), whole(t.Lookups), whole(t.Unique), count(t.Rows))
	if len(t.Busiest) > 0 {
		p.section("most lookups")
		var rows [][]string
		for _, b := range t.Busiest {
			rows = append(rows, []string{
				name(b.Name), count(b.Rows), hundredths(b.PoolingFactor), hundredths(b.LengthCV), whole(b.Unique), fmt.Sprintf("%.1f %%", 100*b.UsedOnce),
			})
		}
		p.grid([]string{"<table", "rows", "pooling factor", "length cv", "distinct rows", "used once"}, rows)
	}
	const most = 3
	if len(t.Warnings) > 0 {
		p.section("warnings")
		for _, warning := range t.Warnings[:min(most, len(t.Warnings))] {
			p.printf("%s %s\n", p.paint(yellow, "-"), OneLine(warning))
		}
		if more := len(t.Warnings) - most; more > 0 {
			p.printf("- %s\n", words.More("", more)+": list them with --json")
		}
	}
	p.printf("\nwrote %s\n", name(t.Output))
	return p.err
}

// whole prints a number that should be whole but may have a rounding error.
func whole(v float64) string { return count(int64(math.Round(v))) }
