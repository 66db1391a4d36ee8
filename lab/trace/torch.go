package trace

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"

	"github.com/neuroshard/neuroshard/internal/torchfile"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
)

// torch.go reads the lookups of an FBGEMM benchmark: a tuple of the tensors
// indices, offsets and lengths that torch.save wrote. With T tables and B samples, lengths
// is [T, B], offsets has T*B+1 numbers, and indices holds all lookups, table after table.
// The file holds nothing else; the tables are named t0, t1, ...
//
// The three tensors are read side by side, table by table. A gzip file is uncompressed to
// a temporary file first, of a bounded size. What a pickle states about a storage is compared
// with the bytes that the file has for it before memory is taken.

// The first bytes of the files of torch.save: of a zip file, and of a pickle, which it
// wrote before PyTorch 1.6.
const (
	zipEntry    = "PK\x03\x04"
	pickleStart = "\x80"
	// magic is the first pickle of the format before PyTorch 1.6.
	magic = torchfile.Long("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")
)

// indexBlock is the number of indices for which memory is taken before they are read.
const indexBlock = 1 << 20

// tensorLog is an opened file of three tensors.
type tensorLog struct {
	in                        *spill // the file; without a name, if it is a temporary one
	size                      int64
	progress                  func(done, total int64)
	batch, tables, samples    int
	indices, offsets, lengths *numbers
	count                     int64 // the number of indices
	next                      int   // the next table
	end                       int64 // the last offset before it
	own                       []int64
	bags                      lookups.Bags
}

func openLookups(f *file, o Options) (_ *tensorLog, err error) {
	l := &tensorLog{batch: o.Batch, size: f.size}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if f.gzip {
		if l.in, err = f.unpacked(o.TempDir); err != nil {
			return nil, err
		}
	} else {
		raw, err := os.Open(f.path)
		if err != nil {
			return nil, err
		}
		l.in, l.progress = &spill{file: raw, size: f.size}, f.progress
	}
	value, open, err := openTorch(l.in, l.in.size)
	if err != nil {
		return nil, err
	}
	return l, l.tensors(value, open)
}

// threeTensors returns the tensors of a tuple or list of three.
func threeTensors(value any) ([]*torchfile.Tensor, error) {
	var items []any
	switch v := value.(type) {
	case torchfile.Tuple:
		items = v
	case *torchfile.List:
		items = v.Items
	}
	var t []*torchfile.Tensor
	for _, item := range items {
		if tensor, ok := item.(*torchfile.Tensor); ok {
			t = append(t, tensor)
		}
	}
	if len(items) != 3 || len(t) != 3 {
		return nil, errors.New("it is not a tuple of three tensors: indices, offsets, lengths")
	}
	return t, nil
}

// tensors finds the three tensors in the saved value and checks their shapes.
func (l *tensorLog) tensors(value any, open func(*torchfile.Storage) (io.Reader, error)) error {
	t, err := threeTensors(value)
	if err != nil {
		return err
	}
	in, offsets, lengths := t[0], t[1], t[2]
	if len(in.Shape) != 1 || len(offsets.Shape) != 1 || len(lengths.Shape) != 2 {
		return fmt.Errorf("the tensors have the shapes %v, %v and %v: want indices and offsets of one dimension, and lengths of [tables, batch]",
			in.Shape, offsets.Shape, lengths.Shape)
	}
	tables, batch := lengths.Shape[0], lengths.Shape[1]
	if tables < 1 || tables > problem.MaxTables || batch < 1 || batch > problem.MaxBatch {
		return fmt.Errorf("lengths has the shape %v: want from 1 to %d tables and a batch from 1 to %d", lengths.Shape, problem.MaxTables, problem.MaxBatch)
	}
	if offsets.Count != lengths.Count+1 {
		return fmt.Errorf("%d offsets, want %d: the product of %d tables and %d samples, plus one", offsets.Count, lengths.Count+1, tables, batch)
	}
	l.tables, l.samples, l.count = int(tables), int(batch), in.Count
	for i, to := range []**numbers{&l.indices, &l.offsets, &l.lengths} {
		r, err := open(t[i].Storage)
		if err != nil {
			return err
		}
		*to = &numbers{in: r, size: t[i].Storage.Size, buffer: make([]byte, streamBuffer)}
		if err := (*to).skip(t[i].First); err != nil {
			return err
		}
	}
	var first [1]int64
	if err := l.offsets.read(first[:]); err != nil || first[0] != 0 {
		return errors.Join(fmt.Errorf("offsets: the first is %d, want 0", first[0]), err)
	}
	return nil
}

func tableName(i int) string { return "t" + strconv.Itoa(i) }

func (l *tensorLog) names() []string {
	names := make([]string, l.tables)
	for i := range names {
		names[i] = tableName(i)
	}
	return names
}

