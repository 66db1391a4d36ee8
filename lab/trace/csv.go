package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
)

// longColumns are the columns that every log with a row for each lookup has.
var longColumns = []string{"sample", "table", "index"}

// longRows reads a log with a row for each lookup, after the line with the names of the
// columns: sample, table and index, and optionally feature, in any order and among other
// columns. A field may be quoted, but must end in its line.
func longRows(l *log, lines *csvLines, names []string) error {
	place, err := findColumns(lowered(names), longColumns, []string{"feature"})
	if err != nil {
		return fmt.Errorf("%w; or, if each row is a sample, name the columns that hold ids (--columns)", err)
	}
	for {
		fields, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		sample, err := whole(fields[place[0]])
		if err != nil {
			return lines.at(fmt.Errorf("sample %w", err))
		}
		index, err := l.opt.index(fields[place[1]], fields[place[2]])
		if err != nil {
			return lines.at(fmt.Errorf("index %w", err))
		}
		var feature []byte
		if place[3] >= 0 {
			feature = fields[place[3]]
		}
		if err := l.row(sample, fields[place[1]], index, feature); err != nil {
			return lines.at(err)
		}
	}
}

// ReadRows reads the numbers of rows of tables from a CSV file with the columns
// table and rows, in any order and among other columns. A table that occurs twice
// is an error.
func ReadRows(path string) (map[string]int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	f := &file{path: path, size: info.Size()}
	heights, err := readRows(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return heights, nil
}

func readRows(f *file) (map[string]int64, error) {
	in, err := f.open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	lines := &csvLines{in: in}
	names, err := lines.first()
	if err != nil {
		return nil, err
	}
	place, err := findColumns(lowered(names), []string{"table", "rows"}, nil)
	if err != nil {
		return nil, err
	}
	heights := map[string]int64{}
	for {
		fields, err := lines.next()
		if errors.Is(err, io.EOF) {
			return heights, nil
		}
		if err != nil {
			return nil, err
		}
		name := string(fields[place[0]])
		rows, err := whole(fields[place[1]])
		if err != nil {
			return nil, lines.at(fmt.Errorf("rows %w", err))
		}
		switch _, twice := heights[name]; {
		case twice:
			return nil, lines.at(fmt.Errorf("table %q occurs twice", name))
		case name == "" || len(name) > maxName:
			return nil, lines.at(fmt.Errorf("a table's name has %d bytes, want from 1 to %d", len(name), maxName))
		case rows < 1 || rows > problem.MaxRows:
			return nil, lines.at(fmt.Errorf("table %q: %d rows, want from 1 to %d", name, rows, int64(problem.MaxRows)))
		case len(heights) == problem.MaxTables:
			return nil, lines.at(fmt.Errorf("more than %d tables", problem.MaxTables))
		}
		heights[name] = rows
	}
}

// whole reads a whole number.
func whole(text []byte) (int64, error) {
	text = bytes.TrimSpace(text)
	x, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", quotable(string(text)))
	}
	return x, nil
}

// csvLines reads CSV line by line.
type csvLines struct {
	in *stream
	// separator is the byte between fields; 0 means a comma.
	separator byte
	// line is the number of the last line, from 1, and columns is the number of
	// columns in the header.
	line    int
	columns int
	fields  [][]byte
}

func (l *csvLines) at(err error) error { return fmt.Errorf("line %d: %w", l.line, err) }

// first returns the fields of the first line, which may be names. All other lines must have the same
// number of fields.
func (l *csvLines) first() ([]string, error) {
	fields, err := l.next()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: want a first line with the names of the columns")
	}
	if err != nil {
		return nil, err
	}
	fields[0] = bytes.TrimPrefix(fields[0], []byte("\xef\xbb\xbf"))
	l.columns = len(fields)
	return mapped(fields, func(field []byte) string { return string(bytes.TrimSpace(field)) }), nil
}

// findColumns returns the places of columns among the names.
func findColumns(names, must, may []string) ([]int, error) {
	var place []int
	for i, name := range slices.Concat(must, may) {
		at := slices.Index(names, name)
		if at < 0 && i < len(must) {
			return nil, fmt.Errorf("no column %q among %s: want the columns %s", name, quotable(fmt.Sprintf("%q", names)), strings.Join(must, ", "))
		}
		if at >= 0 && slices.Contains(names[at+1:], name) {
			return nil, fmt.Errorf("two columns %q", name)
		}
		place = append(place, at)
	}
	return place, nil
}

// next returns the fields of the next line that is not empty. They are valid until
// the next call.
func (l *csvLines) next() ([][]byte, error) {
	for {
		text, err := l.in.ReadSlice('\n')
		if err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
			switch l.line++; {
			case errors.Is(err, io.EOF):
				return nil, err
			case errors.Is(err, io.ErrUnexpectedEOF):
				return nil, l.at(cut(err))
			case len(text) == streamBuffer:
				return nil, l.at(fmt.Errorf("more than %d bytes: is it a CSV file?", streamBuffer))
			}
			return nil, l.at(err)
		}
		l.line++
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if err := l.split(text); err != nil {
			return nil, l.at(err)
		}
		if l.columns > 0 && len(l.fields) != l.columns {
			return nil, l.at(fmt.Errorf("%d fields, but the header has %d", len(l.fields), l.columns))
		}
		return l.fields, nil
	}
}

// split divides a line into fields.
func (l *csvLines) split(text []byte) error {
	l.fields = l.fields[:0]
	separator := l.separator
	if separator == 0 {
		separator = ','
	}
	for {
		if len(text) > 0 && text[0] == '"' {
			field, rest, err := quoted(text, separator)
			if err != nil {
				return err
			}
			l.fields = append(l.fields, field)
			if len(rest) == 0 {
				return nil
			}
			text = rest[1:]
			continue
		}
		end := bytes.IndexByte(text, separator)
		if end < 0 {
			l.fields = append(l.fields, text)
			return nil
		}
		l.fields = append(l.fields, text[:end])
		text = text[end+1:]
	}
}

// quoted removes a quoted field from the start of a text, and returns the field and
// the rest, which is empty or starts with the separator. Two quotes stand for one.
func quoted(text []byte, separator byte) (field, rest []byte, err error) {
	for i := 1; i < len(text); i++ {
		if text[i] != '"' {
			field = append(field, text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '"' {
			field = append(field, '"')
			i++
			continue
		}
		if i+1 < len(text) && text[i+1] != separator {
			return nil, nil, fmt.Errorf("%q after the end of a quoted field", text[i+1])
		}
		return field, text[i+1:], nil
	}
	return nil, nil, errors.New("a quoted field does not end in its line")
}
