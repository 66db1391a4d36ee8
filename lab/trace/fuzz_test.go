package trace

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/internal/torchfile"
)

// seeds adds the files of testdata that match.
func seeds(f *testing.F, patterns ...string) {
	f.Helper()
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			data := must.Get(os.ReadFile(path))(f)
			f.Add(data)
		}
	}
}

// sound reads a trace and checks that it gives sound tables or an error, with an
// amount of memory that suits a small file.
func sound(t *testing.T, data []byte, most uint64) {
	t.Helper()
	if len(data) > 1<<16 {
		return
	}
	path := write(t, "trace", data)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tables, err := readAll(path, Options{TempDir: filepath.Dir(path)})
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > most {
		t.Errorf("%d bytes of file took %d bytes of memory", len(data), taken)
	}
	if err != nil {
		return
	}
	for _, table := range tables {
		if table.Name == "" || table.Samples < 1 || table.Bags.Len() != table.Samples*len(table.Features) {
			t.Errorf("unsound table %+v", table)
		}
		if _, err := profile(table, 0, 4); err != nil {
			t.Error(err)
		}
	}
}

func FuzzTorch(f *testing.F) {
	seeds(f, "testdata/*.pt", "testdata/bad/*.pt")
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, start := range []string{zipEntry, "\x80\x02"} {
			if len(data) > len(start) {
				sound(t, append([]byte(start), data[len(start):]...), 64<<20)
			}
		}
	})
}

func FuzzGzip(f *testing.F) {
	seeds(f, "testdata/*.gz")
	f.Fuzz(func(t *testing.T, data []byte) { sound(t, data, 64<<20) })
}

func FuzzPickle(f *testing.F) {
	data, err := os.ReadFile("testdata/zip_protocol4.pt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[64:])
	if data, err = os.ReadFile("testdata/zip_views.pt"); err != nil {
		f.Fatal(err)
	}
	f.Add(data[64:])
	f.Fuzz(func(t *testing.T, data []byte) {
		u := newUnpickler(bufio.NewReader(bytes.NewReader(data)), nil)
		value, err := u.Load()
		if err != nil {
			return
		}
		if items, ok := value.(torchfile.Tuple); ok {
			for _, item := range items {
				if x, ok := item.(*torchfile.Tensor); ok && (x.First < 0 || x.Count < 0 || x.First+x.Count > x.Storage.Count) {
					t.Errorf("a tensor outside its storage: %+v of %+v", x, x.Storage)
				}
			}
		}
	})
}

func FuzzCSV(f *testing.F) {
	seeds(f, "testdata/log.csv")
	f.Add([]byte("sample,table,index,feature\n0,\"a,\"\"b\",5,f\n9,c,6,g\n"))
	f.Fuzz(func(t *testing.T, data []byte) { sound(t, data, 256<<20) })
}

func FuzzRows(f *testing.F) {
	f.Add([]byte("table,rows\na,5\n\"b\",1000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		heights, err := ReadRows(write(t, "rows.csv", data))
		if err != nil {
			return
		}
		for name, rows := range heights {
			if name == "" || rows < 1 {
				t.Errorf("table %q has %d rows", name, rows)
			}
		}
	})
}