// table reads the next table.
func (l *tensorLog) table(t *Table) error {
	if l.next == l.tables {
		if l.end != l.count {
			return fmt.Errorf("offsets: they stand for %d lookups, but there are %d indices", l.end, l.count)
		}
		// A wrong checksum is an error even after the last table.
		for _, n := range []*numbers{l.indices, l.offsets, l.lengths} {
			if _, err := io.Copy(io.Discard, n.in); err != nil {
				return cut(err)
			}
		}
		return io.EOF
	}
	*t = Table{Name: tableName(l.next), Samples: l.samples, Features: []string{tableName(l.next)}}
	if l.batch > 0 {
		t.Samples = min(t.Samples, l.batch)
	}
	err := l.readBags(t.Samples)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	l.next++
	t.Bags = l.bags
	if l.progress != nil {
		l.progress(l.size*int64(l.next)/int64(l.tables), l.size)
	}
	return nil
}

// readBags reads the lookups of a number of samples of the next table, and passes over the
// others.
func (l *tensorLog) readBags(samples int) error {
	b := &l.bags
	b.Offsets, l.own = zeros(b.Offsets, l.samples+1), zeros(l.own, l.samples)
	if err := l.offsets.read(b.Offsets[1:]); err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	if err := l.lengths.read(l.own); err != nil {
		return fmt.Errorf("lengths: %w", err)
	}
	start := l.end
	for j, length := range l.own {
		end := b.Offsets[j+1]
		if end < l.end || end > l.count {
			return fmt.Errorf("sample %d: offset %d after %d, want one from the offset before to %d, the number of indices", j, end, l.end, l.count)
		}
		if end-l.end != length {
			return fmt.Errorf("sample %d: %d lookups by the offsets, but %d by the lengths", j, end-l.end, length)
		}
		l.end = end
		b.Offsets[j+1] -= start
	}
	b.Offsets = b.Offsets[:samples+1]
	count := b.Offsets[samples]
	if count > lookups.MaxLookups {
		return fmt.Errorf("%d lookups, more than %d: state a smaller batch", count, lookups.MaxLookups)
	}
	b.Indices = b.Indices[:0]
	for read := 0; read < int(count); read = len(b.Indices) {
		block := min(int(count)-read, indexBlock)
		b.Indices = slices.Grow(b.Indices, block)[:read+block]
		if err := l.indices.read(b.Indices[read:]); err != nil {
			return err
		}
	}
	for i, row := range b.Indices {
		if uint64(row) >= problem.MaxRows {
			at, _ := slices.BinarySearch(b.Offsets, int64(i)+1)
			return fmt.Errorf("sample %d, index %d: want from 0 to %d", at-1, row, int64(problem.MaxRows-1))
		}
	}
	return l.indices.skip(l.end - start - count)
}

func (l *tensorLog) close() error { return l.in.Close() }

// numbers reads the numbers of a tensor.
type numbers struct {
	in     io.Reader
	size   int64 // the bytes of a number
	buffer []byte
}

// read reads the next numbers.
func (n *numbers) read(list []int64) error {
	for len(list) > 0 {
		part := list[:min(len(list), len(n.buffer)/int(n.size))]
		data := n.buffer[:len(part)*int(n.size)]
		if _, err := io.ReadFull(n.in, data); err != nil {
			return cut(err)
		}
		for k := range part {
			if n.size == 4 {
				part[k] = int64(int32(binary.LittleEndian.Uint32(data[4*k:])))
			} else {
				part[k] = int64(binary.LittleEndian.Uint64(data[8*k:]))
			}
		}
		list = list[len(part):]
	}
	return nil
}

// skip passes over numbers.
func (n *numbers) skip(count int64) error {
	_, err := io.CopyN(io.Discard, n.in, count*n.size)
	return cut(err)
}

// openTorch returns the value in a file of torch.save, and a function that reads a storage.
func openTorch(in io.ReaderAt, size int64) (any, func(*torchfile.Storage) (io.Reader, error), error) {
	var start [len(zipEntry)]byte
	if _, err := in.ReadAt(start[:], 0); err != nil {
		return nil, nil, cut(err)
	}
	if string(start[:]) == zipEntry {
		return openZip(in, size)
	}
	return openLegacy(in, size)
}

func newUnpickler(in io.Reader, storages map[string]*torchfile.Storage) *torchfile.Unpickler {
	return &torchfile.Unpickler{
		In:       bufio.NewReader(in),
		Content:  "file of three tensors",
		Types:    map[torchfile.Global]int64{"torch IntStorage": 4, "torch LongStorage": 8},
		TypeHint: "indices, offsets and lengths are int32 or int64 tensors",
		Storages: storages,
	}
}

var errBigEndian = errors.New("its numbers are not little-endian: save it on another machine")

