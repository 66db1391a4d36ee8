package feature

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"pgregory.net/rapid"
)

// A radix sort takes one pass for eight bits, over one bit more than the rows
// need: 8 bytes of a key read once, and in each pass 12 read and 12 written.
func TestSortBytes(t *testing.T) {
	for _, c := range []struct{ rows, passes int64 }{
		{1, 1},
		{2, 1},   // 1 + 1 bits
		{128, 1}, // 7 + 1
		{129, 2}, // 8 + 1
		{1 << 15, 2},
		{1<<15 + 1, 3},
		{1 << 23, 3},
		{1<<23 + 1, 4},
		{1 << 31, 4},
		{1<<31 + 1, 5},
		{1 << 40, 6},
	} {
		if got, want := sortBytes(c.rows), 8+24*c.passes; got != want {
			t.Errorf("%d rows: got %d bytes a lookup, want %d", c.rows, got, want)
		}
	}
}

func TestScalarsByHand(t *testing.T) {
	hw := profile(t, "a100-80")
	op := problem.Operation{Batch: 1000}
	rates := NewRates(hw, op)
	counts := func(lookups, unique float64, class int) access.Counts {
		c := access.Counts{Lookups: lookups, Unique: unique}
		c.Reuse[0], c.Reuse[class] = 0.5, 0.5
		return c
	}
	a := described(100, 1, 0, counts(4000, 80, 6))
	b := described(60, 1, 0, counts(1000.4, 40, 12))
	partA, partB := a.Part(0.5), b.Part(1)
	var sums Sums
	sums.Add(&partA)
	sums.Add(&partB)
	var got [ScalarCount]float32
	sums.Scalars(&got, &rates, LanesFull, &Part{})
	memory := 2039 * 0.894 * 1e6
	for k, want := range []float64{
		5000 * (8 + 24*2) / memory, // 160 rows need 8 + 1 bits: two passes
		1024.0 / 16 * 0.5e-3,       // class 12 means 2954 uses, shared above 1024
		1.5 / 2,                    // both tables at once: five fit
	} {
		if math.Abs(float64(got[k])/want-1) > 1e-6 {
			t.Errorf("%s: got %v, want %v", ScalarNames()[k], got[k], want)
		}
	}
	sums.Remove(&partB)
	sums.Scalars(&got, &rates, Lanes16, &Part{})
	for k, want := range []float64{
		4000 * (8 + 24) / memory,
		32 / math.Ln2 / 16 * 0.5e-3,
		0.5,
	} {
		if math.Abs(float64(got[k])/want-1) > 1e-6 {
			t.Errorf("%s of the first alone: got %v, want %v", ScalarNames()[k], got[k], want)
		}
	}
}

// The number of tables that share the cache is the number that fills the
// device's warps.
func TestSharedCache(t *testing.T) {
	hw := profile(t, "a100-80") // 108 * 45 = 4860 warps
	for _, c := range []struct {
		batch int
		lanes Lanes
		want  float32
	}{
		{1 << 16, LanesFull, 10},
		{1 << 16, Lanes8, 10},
		{2000, LanesFull, 10. / 3}, // 4860 / 2000 = 2.43
		{2000, Lanes16, 10. / 5},   // two tables a warp
		{2000, Lanes8, 10. / 10},
		{512, Lanes8, 10. / 10}, // 38 would fit, there are 10
	} {
		rates := NewRates(hw, problem.Operation{Batch: c.batch})
		table := described(10, 1, 0, access.Counts{Lookups: 10, Unique: 10, Reuse: [access.Classes]float64{1}})
		part := table.Part(1)
		var sums Sums
		for range 10 {
			sums.Add(&part)
		}
		var got [ScalarCount]float32
		sums.Scalars(&got, &rates, c.lanes, &Part{})
		if got[2] != c.want {
			t.Errorf("batch %d, class %d: got %v ms, want %v", c.batch, c.lanes, got[2], c.want)
		}
	}
}

func drawPart(t *rapid.T) Part {
	rows := rapid.Int64Range(1, 1<<36).Draw(t, "rows")
	c := access.Counts{Lookups: rapid.Float64Range(0, 1e8).Draw(t, "lookups"), Unique: 1000}
	if rapid.IntRange(0, 9).Draw(t, "no lookups") == 0 {
		c.Lookups = 0
	}
	c.Reuse[rapid.IntRange(0, access.Classes-1).Draw(t, "class")] = 1
	table := described(rows, 1, 0, c)
	return table.Part(rapid.Float64Range(0, 100).Draw(t, "scale"))
}

// Adding in any order and removing again leaves exactly the same sums.
func TestSumsAddAndRemove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kept := rapid.SliceOfN(rapid.Custom(drawPart), 0, 20).Draw(t, "kept")
		passing := rapid.SliceOfN(rapid.Custom(drawPart), 0, 20).Draw(t, "passing")
		var want Sums
		for i := range kept {
			want.Add(&kept[i])
		}
		// All of them in a drawn order, then the passing ones out in another.
		all := rapid.Permutation(append(append([]Part(nil), kept...), passing...)).Draw(t, "order")
		out := rapid.Permutation(passing).Draw(t, "removals")
		var got Sums
		for i := range all {
			got.Add(&all[i])
		}
		for i := range out {
			got.Remove(&out[i])
		}
		if got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		filled := 0
		for i := range kept {
			if !kept[i].Empty() {
				filled++
			}
		}
		if got.Shards() != filled {
			t.Fatalf("got %d shards with lookups, want %d", got.Shards(), filled)
		}
	})
}

// Scalars with a shard are exactly those after adding it, and the shard is not
// added.
func TestScalarsWith(t *testing.T) {
	hw := profile(t, "h100-80")
	rapid.Check(t, func(t *rapid.T) {
		rates := NewRates(hw, problem.Operation{Batch: rapid.IntRange(1, 131072).Draw(t, "batch")})
		lanes := Lanes(rapid.IntRange(0, LaneClasses-1).Draw(t, "lanes"))
		var sums Sums
		for _, p := range rapid.SliceOfN(rapid.Custom(drawPart), 0, 8).Draw(t, "parts") {
			sums.Add(&p)
		}
		with := drawPart(t)
		before := sums
		var got, want [ScalarCount]float32
		sums.Scalars(&got, &rates, lanes, &with)
		if sums != before {
			t.Fatal("Scalars changed the sums")
		}
		sums.Add(&with)
		sums.Scalars(&want, &rates, lanes, &Part{})
		if got != want {
			t.Fatalf("got %v with the shard, want %v as after adding it", got, want)
		}
		if sums.Shards() == 0 && got != ([ScalarCount]float32{}) {
			t.Fatalf("got %v of nothing, want zeros", got)
		}
	})
}
