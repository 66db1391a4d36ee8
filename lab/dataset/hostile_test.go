package dataset

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/parquetfile"
	"github.com/parquet-go/parquet-go"
)

// allocated returns the bytes that f asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func wantError(t *testing.T, what string, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%s: got error %v, want one with %q", what, err, part)
	}
}

// asParquet puts a footer into a file.
func asParquet(footer []byte) []byte {
	data := append([]byte(parquetfile.Magic), footer...)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(footer)))
	return append(data, parquetfile.Magic...)
}

// A few bytes do not make the reader ask for much memory, nor nest without end.
func TestHostileMetadata(t *testing.T) {
	huge := binary.AppendUvarint([]byte{0x29, 0xfc}, 1<<31-1) // field 2: a list of 2^31-1 structs
	text := binary.AppendUvarint([]byte{0x18}, 1<<62)         // field 1: a text
	for name, c := range map[string]struct {
		footer []byte
		want   string
	}{
		"a huge list":         {huge, "ends too early"},
		"a huge text":         {text, "ends too early"},
		"structs without end": {bytes.Repeat([]byte{0x1c}, 200_000), "nested more than"},
		"lists without end":   {append([]byte{0x19}, bytes.Repeat([]byte{0x19}, 200_000)...), "nested more than"},
		"a map":               {[]byte{0x1b, 1, 0x55}, "unknown type 11"},
		"nothing":             {nil, "ends too early"},
		"an empty struct":     {[]byte{0}, "there is no schema"},
		"a long footer":       {make([]byte, maxFooter+1), "a footer of 262145 bytes, more than 262144"},
	} {
		got := allocated(func() {
			_, _, err := decodeRows[repeatRow](asParquet(c.footer), Version)
			wantError(t, name, err, c.want)
		})
		if got > 1<<20 {
			t.Errorf("%s: %d bytes were asked for", name, got)
		}
	}
}

// Rows that take next to nothing in the file are refused before memory is asked
// for.
func TestHostileRows(t *testing.T) {
	var out bytes.Buffer
	w := parquet.NewGenericWriter[repeatRow](&out, parquet.Compression(&parquet.Zstd))
	for range 20 {
		if _, err := w.Write(make([]repeatRow, 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := allocated(func() {
		_, _, err := decodeRows[repeatRow](out.Bytes(), Version)
		wantError(t, "2,000,000 equal rows", err, "more values or bytes than a file of this size may")
	})
	if limit := 64 * uint64(budgetOf(out.Len()).values); got > limit {
		t.Errorf("%d bytes in the file: %d bytes were asked for, want at most %d", out.Len(), got, limit)
	}
}

func TestHybrid(t *testing.T) {
	for _, c := range []struct {
		data  []byte
		width uint
		want  []uint32
		err   string
	}{
		{[]byte{6, 5}, 3, []uint32{5, 5, 5}, ""},
		{[]byte{3, 0x88, 0xc6, 0xfa}, 3, []uint32{0, 1, 2, 3, 4, 5, 6, 7}, ""}, // the example of Parquet's Encodings.md
		{[]byte{3, 0x88, 0xc6, 0xfa}, 3, []uint32{0, 1, 2}, ""},
		{[]byte{4, 1, 3, 0b10}, 1, []uint32{1, 1, 0, 1}, ""},
		{[]byte{4, 0x34, 0x12}, 16, []uint32{0x1234, 0x1234}, ""},
		{[]byte{2, 1, 2, 3, 4}, 32, []uint32{0x04030201}, ""},
		{[]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 0, []uint32{0, 0}, ""},
		{nil, 5, nil, ""},
		{nil, 5, []uint32{1}, "ends too early"},
		{[]byte{0}, 1, []uint32{1}, "ends too early"},
		{[]byte{4}, 1, []uint32{1}, "ends too early"},
		{[]byte{4, 2}, 1, []uint32{1}, "a run of 2"},
		{[]byte{3, 0x88, 0xc6}, 3, []uint32{0}, "ends too early"},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 7}, 3, []uint32{0}, "ends too early"},
	} {
		got, err := hybrid(c.data, c.width, len(c.want))
		if c.err != "" {
			wantError(t, "hybrid", err, c.err)
		} else if err != nil || len(got) != len(c.want) {
			t.Errorf("%v: got %v, error %v, want %v", c.data, got, err, c.want)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%v: got %v, want %v", c.data, got, c.want)
				break
			}
		}
	}
}

// A file of other columns says which is not as it should be.
func TestOtherColumns(t *testing.T) {
	type more struct {
		repeatRow
		Note string `parquet:"note"`
	}
	type other struct {
		ID       int64   `parquet:"id"`
		Forward  float32 `parquet:"forward_ms"`
		Backward float64 `parquet:"backward_ms"`
	}
	type optional struct {
		ID       int64    `parquet:"id"`
		Forward  float64  `parquet:"forward_ms"`
		Backward *float64 `parquet:"backward_ms,optional"`
	}
	var out bytes.Buffer
	check := func(err error, want string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = decodeRows[repeatRow](out.Bytes(), Version)
		wantError(t, want, err, want)
		out.Reset()
	}
	check(parquet.Write(&out, []more{{}}), "4 columns, want 3")
	check(parquet.Write(&out, []other{{}}), `column 1 is not "forward_ms" as it is written by this program`)
	check(parquet.Write(&out, []optional{{}}), `column 2 is not "backward_ms"`)
	check(parquet.Write(&out, []repeatRow{{}}, parquet.Compression(&parquet.Gzip)), `column "id": compression 2 is unknown`)
	check(parquet.Write(&out, []anchorRow{{}}), `column 0 is not "id"`)
}
