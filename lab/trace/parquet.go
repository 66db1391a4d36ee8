package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquet.go reads a log as Parquet, with the columns of a CSV log: sample and
// index are whole numbers, table and feature are texts or whole numbers. Other
// columns are not read.

// parquetRows reads a log as Parquet.
func parquetRows(f *file, l *log) (err error) {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	// The library panics on some damaged files.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is damaged: %s", quotable(fmt.Sprint(p)))
		}
	}()
	if err := checkFooter(in, f.size); err != nil {
		return err
	}
	opened, err := parquet.OpenFile(in, f.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.FileReadMode(parquet.ReadModeSync))
	if err != nil {
		return fmt.Errorf("it is damaged or cut short: %v", err)
	}
	if len(l.opt.Columns) == 0 && isLong(parquetNames(opened)) {
		return parquetLookups(f, in, opened, l)
	}
	return listRows(l, f, in, opened)
}

// parquetLookups reads a log with a row for each lookup.
func parquetLookups(f *file, in io.ReaderAt, opened *parquet.File, l *log) error {
	columns, err := parquetColumns(opened, l.opt.IDs)
	if err != nil {
		return err
	}
	done, total := int64(0), opened.NumRows()
	for i, group := range opened.RowGroups() {
		for _, c := range columns {
			if c != nil {
				if err := checkPages(in, f.size, &opened.Metadata().RowGroups[i].Columns[c.index].MetaData, c.levels); err != nil {
					return fmt.Errorf("row group %d, column %q: %w", i, c.name, err)
				}
				c.pages = group.ColumnChunks()[c.index].Pages()
				c.values, c.left = nil, nil
			}
		}
		err := readColumns(l, columns, group.NumRows(), done)
		for _, c := range columns {
			if c != nil {
				err = errors.Join(err, c.close())
			}
		}
		if err != nil {
			return err
		}
		done += group.NumRows()
		parquetProgress(f, done, total)
	}
	return nil
}

// parquetProgress reports that some of all rows are read.
func parquetProgress(f *file, done, total int64) {
	if f.progress != nil && total > 0 {
		f.progress(int64(float64(f.size)*min(1, float64(done)/float64(total))), f.size)
	}
}

// readColumns reads the rows of a row group.
func readColumns(l *log, columns []*parquetColumn, rows, before int64) error {
	for i := range rows {
		var v [4]parquet.Value
		for k, c := range columns {
			if c == nil {
				continue
			}
			var err error
			if v[k], err = c.next(); err != nil {
				return fmt.Errorf("row %d, column %q: %w", before+i, c.name, err)
			}
		}
		var feature []byte
		if columns[3] != nil {
			feature = columns[3].text(v[3])
		}
		table := columns[1].text(v[1])
		index, err := columns[2].row(&l.opt, table, v[2])
		if err == nil {
			err = l.row(columns[0].whole(v[0]), table, index, feature)
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", before+i, err)
		}
	}
	return nil
}

// parquetColumn is one column of a log, read value by value.
type parquetColumn struct {
	name     string
	index    int
	levels   [2]byte // the highest repetition and definition levels
	physical parquet.Kind
	unsigned bool
	pages    parquet.Pages
	page     parquet.Page
	values   parquet.ValueReader
	buffer   [256]parquet.Value
	left     []parquet.Value
	scratch  []byte
}

// parquetColumns finds the columns sample, table, index and feature. The last is
// nil if the log has no features. Ids in the form Hex or Text may be texts.
func parquetColumns(f *parquet.File, ids IDs) ([]*parquetColumn, error) {
	names := parquetNames(f)
	place, err := findColumns(lowered(names), longColumns, []string{"feature"})
	if err != nil {
		return nil, err
	}
	columns := make([]*parquetColumn, len(place))
	for i, at := range place {
		if at < 0 {
			continue
		}
		if columns[i], err = columnOf(f, names[at], i == 0 || i == 2 && ids != Hex && ids != Text); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// parquetNames returns the names of a file's columns, which may be groups.
func parquetNames(f *parquet.File) (names []string) {
	for _, field := range f.Schema().Fields() {
		names = append(names, field.Name())
	}
	return names
}

// columnOf returns a column of whole numbers, or, if they are not required, of
// texts.
func columnOf(f *parquet.File, name string, numbers bool) (*parquetColumn, error) {
	leaf, ok := f.Schema().Lookup(name)
	if !ok || leaf.MaxRepetitionLevel > 0 || !leaf.Node.Leaf() {
		return nil, fmt.Errorf("column %q is a list or a group: want one value in each row", name)
	}
	kind := leaf.Node.Type().Kind()
	whole := kind == parquet.Int32 || kind == parquet.Int64
	switch {
	case numbers && !whole:
		return nil, fmt.Errorf("column %q is of the type %v: want whole numbers, INT32 or INT64 (a column with missing values may have become DOUBLE)", name, leaf.Node.Type())
	case !whole && kind != parquet.ByteArray:
		return nil, fmt.Errorf("column %q is of the type %v: want texts or whole numbers", name, leaf.Node.Type())
	}
	return newParquetColumn(name, leaf), nil
}

func newParquetColumn(name string, leaf parquet.LeafColumn) *parquetColumn {
	c := &parquetColumn{name: name, index: leaf.ColumnIndex, levels: [2]byte{byte(leaf.MaxRepetitionLevel), byte(leaf.MaxDefinitionLevel)}, physical: leaf.Node.Type().Kind()}
	if logical := leaf.Node.Type().LogicalType(); logical != nil {
		if integer, ok := logical.Value.(*format.IntType); ok {
			c.unsigned = !integer.IsSigned
		}
	}
	return c
}

// next returns the next value, which must not be missing. It is valid until the next
// call.
func (c *parquetColumn) next() (parquet.Value, error) {
	v, err := c.any()
	if err == nil && v.IsNull() {
		err = errors.New("a value is missing")
	}
	return v, err
}

// any returns the next value, which may be missing. It is valid until the next call.
func (c *parquetColumn) any() (parquet.Value, error) {
	for len(c.left) == 0 {
		if c.values == nil {
			parquet.Release(c.page)
			c.page = nil
			page, err := c.pages.ReadPage()
			if err != nil {
				return parquet.Value{}, cut(err)
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buffer[:])
		switch {
		case errors.Is(err, io.EOF):
			c.values = nil
		case err != nil:
			return parquet.Value{}, err
		case n == 0:
			return parquet.Value{}, errors.New("a page without progress: it is damaged")
		}
		c.left = c.buffer[:n]
	}
	v := c.left[0]
	c.left = c.left[1:]
	return v, nil
}

// row returns the row of the id in a value.
func (c *parquetColumn) row(o *Options, table []byte, v parquet.Value) (int64, error) {
	switch {
	case c.physical == parquet.ByteArray:
		return o.index(table, v.ByteArray())
	case c.physical == parquet.Int64 && c.unsigned && v.Int64() < 0:
		return o.unsigned(table, v.Uint64())
	}
	return o.signed(table, c.whole(v)), nil
}

func (c *parquetColumn) close() error {
	parquet.Release(c.page)
	c.page = nil
	return c.pages.Close()
}

func (c *parquetColumn) whole(v parquet.Value) int64 {
	switch {
	case c.physical == parquet.Int64:
		return v.Int64()
	case c.unsigned:
		return int64(v.Uint32())
	}
	return int64(v.Int32())
}

func (c *parquetColumn) text(v parquet.Value) []byte {
	if c.physical == parquet.ByteArray {
		return v.ByteArray()
	}
	c.scratch = strconv.AppendInt(c.scratch[:0], c.whole(v), 10)
	return c.scratch
}
