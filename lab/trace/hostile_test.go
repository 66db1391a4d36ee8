package trace

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/internal/torchfile"
)

// refused wants an error with a text, in little memory, and no temporary file that stays.
func refused(t *testing.T, name string, data []byte, want string) {
	t.Helper()
	path, dir := write(t, name, data), t.TempDir()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readAll(path, Options{TempDir: dir})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", name, err, want)
	}
	if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 32 {
		t.Errorf("%s: %d bytes of file took %d MiB of memory", name, len(data), taken)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%s leaves %v behind, error %v", name, left, err)
	}
}

// liar is a zip file of torch.save with one bag of 2^28 lookups. Its indices have eight bytes,
// and the size that the zip file states for them.
func liar(t *testing.T, stated uint64) []byte {
	t.Helper()
	const count = 1 << 28
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	entry := func(name string, data []byte, size uint64) {
		h := &zip.FileHeader{Name: "x/" + name, CompressedSize64: uint64(len(data)), UncompressedSize64: size}
		if size != uint64(len(data)) {
			var packed bytes.Buffer
			w, _ := flate.NewWriter(&packed, 9)
			_, _ = w.Write(data)
			_ = w.Close()
			h.Method, data, h.CompressedSize64 = zip.Deflate, packed.Bytes(), uint64(packed.Len())
		}
		w := must.Get(archive.CreateRaw(h))(t)
		_, _ = w.Write(data) // to memory
	}
	number := func(n ...uint64) (b []byte) {
		for _, x := range n {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	for _, e := range []struct {
		name string
		data []byte
		size uint64
	}{
		{"data.pkl", pickled(count, 2, 1, 1), 0},
		{"data/0", number(1), stated},
		{"data/1", number(0, count), 0},
		{"data/2", number(count), 0},
	} {
		if e.size == 0 {
			e.size = uint64(len(e.data))
		}
		entry(e.name, e.data, e.size)
	}
	must.Do(t, archive.Close())
	return out.Bytes()
}

// TestStatedSizes wants small files that state large tensors to take little memory.
func TestStatedSizes(t *testing.T) {
	refused(t, "small.pt", liar(t, 8), "NAME/data/0: it has 8 bytes, and its tensor needs 2147483648")
	refused(t, "lie.pt", liar(t, 1<<31), "more than 100 times as many")
	list := &torchfile.List{}
	storages := map[string]*torchfile.Storage{}
	for _, key := range strings.Fields("a b c") {
		list.Items = append(list.Items, key)
		storages[key] = &torchfile.Storage{Key: key, Size: 8, Count: torchfile.MaxStorage / 8}
	}
	if _, err := storagePlaces(list, storages, 100, 1<<20); err == nil || !strings.Contains(err.Error(), `storage "a": it ends early`) {
		t.Errorf("storages beyond the file: got %v", err)
	}
	// Indices that end early take no more than a block.
	l := &tensorLog{
		samples: 1, count: 1 << 28, indices: &numbers{in: strings.NewReader("12345678"), size: 8, buffer: make([]byte, 64)},
		offsets: &numbers{in: bytes.NewReader([]byte("\x00\x00\x00\x10\x00\x00\x00\x00")), size: 8, buffer: make([]byte, 64)},
		lengths: &numbers{in: bytes.NewReader([]byte("\x00\x00\x00\x10\x00\x00\x00\x00")), size: 8, buffer: make([]byte, 64)},
	}
	if err := l.readBags(1); !errors.Is(err, errCut) || cap(l.bags.Indices) > 2*indexBlock {
		t.Errorf("indices that end early: got %v and memory for %d", err, cap(l.bags.Indices))
	}
}

// TestGzipBombs wants the start of a compressed file to be looked at before a temporary file
// is made, and a bound on that file.
func TestGzipBombs(t *testing.T) {
	zeros := make([]byte, spare+16<<20)
	refused(t, "pickle.pt.gz", packed(t, append([]byte(pickleStart), zeros[:1<<20]...)), "torch.save did not write this pickle")
	refused(t, "zip.pt.gz", packed(t, append([]byte(zipEntry), zeros...)), "uncompress it with gunzip")
}

// TestParquetBombs wants the sizes in a Parquet file to be checked before they are believed.
func TestParquetBombs(t *testing.T) {
	small := parquetOf(t, []lookup{{Table: "a"}})
	refused(t, "footer.parquet", append(bytes.Clone(small[:len(small)-8]), "\xff\xff\xff\x7fPAR1"...), "a footer of 2147483647 bytes in a file of")
	// A footer with a list of 2^31-1 row groups.
	refused(t, "list.parquet", []byte("PAR1\x49\xfc\xff\xff\xff\xff\x07\x00\x08\x00\x00\x00PAR1"), "footer: ")
	lz4 := must.Get(os.ReadFile("testdata/bad/lz4.parquet"))(t)
	refused(t, "lz4.parquet", lz4, `row group 0, column "Sample": compressed with LZ4`)
	var lists bytes.Buffer
	w := parquet.NewGenericWriter[struct{ IDs []int64 }](&lists, parquet.Compression(&parquet.Lz4Raw))
	must.Get(w.Write([]struct{ IDs []int64 }{{[]int64{1, 2}}}))(t)
	must.Do(t, w.Close())
	refused(t, "lists.parquet", lists.Bytes(), `row group 0, column "IDs": compressed with LZ4_RAW`)
}

// TestCheckPage wants the sizes of a page's header to be compared with its data.
func TestCheckPage(t *testing.T) {
	zipped := packed(t, make([]byte, 100))
	encoder := must.Get(zstd.NewWriter(nil))(t)
	for _, test := range []struct {
		unpacked, packed, values int64
		codec                    format.CompressionCodec
		data, want               string
	}{
		{100, 3, 5, format.Uncompressed, "abc", ""},
		{100, 4, 5, format.Uncompressed, "abc", "4 bytes, more than its column has"},
		{100, -1, 5, format.Uncompressed, "abc", "-1 bytes, more than its column has"},
		{-5, 3, 5, format.Uncompressed, "abc", "-5 bytes uncompressed"},
		{1<<31 - 1, 3, 5, format.Uncompressed, "abc", "2147483647 bytes uncompressed, more than 67108864"},
		{100, 3, 1 << 30, format.Uncompressed, "abc", "1073741824 values, more than 16777216"},
		{100, 0, 5, format.Snappy, string(snappy.Encode(nil, make([]byte, 100))), ""},
		{100, 5, 5, format.Snappy, "\xff\xff\xff\xff\x0f", "4294967295 bytes, and its header states 100"},
		{100, 0, 5, format.Gzip, string(zipped), ""},
		{99, 0, 5, format.Gzip, string(zipped), "more than the 99 bytes"},
		{100, 0, 5, format.Zstd, string(encoder.EncodeAll(make([]byte, 100), nil)), ""},
		{99, 0, 5, format.Zstd, string(encoder.EncodeAll(make([]byte, 100), nil)), "more than the 99 bytes"},
	} {
		if test.packed == 0 {
			test.packed = int64(len(test.data))
		}
		var h []byte
		field := func(step byte, x int64) { h = binary.AppendVarint(append(h, step<<4|5), x) }
		field(1, 0) // a data page
		field(1, test.unpacked)
		field(1, test.packed)
		h = append(h, 2<<4|12) // field 5, the header of a data page
		for _, x := range []int64{test.values, 0, 0, 0} {
			field(1, x)
		}
		data := string(append(h, 0, 0)) + test.data
		size, err := checkPage(io.NewSectionReader(strings.NewReader(data), 0, int64(len(data))), test.codec, [2]byte{})
		switch {
		case test.want == "" && (err != nil || size != int64(len(data))):
			t.Errorf("%+v: got %d and %v, want %d", test, size, err, len(data))
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%+v: got %v", test, err)
		}
	}
}

// A part of a page has no more values than the page states, whatever its runs state.
func TestRuns(t *testing.T) {
	varints := func(values ...uint64) (b []byte) {
		for _, v := range values {
			b = binary.AppendUvarint(b, v)
		}
		return b
	}
	sized := func(part []byte) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(part))), part...)
	}
	for _, test := range []struct {
		encoding format.Encoding
		data     []byte
		good     bool
	}{
		{format.Plain, []byte("any"), true},
		{format.RLEDictionary, append([]byte{3}, varints(10<<1, 5)...), true},
		{format.RLEDictionary, append([]byte{3}, varints(1<<1|1, 1, 2, 3, 2<<1, 7)...), true},
		{format.RLEDictionary, append([]byte{3}, varints(1<<30, 5)...), false},
		{format.RLEDictionary, append([]byte{3}, varints(9<<1, 5, 9<<1, 5)...), false},
		{format.RLEDictionary, append([]byte{3}, varints(1<<30|1, 5)...), false},
		{format.RLEDictionary, append([]byte{200}, varints(1<<1, 5)...), false},
		{format.RLEDictionary, append([]byte{3}, varints(1<<1|1, 1)...), false},
		{format.RLE, sized(varints(10<<1, 1)), true},
		{format.RLE, sized(varints(1<<40, 1)), false},
		{format.RLE, []byte{255, 255, 255, 255}, false},
		{format.DeltaBinaryPacked, varints(128, 4, 10, 0), true},
		{format.DeltaBinaryPacked, varints(128, 4, 1<<31, 0), false},
		{format.DeltaLengthByteArray, varints(128, 4), false},
		{format.DeltaByteArray, varints(128, 4, 1, 1<<28), false},
		{format.BitPacked, nil, false},
	} {
		r := runs{data: test.data, most: 10}
		r.values(test.encoding)
		if (r.err == nil) != test.good {
			t.Errorf("%v %v: got %v", test.encoding, test.data, r.err)
		}
	}
	levels := runs{data: slices.Concat(sized(varints(10<<1, 1)), sized(varints(1<<30, 1))), most: 10}
	if levels.levels([2]byte{1, 1}); levels.err == nil {
		t.Error("levels of 2^29 values: got no error")
	}
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
