package prototype

import (
	"bytes"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// twoTables is a problem of two tables, of dims 16 and 8, on two devices.
func twoTables() *problem.Problem {
	table := func(name string, dim int) problem.Table {
		return problem.Table{Name: name, Rows: 100, Dim: dim, Features: []problem.Feature{{Name: name, PoolingFactor: 1}}}
	}
	return &problem.Problem{Tables: []problem.Table{table("a", 16), table("b", 8)}, Topology: hardware.Topology{Devices: 2, Memory: unit.GiB}, Batch: Batch}
}

// A split halves an entry and appends the other half, as often as stated.
func TestPlacement(t *testing.T) {
	r := Result{Steps: []int{0, 2, 1}, Shards: [][]int{{0, 3}, {2, 1, 4}}}
	shards := must.Get(r.Placement(twoTables()))(t)
	shard := func(table int, start, end int64) problem.Shard {
		return problem.Shard{Table: table, Rows: problem.Range{Start: 0, End: 100}, Columns: problem.Range{Start: start, End: end}}
	}
	want := [][]problem.Shard{{shard(0, 0, 8), shard(0, 12, 16)}, {shard(0, 8, 12), shard(1, 0, 4), shard(1, 4, 8)}}
	for d := range want {
		if len(shards[d]) != len(want[d]) {
			t.Fatalf("device %d: got %v, want %v", d, shards[d], want[d])
		}
		for i := range want[d] {
			if shards[d][i] != want[d][i] {
				t.Errorf("device %d, shard %d: got %v, want %v", d, i, shards[d][i], want[d][i])
			}
		}
	}
}

func TestPlacementRefuses(t *testing.T) {
	for _, c := range []struct {
		result Result
		want   string
	}{
		{Result{}, "not hold a plan"},
		{Result{Shards: [][]int{{0, 1}}}, "1 devices, want 2"},
		{Result{Shards: [][]int{{0}, {0, 1}}}, "slice 0 is placed twice"},
		{Result{Shards: [][]int{{0}, {}}}, "slice 1 is placed nowhere"},
		{Result{Shards: [][]int{{0}, {2}}}, "device 1 holds 2"},
		{Result{Shards: [][]int{{0}, {-1}}}, "device 1 holds -1"},
		{Result{Shards: [][]int{{0}, {1}}, Steps: []int{2}}, "number 0 is 2"},
		{Result{Shards: [][]int{{0}, {1}}, Steps: []int{1, 1}}, "number 1 halves a slice of dim 4"},
	} {
		if _, err := c.result.Placement(twoTables()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want one with %q", c.result, err, c.want)
		}
	}
}

// FuzzReadResults places what was read; every column then has one place.
func FuzzReadResults(f *testing.F) {
	f.Add([]byte(`[{"task": 0, "steps": [0, 2, 1], "shards": [[0, 3], [2, 1, 4]]}]`))
	f.Add([]byte(`[{"task": 0, "steps": [], "shards": null, "cost": null}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		results, err := ReadResults("f", bytes.NewReader(data))
		if err != nil {
			return
		}
		p := twoTables()
		for i := range results {
			shards, err := results[i].Placement(p)
			if err != nil {
				continue
			}
			columns := 0
			for _, held := range shards {
				for _, s := range held {
					columns += s.Dim()
				}
			}
			if columns != 24 {
				t.Errorf("got %d columns placed, want 24", columns)
			}
		}
	})
}
