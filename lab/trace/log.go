package trace

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
)

// log.go reads a user's own logs: a row for each lookup, with the columns sample,
// table and index, and feature if several features read a table; or a row for each sample
// (wide.go, lists.go). Rows may come in
// any order. Logs are usually sorted by sample, so the lookups of a table are
// spread over the whole file. The log is therefore read once and sorted into tables
// on disk:
//
//	rows --> a buffer for each table --> blocks in one temporary file
//	table --> its blocks, twice: lengths of bags; then each lookup to its place
//
// A lookup takes about four bytes on disk: the difference to the sample before, and
// the row, both as numbers of variable length.
//
// The samples are those that occur, in the order of their numbers; the numbers may
// have gaps. A sample without lookups in any table is not in a log of lookups.

// The limits of a log.
const (
	maxLogTables = 1 << 16
	maxName      = 1 << 10
	// The sample numbers lie in a few pages. A page is a bit map of samplePage
	// numbers; all pages together take at most 16 MiB.
	samplePage = 1 << 16
	maxPages   = 1 << 11
	// bufferBudget is shared by the buffers of all tables.
	bufferBudget = 32 << 20
	minBuffer    = 1 << 9
	maxBuffer    = 1 << 16
)

// rows reads all rows of a log into it.
type rows func(f *file, into *log) error

// log is an opened log.
type log struct {
	opt     Options
	batch   int
	samples sampleSet
	// count is the samples to read, numbered from 0 in the order of their numbers.
	count  int
	tables []*logTable
	byName map[string]*logTable
	spill  *spill
	// most is the most bytes for the temporary file.
	most int64
	// last is the table of the row before.
	last *logTable
	next int
	bags lookups.Bags
}

// logTable is one table's lookups on disk.
type logTable struct {
	name     string
	features []string
	byName   map[string]int
	// sample is the sample of the last lookup.
	sample int64
	buffer []byte
	blocks []block
	count  int64
}

type block struct{ at, size int64 }

func openLog(f *file, o Options, read rows) (_ source, err error) {
	l := &log{opt: o, batch: o.Batch, most: mostUnpacked(f.size), byName: map[string]*logTable{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.spill, err = newSpill(o.TempDir); err != nil {
		return nil, err
	}
	if err := read(f, l); err != nil {
		return nil, err
	}
	l.count = l.samples.close()
	if len(l.tables) == 0 || l.count == 0 {
		return nil, errors.New("the log has no rows")
	}
	for _, t := range l.tables {
		if err := l.flush(t); err != nil {
			return nil, err
		}
		t.buffer = nil
	}
	if l.batch > 0 {
		l.count = min(l.count, l.batch)
	}
	if l.count > problem.MaxBatch {
		return nil, fmt.Errorf("%d samples, more than the largest batch, %d: state a smaller batch", l.count, problem.MaxBatch)
	}
	slices.SortFunc(l.tables, func(a, b *logTable) int { return compareNames(a.name, b.name) })
	return l, nil
}

// compareNames orders names so that numbers in them are ordered by value: t2 comes
// before t10.
func compareNames(a, b string) int {
	whole := cmp.Compare(a, b) // t1 and t01 have the same value
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		p, q := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
		if byValue := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); byValue != 0 {
			return byValue
		}
		a, b = a[x:], b[y:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), whole)
}

// digits returns the number of digits at the start of a text.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// row adds one lookup.
func (l *log) row(sample int64, table []byte, index int64, feature []byte) error {
	if sample < 0 {
		return fmt.Errorf("sample %d: want 0 or more", sample)
	}
	if uint64(index) >= problem.MaxRows {
		return fmt.Errorf("index %d: want from 0 to %d; %s", index, int64(problem.MaxRows-1), hashed)
	}
	t := l.last
	if t == nil || t.name != string(table) {
		var err error
		if t, err = l.tableOf(table); err != nil {
			return err
		}
		l.last = t
	}
	number := 0
	if len(feature) > 0 || len(t.features) > 0 {
		var err error
		if number, err = t.feature(feature); err != nil {
			return fmt.Errorf("table %q: %w", t.name, err)
		}
	}
	if err := l.samples.add(sample, l.batch); err != nil {
		return err
	}
	if l.samples.beyond(sample) {
		return nil
	}
	if t.count++; t.count > lookups.MaxLookups {
		return fmt.Errorf("table %q: more than %d lookups: state a smaller batch", t.name, lookups.MaxLookups)
	}
	t.buffer = binary.AppendVarint(t.buffer, sample-t.sample)
	t.buffer = binary.AppendUvarint(t.buffer, uint64(index))
	t.buffer = binary.AppendUvarint(t.buffer, uint64(number))
	t.sample = sample
	if len(t.buffer) >= min(maxBuffer, max(minBuffer, bufferBudget/len(l.tables))) {
		return l.flush(t)
	}
	return nil
}