// openZip reads the format since PyTorch 1.6, a zip file of one folder:
//
//	NAME/data.pkl       a pickle of the tensors: which storage, which shape
//	NAME/byteorder      "little", since PyTorch 2.1
//	NAME/data/0, ...    the storages
func openZip(in io.ReaderAt, size int64) (value any, open func(*torchfile.Storage) (io.Reader, error), err error) {
	archive, err := zip.NewReader(in, size)
	if err != nil {
		return nil, nil, cut(err)
	}
	files := map[string]*zip.File{}
	folder := ""
	for _, f := range archive.File {
		files[f.Name] = f
		if dir, name := path.Split(f.Name); name == "data.pkl" {
			folder = dir
		}
	}
	find := func(name string, least int64) (io.Reader, error) {
		f := files[folder+name]
		if f == nil {
			return nil, fmt.Errorf("a zip file without NAME/%s: is it a file that torch.save wrote?", name)
		}
		if err := checkEntry(f, size, least); err != nil {
			return nil, fmt.Errorf("NAME/%s: %w", name, err)
		}
		return f.Open()
	}
	if order, err := find("byteorder", 0); err == nil {
		if text, err := io.ReadAll(io.LimitReader(order, 16)); err != nil || string(text) != "little" {
			return nil, nil, errors.Join(errBigEndian, err)
		}
	}
	program, err := find("data.pkl", 0)
	if err != nil {
		return nil, nil, err
	}
	if value, err = newUnpickler(program, nil).Load(); err != nil {
		return nil, nil, fmt.Errorf("data.pkl: %w", err)
	}
	return value, func(s *torchfile.Storage) (io.Reader, error) {
		return find("data/"+s.Key, s.Size*s.Count)
	}, nil
}

// checkEntry checks the stated sizes of a file in a zip file of the given size. It must have
// at least the given number of bytes.
func checkEntry(f *zip.File, size, least int64) error {
	switch {
	case f.CompressedSize64 > uint64(size):
		return errCut
	case f.UncompressedSize64 < uint64(least):
		return fmt.Errorf("it has %d bytes, and its tensor needs %d: it is damaged", f.UncompressedSize64, least)
	case f.UncompressedSize64 > uint64(mostUnpacked(int64(f.CompressedSize64))):
		return fmt.Errorf("%d bytes of %d compressed ones, more than %d times as many: save the tensors again without compression", f.UncompressedSize64, f.CompressedSize64, mostRatio)
	}
	return nil
}

// openLegacy reads the format before PyTorch 1.6, a sequence of pickles: a magic number, a
// version, facts about the system, the tensors, the list of storages. Then come the
// storages in the order of the list, each after its number of numbers.
func openLegacy(in io.ReaderAt, size int64) (any, func(*torchfile.Storage) (io.Reader, error), error) {
	const version = int64(1001)
	storages := map[string]*torchfile.Storage{}
	u := newUnpickler(io.NewSectionReader(in, 0, size), storages)
	var values [5]any
	at := int64(0) // the end of the pickles, then of a storage
	for i := range values {
		var err error
		if values[i], err = u.Load(); err != nil {
			return nil, nil, err
		}
		at += int64(u.Length())
		if i == 0 && values[0] != any(magic) {
			return nil, nil, errNotTorch
		}
	}
	if values[1] != any(version) {
		return nil, nil, fmt.Errorf("version %v of the format before PyTorch 1.6, want %d", values[1], version)
	}
	if !littleEndian(values[2]) {
		return nil, nil, errBigEndian
	}
	keys, ok := values[4].(*torchfile.List)
	if !ok {
		return nil, nil, errors.New("it has no list of storages")
	}
	places, err := storagePlaces(keys, storages, at, size)
	if err != nil {
		return nil, nil, err
	}
	open := func(s *torchfile.Storage) (io.Reader, error) {
		place, ok := places[s]
		if !ok {
			return nil, fmt.Errorf("storage %q: %w", quotable(s.Key), errCut)
		}
		return io.NewSectionReader(in, place, s.Size*s.Count), nil
	}
	return values[3], open, nil
}

var errNotTorch = errors.New("torch.save did not write this pickle")

// storagePlaces returns where the numbers of the storages begin, which follow from a place on
// in a file of the given size.
func storagePlaces(keys *torchfile.List, storages map[string]*torchfile.Storage, at, size int64) (map[*torchfile.Storage]int64, error) {
	places := map[*torchfile.Storage]int64{}
	for _, key := range keys.Items {
		name, _ := key.(string)
		s := storages[name]
		if s == nil {
			return nil, fmt.Errorf("storage %q belongs to no tensor", quotable(name))
		}
		at += 8
		if s.Size*s.Count > size-at { // the product is at most torchfile.MaxStorage
			return nil, fmt.Errorf("storage %q: %w", quotable(name), errCut)
		}
		places[s] = at
		at += s.Size * s.Count
	}
	return places, nil
}

// checkStart returns an error if torch.save writes no file that begins with start.
func checkStart(start []byte) error {
	if bytes.HasPrefix(start, []byte(pickleStart)) {
		first, err := newUnpickler(bytes.NewReader(start), nil).Load()
		if err != nil || first != any(magic) {
			return errors.Join(errNotTorch, err)
		}
	}
	return nil
}

// littleEndian reports whether the facts about the system that wrote a file say so.
func littleEndian(facts any) bool {
	dict, _ := facts.(*torchfile.Dict)
	for i := 0; dict != nil && i+1 < len(dict.Items); i += 2 {
		if dict.Items[i] == any("little_endian") && dict.Items[i+1] == any(true) {
			return true
		}
	}
	return false
}
