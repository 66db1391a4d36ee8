package trace

import (
	"errors"
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/problem"
)

// Tables holds the tables of a whole trace.
type Tables struct {
	// List is never empty. The access of each table is a histogram at the batch of the
	// trace.
	List []problem.Table
	// Samples is the number of samples of the trace, its batch.
	Samples int
	// Warnings state the assumptions about the tables.
	Warnings []string
}

// TableOptions state facts that a trace does not hold.
type TableOptions struct {
	// Rows holds the numbers of rows of tables by name. A table without an entry is
	// assumed to end with the highest index in the trace.
	Rows map[string]int64
	// Dim is the number of columns of all tables.
	Dim int
	// Keep, if not nil, is called with the number of each table, from 0, and its
	// lookups, which it must not retain. An error of Keep ends the reading.
	Keep func(i int, t Table) error
}

// ReadTables reads the trace in the file path, table by table, and returns its tables. A
// trace without tables is an error.
func ReadTables(path string, opt Options, of TableOptions) (Tables, error) {
	r, err := Open(path, opt)
	if err != nil {
		return Tables{}, err
	}
	defer r.Close()
	var all Tables
	for {
		t, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Tables{}, err
		}
		table, doubts, err := Profile(t, Properties{Rows: of.Rows[t.Name], Dim: of.Dim})
		if err != nil {
			return Tables{}, fmt.Errorf("%s: %w", path, err)
		}
		if of.Keep != nil {
			if err := of.Keep(len(all.List), t); err != nil {
				return Tables{}, err
			}
		}
		all.Samples = t.Samples
		all.List, all.Warnings = append(all.List, table), append(all.Warnings, doubts...)
	}
	if len(all.List) == 0 {
		return Tables{}, fmt.Errorf("%s: it has no tables", path)
	}
	return all, nil
}
