package input

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/problem/access"
)

// csvShape is a line as an object of its cells. The cells reuse_0 to reuse_16 are a list, reuse.
var csvShape = linesShape()

func linesShape() *shape[table] {
	s := &shape[table]{what: "a line", required: []string{"name", "rows", "dim"}}
	for _, f := range tableFields {
		if f.column != "-" {
			s.keys, s.fields = append(s.keys, f.column), append(s.fields, f)
		}
	}
	return s
}

// csvColumns returns the columns that a CSV file may have, without reuse_0 to reuse_16.
func csvColumns() []string {
	return slices.DeleteFunc(slices.Clone(csvShape.keys), func(key string) bool { return key == reuse })
}

const reuse = "reuse"

// isReuse reports whether a column is one of reuse_0 to reuse_16.
func isReuse(column string) bool {
	class, ok := strings.CutPrefix(column, reuse+"_")
	if !ok {
		return false // most columns, and each cell asks
	}
	n, err := strconv.Atoi(class)
	return err == nil && n >= 0 && n < access.Classes && strconv.Itoa(n) == class
}

// column returns the column that a cell of the header names.
func column(cell string) string {
	if same, ok := torchRecNames[cell]; ok && slices.Contains(csvShape.keys, same) {
		return same
	}
	return cell
}

// maxCSVLine bounds a line, so that one line of commas cannot fill memory.
const maxCSVLine = 1 << 20

// maxCSVColumns bounds the columns. A file has less than 50 known ones.
const maxCSVColumns = 1000

var errLongLine = fmt.Errorf("a line is longer than %d bytes", maxCSVLine)

// csvReader reads the lines of a CSV file of tables.
type csvReader struct {
	*builder
	in *csv.Reader
	// skipped is how many lines come before the header.
	skipped int
	// columns are the names of the columns.
	columns []string
	// rows counts the lines of tables.
	rows int
	// The line being read.
	cells  []string
	line   int
	values []node
}

// readCSV reads a CSV file, whose header is on the given line, into b.
func readCSV(b *builder, in *bufio.Reader, line int) {
	r := &csvReader{builder: b, in: csv.NewReader(&lineLimited{r: in}), skipped: line - 1}
	r.in.FieldsPerRecord = -1
	r.in.ReuseRecord = true
	r.in.TrimLeadingSpace = true
	if head, _ := in.Peek(in.Size()); semicolons(head) {
		r.in.Comma = ';'
	}
	if !r.next() || !r.header() {
		return
	}
	for r.next() {
		if b.full(r.line) {
			return
		}
		r.table()
	}
}

// semicolons reports whether a file separates cells by semicolons, as spreadsheets do where the comma
// is the decimal sign: its first line has no comma.
func semicolons(head []byte) bool {
	first, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	return bytes.ContainsRune(first, ';') && !bytes.ContainsRune(first, ',')
}

// next reads a line; false at the end and after broken syntax.
func (r *csvReader) next() bool {
	cells, err := r.in.Read()
	if err == io.EOF {
		return false
	}
	var syntax *csv.ParseError
	switch {
	case err == nil:
	case errors.As(err, &syntax):
		message, hint := syntax.Err.Error(), ""
		switch syntax.Err {
		case csv.ErrQuote:
			message, hint = "a quoted cell goes on behind its quote, or is never closed", `write a quote inside a quoted cell as ""`
		case csv.ErrBareQuote:
			message, hint = `a " stands inside a cell that is not quoted`, `quote the cell and write the quote as ""`
		}
		if r.columns == nil {
			r.unrecognised(r.skipped+syntax.StartLine, message)
		} else {
			r.fatal(r.skipped+syntax.StartLine, message, hint)
		}
		return false
	case errors.Is(err, errLongLine):
		r.fatal(0, err.Error(), "a table takes one line")
		return false
	default:
		r.readError(0, err)
		return false
	}
	line, _ := r.in.FieldPos(0)
	r.line, r.cells = r.skipped+line, cells
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return true
}

