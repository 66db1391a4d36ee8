package access

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// TestDeduplicatedEqualsDraws draws batches, lets each part read its distinct rows once, and compares
// the lookups, the distinct rows and their use counts.
func TestDeduplicatedEqualsDraws(t *testing.T) {
	const parts, batches = 8, 20
	for _, test := range []struct {
		name          string
		d             Distribution
		rows, lookups int
	}{
		{"uniform, few rows", Distribution{Kind: Uniform}, 100, 4096},
		{"uniform, a row for each lookup", Distribution{Kind: Uniform}, 4096, 4096},
		{"uniform, many rows", Distribution{Kind: Uniform}, 1 << 20, 4096},
		{"zipf 0.8", Distribution{Kind: Zipf, Exponent: .8}, 5000, 16384},
		{"zipf 1.05", Distribution{Kind: Zipf, Exponent: 1.05}, 5000, 16384},
		{"zipf 1.5", Distribution{Kind: Zipf, Exponent: 1.5}, 100_000, 16384},
		{"three rows", Distribution{Kind: Zipf, Exponent: 1.05}, 3, 64},
	} {
		all := test.d.At(int64(test.rows), 1, test.lookups)
		counted := Distribution{Kind: Histogram, Reuse: all.Reuse, Batch: test.lookups, UniqueRows: all.Unique}
		want, unique, uses := drawParts(test.d, test.rows, test.lookups, parts, batches)
		for name, d := range map[string]Distribution{test.name: test.d, test.name + ", as a histogram": counted} {
			distinct := d.At(int64(test.rows), 1, test.lookups/parts).Unique
			got := d.At(int64(test.rows), 1, test.lookups).Deduplicated(distinct*parts, parts)
			// A histogram takes every row of a class for its mean row.
			if math.Abs(got.Lookups-want) > .04*want || math.Abs(got.Unique-unique) > .02*unique {
				t.Errorf("%s: got %.5g lookups of %.5g rows, want %.5g of %.5g", name, got.Lookups, got.Unique, want, unique)
			}
			// Classes are as wide as a factor of two, so compare the mean use, and the rows used once.
			if mean := want / unique; math.Abs(got.MeanUse()-mean) > .15*mean {
				t.Errorf("%s: got %.3g uses of a row, want %.3g", name, got.MeanUse(), mean)
			}
			if once := uses[1] / unique; math.Abs(got.Reuse[0]-once) > .1 {
				t.Errorf("%s: got %.3g of the rows used once, want %.3g", name, got.Reuse[0], once)
			}
		}
	}
}

// drawParts returns the lookups of batches of n lookups whose parts read each row once, their
// distinct rows, and how many rows are used k times: the means of a number of batches.
func drawParts(d Distribution, rows, n, parts, batches int) (lookups, distinct float64, uses []float64) {
	random := rand.New(rand.NewPCG(1, 2))
	sums, sum := make([]float64, rows), 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -d.Exponent)
		sums[i] = sum
	}
	uses = make([]float64, parts+1)
	for range batches {
		used := map[int]int{}
		for range parts {
			own := map[int]bool{}
			for range n / parts {
				own[sort.SearchFloat64s(sums, random.Float64()*sum)] = true
			}
			for row := range own {
				used[row]++
			}
		}
		for _, k := range used {
			lookups += float64(k) / float64(batches)
			distinct += 1 / float64(batches)
			uses[k] += 1 / float64(batches)
		}
	}
	return lookups, distinct, uses
}

// TestDeduplicatedByHand: one part reads every row once, and rows that are used once stay so.
func TestDeduplicatedByHand(t *testing.T) {
	c := Counts{Lookups: 40, Unique: 10}
	c.Reuse[0], c.Reuse[3] = .5, .5
	if got := c.Deduplicated(10, 1); got.Lookups != 10 || got.Unique != 10 || math.Abs(got.Reuse[0]-1) > 1e-12 {
		t.Errorf("one part: got %+v, want 10 lookups of 10 rows", got)
	}
	once := Counts{Lookups: 10, Unique: 10}
	once.Reuse[0] = 1
	if got := once.Deduplicated(10, 4); !slices.Equal(got.Reuse[:], once.Reuse[:]) || got.Lookups != 10 {
		t.Errorf("rows used once: got %+v, want %+v", got, once)
	}
}

// TestDistinctIsUnique: Distinct is the Unique of At.
func TestDistinctIsUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		rows, pooling, batch := rapid.Int64Range(0, 1<<30).Draw(t, "rows"), rapid.Float64Range(0, 100).Draw(t, "pooling"), rapid.IntRange(0, 1<<16).Draw(t, "batch")
		if got, want := d.Distinct(rows, pooling, batch), d.At(rows, pooling, batch).Unique; math.Abs(got-want) > 1e-9*want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
