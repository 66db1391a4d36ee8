package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// made is a benchmark file whose content is computed while it is written, in the
// format of torch.save.
type made struct {
	tables, batch int
	// pooling is the most lookups of a bag; rows are the numbers of rows of the
	// tables.
	pooling int
	rows    int64
	// header says that the sizes of entries are in their headers; PyTorch writes them
	// after the data.
	header bool
	// early puts the version before the pickle.
	early bool
}

// lengths calls a function for each bag.
func (m made) lengths(fn func(length int)) {
	random := rand.New(rand.NewPCG(1, 1))
	for range m.tables * m.batch {
		fn(random.IntN(m.pooling + 1))
	}
}

// index returns the i-th index: some rows are used more often than others.
func (m made) index(random *rand.Rand) int64 {
	x := random.Float64()
	return int64(x * x * float64(m.rows))
}

// write writes the file and returns the number of lookups in it.
func (m made) write(w io.Writer) int {
	out := bufio.NewWriterSize(w, 1<<16)
	total := 0
	m.lengths(func(length int) { total += length })
	bags := m.tables * m.batch
	if m.early {
		m.entry(out, "version", []byte("3\n"))
	}
	m.entry(out, "data.pkl", pickled(total, bags+1, m.tables, m.batch))
	if !m.early {
		m.entry(out, "byteorder", []byte("little"))
	}
	m.storage(out, "0", total, func(put func(int64)) {
		random := rand.New(rand.NewPCG(2, 2))
		for range total {
			put(m.index(random))
		}
	})
	m.storage(out, "1", bags+1, func(put func(int64)) {
		sum := 0
		put(0)
		m.lengths(func(length int) { sum += length; put(int64(sum)) })
	})
	m.storage(out, "2", bags, func(put func(int64)) {
		m.lengths(func(length int) { put(int64(length)) })
	})
	m.entry(out, "version", []byte("3\n"))
	out.WriteString(zipList)
	if err := out.Flush(); err != nil {
		panic(err) // the disk is full
	}
	return total
}

// pickled is data.pkl of three tensors of 64-bit numbers.
func pickled(lookups, offsets, tables, batch int) []byte {
	var p bytes.Buffer
	integer := func(n int) {
		p.Write([]byte{0x8a, 8})
		p.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	}
	text := func(s string) {
		p.WriteByte('X')
		p.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
		p.WriteString(s)
	}
	p.WriteString("\x80\x02(")
	for i, shape := range [][]int{{lookups}, {offsets}, {tables, batch}} {
		size := shape[0] * shape[len(shape)-1]
		if len(shape) == 1 {
			size = shape[0]
		}
		p.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
		text("storage")
		p.WriteString("ctorch\nLongStorage\n")
		text(fmt.Sprint(i))
		text("cpu")
		integer(size)
		p.WriteString("tQ")
		integer(0)
		p.WriteByte('(')
		for _, n := range shape {
			integer(n)
		}
		p.WriteString("t(")
		if len(shape) == 2 {
			integer(shape[1])
		}
		integer(1)
		p.WriteString("t\x89ccollections\nOrderedDict\n)RtR")
	}
	p.WriteString("t.")
	return p.Bytes()
}

func (m made) entry(out *bufio.Writer, name string, data []byte) {
	m.start(out, name, len(data), crc32.ChecksumIEEE(data))
	out.Write(data)
	m.end(out, len(data), crc32.ChecksumIEEE(data))
}

// storage writes an entry of numbers. If the checksum is in the header, the numbers
// are computed twice: first for the checksum, then to write them.
func (m made) storage(out *bufio.Writer, key string, count int, each func(put func(int64))) {
	sum := uint32(0)
	pass := func(w io.Writer) {
		sum = 0
		block := make([]byte, 0, 1<<16)
		flush := func() {
			sum = crc32.Update(sum, crc32.IEEETable, block)
			_, _ = w.Write(block) // an error comes back from Flush
			block = block[:0]
		}
		each(func(x int64) {
			if block = binary.LittleEndian.AppendUint64(block, uint64(x)); len(block) == cap(block) {
				flush()
			}
		})
		flush()
	}
	if m.header {
		pass(io.Discard)
	}
	m.start(out, "data/"+key, 8*count, sum)
	pass(out)
	m.end(out, 8*count, sum)
}

func (m made) start(out *bufio.Writer, name string, size int, sum uint32) {
	name = "trace/" + name
	h := append([]byte(zipEntry), make([]byte, 26)...)
	binary.LittleEndian.PutUint16(h[26:], uint16(len(name)))
	var extra []byte
	if m.header {
		// Sizes in an extra field, as of entries beyond 4 GB.
		binary.LittleEndian.PutUint32(h[14:], sum)
		binary.LittleEndian.PutUint32(h[18:], 0xffffffff)
		binary.LittleEndian.PutUint32(h[22:], 0xffffffff)
		extra = append(extra, "FB\x03\x00ZZZ"...)
		extra = append(extra, 1, 0, 16, 0)
		extra = binary.LittleEndian.AppendUint64(extra, uint64(size))
		extra = binary.LittleEndian.AppendUint64(extra, uint64(size))
	} else {
		h[6] = 8
	}
	binary.LittleEndian.PutUint16(h[28:], uint16(len(extra)))
	out.Write(h)
	out.WriteString(name)
	out.Write(extra)
}

