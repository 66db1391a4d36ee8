package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/lookups"
)

// readAll reads a trace and copies the lookups.
func readAll(path string, o Options) ([]Table, error) {
	var tables []Table
	var names []string
	err := each(path, o, func(list []string) error { names = list; return nil }, func(t Table) error {
		if err := t.Bags.Check(0); err != nil {
			return fmt.Errorf("unsound bags: %w", err)
		}
		if names[len(tables)] != t.Name {
			return fmt.Errorf("got table %q of %q", t.Name, names)
		}
		t.Bags = lookups.Bags{Indices: slices.Clone(t.Bags.Indices), Offsets: slices.Clone(t.Bags.Offsets)}
		tables = append(tables, t)
		return nil
	})
	return tables, err
}

// write writes a file into a folder of the test.
func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, data, 0o644))
	return path
}

// rewrite replaces a file with a new one: some file systems wait for the disk when
// a file is emptied and written again.
func rewrite(t testing.TB, path string, data []byte) {
	t.Helper()
	must.Do(t, errors.Join(os.Remove(path), os.WriteFile(path, data, 0o644)))
}

func lengthsOf(b lookups.Bags) []int64 {
	lengths := make([]int64, b.Len())
	for i := range lengths {
		lengths[i] = b.Offsets[i+1] - b.Offsets[i]
	}
	return lengths
}

// TestFilesOfTorch reads files that PyTorch wrote (testdata/make_torch.py).
func TestFilesOfTorch(t *testing.T) {
	var want []struct{ Lengths, Indices []int64 }
	data, err := os.ReadFile("testdata/torch.json")
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, json.Unmarshal(data, &want))
	paths, err := filepath.Glob("testdata/*.pt*")
	if err != nil || len(paths) != 10 {
		t.Fatalf("got %d files and %v, want 10", len(paths), err)
	}
	for _, path := range paths {
		for _, batch := range []int{0, 4, 7, 100} {
			tables, err := readAll(path, Options{Batch: batch})
			if err != nil {
				t.Error(err)
				continue
			}
			samples := 7
			if batch == 4 {
				samples = 4
			}
			for i, table := range tables {
				lengths := want[i].Lengths[:samples]
				sum := int64(0)
				for _, length := range lengths {
					sum += length
				}
				if table.Samples != samples || table.Name != tableName(i) ||
					!slices.Equal(lengthsOf(table.Bags), lengths) || !slices.Equal(table.Bags.Indices, want[i].Indices[:sum]) {
					t.Errorf("%s, batch %d, table %d: got %+v, want %v", path, batch, i, table, want[i])
				}
			}
			if len(tables) != len(want) {
				t.Errorf("%s: got %d tables, want %d", path, len(tables), len(want))
			}
		}
	}
}

func TestBadFilesOfTorch(t *testing.T) {
	for name, want := range map[string]string{
		"transposed": "a tensor of shape [3 7] with strides [1 3], which is not stored row by row: save it after .contiguous()",
		"shared":     "want indices and offsets of one dimension",
		"floats":     "a tensor in a torch.FloatStorage: indices, offsets and lengths are int32 or int64",
		"two":        "not a tuple of three tensors",
		"dict":       "not a tuple of three tensors",
		"big":        "lengths of [tables, batch]",
		"lengths":    "table t2: sample 3: 1 lookups by the offsets, but 2 by the lengths",
		"short":      "table t2: sample 6: offset 19 after 17, want one from the offset before to 18",
		"negative":   "table t2: sample 6, index -5: want from 0 to",
		"offsets":    "offset 99 after",
	} {
		if _, err := readAll("testdata/bad/"+name+".pt", Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

// TestEveryCut cuts files at every third byte. Each cut file must give an error,
// unless only the end of a zip file is cut, which the reader does not need.
func TestEveryCut(t *testing.T) {
	for _, name := range []string{"zip.pt", "zip.pt.gz", "legacy.pt", "legacy.pt.gz"} {
		data := must.Get(os.ReadFile("testdata/" + name))(t)
		enough := len(data)
		if name == "zip.pt" {
			enough = bytes.Index(data, []byte("/version")) - 50
		}
		path := write(t, name, nil)
		for end := 0; end < enough; end += 3 {
			rewrite(t, path, data[:end])
			if _, err := readAll(path, Options{}); err == nil {
				t.Errorf("%s cut to %d bytes of %d: no error", name, end, len(data))
			}
		}
	}
}

// TestEveryFlip changes every third byte of files with checksums. If the file can be read
// at all, it must give the same lookups.
func TestEveryFlip(t *testing.T) {
	want := must.Get(readAll("testdata/zip.pt", Options{}))(t)
	for _, name := range []string{"zip.pt", "zip.pt.gz"} {
		data := must.Get(os.ReadFile("testdata/" + name))(t)
		path := write(t, name, nil)
		for i := 0; i < len(data); i += 3 {
			bad := bytes.Clone(data)
			bad[i] ^= 4
			rewrite(t, path, bad)
			got, err := readAll(path, Options{})
			if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s with byte %d changed: read as other lookups", name, i)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, test := range []struct {
		name, data, want string
	}{
		{"empty", "", "the file is empty"},
		{"binary", "\x00\x01\x02", "neither a file of torch.save nor CSV nor Parquet"},
		{"gzip", "\x1f\x8b", "it ends early"},
		{"gzip2", "\x1f\x8b\x08\x00abcdefghijklmnop", "damaged"},
		{"zip", "PK\x03\x04", "it is damaged: zip: not a valid zip file"},
		{"pickle", "\x80\x02K\x01.", "torch.save did not write this pickle"},
		{"parquet", "PAR1", "it is damaged or cut short"},
		{"text", "hello", `no column "sample"`},
	} {
		path := write(t, test.name, []byte(test.data))
		_, err := readAll(path, Options{})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q and the path", test.name, err, test.want)
		}
	}
	if _, err := readAll(filepath.Join(t.TempDir(), "none"), Options{}); !os.IsNotExist(err) {
		t.Errorf("no file: got %v", err)
	}
	if _, err := readAll(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a folder: got %v", err)
	}
	if _, err := readAll("testdata/zip.pt", Options{Batch: -1}); err == nil || !strings.Contains(err.Error(), "a batch of -1") {
		t.Errorf("a negative batch: got %v", err)
	}
	if _, err := readAll("testdata/zip.pt.gz", Options{TempDir: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder for temporary files: got %v", err)
	}
}

func TestProgress(t *testing.T) {
	for _, path := range []string{"testdata/zip.pt", "testdata/zip.pt.gz", write(t, "log.csv", []byte("sample,table,index\n0,a,5\n")), "testdata/snappy.parquet"} {
		last, whole := int64(0), int64(0)
		_, err := readAll(path, Options{Progress: func(done, total int64) {
			if done < last || done > total || (whole != 0 && total != whole) {
				t.Errorf("%s: %d of %d after %d of %d", path, done, total, last, whole)
			}
			last, whole = done, total
		}})
		if err != nil {
			t.Error(err)
		}
		if last == 0 {
			t.Errorf("%s: no progress was reported", path)
		}
	}
}
