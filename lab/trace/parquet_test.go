package trace

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"
)

// TestFilesOfArrow reads files of another writer (testdata/make_parquet.py):
// compressions, encodings, page versions and types that the library of this module
// does not write.
func TestFilesOfArrow(t *testing.T) {
	want, err := readAll("testdata/log.csv", Options{})
	if err != nil || len(want) != 3 || want[2].Name != "20" {
		t.Fatalf("got %v and %v, want the tables 1, 3 and 20", want, err)
	}
	paths, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(paths) != 5 {
		t.Fatalf("got %d files and %v, want 5", len(paths), err)
	}
	for _, path := range paths {
		if got, err := readAll(path, Options{}); err != nil || !sameTables(got, want) {
			t.Errorf("%s: got %v and %v, want %v", path, got, err, want)
		}
	}
}

func TestBadParquet(t *testing.T) {
	for name, want := range map[string]string{
		"float":    `column "index" is of the type DOUBLE: want whole numbers`,
		"null":     `row 1, column "index": a value is missing`,
		"lz4":      `row group 0, column "Sample": compressed with LZ4`,
		"list":     `column "index" is a list or a group`,
		"missing":  `no column "index" among ["sample" "table"]`,
		"negative": "row 0: index -7: want from 0",
	} {
		if _, err := readAll("testdata/bad/"+name+".parquet", Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	data, err := os.ReadFile("testdata/snappy.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		data []byte
		want string
	}{
		{packed(t, data), "a compressed Parquet file: uncompress it"},
		{data[:len(data)-1], "it is cut short"},
		{append(bytes.Clone(data[:len(data)-8]), "\xff\xff\xff\x7fPAR1"...), "a footer of 2147483647 bytes in a file of"},
	} {
		if _, err := readAll(write(t, "log.parquet", test.data), Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

// header returns the header of a data page with the given sizes and number of
// values.
func header(unpacked, packed, values int64) []byte {
	var h []byte
	field := func(step byte, x int64) { h = binary.AppendVarint(append(h, step<<4|5), x) }
	field(1, 0) // a data page
	field(1, unpacked)
	field(1, packed)
	h = append(h, 2<<4|12) // field 5, a struct
	field(1, values)
	field(1, 0)
	return append(h, 0, 0)
}

func TestCheckPage(t *testing.T) {
	for _, test := range []struct {
		unpacked, packed, values int64
		codec                    format.CompressionCodec
		data                     string
		want                     string
	}{
		{100, 3, 5, format.Uncompressed, "abc", ""},
		{100, 3, 5, format.Snappy, "\x64bc", ""},
		{100, 3, 5, format.Snappy, "\x65bc", "100 bytes uncompressed by the header of the page, but 101 by its data"},
		{100, 5, 5, format.Snappy, "\xff\xff\xff\xff\x0f", "but 4294967295 by its data"},
		{100, 6, 5, format.Zstd, "\x28\xb5\x2f\xfd\x20\x64", ""},
		{100, 6, 5, format.Zstd, "\x28\xb5\x2f\xfd\x20\x65", "but 101 by its data"},
		{356, 7, 5, format.Zstd, "\x28\xb5\x2f\xfd\x60\x64\x00", ""},
		{100, 14, 5, format.Zstd, "\x28\xb5\x2f\xfd\xc0\x00\x00\x00\x00\x00\x00\x00\x00\x01", "but 72057594037927936 by its data"},
		{100, 6, 5, format.Zstd, "\x28\xb5\x2f\xfd\x00\x00", ""}, // no size stated
		{100, 4, 5, format.Uncompressed, "abc", "4 bytes, more than its column has"},
		{100, -1, 5, format.Uncompressed, "abc", "-1 bytes, more than its column has"},
		{1 << 31, 3, 5, format.Uncompressed, "abc", "2147483648 bytes uncompressed, more than 67108864"},
		{-5, 3, 5, format.Uncompressed, "abc", "-5 bytes uncompressed"},
		{100, 3, 1 << 30, format.Uncompressed, "abc", "1073741824 values, more than 16777216"},
	} {
		h := header(test.unpacked, test.packed, test.values)
		data := append(bytes.Clone(h), test.data...)
		size, err := checkPage(bytes.NewReader(data), int64(len(data)), test.codec)
		switch {
		case test.want == "" && (err != nil || size != int64(len(data))):
			t.Errorf("%+v: got %d and %v, want %d", test, size, err, len(data))
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%+v: got %v", test, err)
		}
		for end := range h {
			if _, err := checkPage(bytes.NewReader(data[:end]), int64(end), test.codec); err == nil {
				t.Errorf("%+v cut to %d bytes: no error", test, end)
			}
		}
	}
}

// TestFlipsOfParquet changes every tenth byte of small files. The result must be lookups or
// an error, in bounded memory. Pages have no checksums. With the build tag long,
// TestEveryFlipOfParquet changes every byte.
func TestFlipsOfParquet(t *testing.T) { flipsOfParquet(t, 10) }

func flipsOfParquet(t *testing.T, every int) {
	var rows []lookup
	for i := range 20 {
		rows = append(rows, lookup{Sample: int64(i / 3), Table: "ab"[i%2 : i%2+1], Index: int64(i * i)})
	}
	for _, codec := range []compress.Codec{&parquet.Snappy, &parquet.Zstd} {
		data := parquetOf(t, rows, parquet.Compression(codec))
		for i := 0; i < len(data); i += every {
			bad := bytes.Clone(data)
			bad[i] ^= 0x84
			sound(t, bad, 256<<20)
		}
	}
}