func (m made) end(out *bufio.Writer, size int, sum uint32) {
	if m.header {
		return
	}
	out.WriteString(zipSizes)
	out.Write(binary.LittleEndian.AppendUint32(nil, sum))
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(size)))
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(size)))
}

// file writes the file to a folder of the test, compressed if its name says so. It
// returns the path, the uncompressed bytes and the number of lookups.
func (m made) file(t testing.TB, name string) (path string, bytes int64, lookups int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var w io.Writer = f
	var z *gzip.Writer
	if filepath.Ext(name) == ".gz" {
		if z, err = gzip.NewWriterLevel(f, gzip.BestSpeed); err != nil {
			t.Fatal(err)
		}
		w = z
	}
	count := &countingWriter{w: w}
	lookups = m.write(count)
	if z != nil {
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path, count.n, lookups
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// holds checks that a table of a made file has the lookups that the file was made
// with.
func (m made) holds(t *testing.T, r *Reader) {
	t.Helper()
	random := rand.New(rand.NewPCG(2, 2))
	var lengths []int64
	m.lengths(func(length int) { lengths = append(lengths, int64(length)) })
	for i := range m.tables {
		table, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		for j, length := range lengthsOf(table.Bags) {
			if want := lengths[i*m.batch+j]; length != want {
				t.Fatalf("table %d, sample %d: length %d, want %d", i, j, length, want)
			}
		}
		for j, row := range table.Bags.Indices {
			if want := m.index(random); row != want {
				t.Fatalf("table %d, lookup %d: row %d, want %d", i, j, row, want)
			}
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last table: got %v", err)
	}
}

// TestLongFiles reads files that are longer than any buffer.
func TestLongFiles(t *testing.T) {
	for _, header := range []bool{false, true} {
		for _, name := range []string{"made.pt", "made.pt.gz"} {
			m := made{tables: 5, batch: 3000, pooling: 20, rows: 1 << 33, header: header, early: header != (name == "made.pt")}
			path, _, _ := m.file(t, name)
			r, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			m.holds(t, r)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestClaims changes the sizes in a pickle to sizes that no file has.
func TestClaims(t *testing.T) {
	var file bytes.Buffer
	n := made{tables: 2, batch: 3, pooling: 4, rows: 10}.write(&file)
	good := pickled(n, 7, 2, 3)
	if bytes.Count(file.Bytes(), good) != 1 {
		t.Fatal("the pickle is not the expected one")
	}
	for _, test := range []struct {
		pickle []byte
		want   string
	}{
		{pickled(1<<60, 7, 2, 3), "1152921504606846976 numbers are more than a file can hold"},
		{pickled(1<<46, 7, 2, 3), "it ends early"},
		{pickled(n, 1<<40+1, 1<<20, 1<<20), "offsets: it ends early"},
		{pickled(n, 1<<44+1, 1<<19, 1<<25), "a batch from 1 to 16777216"},
		{pickled(n, 1<<60, 1<<30, 1<<30), "more than a file can hold"},
		{pickled(n, 7, 1<<33, 1<<33), "a tensor of shape [8589934592 8589934592]"},
		{pickled(-1, 7, 2, 3), "a storage without class, key or size"},
		{pickled(n, 7, -2, -3), "a tensor of shape [-2 -3]"},
		{pickled(n, 1, 0, 3), "lengths has the shape [0 3]"},
		{pickled(0, 7, 2, 3), `entry "trace/data/0": its data does not end after 0 bytes`},
		{pickled(n+1, 7, 2, 3), `entry "trace/data/0": its data does not end`},
		{pickled(n, 8, 7, 1), "offsets: table t6, sample 0: offset 1"},
	} {
		bad := bytes.Replace(file.Bytes(), good, test.pickle, 1)
		sound(t, bad, 32<<20)
		if _, err := readAll(write(t, "claims.pt", bad), Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

func BenchmarkGzip(b *testing.B) { benchmark(b, "made.pt.gz") }
func BenchmarkZip(b *testing.B)  { benchmark(b, "made.pt") }

// benchmark profiles all tables of a file. Its speed is in uncompressed bytes,
// counted once although the file is read twice.
func benchmark(b *testing.B, name string) {
	path, size, lookups := made{tables: 16, batch: 8192, pooling: 40, rows: 1 << 22}.file(b, name)
	b.SetBytes(size)
	for b.Loop() {
		r, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		for range r.Tables() {
			t, err := r.Next()
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := Profile(t, Properties{Dim: 4}); err != nil {
				b.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(lookups)*float64(b.N)/b.Elapsed().Seconds(), "lookups/s")
}
