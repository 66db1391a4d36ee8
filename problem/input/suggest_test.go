package input

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestSuggestionsEnd checks that only errors that may be shown have suggestions, of each sort of
// file, and that a CSV header of very many columns is one error.
func TestSuggestionsEnd(t *testing.T) {
	const many = 900
	var columns, keys, tables strings.Builder
	columns.WriteString("name,rows,dim")
	keys.WriteString("devices: 8\ndevice: a100-80\n")
	tables.WriteString(`{"format": "neuroshard-tables", "version": 1, "tables": [`)
	for i := range many {
		fmt.Fprintf(&columns, ",pooling_facto%d", i)
		fmt.Fprintf(&keys, "devices_per_hos%d: 1\n", i)
		if i > 0 {
			tables.WriteByte(',')
		}
		fmt.Fprintf(&tables, "\n"+`{"name": "t%d", "rows": 10, "dim": 4, "precizion": "fp32"}`, i)
	}
	tables.WriteString("]}")
	columns.WriteString("\na,1,4" + strings.Repeat(",", many))
	for _, c := range []struct {
		name string
		err  error
	}{
		{"tables.csv", badTablesErrors(t, "tables.csv", columns.String())},
		{"tables.json", badTablesErrors(t, "tables.json", tables.String())},
		{"cluster.yaml", badTopologyErrors(t, "cluster.yaml", keys.String())},
	} {
		var list *Errors
		if !errors.As(c.err, &list) || len(list.List) < many {
			t.Fatalf("%s: got %v, want at least %d errors", c.name, c.err, many)
		}
		for i, e := range list.List[:many] {
			if got, want := strings.Contains(e.Hint, "did you mean"), i < maxSuggested; got != want {
				t.Errorf("%s: error %d has the hint %q, want a suggestion: %v", c.name, i, e.Hint, want)
				break
			}
		}
	}

	err := badTablesErrors(t, "wide.csv", "name,rows,dim"+strings.Repeat(",x", maxCSVColumns-2)+"\n")
	want := fmt.Sprintf("wide.csv:1: the header has %d columns, more than %d", maxCSVColumns+1, maxCSVColumns)
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want %q alone", err, want)
	}
}
