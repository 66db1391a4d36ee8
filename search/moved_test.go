package search

import (
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// TestCovered counts by hand, with ranges that overlap, touch, repeat, and leave the range.
func TestCovered(t *testing.T) {
	of := problem.Range{Start: 2, End: 10}
	for _, c := range []struct {
		ranges []problem.Range
		want   int64
	}{
		{nil, 0},
		{[]problem.Range{{Start: 0, End: 2}, {Start: 10, End: 12}}, 0},
		{[]problem.Range{{Start: 3, End: 6}, {Start: 5, End: 8}}, 5},
		{[]problem.Range{{Start: 4, End: 8}, {Start: 4, End: 8}}, 4},
		{[]problem.Range{{Start: 3, End: 9}, {Start: 4, End: 5}, {Start: 8, End: 20}}, 7},
		{[]problem.Range{{Start: 0, End: 4}, {Start: 4, End: 6}}, 4},
	} {
		if got := covered(c.ranges, of); got != c.want {
			t.Errorf("%v: got %d rows, want %d", c.ranges, got, c.want)
		}
	}
}

// TestMoved counts by hand: of a table with 10 rows, device 0 held the columns [0, 4), and
// nobody held [4, 8). A weight takes 4 bytes, and the state of a row 4 more.
func TestMoved(t *testing.T) {
	table := formerTable{cell: 4, row: 4}
	table.parts = []formerShard{{0, problem.Shard{Rows: problem.Range{End: 10}, Columns: problem.Range{End: 4}}}}
	f := former{tables: []formerTable{table}}
	for _, c := range []struct {
		name          string
		device        int32
		first, behind int64
		want          int64
	}{
		{"what the device held", 0, 0, 4, 0},
		{"what nobody held", 1, 4, 8, 0},
		{"all of it", 1, 0, 4, 10*4*4 + 10*4},
		{"half of it, and more that nobody held", 1, 2, 6, 10*2*4 + 10*4},
	} {
		shard := rectangle{problem.Range{End: 10}, problem.Range{Start: c.first, End: c.behind}}
		if got := f.moved(0, c.device, shard); got != c.want {
			t.Errorf("%s: got %d bytes, want %d", c.name, got, c.want)
		}
	}
}