func (l *log) tableOf(name []byte) (*logTable, error) {
	if t := l.byName[string(name)]; t != nil {
		return t, nil
	}
	switch {
	case len(name) == 0:
		return nil, errors.New("the name of a table is empty")
	case len(name) > maxName:
		return nil, fmt.Errorf("a table's name has %d bytes, more than %d", len(name), maxName)
	case len(l.tables) == maxLogTables:
		return nil, fmt.Errorf("more than %d tables: is the column of tables the right one?", maxLogTables)
	}
	t := &logTable{name: string(name), byName: map[string]int{}}
	l.tables = append(l.tables, t)
	l.byName[t.name] = t
	return t, nil
}

// feature returns the number of a feature by its name.
func (t *logTable) feature(name []byte) (int, error) {
	if i, ok := t.byName[string(name)]; ok {
		return i, nil
	}
	switch {
	case len(name) == 0 || (len(t.features) == 0 && t.count > 0):
		return 0, errors.New("some rows have a feature, others have none")
	case len(name) > maxName:
		return 0, fmt.Errorf("a feature's name has %d bytes, more than %d", len(name), maxName)
	case len(t.features) == problem.MaxFeatures:
		return 0, fmt.Errorf("more than %d features: is the column of features the right one?", problem.MaxFeatures)
	}
	t.features = append(t.features, string(name))
	t.byName[string(name)] = len(t.features) - 1
	return len(t.features) - 1, nil
}

// flush writes a table's buffer to the temporary file.
func (l *log) flush(t *logTable) error {
	if len(t.buffer) == 0 {
		return nil
	}
	if l.spill.size > l.most {
		return fmt.Errorf("its lookups take more than %d bytes, %d times its size and %d: state a smaller batch", l.most, mostRatio, spare)
	}
	t.blocks = append(t.blocks, block{l.spill.size, int64(len(t.buffer))})
	_, err := l.spill.Write(t.buffer)
	t.buffer = t.buffer[:0]
	return err
}

func (l *log) names() []string {
	names := make([]string, len(l.tables))
	for i, t := range l.tables {
		names[i] = t.name
	}
	return names
}

func (l *log) table(out *Table) error {
	if l.next == len(l.tables) {
		return io.EOF
	}
	t := l.tables[l.next]
	l.next++
	*out = Table{Name: t.name, Samples: l.count, Features: slices.Clone(t.features)}
	slices.SortFunc(out.Features, compareNames)
	// place is the place of a feature's bags, by the number of the feature in the
	// rows.
	place := []int{0}
	for i, name := range t.features {
		place = append(place[:i], slices.Index(out.Features, name))
	}
	if len(out.Features) == 0 {
		out.Features = []string{t.name}
	}
	if l.count > lookups.MaxBags/len(out.Features) {
		return fmt.Errorf("table %q: %d samples of %d features, more than %d bags: state a smaller batch", t.name, l.count, len(out.Features), lookups.MaxBags)
	}
	bags := l.count * len(out.Features)
	b := &l.bags
	b.Offsets = zeros(b.Offsets, bags+1)
	err := l.each(t, func(sample, feature int, _ int64) {
		b.Offsets[place[feature]*l.count+sample+1]++
	})
	if err != nil {
		return fmt.Errorf("table %q: %w", t.name, err)
	}
	for i := 1; i <= bags; i++ {
		b.Offsets[i] += b.Offsets[i-1]
	}
	b.Indices = zeros(b.Indices, int(b.Offsets[bags]))
	// Each start moves to the end of its bag, which is the start of the next.
	err = l.each(t, func(sample, feature int, index int64) {
		at := &b.Offsets[place[feature]*l.count+sample]
		b.Indices[*at] = index
		*at++
	})
	if err != nil {
		return fmt.Errorf("table %q: %w", t.name, err)
	}
	copy(b.Offsets[1:], b.Offsets[:bags])
	b.Offsets[0] = 0
	out.Bags = *b
	return nil
}

