package lookups

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/access"
)

// TestFileLargerThanItsBuffer writes and reads a file that is longer than the parts
// in which files are written and read.
func TestFileLargerThanItsBuffer(t *testing.T) {
	want, _ := mustMake(t, Spec{Rows: 1 << 40, Batch: 10_000, Features: 1, Counts: access.Distribution{}.At(1<<40, 3.3, 10_000)})
	path := filepath.Join(t.TempDir(), "t.lookups")
	must.Do(t, WriteFile(path, want))
	if got, err := ReadFile(path); err != nil || !equal(got, want) {
		t.Errorf("got other lookups than were written, error %v", err)
	}
}

// TestFileBytes pins the format, so that every later version can read the files of
// today.
func TestFileBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.lookups")
	must.Do(t, WriteFile(path, Bags{Indices: []int64{5, 258}, Offsets: []int64{0, 2, 2}}))
	got := must.Get(os.ReadFile(path))(t)
	want := "6e73706f6f6c0d0a 01000000 SUM 0200000000000000 0200000000000000 " +
		"0000000000000000 0200000000000000 0200000000000000 0500000000000000 0201000000000000"
	want = strings.ReplaceAll(strings.Replace(want, "SUM", fmt.Sprintf("%x", got[12:16]), 1), " ", "")
	if fmt.Sprintf("%x", got) != want {
		t.Errorf("got %x, want %s", got, want)
	}
	if sum := binary.LittleEndian.Uint32(got[12:]); sum != fileBytesSum {
		t.Errorf("checksum: got %#x, want %#x", sum, uint32(fileBytesSum))
	}
}

// fileBytesSum is the CRC-32C of the bytes above, from another implementation.
const fileBytesSum = 0x43e07fb7

func TestDamagedFiles(t *testing.T) {
	var file bytes.Buffer
	must.Do(t, writeFile(&file, Bags{Indices: []int64{5, 6, 7}, Offsets: []int64{0, 2, 2, 3}}))
	good := file.Bytes()
	for i := range good {
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(good)
			bad[i] ^= bit
			if b, err := readFile(bytes.NewReader(bad), int64(len(bad))); err == nil {
				t.Errorf("byte %d with %#x flipped: read as %v", i, bit, b)
			}
		}
		if b, err := readFile(bytes.NewReader(good[:i]), int64(i)); err == nil {
			t.Errorf("cut to %d bytes: read as %v", i, b)
		}
	}
	longer := append(bytes.Clone(good), 0)
	if _, err := readFile(bytes.NewReader(longer), int64(len(longer))); err == nil || !strings.Contains(err.Error(), "89 bytes, but its header says 88") {
		t.Errorf("one byte more: got %v", err)
	}
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint64(huge[24:], MaxLookups)
	if _, err := readFile(bytes.NewReader(huge), int64(len(huge))); err == nil || !strings.Contains(err.Error(), "its header says") {
		t.Errorf("a huge header: got %v", err)
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("no file: got %v", err)
	}
}

func TestWriteFileRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "p"), Bags{Indices: []int64{-1}, Offsets: []int64{0, 1}}); err == nil || !strings.Contains(err.Error(), "row -1") {
		t.Errorf("a negative row: got %v", err)
	}
	if err := WriteFile(filepath.Join(dir, "none", "p"), Bags{Offsets: []int64{0}}); !os.IsNotExist(err) {
		t.Errorf("no folder: got %v", err)
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "taken"), 0o755))
	if err := WriteFile(filepath.Join(dir, "taken"), Bags{Offsets: []int64{0}}); err == nil {
		t.Error("a folder of the name: no error")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func FuzzReadFile(f *testing.F) {
	for _, b := range []Bags{{Offsets: []int64{0}}, {Indices: []int64{5, 6, 7}, Offsets: []int64{0, 2, 2, 3}}} {
		var file bytes.Buffer
		must.Do(f, writeFile(&file, b))
		f.Add(file.Bytes())
		f.Add(file.Bytes()[:len(file.Bytes())-1])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Most inputs would fail at the checksum, so half of them get a correct one.
		for _, mend := range []bool{false, true} {
			data := bytes.Clone(data)
			if mend && len(data) >= fileHeader {
				copy(data, fileMagic)
				sum := headerSum(data[:fileHeader])
				sum.Write(data[fileHeader:])
				binary.LittleEndian.PutUint32(data[12:], sum.Sum32())
			}
			b, err := readFile(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				continue
			}
			if err := b.Check(0); err != nil {
				t.Fatalf("read, and unsound: %v", err)
			}
			var again bytes.Buffer
			if err := writeFile(&again, b); err != nil || !bytes.Equal(again.Bytes(), data) {
				t.Fatalf("read, and written as %x, error %v", again.Bytes(), err)
			}
		}
	})
}
