package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
)

// wide.go reads logs with a row for each sample and a column for each feature:
//
//	label  I1 ... I13   C1        C2        ...  C26
//	0      1  ... 2     68fd1e64  80e26c9b  ...         Criteo: tabs, and no first line
//	                                                    with names
//	label  user         clicked
//	1      17           3|5|8                           several ids in a cell
//
// The columns that hold ids are named by the caller, or are those that Criteo calls C1 to
// C26 and TorchRec cat_0 to cat_25; in Parquet they are the lists of whole numbers. Other
// columns are not read. An empty cell is a sample without lookups.

// The columns of Criteo's format.
const (
	criteoFields = 40
	criteoFirst  = 14 // after a label and 13 numbers
)

// criteoNames are the names of columns that hold ids wherever data sets of Criteo are used.
var criteoNames = regexp.MustCompile("^(C([1-9]|1[0-9]|2[0-6])|cat_([0-9]|1[0-9]|2[0-5]))$")

// errEnough ends the reading of a log once the batch is read.
var errEnough = errors.New("the batch is read")

// idColumn is a column that holds the ids of a feature.
type idColumn struct {
	place          int
	table, feature []byte
}

// idColumn returns the column of that name, and adds its table to the log.
func (l *log) idColumn(name string, place int) (idColumn, error) {
	c := idColumn{place: place, table: []byte(name)}
	if table, ok := l.opt.TableOf[name]; ok {
		c.table, c.feature = []byte(table), []byte(name)
	}
	t, err := l.tableOf(c.table)
	if err == nil && len(c.feature) > 0 {
		_, err = t.feature(c.feature)
	}
	return c, err
}

// idColumns returns the columns of a wide log that hold ids. ids says which of the columns
// do if the caller names none.
func (l *log) idColumns(names []string, ids func(i int) bool) (columns []idColumn, err error) {
	chosen := l.opt.Columns
	if len(chosen) == 0 {
		for i, name := range names {
			if ids(i) {
				chosen = append(chosen, name)
			}
		}
	}
	for i, name := range chosen {
		place := slices.Index(names, name)
		switch {
		case slices.Contains(l.opt.Columns[:min(i, len(l.opt.Columns))], name):
			err = errors.Join(err, fmt.Errorf("column %q is named twice", name))
			continue
		case place < 0:
			err = errors.Join(err, fmt.Errorf("no column %q among %s%s", name, words.Quoted(names, 10), meant(name, names)))
			continue
		case slices.Contains(names[place+1:], name):
			err = errors.Join(err, fmt.Errorf("two columns %q", name))
			continue
		}
		c, failed := l.idColumn(name, place)
		columns, err = append(columns, c), errors.Join(err, failed)
	}
	return columns, err
}

// meant returns a question about the name that was meant, or "".
func meant(name string, names []string) string {
	if closest := words.Closest(name, names); closest != "" {
		return fmt.Sprintf("; did you mean %q?", closest)
	}
	return ""
}

// visit adds the next sample of a wide log. It returns errEnough after the batch.
func (l *log) visit(sample int64) error {
	if l.batch > 0 && sample >= int64(l.batch) {
		return errEnough
	}
	if sample >= problem.MaxBatch {
		return fmt.Errorf("more than %d samples, the largest batch: state a smaller batch", problem.MaxBatch)
	}
	return l.samples.add(sample, l.batch)
}

// cell adds the ids of a cell: one, none, or several with | or spaces between them. An id
// that is a text may hold spaces.
func (l *log) cell(sample int64, c *idColumn, text []byte) error {
	between := "| "
	if l.opt.IDs == Text {
		between = "|"
	}
	for len(text) > 0 {
		id := text
		if at := bytes.IndexAny(text, between); at >= 0 {
			id, text = text[:at], text[at+1:]
		} else {
			text = nil
		}
		if len(bytes.TrimSpace(id)) == 0 {
			continue
		}
		index, err := l.opt.index(c.table, id)
		if err == nil {
			err = l.row(sample, c.table, index, c.feature)
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", c.name(), err)
		}
	}
	return nil
}

func (c *idColumn) name() string {
	if len(c.feature) > 0 {
		return string(c.feature)
	}
	return string(c.table)
}

// textRows reads a log as text: fields with commas or tabs between them, in a row for each
// lookup or for each sample.
func textRows(f *file, l *log) error {
	in, err := f.open()
	if err != nil {
		return err
	}
	defer in.Close()
	lines := &csvLines{in: in}
	if start, _ := in.Peek(1 << 12); tabbed(start) {
		lines.separator = '\t'
	}
	names, err := lines.first()
	if err != nil {
		return err
	}
	if lines.separator == '\t' && len(names) == criteoFields && (names[0] == "0" || names[0] == "1") {
		return l.criteo(lines, lines.fields)
	}
	if len(l.opt.Columns) == 0 && (isLong(names) || !slices.ContainsFunc(names, criteoNames.MatchString)) {
		return longRows(l, lines, names)
	}
	columns, err := l.idColumns(names, func(i int) bool { return criteoNames.MatchString(names[i]) })
	if err != nil {
		return err
	}
	fields, err := lines.next()
	return l.wide(lines, columns, fields, err)
}

// isLong reports whether the columns are those of a log with a row for each lookup.
func isLong(names []string) bool {
	_, err := findColumns(lowered(names), longColumns, nil)
	return err == nil
}

func lowered(names []string) []string { return mapped(names, strings.ToLower) }

// tabbed reports whether the first line has tabs between its fields.
func tabbed(start []byte) bool {
	line, _, _ := bytes.Cut(start, []byte("\n"))
	tabs := bytes.Count(line, []byte("\t"))
	return tabs > 0 && tabs >= bytes.Count(line, []byte(","))
}

// criteo reads a log in Criteo's format, whose first line is the given one.
func (l *log) criteo(lines *csvLines, first [][]byte) error {
	if l.opt.IDs == "" {
		l.opt.IDs = Hex
	}
	if l.opt.HashSize == 0 {
		return errors.New("the ids of a log in Criteo's format are hashes: state the number of rows that they are taken modulo (--hash-size)")
	}
	names := make([]string, criteoFields)
	names[0] = "label"
	for i := 1; i < criteoFirst; i++ {
		names[i] = fmt.Sprintf("I%d", i)
	}
	for i := criteoFirst; i < criteoFields; i++ {
		names[i] = fmt.Sprintf("C%d", i-criteoFirst+1)
	}
	columns, err := l.idColumns(names, func(i int) bool { return i >= criteoFirst })
	if err != nil {
		return err
	}
	return l.wide(lines, columns, first, nil)
}

// wide reads a log with a row for each sample. fields are those of the first row, and err is
// the error of reading them.
func (l *log) wide(lines *csvLines, columns []idColumn, fields [][]byte, err error) error {
	for sample := int64(0); ; sample++ {
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch err := l.visit(sample); {
		case errors.Is(err, errEnough):
			return nil
		case err != nil:
			return lines.at(err)
		}
		for i := range columns {
			if err := l.cell(sample, &columns[i], fields[columns[i].place]); err != nil {
				return lines.at(err)
			}
		}
		fields, err = lines.next()
	}
}