// zeros returns a list of n zeros. It reuses the memory of the old list if that is
// large enough.
func zeros(old []int64, n int) []int64 {
	if cap(old) < n {
		return make([]int64, n)
	}
	clear(old[:n])
	return old[:n]
}

// each calls a function for each lookup of a table in the samples to read.
func (l *log) each(t *logTable, fn func(sample, feature int, index int64)) error {
	in := bufio.NewReaderSize(&blocks{spill: l.spill, left: t.blocks}, streamBuffer)
	sample := int64(0)
	for range t.count {
		step, err1 := binary.ReadVarint(in)
		index, err2 := binary.ReadUvarint(in)
		feature, err3 := binary.ReadUvarint(in)
		if err := errors.Join(err1, err2, err3); err != nil {
			return fmt.Errorf("reading the temporary file: %w", err)
		}
		sample += step
		if rank := l.samples.below(sample); rank < l.count {
			fn(rank, int(feature), int64(index))
		}
	}
	return nil
}

func (l *log) close() error { return l.spill.Close() }

// blocks reads a table's blocks one after the other.
type blocks struct {
	spill *spill
	left  []block
	// done is the number of bytes of the first block that are read.
	done int64
}

func (b *blocks) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	first := b.left[0]
	n, err := b.spill.ReadAt(p[:min(int64(len(p)), first.size-b.done)], first.at+b.done)
	if b.done += int64(n); b.done == first.size {
		b.left, b.done = b.left[1:], 0
		return n, nil
	}
	return n, err
}

// sampleSet is the set of the samples that occur, as a bit map in pages.
type sampleSet struct {
	pages map[int64]*page
	// last is the page of the sample before, and lastKey is its key.
	last    *page
	lastKey int64
	count   int
	// limit is an upper bound on the number of the last sample of the batch, known
	// from the samples so far. Samples with higher numbers are not in the batch.
	limit int64
}

// page is the part of the set for samplePage numbers.
type page struct {
	words [samplePage / 64]uint64
	// before is the number of samples in lower words and pages, once the set is
	// closed.
	before [samplePage / 64]int32
}

// add adds a sample. batch is the number of samples wanted, or 0.
func (s *sampleSet) add(sample int64, batch int) error {
	key := sample / samplePage
	if s.last == nil || s.lastKey != key {
		p := s.pages[key]
		if p == nil {
			if len(s.pages) == maxPages {
				return fmt.Errorf("sample %d: the samples' numbers are too far apart: number them from 0", sample)
			}
			if s.pages == nil {
				s.pages, s.limit = map[int64]*page{}, -1
			}
			p = &page{}
			s.pages[key] = p
		}
		s.last, s.lastKey = p, key
	}
	word, bit := &s.last.words[sample%samplePage/64], uint64(1)<<(sample%64)
	if *word&bit != 0 {
		return nil
	}
	*word |= bit
	if s.count++; s.count == batch {
		s.limit = s.highest()
	}
	return nil
}

// beyond reports whether a sample is certainly after the last one of the batch.
func (s *sampleSet) beyond(sample int64) bool { return s.limit >= 0 && sample > s.limit }

func (s *sampleSet) highest() int64 {
	top := int64(-1)
	for key, p := range s.pages {
		for i, word := range p.words {
			if word != 0 {
				top = max(top, key*samplePage+int64(i)*64+int64(bits.Len64(word))-1)
			}
		}
	}
	return top
}

// close returns the number of samples and prepares below.
func (s *sampleSet) close() int {
	keys := make([]int64, 0, len(s.pages))
	for key := range s.pages {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	sum := 0
	for _, key := range keys {
		p := s.pages[key]
		for i, word := range p.words {
			p.before[i] = int32(sum)
			sum += bits.OnesCount64(word)
		}
	}
	s.last = nil
	return sum
}

// below returns the number of samples with lower numbers than the given one, which
// must be in the set.
func (s *sampleSet) below(sample int64) int {
	if key := sample / samplePage; s.last == nil || s.lastKey != key {
		s.last, s.lastKey = s.pages[key], key
	}
	i := sample % samplePage / 64
	return int(s.last.before[i]) + bits.OnesCount64(s.last.words[i]&(1<<(sample%64)-1))
}
