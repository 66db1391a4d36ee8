package lookups

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/access"
)

// lengthsOf makes up lookups of one feature.
func lengthsOf(t *testing.T, pooling, cv float64, batch int) Bags {
	t.Helper()
	counts := access.Counts{Lookups: pooling * float64(batch), Unique: 100, Reuse: [access.Classes]float64{8: 1}}
	b, _ := must.Get2(Synthesise(Spec{Rows: 1000, Batch: batch, Features: 1, Counts: counts, LengthCV: cv, Seed: 5}))(t)
	if err := b.Check(1000); err != nil || b.Len() != batch || len(b.Indices) != int(math.Round(counts.Lookups)) {
		t.Fatalf("pooling %v, length cv %v: got %d bags of %d lookups, error %v", pooling, cv, b.Len(), len(b.Indices), err)
	}
	return b
}

// TestUnequalLengths: the lookups are the asked ones, exactly, and the spread of the lengths
// within 1 %, from nearly equal bags to a few long ones among many empty ones.
func TestUnequalLengths(t *testing.T) {
	for _, pooling := range []float64{1, 3, 10, 12.7, 64} {
		for _, cv := range []float64{.3, .5, 1, 2, 5} {
			for _, batch := range []int{512, 16384} {
				least := math.Sqrt((pooling-math.Floor(pooling))*(1-pooling+math.Floor(pooling))) / pooling
				if got := LengthCV(lengthsOf(t, pooling, cv, batch).Offsets); cv > least && math.Abs(got/cv-1) > .01 {
					t.Errorf("pooling %v, %d samples: got length cv %v, want %v", pooling, batch, got, cv)
				}
			}
		}
	}
}

// TestUnequalLengthsAtTheEnds: a spread that whole lengths cannot have becomes the nearest.
func TestUnequalLengthsAtTheEnds(t *testing.T) {
	for _, c := range []struct {
		pooling, cv float64
		batch       int
		want        float64
	}{
		{1.5, .01, 4096, 1. / 3},                // half of the bags have one lookup, and half two
		{4, 1000, 256, math.Sqrt(255)},          // all lookups in one bag
		{.25, .01, 4096, math.Sqrt(3)},          // no bag has more than one
		{8, 1e-9, 4096, 0},                      // bags of one length
		{2, 1000, 1 << 14, math.Sqrt(4096 - 1)}, // all lookups in the longest stratum
	} {
		if got := LengthCV(lengthsOf(t, c.pooling, c.cv, c.batch).Offsets); math.Abs(got-c.want) > .01*c.want {
			t.Errorf("pooling %v, %d samples, length cv %v: got %v, want %v", c.pooling, c.batch, c.cv, got, c.want)
		}
	}
}

// TestNeighboursWait: the longest of k random bags has the length that the simulated device
// gives it, 1 + e_k cv means of the bags, within a tenth.
func TestNeighboursWait(t *testing.T) {
	expected := map[int]float64{2: .5642, 4: 1.0294}
	for _, cv := range []float64{.25, .5, 1} {
		b := lengthsOf(t, 20, cv, 1<<15)
		for _, k := range []int{2, 4} {
			sum := 0.0
			for i := 0; i < b.Len(); i += k {
				longest := int64(0)
				for j := i; j < i+k; j++ {
					longest = max(longest, b.Offsets[j+1]-b.Offsets[j])
				}
				sum += float64(longest)
			}
			got := sum / (float64(len(b.Indices)) / float64(k))
			if want := 1 + expected[k]*cv; math.Abs(got/want-1) > .1 {
				t.Errorf("length cv %v: the longest of %d bags has %.3f times the mean, want %.3f", cv, k, got, want)
			}
		}
	}
}