// header reads the names of the columns. It returns false if one of them is wrong: every line would
// then have errors that only follow from that.
func (r *csvReader) header() bool {
	known := csvColumns()
	if !r.isHeader(known) {
		return false
	}
	before, shares := r.count(), 0
	var meant []string
	for i, text := range r.cells {
		name := column(strings.Clone(text))
		switch {
		case name == "":
			r.add(r.line, fmt.Sprintf("column %d has no name", i+1), "pandas writes its index so: use to_csv(..., index=False)")
		case slices.Contains(r.columns, name):
			r.add(r.line, fmt.Sprintf("column %s is there twice", quote(name)), "keep one of them")
		case isReuse(name):
			shares++
		case !slices.Contains(known, name):
			r.add(r.line, fmt.Sprintf("unknown column %s", quote(name)), r.suggest(name, append(known, "reuse_0 to reuse_16")))
			meant = append(meant, closest(name, known))
		}
		r.columns = append(r.columns, name)
	}
	for _, name := range csvShape.required {
		if !slices.Contains(append(meant, r.columns...), name) {
			r.add(r.line, fmt.Sprintf("column %q is missing", name), "name, rows and dim are required")
		}
	}
	if shares != 0 && shares != access.Classes {
		r.add(r.line, fmt.Sprintf("%d of the columns reuse_0 to reuse_%d are there", shares, access.Classes-1), "a histogram takes all of them")
	} else if shares > 0 && !slices.Contains(r.columns, "reuse_batch") {
		r.add(r.line, `column "reuse_batch" is missing`, "state the number of samples that the histogram was counted on")
	}
	return r.count() == before
}

// isHeader reports whether the first line has a known column or one that comes near, and not too many.
func (r *csvReader) isHeader(known []string) bool {
	if !slices.ContainsFunc(r.cells, func(c string) bool { return isReuse(c) || slices.Contains(known, column(c)) || closest(c, known) != "" }) {
		text := strings.Join(r.cells, string(r.in.Comma))
		if !utf8.ValidString(text) {
			r.unrecognised(r.line, "it is not text in UTF-8")
		} else {
			r.unrecognised(r.line, fmt.Sprintf("it begins with %s", quote(text)))
		}
		return false
	}
	if len(r.cells) > maxCSVColumns {
		r.fatal(r.line, fmt.Sprintf("the header has %d columns, more than %d", len(r.cells), maxCSVColumns), "a table takes one line, and a column states one property of the tables")
		return false
	}
	return true
}

// table reads a line. An empty cell states nothing.
func (r *csvReader) table() {
	named := len(r.list)
	r.rows++
	if len(r.cells) != len(r.columns) {
		r.add(r.line, fmt.Sprintf("the line has %d cells, the header %d", len(r.cells), len(r.columns)), "separate cells by commas; quote a cell that holds one")
		return
	}
	line := node{kind: anObject, line: r.line, list: r.values[:0]}
	var shares []node
	histogram := false
	for i, column := range r.columns {
		value := node{kind: cell, line: r.line, key: column, text: r.cells[i]}
		switch {
		case isReuse(column):
			shares, histogram = append(shares, value), histogram || value.text != ""
		case value.text != "":
			line.list = append(line.list, value)
		}
	}
	if histogram {
		line.list = append(line.list, node{kind: aList, line: r.line, key: reuse, list: shares})
	}
	r.values = line.list
	r.readTable(csvShape, &line, r.newTable(nil, 0), named, r.rows-1)
}

// lineLimited passes r on until a line is longer than maxCSVLine.
type lineLimited struct {
	r      io.Reader
	length int
}

func (l *lineLimited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for _, c := range p[:n] {
		l.length++
		if c == '\n' {
			l.length = 0
		} else if l.length > maxCSVLine {
			return 0, errLongLine
		}
	}
	return n, err
}
