package trace

import (
	"errors"
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/problem"
)

// Tables are the tables of a whole trace.
type Tables struct {
	// List is never empty. Each table's access is a histogram of the batch.
	List []problem.Table
	// Samples is the number of samples of the last table: the batch.
	Samples int
	// Warnings say what was assumed of the tables.
	Warnings []string
}

// TableOptions say what a trace does not.
type TableOptions struct {
	// Rows are the rows of tables by name. Without an entry, the rows of a table end
	// with the highest index that the trace uses.
	Rows map[string]int64
	// Dim is the number of columns of all tables.
	Dim int
	// Keep, where not nil, is given the lookups of each table with its number, from 0,
	// which it must not retain. Its error ends the reading.
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
		return Tables{}, fmt.Errorf("%s: there are no tables in it", path)
	}
	return all, nil
}
