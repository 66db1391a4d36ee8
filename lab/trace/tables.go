package trace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
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
	// Rows holds the numbers of rows of tables by name; a name that is not in the trace is
	// an error. A table without an entry has Options.HashSize rows or, if that is 0, is
	// assumed to end with the highest index in the trace.
	Rows map[string]int64
	// MoreRows allows Rows to have names that are not in the trace.
	MoreRows bool
	// Dim is the number of columns of all tables.
	Dim int
	// Keep, if not nil, is called with the number of each table, from 0, and its
	// lookups, which it must not retain. An error of Keep ends the reading.
	Keep func(i int, t Table) error
}

// ReadTables reads the trace in the file path, table by table, and returns its tables: their
// features with pooling factors and the coefficients of variation of their bags' lengths, and
// their accesses. A trace without tables, or with a row beyond the stated ones, is an error.
func ReadTables(path string, opt Options, of TableOptions) (Tables, error) {
	var all Tables
	var guessed, idle []int
	begin := func(names []string) error {
		if of.MoreRows {
			return nil
		}
		return unknownRows(of.Rows, names)
	}
	err := each(path, opt, begin, func(t Table) error {
		rows := cmp.Or(of.Rows[t.Name], opt.HashSize)
		table, err := profile(t, rows, of.Dim)
		if err == nil && of.Keep != nil {
			err = of.Keep(len(all.List), t)
		}
		all.Samples = t.Samples
		if rows == 0 {
			guessed = append(guessed, len(all.List))
		}
		if table.PoolingFactor() == 0 {
			idle = append(idle, len(all.List))
		}
		all.List = append(all.List, table)
		return err
	})
	if err != nil {
		return Tables{}, err
	}
	if len(all.List) == 0 {
		return Tables{}, fmt.Errorf("%s: it has no tables", path)
	}
	all.warn(guessed, func(t *problem.Table) string {
		return fmt.Sprintf("%d rows is the highest row used, plus one: the table may have more; state its rows", t.Rows)
	}, "the number of rows is the highest row used, plus one: the tables may have more; state their rows")
	all.warn(idle, func(*problem.Table) string { return "the trace has no lookups in it" }, "the trace has no lookups in them")
	return all, nil
}

// unknownRows returns an error with all names whose rows are stated and that are not those
// of tables.
func unknownRows(rows map[string]int64, tables []string) error {
	known := map[string]bool{}
	for _, name := range tables {
		known[name] = true
	}
	var unknown []string
	for name := range rows {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.SortFunc(unknown, compareNames)
	return fmt.Errorf("rows are stated for %s, and the trace has no such table: it has %s%s", words.Quoted(unknown, 5), words.Quoted(tables, 5), meant(unknown[0], tables))
}

// separately is the number of tables up to which each has a warning of its own.
const separately = 3

// warn adds a warning about some tables: what is said of one, or what is said of many.
func (all *Tables) warn(some []int, one func(t *problem.Table) string, many string) {
	var names []string
	for _, i := range some {
		names = append(names, all.List[i].Name)
		if len(some) <= separately {
			all.Warnings = append(all.Warnings, fmt.Sprintf("table %q: %s", all.List[i].Name, one(&all.List[i])))
		}
	}
	if len(some) > separately {
		all.Warnings = append(all.Warnings, fmt.Sprintf("%d of %d tables (%s): %s", len(some), len(all.List), words.Quoted(names, 3), many))
	}
}
