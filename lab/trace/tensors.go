package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/neuroshard/neuroshard/internal/torchfile"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
)

// tensors.go reads the lookups of an FBGEMM benchmark: a tuple of the tensors
// indices, offsets and lengths. With T tables and B samples, lengths is [T, B],
// offsets has T*B+1 numbers, and indices holds all lookups, table after table. The
// file holds nothing else; the tables are named t0, t1, ...
//
// indices comes first in the file, so the lengths are not known at the first
// lookup. The file is read twice:
//
//	first    indices are passed over; lengths and offsets are compared, and the
//	         lengths, a byte or two each, kept in a temporary file
//	second   lengths come from there, and indices from the file, table by table
//
// Reading a gzip file of gigabytes twice takes one or two minutes more. Keeping the
// indices instead would take disk space for the uncompressed file.

// tensorLog is an opened file of three tensors.
type tensorLog struct {
	file    *file
	batch   int
	tables  int
	samples int
	indices *torchfile.Tensor
	// totals holds the number of lookups of each table.
	totals []int64
	// lengths is the temporary file, and reader reads it.
	lengths *spill
	reader  *bufio.Reader
	in      *stream
	// next is the number of the next table, and source the stream of its lookups.
	next   int
	source *numbers
	torch  *torchFile
	bags   lookups.Bags
}

// openLookups reads the file the first time.
func openLookups(f *file, o Options) (_ *tensorLog, err error) {
	f.passes = 2
	l := &tensorLog{file: f, batch: o.Batch}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	in, err := f.open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	t, err := openTorch(in)
	if err != nil {
		return nil, err
	}
	_, offsets, lengths, err := l.tensors(t.value)
	if err != nil {
		return nil, err
	}
	if l.lengths, err = newSpill(o.TempDir); err != nil {
		return nil, err
	}
	if err := l.compare(t, offsets, lengths); err != nil {
		return nil, err
	}
	if err := in.drain(); err != nil {
		return nil, err
	}
	return l, nil
}

// tensors finds the three tensors in the saved value and checks their shapes.
func (l *tensorLog) tensors(value any) (in, offsets, lengths *torchfile.Tensor, err error) {
	t, err := threeTensors(value)
	if err != nil {
		return nil, nil, nil, err
	}
	in, offsets, lengths = t[0], t[1], t[2]
	if len(in.Shape) != 1 || len(offsets.Shape) != 1 || len(lengths.Shape) != 2 {
		return nil, nil, nil, fmt.Errorf("the tensors have the shapes %v, %v and %v: want indices and offsets of one dimension, and lengths of [tables, batch]",
			in.Shape, offsets.Shape, lengths.Shape)
	}
	tables, batch := lengths.Shape[0], lengths.Shape[1]
	if tables < 1 || tables > problem.MaxTables || batch < 1 || batch > problem.MaxBatch {
		return nil, nil, nil, fmt.Errorf("lengths has the shape %v: want from 1 to %d tables and a batch from 1 to %d", lengths.Shape, problem.MaxTables, problem.MaxBatch)
	}
	if offsets.Count != lengths.Count+1 {
		return nil, nil, nil, fmt.Errorf("%d offsets, want %d: the product of %d tables and %d samples, plus one", offsets.Count, lengths.Count+1, tables, batch)
	}
	l.tables, l.samples, l.indices = int(tables), int(batch), in
	return in, offsets, lengths, nil
}

// threeTensors returns the tensors of a tuple or list of three. Each must have its
// own storage, because storages are read one after the other.
func threeTensors(value any) (t [3]*torchfile.Tensor, err error) {
	var items []any
	switch v := value.(type) {
	case torchfile.Tuple:
		items = v
	case *torchfile.List:
		items = v.Items
	}
	if len(items) != 3 {
		return t, errors.New("it is not a tuple of three tensors: indices, offsets, lengths")
	}
	for i := range t {
		var ok bool
		if t[i], ok = items[i].(*torchfile.Tensor); !ok {
			return t, errors.New("it is not a tuple of three tensors: indices, offsets, lengths")
		}
		for j := range i {
			if t[i].Storage == t[j].Storage {
				return t, errors.New("two of the tensors are views of one storage: save clones of them")
			}
		}
	}
	return t, nil
}

