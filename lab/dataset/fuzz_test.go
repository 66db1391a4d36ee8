package dataset

import (
	"math/bits"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/neuroshard/neuroshard/internal/parquetfile"
	"github.com/parquet-go/parquet-go"
)

// FuzzFile reads Parquet files whatever their digests are: any bytes are an
// error, or rows that can be written and read again.
func FuzzFile(f *testing.F) {
	folder := f.TempDir()
	if err := Write(folder, sample()); err != nil {
		f.Fatal(err)
	}
	m, err := ReadManifest(folder)
	if err != nil {
		f.Fatal(err)
	}
	files := contents(f, folder)
	for i, file := range m.Files {
		f.Add(i, []byte(files[file.Name]))
	}
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		file := m.Files[uint(i)%uint(len(m.Files))]
		d := clone(sample())
		if err := m.decode(&d, file, data); err != nil || d.Validate() != nil {
			return
		}
		again, err := m.encode(d, file.Name)
		if err != nil {
			t.Fatalf("%s: %v", file.Name, err)
		}
		if err := m.decode(&d, file, again); err != nil {
			t.Fatalf("%s, written again: %v", file.Name, err)
		}
	})
}

// FuzzPages decodes what lies in pages: the fuzzer need not get the metadata
// right.
func FuzzPages(f *testing.F) {
	packed, err := parquet.Zstd.Encode(nil, []byte("some text, some text, some text"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(31, uint8(1), packed)
	f.Add(5, uint8(3), []byte{10, 3, 3, 0x88, 0xc6, 0xfa})
	f.Add(9, uint8(32), []byte{0x03, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, n int, width uint8, data []byte) {
		n = int(uint(n) % 10_000)
		if numbers, err := hybrid(data, uint(width%33), n); err == nil {
			for _, v := range numbers {
				if bits.Len32(v) > int(width%33) {
					t.Fatalf("%d has more than %d bits", v, width%33)
				}
			}
			if len(numbers) != n {
				t.Fatalf("got %d numbers, want %d", len(numbers), n)
			}
		}
		if parquetfile.CheckZstd(data, n) == nil {
			// Whatever it is, it takes no more than was promised.
			if out, _ := parquet.Zstd.Decode(nil, data); len(out) > n+128<<10 {
				t.Fatalf("%d bytes, want at most %d", len(out), n)
			}
		}
		_, _, _ = parquetfile.Parse(data, len(data))
	})
}

// FuzzManifest reads manifests: those that are read can be written and are read
// as the same.
func FuzzManifest(f *testing.F) {
	folder := f.TempDir()
	if err := Write(folder, sample()); err != nil {
		f.Fatal(err)
	}
	written := contents(f, folder)[ManifestName]
	f.Add([]byte(written))
	f.Add([]byte(strings.Replace(written, `"version": 2`, `"version": 1`, 1)))
	f.Add([]byte(strings.Replace(written, `"profile": "`, `"device": "<\u2028\"\ufffd", "profile": "`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		for _, file := range m.Files {
			if _, err := m.metadata(file.Name); err != nil {
				t.Fatal(err)
			}
		}
		text, err := m.text()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseManifest(text)
		if err != nil {
			t.Fatalf("written again: %v", err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatalf("written again (-read +again):\n%s", diff)
		}
	})
}
