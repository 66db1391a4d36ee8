package dataset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/internal/parquetfile"
	"github.com/parquet-go/parquet-go"
)

// parquet.go turns slices of flat structs into Parquet files and back. The parquet-go
// library writes files. It does not read them, because files come from elsewhere and
// the library trusts lengths: a page of a few bytes makes it allocate gigabytes. The
// reader here accepts only files that look as written here, and checks every length
// before it allocates memory.
//
//	PAR1 | column, column, ... | footer | length of the footer | PAR1
//	column: [dictionary page] page page ...       (pages.go)
//	footer: schema, rows, where each column is, key-value metadata
//
// A struct's fields of type bool, int32, int64, float64 and string are required
// columns; slices of the last four are required lists of required elements.

// The limits of a file.
const (
	maxFileBytes = 256 << 20
	// maxRows bounds the rows of a file, and maxValues the numbers and texts in all
	// its columns.
	maxRows   = 1 << 21
	maxValues = 1 << 25
	// maxFooter bounds the metadata: the provenance is most of it.
	maxFooter = 256 << 10
)

// budgetOf returns how much a file of that size may hold. Times do not compress, so a
// value takes a byte or more; a small file that fills the memory is hostile.
func budgetOf(size int) budget {
	values := min(maxValues, 1<<20+64*size)
	return budget{values: values, bytes: 16 * values}
}

// encodeRows returns the Parquet file of the rows, with the key-value metadata.
// The same rows give the same bytes. The file is read back and compared, for
// what was measured may not be measured again. Lists without elements must be
// nil.
func encodeRows[T any](rows []T, metadata map[string]string) (data []byte, err error) {
	// The library panics where a type is not one of its own: a mistake here, not
	// the caller's, but no reason to end the caller's program.
	defer func() {
		if p := recover(); p != nil {
			data, err = nil, fmt.Errorf("encoding Parquet: %v", p)
		}
	}()
	var out bytes.Buffer
	options := []parquet.WriterOption{
		parquet.Compression(&parquet.Zstd),
		// The library would state the version it was built with, and so change the
		// bytes.
		parquet.CreatedBy("neuroshard", "1", "dataset"),
	}
	for key, value := range metadata {
		options = append(options, parquet.KeyValueMetadata(key, value))
	}
	w := parquet.NewGenericWriter[T](&out, options...)
	if _, err := w.Write(rows); err != nil {
		return nil, fmt.Errorf("encoding Parquet: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encoding Parquet: %w", err)
	}
	if out.Len() > maxFileBytes {
		return nil, fmt.Errorf("%d bytes in one Parquet file: a dataset has at most %d", out.Len(), maxFileBytes)
	}
	back, _, err := decodeRows[T](out.Bytes(), Version)
	if err != nil {
		return nil, fmt.Errorf("encoding Parquet: the file cannot be read back: %w", err)
	}
	if len(back) != len(rows) || len(rows) > 0 && !reflect.DeepEqual(back, rows) {
		return nil, errors.New("encoding Parquet: the file read back has other rows")
	}
	return out.Bytes(), nil
}

// decodeRows returns the rows of a Parquet file that encodeRows of the given version of
// the format could have written, and its key-value metadata. Any data gives rows or an
// error, in memory bounded by the limits above.
func decodeRows[T any](data []byte, version int) ([]T, map[string]string, error) {
	if len(data) > maxFileBytes {
		return nil, nil, fmt.Errorf("%d bytes: a file has at most %d", len(data), maxFileBytes)
	}
	foot, err := readFooter(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, nil, err
	}
	columns, err := columnsOf[T](version)
	if err != nil {
		return nil, nil, err
	}
	if err := checkSchema(foot, columns); err != nil {
		return nil, nil, err
	}
	rows := foot.Integer(footRows, -1)
	if rows < 0 || rows > maxRows {
		return nil, nil, fmt.Errorf("%d rows: a file has 0 to %d", rows, maxRows)
	}
	left := budgetOf(len(data))
	for i := range columns {
		if err := columns[i].read(data, foot, i, int(rows), &left); err != nil {
			return nil, nil, fmt.Errorf("column %q: %w", columns[i].name, err)
		}
	}
	list := make([]T, rows)
	for i := range list {
		row := reflect.ValueOf(&list[i]).Elem()
		for c := range columns {
			columns[c].set(row.Field(columns[c].field), i)
		}
	}
	return list, metadataOf(foot), nil
}

// The fields of Parquet's metadata structs that are read, as its Thrift file
// numbers them (github.com/apache/parquet-format, parquet.thrift).
const (
	footSchema, footRows, footGroups, footMetadata = 2, 3, 4, 5

	elementType, elementRepetition, elementName, elementChildren = 1, 3, 4, 5

	groupColumns, groupRows = 1, 3

	chunkMeta = 3

	metaCodec, metaValues, metaCompressed, metaData, metaDictionary = 4, 5, 7, 9, 11
)

