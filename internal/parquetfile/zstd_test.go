package parquetfile

import (
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func wantError(t *testing.T, what string, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%s: got error %v, want one with %q", what, err, part)
	}
}

// frame makes a Zstandard frame: its head's flags and fields, then blocks.
func frame(flags byte, fields ...byte) []byte {
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, flags}, fields...)
}

// block appends a block of a kind to a frame.
func block(frame []byte, kind, size int, last bool, data ...byte) []byte {
	head := size<<3 | kind<<1
	if last {
		head |= 1
	}
	return append(append(frame, byte(head), byte(head>>8), byte(head>>16)), data...)
}

func TestHostileCompression(t *testing.T) {
	bomb := frame(0, 0x38) // a window of 128 KiB, no stated size
	for range 1000 {
		bomb = block(bomb, 1, 128<<10, false, 'x')
	}
	bomb = block(bomb, 0, 0, true)
	for name, c := range map[string]struct {
		data []byte
		size int
		want string
	}{
		"no Zstandard":   {[]byte("PAR1PAR1"), 8, "not Zstandard"},
		"nothing":        {nil, 0, "not Zstandard"},
		"a bomb":         {bomb, 1000, "makes more than the page states"},
		"a window":       {block(frame(0, 0x90), 0, 1, true, 'x'), 1, "window is too large"},
		"a size":         {block(frame(0xe0, 0, 0, 0, 0, 1, 0, 0, 0), 0, 1, true, 'x'), 1, "holds 4294967296 bytes, and the page states 1"},
		"half a head":    {frame(0xe0, 1, 0, 0), 1, "head ends too early"},
		"no block":       {frame(0x20, 1), 1, "ends too early"},
		"half a block":   {block(frame(0x20, 2), 0, 2, true, 'x'), 2, "ends too early"},
		"a strange one":  {block(frame(0x20, 2), 3, 2, true, 'x', 'x'), 2, "unknown type"},
		"no checksum":    {block(frame(0x24, 1), 0, 1, true, 'x'), 1, "ends too early"},
		"another behind": {append(block(frame(0x20, 1), 0, 1, true, 'x'), block(frame(0x20, 1), 0, 1, true, 'x')...), 1, "10 bytes follow"},
	} {
		wantError(t, name, CheckZstd(c.data, c.size), c.want)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"one block":    {block(frame(0x20, 1), 0, 1, true, 'x'), "x"},
		"a run":        {block(block(frame(0, 0x38), 1, 3, false, 'x'), 0, 1, true, 'y'), "xxxy"},
		"a long size":  {block(frame(0xe0, 2, 0, 0, 0, 0, 0, 0, 0), 1, 2, true, 'x'), "xx"},
		"a short size": {block(frame(0x60, 44, 1), 1, 556, true, 'x'), strings.Repeat("x", 556)},
	} {
		if err := CheckZstd(c.data, len(c.want)); err != nil {
			t.Errorf("%s: got error %v", name, err)
		}
		if got, err := parquet.Zstd.Decode(nil, c.data); err != nil || string(got) != c.want {
			t.Errorf("%s: got %q, error %v, want %q", name, got, err, c.want)
		}
	}
}

func TestZstdSize(t *testing.T) {
	for _, c := range []struct {
		start  []byte
		want   uint64
		stated bool
	}{
		{frame(0x20, 7), 7, true},
		{frame(0x60, 44, 1), 556, true},
		{frame(0, 0x38), 0, false}, // no size stated
		{frame(0x20), 0, false},
		{[]byte("PAR1PAR1"), 0, false},
		{nil, 0, false},
	} {
		if got, stated := ZstdSize(c.start); stated != c.stated || stated && got != c.want {
			t.Errorf("% x: got %d, %v, want %d, %v", c.start, got, stated, c.want, c.stated)
		}
	}
}

// FuzzCheckZstd decompresses what passes: it takes no more than was promised.
func FuzzCheckZstd(f *testing.F) {
	packed, err := parquet.Zstd.Encode(nil, []byte("some text, some text, some text"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(31, packed)
	f.Fuzz(func(t *testing.T, n int, data []byte) {
		n = int(uint(n) % 10_000)
		size, stated := ZstdSize(data)
		if CheckZstd(data, n) != nil {
			return
		}
		if stated && size != uint64(n) {
			t.Fatalf("it states %d bytes, want %d", size, n)
		}
		if out, _ := parquet.Zstd.Decode(nil, data); len(out) > n+maxBlock {
			t.Fatalf("%d bytes, want at most %d", len(out), n)
		}
	})
}
