package trace

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// lists.go reads a log in Parquet with a row for each sample: a column for each feature,
// with a list of ids in each row, or with one id. A missing value and an empty list are a
// sample without lookups. The columns of a row group are read one after the other.

// listLeaf returns the column of values under a field, if the field is a value or a list
// of values of a kind that holds ids. listed says that it is a list.
func listLeaf(f *parquet.File, name string) (leaf parquet.LeafColumn, listed, ok bool) {
	found := 0
	for _, path := range f.Schema().Columns() {
		if path[0] == name {
			leaf, ok = f.Schema().Lookup(path...)
			found++
		}
	}
	if !ok || found != 1 || leaf.MaxRepetitionLevel > 1 {
		return leaf, false, false
	}
	kind := leaf.Node.Type().Kind()
	return leaf, leaf.MaxRepetitionLevel == 1, kind == parquet.Int32 || kind == parquet.Int64 || kind == parquet.ByteArray
}

// listRows reads a wide log in Parquet.
func listRows(l *log, f *file, in io.ReaderAt, opened *parquet.File) error {
	ids, columns, err := listColumns(l, opened)
	if err != nil {
		return err
	}
	done, total := int64(0), opened.NumRows()
	for i, group := range opened.RowGroups() {
		rows := group.NumRows()
		for sample := done; sample < done+rows; sample++ {
			if err := l.visit(sample); errors.Is(err, errEnough) {
				break
			} else if err != nil {
				return err
			}
		}
		for k, c := range columns {
			chunk := group.ColumnChunks()[c.index]
			err := checkPages(in, f.size, &opened.Metadata().RowGroups[i].Columns[c.index].MetaData, c.levels)
			if err == nil {
				c.pages, c.values, c.left = chunk.Pages(), nil, nil
				err = errors.Join(readList(l, &ids[k], c, chunk.NumValues(), done, done+rows), c.close())
			}
			if err != nil {
				return fmt.Errorf("row group %d, column %q: %w", i, c.name, err)
			}
		}
		done += rows
		if l.batch > 0 && done >= int64(l.batch) {
			return nil
		}
		parquetProgress(f, done, total)
	}
	return nil
}

// listColumns returns the columns that hold ids.
func listColumns(l *log, opened *parquet.File) ([]idColumn, []*parquetColumn, error) {
	names := parquetNames(opened)
	ids, err := l.idColumns(names, func(i int) bool {
		leaf, listed, ok := listLeaf(opened, names[i])
		return ok && listed && leaf.Node.Type().Kind() != parquet.ByteArray
	})
	if err != nil {
		return nil, nil, err
	}
	if len(ids) == 0 {
		_, err := findColumns(lowered(names), longColumns, nil)
		return nil, nil, fmt.Errorf("%w; or, if each row is a sample, lists of whole numbers, or the names of the columns that hold ids (--columns)", err)
	}
	columns := make([]*parquetColumn, len(ids))
	for i := range ids {
		leaf, _, ok := listLeaf(opened, names[ids[i].place])
		if !ok {
			return nil, nil, fmt.Errorf("column %q: want whole numbers, texts, or lists of either", ids[i].name())
		}
		columns[i] = newParquetColumn(ids[i].name(), leaf)
	}
	return ids, columns, nil
}

// readList reads the given number of values of a column: those of the samples from first
// to end.
func readList(l *log, ids *idColumn, c *parquetColumn, values, first, end int64) error {
	sample := first - 1
	for range values {
		v, err := c.any()
		if err != nil {
			return err
		}
		if v.RepetitionLevel() == 0 {
			sample++
		}
		if sample < first || sample >= end {
			return fmt.Errorf("it has values of more than %d rows: it is damaged", end-first)
		}
		if l.batch > 0 && sample >= int64(l.batch) {
			return nil
		}
		if v.IsNull() {
			continue
		}
		index, err := c.row(&l.opt, ids.table, v)
		if err == nil {
			err = l.row(sample, ids.table, index, ids.feature)
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", sample, err)
		}
	}
	if sample != end-1 {
		return fmt.Errorf("it has values of %d rows, and the row group has %d: it is damaged", sample+1-first, end-first)
	}
	return nil
}
