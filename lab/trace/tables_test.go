package trace

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestReadTables(t *testing.T) {
	errKeep := errors.New("no room")
	const log = "sample,table,index\n0,a,3\n0,b,1\n1,a,3\n1,b,0\n"
	for _, c := range []struct {
		name, text string
		of         TableOptions
		want       string // NAME:ROWS of each table
		err        string
	}{
		{"rows follow from the indices", log, TableOptions{Dim: 8}, "a:4 b:2", ""},
		{"rows are stated", log, TableOptions{Dim: 8, Rows: map[string]int64{"a": 100}}, "a:100 b:2", ""},
		{"rows of no table", log, TableOptions{Dim: 8, Rows: map[string]int64{"a": 100, "bb": 1, "c": 2}}, "", `log.csv: rows are stated for "bb", "c", and the trace has no such table: it has "a", "b"`},
		{"fewer rows than indices", log, TableOptions{Dim: 8, Rows: map[string]int64{"a": 2}}, "", "log.csv: "},
		{"keep fails", log, TableOptions{Dim: 8, Keep: func(int, Table) error { return errKeep }}, "", "no room"},
		{"no tables", "sample,table,index\n", TableOptions{Dim: 8}, "", "log.csv: "},
		{"not a log", "what\n", TableOptions{Dim: 8}, "", "log.csv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log.csv")
			if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
				t.Fatal(err)
			}
			got, err := ReadTables(path, Options{}, c.of)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var words []string
			for _, table := range got.List {
				words = append(words, table.Name+":"+strconv.FormatInt(table.Rows, 10))
				if table.Dim != c.of.Dim {
					t.Errorf("table %s: got dim %d, want %d", table.Name, table.Dim, c.of.Dim)
				}
			}
			if text := strings.Join(words, " "); text != c.want || got.Samples != 2 {
				t.Errorf("got %q of %d samples, want %q of 2", text, got.Samples, c.want)
			}
		})
	}
}

// TestWarningsOfManyTables: tables with the same doubts share a warning.
func TestWarningsOfManyTables(t *testing.T) {
	log := "sample,table,index\n"
	for i := range 5 {
		log += "0,t" + strconv.Itoa(i) + ",3\n"
	}
	path := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(path, []byte(log), 0o666); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTables(path, Options{}, TableOptions{Dim: 8, Rows: map[string]int64{"t4": 9}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `4 of 5 tables ("t0", "t1", "t2" and 1 more): the number of rows is the highest row used`; len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], want) {
		t.Errorf("got warnings %q, want one that starts with %q", got.Warnings, want)
	}
}