// readFooter returns the metadata of a Parquet file.
func readFooter(r io.ReaderAt, size int64) (parquetfile.Value, error) {
	data, err := parquetfile.Footer(r, size, maxFooter)
	if err != nil {
		return parquetfile.Value{}, err
	}
	foot, _, err := parquetfile.Parse(data, maxFooter)
	return foot, err
}

// metadataOf returns the key-value metadata of a file's footer.
func metadataOf(foot parquetfile.Value) map[string]string {
	metadata := map[string]string{}
	for _, pair := range foot.Items(footMetadata) {
		metadata[pair.Text(1)] = pair.Text(2)
	}
	return metadata
}

// Parquet's physical types, and its repetitions.
const (
	physicalBool   = 0
	physicalInt32  = 1
	physicalInt64  = 2
	physicalDouble = 5
	physicalBytes  = 6

	required = 0
	repeated = 2
)

// column is one column and its values, those of all rows one after the other.
type column struct {
	name     string
	field    int // the position of its field in the struct
	physical int64
	list     bool
	// One of these holds the values.
	numbers []int64 // of bools and of both kinds of integer
	floats  []float64
	texts   []string
	// ends is, for lists, the end of each row's elements.
	ends []int
}

// columnsOf returns the columns that files of a version of the format have, of a struct type.
func columnsOf[T any](version int) ([]column, error) {
	t := reflect.TypeFor[T]()
	var columns []column
	for i := range t.NumField() {
		f := t.Field(i)
		if since, err := strconv.Atoi(cmp.Or(f.Tag.Get("since"), "1")); err != nil || since > version {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		c := column{name: name, field: i}
		kind := f.Type.Kind()
		if kind == reflect.Slice {
			c.list, kind = true, f.Type.Elem().Kind()
		}
		switch kind {
		case reflect.Bool:
			c.physical = physicalBool
		case reflect.Int32:
			c.physical = physicalInt32
		case reflect.Int64:
			c.physical = physicalInt64
		case reflect.Float64:
			c.physical = physicalDouble
		case reflect.String:
			c.physical = physicalBytes
		default:
			return nil, fmt.Errorf("field %s: a %v is no column", f.Name, f.Type)
		}
		columns = append(columns, c)
	}
	return columns, nil
}

// checkSchema holds the schema of a file against the columns.
func checkSchema(foot parquetfile.Value, columns []column) error {
	elements := foot.Items(footSchema)
	if len(elements) == 0 {
		return errors.New("there is no schema")
	}
	if n := elements[0].Integer(elementChildren, 0); n != int64(len(columns)) {
		return fmt.Errorf("%d columns, want %d", n, len(columns))
	}
	elements = elements[1:]
	// next takes an element off, which must be as described.
	next := func(name string, physical, repetition, children int64) bool {
		if len(elements) == 0 {
			return false
		}
		e := elements[0]
		elements = elements[1:]
		return e.Text(elementName) == name && e.Integer(elementType, -1) == physical &&
			e.Integer(elementRepetition, -1) == repetition && e.Integer(elementChildren, 0) == children
	}
	for i, c := range columns {
		ok := false
		if c.list {
			ok = next(c.name, -1, required, 1) && next("list", -1, repeated, 1) && next("element", c.physical, required, 0)
		} else {
			ok = next(c.name, c.physical, required, 0)
		}
		if !ok {
			return fmt.Errorf("column %d is not %q as it is written by this program", i, c.name)
		}
	}
	if len(elements) > 0 {
		return errors.New("the schema goes on behind its columns")
	}
	return nil
}

// set stores the column's value of a row in a field of the row's struct. Lists
// without elements are nil.
func (c *column) set(field reflect.Value, row int) {
	if !c.list {
		switch c.physical {
		case physicalBool:
			field.SetBool(c.numbers[row] != 0)
		case physicalDouble:
			field.SetFloat(c.floats[row])
		case physicalBytes:
			field.SetString(c.texts[row])
		default:
			field.SetInt(c.numbers[row])
		}
		return
	}
	first, end := 0, c.ends[row]
	if row > 0 {
		first = c.ends[row-1]
	}
	if first == end {
		return
	}
	switch to := field.Addr().Interface().(type) {
	case *[]int32:
		*to = make([]int32, end-first)
		for i := range *to {
			(*to)[i] = int32(c.numbers[first+i])
		}
	case *[]int64:
		*to = append([]int64(nil), c.numbers[first:end]...)
	case *[]float64:
		*to = append([]float64(nil), c.floats[first:end]...)
	case *[]string:
		*to = append([]string(nil), c.texts[first:end]...)
	}
}