// compare reads offsets and lengths. It keeps the lengths of the tensor that comes
// first and compares them with those of the other.
func (l *tensorLog) compare(t *torchFile, offsets, lengths *torchfile.Tensor) error {
	first := ""
	for {
		s, r, err := t.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var name string
		var next func() (int64, error)
		switch s {
		case offsets.Storage:
			name = "offsets"
			next, err = l.differences(offsets, r)
		case lengths.Storage:
			name = "lengths"
			next, err = l.plain(lengths, r)
		default:
			continue
		}
		if err == nil && first == "" {
			first, err = name, l.keep(next)
		} else if err == nil {
			err = l.check(first, name, next)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// numbersOf starts reading a tensor from the bytes of its storage.
func numbersOf(t *torchfile.Tensor, r io.Reader) (*numbers, error) {
	n := &numbers{in: r, size: t.Storage.Size}
	return n, n.skip(t.First)
}

// plain returns a function that reads the next length.
func (l *tensorLog) plain(lengths *torchfile.Tensor, r io.Reader) (func() (int64, error), error) {
	n, err := numbersOf(lengths, r)
	return func() (int64, error) {
		x, err := n.next()
		if err == nil && (x < 0 || x > l.indices.Count) {
			err = fmt.Errorf("length %d, want from 0 to %d, the number of indices", x, l.indices.Count)
		}
		return x, err
	}, err
}

// differences returns a function that reads the next offset and returns its
// difference to the one before.
func (l *tensorLog) differences(offsets *torchfile.Tensor, r io.Reader) (func() (int64, error), error) {
	n, err := numbersOf(offsets, r)
	if err != nil {
		return nil, err
	}
	last, err := n.next()
	if err == nil && last != 0 {
		err = fmt.Errorf("the first is %d, want 0", last)
	}
	return func() (int64, error) {
		x, err := n.next()
		if err == nil && (x < last || x > l.indices.Count) {
			err = fmt.Errorf("offset %d after %d, want one from the offset before to %d, the number of indices", x, last, l.indices.Count)
		}
		last, x = x, x-last
		return x, err
	}, err
}

// keep writes the lengths to the temporary file and sums them up.
func (l *tensorLog) keep(next func() (int64, error)) error {
	out := bufio.NewWriterSize(l.lengths, streamBuffer)
	sum := int64(0)
	for i := range l.tables {
		total := int64(0)
		for j := range l.samples {
			length, err := next()
			if err != nil {
				return fmt.Errorf("table %s, sample %d: %w", tableName(i), j, err)
			}
			// The sum is never above the number of indices, so no sum overflows.
			if total += length; sum+total > l.indices.Count {
				return fmt.Errorf("table %s, sample %d: the lengths up to here add up to %d, but there are %d indices", tableName(i), j, sum+total, l.indices.Count)
			}
			if _, err := out.Write(binary.AppendUvarint(out.AvailableBuffer(), uint64(length))); err != nil {
				return err
			}
		}
		sum += total
		l.totals = append(l.totals, total)
	}
	if sum != l.indices.Count {
		return fmt.Errorf("they stand for %d lookups, but there are %d indices", sum, l.indices.Count)
	}
	return out.Flush()
}

// check compares lengths with the kept ones.
func (l *tensorLog) check(first, name string, next func() (int64, error)) error {
	l.rewind()
	for i := range l.tables {
		for j := range l.samples {
			length, err := next()
			if err != nil {
				return fmt.Errorf("table %s, sample %d: %w", tableName(i), j, err)
			}
			kept, err := binary.ReadUvarint(l.reader)
			if err != nil {
				return fmt.Errorf("reading the temporary file: %w", err)
			}
			if uint64(length) != kept {
				return fmt.Errorf("table %s, sample %d: %d lookups by the %s, but %d by the %s", tableName(i), j, kept, first, length, name)
			}
		}
	}
	return nil
}

func (l *tensorLog) rewind() {
	l.reader = bufio.NewReaderSize(io.NewSectionReader(l.lengths, 0, l.lengths.size), streamBuffer)
}

func tableName(i int) string { return "t" + strconv.Itoa(i) }

func (l *tensorLog) names() []string {
	names := make([]string, l.tables)
	for i := range names {
		names[i] = tableName(i)
	}
	return names
}

// seek starts the second reading and goes to the first index.
func (l *tensorLog) seek() error {
	in, err := l.file.open()
	if err != nil {
		return err
	}
	l.in = in
	t, err := openTorch(in)
	if err != nil {
		return err
	}
	before := l.indices
	if _, _, _, err := l.tensors(t.value); err != nil {
		return err
	}
	if l.indices.Count != before.Count || l.indices.First != before.First || *l.indices.Storage != *before.Storage {
		return errors.New("the file changed while it was read")
	}
	l.rewind()
	for l.source == nil {
		s, r, err := t.next()
		if err != nil {
			return cut(err)
		}
		if s == l.indices.Storage {
			if l.source, err = numbersOf(l.indices, r); err != nil {
				return err
			}
		}
	}
	l.torch = t
	return nil
}

// table reads the next table.
func (l *tensorLog) table(t *Table) error {
	if l.next == l.tables {
		// A wrong checksum is an error even after the last table.
		if err := l.torch.end(); err != nil {
			return err
		}
		return io.EOF
	}
	if l.source == nil {
		if err := l.seek(); err != nil {
			return err
		}
	}
	i := l.next
	l.next++
	samples := l.samples
	if l.batch > 0 {
		samples = min(samples, l.batch)
	}
	*t = Table{Name: tableName(i), Samples: samples, Features: []string{tableName(i)}}
	b := &l.bags
	b.Offsets = append(b.Offsets[:0], 0)
	end := int64(0)
	for j := range l.samples {
		length, err := binary.ReadUvarint(l.reader)
		if err != nil {
			return fmt.Errorf("reading the temporary file: %w", err)
		}
		if j < samples {
			end += int64(length)
			b.Offsets = append(b.Offsets, end)
		}
	}
	if end > lookups.MaxLookups {
		return fmt.Errorf("table %s: %d lookups, more than %d: state a smaller batch", t.Name, end, lookups.MaxLookups)
	}
	if int64(cap(b.Indices)) < end {
		b.Indices = nil // before the larger one is made
		b.Indices = make([]int64, end)
	}
	b.Indices = b.Indices[:end]
	at, err := l.source.fill(b.Indices)
	if err == nil {
		err = l.source.skip(l.totals[i] - end)
	} else {
		err = fmt.Errorf("sample %d, %w", sampleOf(b.Offsets, at), err)
	}
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	t.Bags = *b
	return nil
}

// sampleOf returns the bag that a lookup is in.
func sampleOf(offsets []int64, lookup int) int {
	for j := 1; j < len(offsets); j++ {
		if offsets[j] > int64(lookup) {
			return j - 1
		}
	}
	return len(offsets) - 1
}

func (l *tensorLog) close() error {
	return errors.Join(l.in.Close(), l.lengths.Close())
}

// numbers reads the numbers of a tensor.
type numbers struct {
	in     io.Reader
	size   int64
	buffer []byte
	rest   []byte
}

// more reads the next bytes, a whole number of numbers.
func (n *numbers) more() error {
	if n.buffer == nil {
		n.buffer = make([]byte, streamBuffer)
	}
	got, err := io.ReadAtLeast(n.in, n.buffer, int(n.size))
	for got%int(n.size) != 0 && err == nil {
		var more int
		more, err = n.in.Read(n.buffer[got:])
		got += more
	}
	if err != nil {
		return cut(err)
	}
	n.rest = n.buffer[:got]
	return nil
}

func (n *numbers) next() (int64, error) {
	if len(n.rest) == 0 {
		if err := n.more(); err != nil {
			return 0, err
		}
	}
	if n.size == 4 {
		x := int64(int32(binary.LittleEndian.Uint32(n.rest)))
		n.rest = n.rest[4:]
		return x, nil
	}
	x := int64(binary.LittleEndian.Uint64(n.rest))
	n.rest = n.rest[8:]
	return x, nil
}

// fill reads row numbers. If it fails, it also returns the place of the error.
func (n *numbers) fill(rows []int64) (int, error) {
	for i := 0; i < len(rows); {
		if len(n.rest) == 0 {
			if err := n.more(); err != nil {
				return i, err
			}
		}
		part := rows[i:min(len(rows), i+len(n.rest)/int(n.size))]
		if n.size == 4 {
			for k := range part {
				part[k] = int64(int32(binary.LittleEndian.Uint32(n.rest[4*k:])))
			}
		} else {
			for k := range part {
				part[k] = int64(binary.LittleEndian.Uint64(n.rest[8*k:]))
			}
		}
		for k, row := range part {
			if uint64(row) >= problem.MaxRows {
				return i + k, fmt.Errorf("index %d: want from 0 to %d", row, int64(problem.MaxRows-1))
			}
		}
		n.rest = n.rest[len(part)*int(n.size):]
		i += len(part)
	}
	return len(rows), nil
}

// skip reads n numbers and discards them.
func (n *numbers) skip(count int64) error {
	inside := min(count, int64(len(n.rest))/n.size)
	n.rest = n.rest[inside*n.size:]
	if _, err := io.CopyN(io.Discard, n.in, (count-inside)*n.size); err != nil {
		return cut(err)
	}
	return nil
}
