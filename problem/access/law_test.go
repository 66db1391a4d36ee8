package access

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// ExampleLaw counts table 21 of MLPerf's DLRM-DCNv2 at a batch of 55,296. In the
// benchmark's data, each one-hot id owns 27 fixed rows; the count of that data's law is
// 650,000 distinct rows, and of independent draws 413,000.
func ExampleLaw() {
	for _, law := range Laws() {
		d := Distribution{Kind: Zipf, Exponent: 1.05, Law: law}
		fmt.Printf("%-11s  %.0f distinct rows\n", law, d.At(40_000_000, 27, 55_296).Unique)
	}
	// Output:
	// independent  412527 distinct rows
	// multi_hot    649947 distinct rows
}

// TestMultiHotEqualsDraws compares the expected counts with batches that are drawn by the
// law: an id for each sample, and its fixed list of rows.
func TestMultiHotEqualsDraws(t *testing.T) {
	for _, test := range []struct {
		rows         int64
		perID, batch int
		exponent     float64
	}{
		{2_209, 6, 20_000, 1.05},
		{7_424, 2, 55_296, 1.05},
		{11_938, 9, 55_296, 1.05},
		{20_265, 6, 1_000, 1.05},
		{400_000, 27, 10_000, 1.05},
		{300_000, 10, 20_000, 0},
		{1_000_000, 3, 50_000, 1.4},
		{500_000, 12, 20_000, .3},
	} {
		d := Distribution{Kind: Zipf, Exponent: test.exponent, Law: MultiHot}
		got := d.At(test.rows, float64(test.perID), test.batch)
		const batches = 4
		var want [Classes]float64
		sums := zipfSums(test.rows, test.exponent)
		for seed := range uint64(batches) {
			for j, rows := range drawMultiHot(sums, test.perID, test.batch, seed) {
				want[j] += rows / batches
			}
		}
		distinct := 0.0
		for j, w := range want {
			distinct += w
			g := got.Reuse[j] * got.Unique
			// All rows of an id come together, so a class varies by that many rows at once. The
			// class of the few most used ids varies most.
			deviation := math.Sqrt((max(g, w) + 1) * float64(test.perID) / batches)
			if math.Abs(g-w) > 4*deviation+.02*w {
				t.Errorf("%+v: rows of class %d: got %.1f, drawn %.1f, standard deviation %.1f", test, j, g, w, deviation)
			}
		}
		if deviation := math.Sqrt(distinct * float64(test.perID) / batches); math.Abs(got.Unique-distinct) > 2*deviation {
			t.Errorf("%+v: got %.0f distinct rows, drawn %.0f, standard deviation at most %.0f", test, got.Unique, distinct, deviation)
		}
		if n := float64(test.perID * test.batch); got.Lookups != n || got.RowsPerID != float64(test.perID) {
			t.Errorf("%+v: got %v lookups and %v rows an id, want %v and %v", test, got.Lookups, got.RowsPerID, n, test.perID)
		}
	}
}

// zipfSums returns the sums of i^-a for i from 1 to every rank.
func zipfSums(rows int64, a float64) []float64 {
	sums, sum := make([]float64, rows), 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -a)
		sums[i] = sum
	}
	return sums
}

// drawMultiHot draws a batch by the law, the ids by the sums of zipfSums, and returns the
// rows of each use-count class.
func drawMultiHot(sums []float64, perID, batch int, seed uint64) (in [Classes]float64) {
	random := rand.New(rand.NewPCG(seed, 0))
	rows := len(sums)
	uses := make([]int32, rows)
	lists := map[int][]int{}
	for range batch {
		id := min(sort.SearchFloat64s(sums, random.Float64()*sums[rows-1]), rows-1)
		list, known := lists[id]
		if !known {
			list = append(list, id)
			for range perID - 1 {
				list = append(list, random.IntN(rows))
			}
			lists[id] = list
		}
		for _, row := range list {
			uses[row]++
		}
	}
	for _, n := range uses {
		if n > 0 {
			in[classOf(n)]++
		}
	}
	return in
}

func classOf(uses int32) int {
	j := 0
	for j < Classes-1 && uses > 1<<j {
		j++
	}
	return j
}

// TestLawsAgreeOnOneHot: with one row an id or less, the laws are the same.
func TestLawsAgreeOnOneHot(t *testing.T) {
	for _, pooling := range []float64{.2, 1} {
		for _, kind := range []Kind{Unstated, Histogram, Zipf, Uniform} {
			d := Distribution{Kind: kind, Reuse: skewed, Batch: 5000, Exponent: 1.2}
			want := d.At(100_000, pooling, 4096)
			d.Law = MultiHot
			if got := d.At(100_000, pooling, 4096); got != want {
				t.Errorf("%v, pooling %v: got %+v, want the counts of independent draws, %+v", kind, pooling, got, want)
			}
		}
	}
}

// TestHistogramCountsRows: a histogram states rows, whichever law they come by.
func TestHistogramCountsRows(t *testing.T) {
	d := Distribution{Kind: Histogram, Reuse: skewed, Batch: 65536}
	want := d.At(10_000_000, 20, 32768)
	want.RowsPerID = 20
	d.Law = MultiHot
	if got := d.At(10_000_000, 20, 32768); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestMultiHotFindsMoreRows: of the same lookups, ids that own rows bring at least the
// distinct rows of independent draws where ids seldom own the same rows.
func TestMultiHotFindsMoreRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Distribution{Kind: Zipf, Exponent: rapid.Float64Range(.5, 2).Draw(t, "exponent")}
		pooling := rapid.Float64Range(1, 100).Draw(t, "pooling")
		batch := rapid.IntRange(1, 1<<17).Draw(t, "batch")
		rows := int64(100*pooling*float64(batch)) + rapid.Int64Range(0, 1<<40).Draw(t, "more rows")
		alone := d.At(rows, pooling, batch)
		d.Law = MultiHot
		together := d.At(rows, pooling, batch)
		if together.Unique < alone.Unique*.99 {
			t.Fatalf("got %v distinct rows, fewer than the %v of independent draws", together.Unique, alone.Unique)
		}
		uses := 0.0
		for j, share := range together.Reuse[:Classes-1] {
			uses += share * together.Unique * classMeans[j]
		}
		if uses > together.Lookups*1.5 {
			t.Fatalf("the classes stand for %v uses, more than the %v lookups", uses, together.Lookups)
		}
	})
}

// TestPartOfMultiHot: the 16 rows of the most used id share its place, and a part with one
// of them has its share of the others.
func TestPartOfMultiHot(t *testing.T) {
	d := Distribution{Kind: Zipf, Exponent: 1.2, Law: MultiHot}
	const rows, perID, share = 10_000_000, 16, .125
	c := d.At(rows, perID, 1<<20)
	top := 1 / harmonic(rows, 1.2) / perID // of all lookups, those of one row of the most used id
	want := top + (1-top)*share
	if got := c.Part(share).Lookups / c.Lookups; math.Abs(got/want-1) > .1 {
		t.Errorf("the part has %.3f of the lookups, want about %.3f", got, want)
	}
	c.RowsPerID = 0
	if alone := c.Part(share).Lookups / c.Lookups; alone < want {
		t.Errorf("with a row of its own as the most used one, the part has %.3f of the lookups, want more than %.3f", alone, want)
	}
}
