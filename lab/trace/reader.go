package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/neuroshard/neuroshard/lab/lookups"
)

// Options state how to read a trace. The zero value reads all of it.
type Options struct {
	// Batch is the number of samples to read, the first ones of the trace; 0 or a
	// number above the trace's reads all.
	Batch int
	// TempDir is the folder for the temporary file. It holds the lookups of a log, about
	// four bytes each, or the uncompressed file of a compressed benchmark. Empty means
	// os.TempDir.
	TempDir string
	// Columns names the columns of a wide log that hold ids: a log with a row for each
	// sample. None means those with the names of Criteo's data sets and, in Parquet, the
	// lists of whole numbers. TableOf holds the tables of features; a column is the feature
	// of its name. A column without an entry is a table of its own.
	Columns []string
	TableOf map[string]string
	// IDs is the form of the ids; empty means Decimal, and Hex in Criteo's format. If
	// HashSize is not 0, ids are taken modulo the number of rows of their table: the one in
	// Rows or, without an entry, HashSize.
	IDs      IDs
	HashSize int64
	Rows     map[string]int64
	// Progress, if not nil, is called with the bytes read so far and the bytes to read.
	Progress func(done, total int64)
}

// Table is the lookups of one table.
type Table struct {
	// Name is the table's name: of a log the one in the log, of a benchmark t0, t1,
	// ...
	Name string
	// Samples is the number of samples, the same for all tables of a trace.
	Samples int
	// Features are the names of the features that read the table, in the order of
	// their bags. A trace without names of features has one feature with the table's
	// name.
	Features []string
	// Bags are the lookups: Samples bags of the first feature, then Samples bags of
	// the next. They are overwritten by those of the next table.
	Bags lookups.Bags
}

// source is a trace in one format.
type source interface {
	// names are the tables: a benchmark's in its own order, a log's by name, with numbers in names
	// by value.
	names() []string
	// table reads the next table, or returns io.EOF.
	table(t *Table) error
	close() error
}

// each calls begin with the names of a trace's tables, and next with each table in that order,
// whose lookups the next call overwrites. The first error of either ends the reading. The file's
// first bytes decide the format, not its name: a file of torch.save or of text, either of them
// also compressed with gzip, or Parquet. An error names the fault in the file and its place. each
// needs memory for the lookups of the largest table only.
func each(path string, o Options, begin func(names []string) error, next func(t Table) error) error {
	err := readTables(path, o, begin, next)
	if _, named := errors.AsType[*os.PathError](err); err == nil || named {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func readTables(path string, o Options, begin func(names []string) error, next func(t Table) error) (err error) {
	s, err := open(path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := begin(s.names()); err != nil {
		return err
	}
	for {
		var t Table
		if err := s.table(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := next(t); err != nil {
			return err
		}
	}
}

func open(path string, o Options) (source, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file: give the path of a file")
	}
	f := &file{path: path, size: info.Size(), progress: o.Progress}
	start, err := f.start()
	if err != nil {
		return nil, err
	}
	const packed = "\x1f\x8b"
	if bytes.HasPrefix(start, []byte(packed)) {
		f.gzip = true
		if start, err = f.start(); err != nil {
			return nil, err
		}
	}
	switch {
	case bytes.HasPrefix(start, []byte(zipEntry)) || bytes.HasPrefix(start, []byte(pickleStart)):
		return openTensors(f, o)
	case bytes.HasPrefix(start, []byte("PAR1")):
		if f.gzip {
			return nil, errors.New("a compressed Parquet file: uncompress it with gunzip")
		}
		return openLog(f, o, parquetRows)
	case bytes.HasPrefix(start, []byte(packed)):
		return nil, errors.New("it is compressed twice: uncompress it with gunzip")
	case len(start) == 0:
		return nil, errors.New("the file is empty")
	case bytes.IndexByte(start, 0) >= 0:
		return nil, errors.New("it is neither a file of torch.save nor CSV nor Parquet")
	}
	return openLog(f, o, textRows)
}

// openTensors opens a file of torch.save. It has rows of tables, and no columns.
func openTensors(f *file, o Options) (source, error) {
	if len(o.Columns) > 0 || o.IDs != "" || o.HashSize > 0 {
		return nil, errors.New("a file of torch.save has the rows of its tables and no columns: leave out the columns, the form of ids and the hash size")
	}
	return openLookups(f, o)
}

// start returns the file's first bytes.
func (f *file) start() ([]byte, error) {
	quiet := *f
	quiet.progress = nil
	s, err := quiet.open()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	start, err := s.Peek(startBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, cut(err)
	}
	return bytes.Clone(start), nil
}
