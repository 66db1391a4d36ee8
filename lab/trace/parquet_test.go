package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
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
		"list":     `column "index" is a list or a group`,
		"missing":  `no column "index" among ["sample" "table"]`,
		"negative": "row 0: index -7: want from 0",
	} {
		if _, err := readAll("testdata/bad/"+name+".parquet", Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	data := must.Get(os.ReadFile("testdata/snappy.parquet"))(t)
	for _, test := range []struct {
		data []byte
		want string
	}{
		{packed(t, data), "a compressed Parquet file: uncompress it"},
		{data[:len(data)-1], "it is damaged or cut short"},
	} {
		if _, err := readAll(write(t, "log.parquet", test.data), Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}
