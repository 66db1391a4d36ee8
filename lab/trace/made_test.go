package trace

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	archive := zip.NewWriter(w)
	entry := func(name string, write func(out *bufio.Writer)) {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: "trace/" + name, Method: zip.Store})
		if err != nil {
			panic(err)
		}
		out := bufio.NewWriterSize(w, 1<<16)
		write(out)
		if err := out.Flush(); err != nil {
			panic(err) // the disk is full
		}
	}
	storage := func(key string, each func(put func(int64))) {
		entry("data/"+key, func(out *bufio.Writer) {
			each(func(x int64) {
				_, _ = out.Write(binary.LittleEndian.AppendUint64(out.AvailableBuffer(), uint64(x))) // an error comes back from Flush
			})
		})
	}
	total := 0
	m.lengths(func(length int) { total += length })
	bags := m.tables * m.batch
	entry("data.pkl", func(out *bufio.Writer) { _, _ = out.Write(pickled(total, bags+1, m.tables, m.batch)) })
	entry("byteorder", func(out *bufio.Writer) { _, _ = out.WriteString("little") })
	storage("0", func(put func(int64)) {
		random := rand.New(rand.NewPCG(2, 2))
		for range total {
			put(m.index(random))
		}
	})
	storage("1", func(put func(int64)) {
		sum := 0
		put(0)
		m.lengths(func(length int) { sum += length; put(int64(sum)) })
	})
	storage("2", func(put func(int64)) {
		m.lengths(func(length int) { put(int64(length)) })
	})
	if err := archive.Close(); err != nil {
		panic(err)
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

// holds checks that the tables of a made file have the lookups that it was made with.
func (m made) holds(t *testing.T, tables []Table) {
	t.Helper()
	random := rand.New(rand.NewPCG(2, 2))
	var lengths []int64
	m.lengths(func(length int) { lengths = append(lengths, int64(length)) })
	if len(tables) != m.tables {
		t.Fatalf("got %d tables, want %d", len(tables), m.tables)
	}
	for i, table := range tables {
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
}

// TestLongFiles reads files that are longer than any buffer.
func TestLongFiles(t *testing.T) {
	for _, name := range []string{"made.pt", "made.pt.gz"} {
		m := made{tables: 5, batch: 3000, pooling: 20, rows: 1 << 33}
		path, _, _ := m.file(t, name)
		tables, err := readAll(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		m.holds(t, tables)
	}
}

func BenchmarkGzip(b *testing.B) { benchmark(b, "made.pt.gz") }
func BenchmarkZip(b *testing.B)  { benchmark(b, "made.pt") }

// benchmark profiles all tables of a file. Its speed is in uncompressed bytes,

func benchmark(b *testing.B, name string) {
	path, size, lookups := made{tables: 16, batch: 8192, pooling: 40, rows: 1 << 22}.file(b, name)
	b.SetBytes(size)
	for b.Loop() {
		if _, err := ReadTables(path, Options{}, TableOptions{Dim: 4}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(lookups)*float64(b.N)/b.Elapsed().Seconds(), "lookups/s")
}
